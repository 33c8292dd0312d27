# SPDX-License-Identifier: MIT
"""Validity check: a thread that measures latency must not wait for its own memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rtgate.board.boot import TimeBase
from rtgate.records.evidence import Thread
from rtgate.records.record import Record
from rtgate.validity import threads
from rtgate.validity.check import Answer, CheckResult, Invalidates, ValidityCheck, answer_for, not_applicable

_LOCKING = "--mlockall"


def _judge(record: Record) -> Answer:
    """Check that no measuring thread had a page fault between two looks, both in the measuring window.

    For tools that lock their memory: their threads touched all of it before they measure. A fault after that is a tool
    or a kernel whose mlockall(2) does not hold; a limit that was broken is broken all the same.
    """
    exempt = _exempt(record)
    if exempt:
        return answer_for("", exempt)
    before, after = record.evidence.measuring_threads("middle"), record.evidence.measuring_threads("late")
    if any(thread.minor_faults is None for thread in (*before, *after)):
        return answer_for("the page faults of its measuring threads were not read: measure again", "")
    if len(before) != len(after) or not before:
        return _unequal(record, before, after)
    minor = sum(thread.minor_faults or 0 for thread in after) - sum(thread.minor_faults or 0 for thread in before)
    major = sum(thread.major_faults or 0 for thread in after) - sum(thread.major_faults or 0 for thread in before)
    problem = (
        f"measuring threads had {minor} minor and {major} major page faults while they measured, and {_LOCKING} must "
        "leave none: the latencies may be those of their own memory"
        if minor or major
        else ""
    )
    return answer_for(problem, f"no page fault of {len(before)} measuring threads")


def _exempt(record: Record) -> str:
    """Return why no page fault can make this measurement invalid; empty if one can."""
    if _LOCKING not in record.argv:
        return "the tool does not lock its memory"
    return "" if record.evidence.expectation.threads else "the tool has no real-time thread of its own"


def _unequal(record: Record, before: Sequence[Thread], after: Sequence[Thread]) -> Answer:
    unequal = (
        f"{len(before)} measuring threads were there at half of the run and {len(after)} at nine tenths: their "
        "page faults in between are not known"
    )
    if record.environment.time == TimeBase.HOST:
        # A busy host looks late, when they have ended, and no figure is judged there.
        return not_applicable(unequal)
    if before and not after and record.virtual_time:
        # The same boot looks as late the next time: others of the case must answer for it (`judge.judging`).
        return replace(not_applicable(f"{unequal}: the tool had ended"), unseen=True)
    return Answer(result=CheckResult.FAILED, sentence=f"{unequal}: measure again", follows=threads.CHECK.name)


CHECK = ValidityCheck(
    name="page-faults",
    holds="the tool locks its memory (`--mlockall`), and no measuring thread had a page fault from half to nine tenths "
    "of the run (`/proc/PID/task/*/stat`). Both looks saw equally many of these threads. On "
    "host time a look that came too late makes the check not applicable. On virtual time a tool may "
    "have ended before the second look. Then the other boots of the case must be at least half of all",
    invalidates=Invalidates.GOOD_NEWS,
    judge=_judge,
)
