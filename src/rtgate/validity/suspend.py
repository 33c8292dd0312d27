# SPDX-License-Identifier: MIT
"""Validity check: the board was not suspended, by the kernel's count where it has one, else by its log."""

from __future__ import annotations

from collections.abc import Mapping

from rtgate.board import suspend
from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for, unless_virtual


def suspend_lines(files: Mapping[str, bytes]) -> tuple[str, ...] | None:
    """Return what the kernel's log tells of suspends; None if there is no log."""
    log = files.get("dmesg", b"").decode("utf-8", errors="replace")
    return suspend.suspend_lines(log) if log.strip() else None


def _judge(record: Record) -> Answer:
    readings, lines = record.evidence.readings, record.evidence.suspends
    counts = suspend.of(readings)
    if not all(before and after for before, after in counts.values()):
        problem = "how often the board was suspended was not read before and after"
        return answer_for(problem, "", Invalidates.GOOD_NEWS)
    if counts:
        changes = suspend.format_changes(readings)
        problem = f"the board was suspended while it measured, or was to be: {changes}" if changes else ""
        return answer_for(problem, "the kernel counted no suspend")
    if lines:
        problem = f"the kernel does not count suspends, and its log tells of one: {lines[0]!r} (start the board anew)"
        return answer_for(problem, "")
    problem = "" if lines is not None else "neither the kernel's count of suspends nor its log was read"
    return answer_for(problem, "the kernel's log tells of no suspend", Invalidates.GOOD_NEWS)


CHECK = ValidityCheck(
    name="suspend",
    holds="the kernel's counts of suspends and of attempts (`/sys/power/suspend_stats`) did not rise; where the kernel "
    "has none, its log tells of no suspend",
    invalidates=Invalidates.FIGURES,
    exceptions="good news, if neither was read",
    judge=_judge,
    reads=unless_virtual(*suspend.WATCHED),
    readings=suspend.WATCHED,
)
