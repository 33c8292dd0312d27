# SPDX-License-Identifier: MIT
"""Runs that a tool ended with the failure that it found: what they lack is no news beside the failure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rtgate.judge.verdict import Finding, Status
from rtgate.records.record import Record
from rtgate.validity.check import Check, Invalidates

_OF_LENGTH = frozenset({"counts", "cycles", "duration"})


def is_of_short_run(check: Check, record: Record) -> bool:
    """Return whether a check may have failed only because the tool ended its run with the failure that it found."""
    return record.ended_early and (check.name in _OF_LENGTH or _is_unseen(check))


def is_explained(check: Check, record: Record, failures: Sequence[Finding]) -> bool:
    """Return whether a check failed because the tool ended its run with a failure that the findings tell of.

    One that a limit allows explains nothing: a run without its data would pass. One that is shown, not judged, explains
    the length alone: of threads that nobody saw nobody knows what they were.
    """
    if not is_of_short_run(check, record):
        return False
    reasons = explanations([record], failures)
    return any(finding.status is Status.FAIL or not _is_unseen(check) for finding in reasons)


def explanations(records: Iterable[Record], failures: Sequence[Finding]) -> list[Finding]:
    """Return the failures with which the tool ended a run: if there is one, no limit was kept by what it measured."""
    names = {record.evidence.expectation.ends_with for record in records if record.ended_early}
    return [
        finding for finding in failures if finding.measurement in names and finding.status in {Status.FAIL, Status.DONE}
    ]


def _is_unseen(check: Check) -> bool:
    return check.name == "threads" and check.invalidates is Invalidates.FIGURES
