# SPDX-License-Identifier: MIT
"""Lateness that a tool found: on some clocks the kernel may not be its cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rtgate.board.boot import TimeBase
from rtgate.judge.verdict import Finding, Kind, Status
from rtgate.records.record import Record


def on_host_time(records: Sequence[Record]) -> bool:
    """Return whether a boot was measured in the time of a virtual board's host."""
    return any(record.environment.time == TimeBase.HOST for record in records)


def excuse_on_host_time(finding: Finding, records: Sequence[Record]) -> Finding:
    """Return what lateness means on host time: a kernel that was in time all the same is good, another one unjudged."""
    if not on_host_time(records) or finding.status is not Status.FAIL:
        return finding
    return _unjudged(finding, "on host time the host can cause it")


def excuse(finding: Finding, records: Sequence[Record]) -> Finding:
    """Return what lateness means where no limit speaks of it.

    On virtual time CPUs take turns of milliseconds: tasks are late on a good kernel, and so what is let through there
    proves nothing.
    """
    if finding.status in {Status.FAIL, Status.PASS} and all(record.virtual_time for record in records):
        return _unjudged(finding, "on virtual time CPUs take turns, which makes tasks late")
    return excuse_on_host_time(finding, records)


def _unjudged(finding: Finding, why: str) -> Finding:
    sentence = f"{finding.sentence}: shown, not judged, because {why}"
    return replace(finding, status=Status.DONE, kind=Kind.UNJUDGED, sentence=sentence)
