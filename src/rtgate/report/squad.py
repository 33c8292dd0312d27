# SPDX-License-Identifier: MIT
"""A judged run as SQUAD's API takes it: tests, metrics and metadata of one environment at a time.

The format is that of "Submitting results" in SQUAD's documentation (`doc/intro.rst`), as its release 1.98 reads it
(`squad.core.tasks.ValidateTestRun`, `squad.core.data`). An environment is a board.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rtgate.errors import ConfigError
from rtgate.judge.verdict import Status, Verdict, exit_code
from rtgate.records.record import Record
from rtgate.report.case_figures import DIMENSIONLESS, valid_figures
from rtgate.report.cases import CaseReport, cases
from rtgate.report.outcome import outcome
from rtgate.report.run_digest import run_digest
from rtgate.report.table import kernels
from rtgate.report.text import plain_text

NO_BOARD = "no-board"
"""The environment of what is about no board, as a kernel that cannot be built."""
_NO_CASE = "rtgate/job"
_IDENTIFIER = re.compile("[a-zA-Z0-9][a-zA-Z0-9_.-]*")  # of an environment; it is part of a URL
# What is neither "pass" nor "fail" SQUAD shows as skipped; it makes "xfail" of a fail that it knows the issue of.
_RESULTS = {Status.PASS: "pass", Status.FAIL: "fail"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What is sent for one environment, as JSON documents by the names of SQUAD's parameters."""

    environment: str
    documents: Mapping[str, str]


def submissions(records: Sequence[Record], verdicts: Sequence[Verdict], code: int) -> tuple[Submission, ...]:
    """Return what a run that ended with an exit code says of each board.

    Raises:
        ConfigError: a board's name cannot be an environment's.
    """
    reports = cases(records, verdicts)
    run = run_digest(records, verdicts)
    board_submissions = []
    for board in sorted({case.board for case in reports}):
        environment = board or NO_BOARD
        if not _IDENTIFIER.fullmatch(environment):
            raise ConfigError(
                f"board {plain_text(board)!r} cannot be an environment of SQUAD: rename it (allowed: letters and "
                "digits, after the first also _ . -)"
            )
        here = [case for case in reports if case.board == board]
        own = [record for case in here for record in (*case.baseline, *case.records)]
        documents: dict[str, Mapping[str, Any]] = {
            "tests": _tests(here),
            "metrics": {name: figure for case in here for name, figure in _metrics(case).items()},
            "metadata": {
                # Unique in a project: SQUAD refuses what it has already.
                "job_id": f"{run}-{environment}",
                "job_status": _status(here, allow_unjudged=code == 0).value,
                **_surroundings(own),
            },
        }
        texts = {name: json.dumps(document, indent=1) + "\n" for name, document in documents.items()}
        board_submissions.append(Submission(environment=environment, documents=texts))
    return tuple(board_submissions)


def _status(reports: Sequence[CaseReport], *, allow_unjudged: bool) -> Status:
    """Return what a board came to; that nothing was judged is fine where the run ended with 0 all the same."""
    verdicts = [verdict for case in reports for verdict in case.verdicts]
    return outcome(reports, exit_code(verdicts, allow_unjudged=allow_unjudged)).status


def _tests(reports: Sequence[CaseReport]) -> dict[str, dict[str, str]]:
    tests = {}
    # Two kernels of which nobody judged one have one name: the worst is written last.
    for case in sorted(reports, key=lambda case: case.status.rank, reverse=True):
        first = dict.fromkeys((case.headline, *case.causes))
        sentences = [f"{verdict.status.value} {verdict.kind.value}: {verdict.sentence}" for verdict in first]
        log = plain_text("\n".join(sentences))
        tests[plain_text(case.case) or _NO_CASE] = {"result": _RESULTS.get(case.status, "skip"), "log": log}
    return tests


def _metrics(case: CaseReport) -> dict[str, dict[str, Any]]:
    """Return the figures of a case, each with its value in every boot: SQUAD shows their mean and their range."""
    return {
        f"{plain_text(case.case)}/{name.replace(' ', '.')}": {
            "value": list(figure.values),
            **({} if figure.unit in DIMENSIONLESS else {"unit": figure.unit.value}),
        }
        for name, figure in valid_figures(case).items()
    }


def _surroundings(records: Sequence[Record]) -> dict[str, str]:
    """Return which kernels were measured, by arm, and how; SQUAD keeps texts only."""
    first = next(iter(records), None)
    if first is None:
        return {}
    arms = {f"kernel_{arm}": text for arm, text in kernels(records).items()}
    commits = {f"commit_{record.arm}": record.kernel.commit for record in records}
    fields = {"profile": first.profile, "flavour": first.kernel.flavour, "tools": first.environment.tools}
    return {name: plain_text(text) for name, text in {**arms, **commits, **fields}.items() if text}
