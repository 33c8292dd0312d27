# SPDX-License-Identifier: MIT
"""Runs that a tool ended with the failure that it found: what they lack is no news beside the failure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rtgate.judge.verdict import Finding, Status
from rtgate.records.record import Record
from rtgate.validity.check import Check, Invalidates

_OF_LENGTH = frozenset({"counts", "cycles", "duration"})


def is_explained(check: Check, record: Record, failures: Sequence[Finding]) -> bool:
    """Return whether a check failed because the tool ended its run with a failure that the findings tell of.

    One that a limit allows explains nothing: a run without its data would pass.
    """
    unseen = check.name == "threads" and check.invalidates is Invalidates.FIGURES
    return (check.name in _OF_LENGTH or unseen) and _ended_by(record, failures, {Status.FAIL, Status.DONE})


def is_cut_short(records: Iterable[Record], failures: Sequence[Finding]) -> bool:
    """Return whether the tool ended a run with a failure of the kernel: then no limit was kept by what it measured."""
    return any(_ended_by(record, failures, {Status.FAIL}) for record in records)


def _ended_by(record: Record, failures: Sequence[Finding], statuses: set[Status]) -> bool:
    name = record.evidence.expectation.ends_with
    has_finding = any(finding.measurement == name and finding.status in statuses for finding in failures)
    return has_finding and record.ended_early
