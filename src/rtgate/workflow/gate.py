# SPDX-License-Identifier: MIT
"""Built kernels, measured and judged, with what explains the verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rtgate.board.boot import ArmName, TimeBase
from rtgate.errors import InfrastructureError
from rtgate.judge.verdict import Verdict
from rtgate.report.notices import say, step
from rtgate.workflow.sequential import ComparisonOptions, ComparisonOutcome, run_comparison
from rtgate.workflow.suite_process import Suites
from rtgate.workflow.tracing import trace


def run_gate(suites: Suites, options: ComparisonOptions, *, explain: bool) -> ComparisonOutcome:
    """Measure and judge; with `explain` and two kernels on virtual time also trace what ran, and judge by that, too.

    Raises:
        ConfigError, InfrastructureError: as `run_comparison`; records are kept, for `rtgate judge`.
    """
    measured = run_comparison(suites, options)
    traced = explain and _traceable(suites) and _trace(suites, measured.judging.verdicts)
    return replace(measured, judging=suites.judge()) if traced else measured


def _traceable(suites: Suites) -> bool:
    virtual = all(arm.time is TimeBase.VIRTUAL for arm in suites.arms)
    return virtual and set(suites.kernels) == {ArmName.BASELINE, ArmName.CANDIDATE}


def _trace(suites: Suites, verdicts: Sequence[Verdict]) -> bool:
    """Trace, if it can be done: what is judged already must not get lost for it."""
    with step("tracing what ran"):
        try:
            return trace(suites.boards, suites.kernels, suites.records, verdicts)
        except InfrastructureError as error:
            say(f"not traced: {error}")
            return False
