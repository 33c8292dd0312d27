# SPDX-License-Identifier: MIT
"""Built kernels, measured and judged, with what boots that are made again show of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rtgate.board.boot import ArmName
from rtgate.errors import ChangedError, InfrastructureError
from rtgate.judge.verdict import Verdict
from rtgate.report.notices import say, step
from rtgate.workflow.section_tracing import follow_sections
from rtgate.workflow.sequential import ComparisonOptions, ComparisonOutcome, run_comparison
from rtgate.workflow.suite_process import Suites
from rtgate.workflow.tracing import trace

_TWO = {ArmName.BASELINE, ArmName.CANDIDATE}
_Look = Callable[[Sequence[str], Mapping[str, Path], Path, Sequence[Verdict]], bool]


def run_gate(suites: Suites, options: ComparisonOptions, *, explain: bool, sections: bool = False) -> ComparisonOutcome:
    """Measure and judge, and look into boots on virtual time and judge by that, too.

    Args:
        suites: what is measured.
        options: how far.
        explain: trace what ran in the boots of two kernels.
        sections: follow critical sections, of one kernel for the bound of its wake-ups.

    Raises:
        ConfigError, InfrastructureError: as `run_comparison`; records are kept, for `rtgate judge`.
    """
    comparison = run_comparison(suites, options)
    if not all(arm.virtual_time for arm in suites.arms):
        return comparison
    verdicts = comparison.judging.verdicts
    looks = [
        *([("tracing what ran", trace)] if explain and set(suites.kernels) == _TWO else []),
        *([("following critical sections", follow_sections)] if sections else []),
    ]
    outcomes = [_look(name, look, suites, verdicts) for name, look in looks]
    return replace(comparison, judging=suites.judge()) if any(outcomes) or sections else comparison


def _look(name: str, look: _Look, suites: Suites, verdicts: Sequence[Verdict]) -> bool:
    """Look into boots, if it can be done; return whether to judge again. What is judged already must not get lost."""
    with step(name):
        try:
            return look(suites.boards, suites.kernels, suites.records, verdicts)
        except (InfrastructureError, ChangedError) as error:  # as a QEMU that is replaced meanwhile
            say(f"{name} failed: {error}")
            return True  # what it had written by then counts
