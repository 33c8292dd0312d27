# SPDX-License-Identifier: MIT
"""Validity check: a thread that measures latency must not wait for its own memory."""

from __future__ import annotations

from collections.abc import Sequence

from rtgate.records.evidence import Thread
from rtgate.records.record import Record
from rtgate.validity.check import Check, Spoils, judged, undeclared

_LOCKING = "--mlockall"
_NAME = "page-faults"


def page_fault_check(record: Record) -> Check:
    """Check that no measuring thread had a page fault between two looks, both in the measuring window.

    For tools that lock their memory: their threads touched all of it before they measure. A fault after that is a tool
    or a kernel whose mlockall(2) does not hold; a limit that was broken is broken all the same.
    """
    if _LOCKING not in record.argv:
        return judged(_NAME, Spoils.GOOD_NEWS, "", "the tool does not lock its memory")
    before, after = _measuring(record, "middle"), _measuring(record, "late")
    if any(thread.minor_faults is None for thread in (*before, *after)):
        return undeclared(_NAME, Spoils.GOOD_NEWS, "the record is older than this check")
    if len(before) != len(after) or not before:
        # Which threads must be there is another check's question.
        return judged(_NAME, Spoils.GOOD_NEWS, "", "the measuring threads were not all seen at two moments")
    minor = sum(one.minor_faults or 0 for one in after) - sum(one.minor_faults or 0 for one in before)
    major = sum(one.major_faults or 0 for one in after) - sum(one.major_faults or 0 for one in before)
    problem = (
        f"measuring threads had {minor} minor and {major} major page faults while they measured, and {_LOCKING} must "
        "leave none: the latencies may be those of their own memory"
        if minor or major
        else ""
    )
    return judged(_NAME, Spoils.GOOD_NEWS, problem, f"no page fault of {len(before)} measuring threads")


def _measuring(record: Record, moment: str) -> Sequence[Thread]:
    wanted = {(int(group["policy"]), int(group["priority"])) for group in record.evidence.asked["threads"]}
    return [one for one in record.evidence.threads if one.moment == moment and (one.policy, one.priority) in wanted]
