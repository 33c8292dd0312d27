# SPDX-License-Identifier: MIT
"""Validity check: a thread that measures latency must not wait for its own memory."""

from __future__ import annotations

from rtgate.records.record import Record
from rtgate.validity.check import Check, Invalidates, judged, not_applicable
from rtgate.validity.measuring_threads import measuring_threads

_LOCKING = "--mlockall"
_NAME = "page-faults"


def page_fault_check(record: Record, *, lacking: bool = False) -> Check:
    """Check that no measuring thread had a page fault between two looks, both in the measuring window.

    For tools that lock their memory: their threads touched all of it before they measure. A fault after that is a tool
    or a kernel whose mlockall(2) does not hold; a limit that was broken is broken all the same. `lacking` is whether
    another check says already that the measuring threads were not there.
    """
    exempt = _exempt(record)
    if exempt:
        return judged(_NAME, Invalidates.GOOD_NEWS, "", exempt)
    before, after = measuring_threads(record, "middle"), measuring_threads(record, "late")
    if any(thread.minor_faults is None for thread in (*before, *after)):
        unread = "the page faults of its measuring threads were not read"
        if record.unproven:
            return not_applicable(_NAME, Invalidates.GOOD_NEWS, unread)
        return judged(_NAME, Invalidates.GOOD_NEWS, f"{unread}: measure again", "")
    if len(before) != len(after) or not before:
        unequal = (
            f"{len(before)} measuring threads were there at half of the run and {len(after)} at nine tenths: their "
            "page faults in between are not known"
        )
        if lacking or record.environment.time == "host":
            # A busy host looks late, when they have ended, and no figure is judged there.
            return not_applicable(_NAME, Invalidates.GOOD_NEWS, unequal)
        return judged(_NAME, Invalidates.GOOD_NEWS, f"{unequal}: measure again", "")
    minor = sum(one.minor_faults or 0 for one in after) - sum(one.minor_faults or 0 for one in before)
    major = sum(one.major_faults or 0 for one in after) - sum(one.major_faults or 0 for one in before)
    problem = (
        f"measuring threads had {minor} minor and {major} major page faults while they measured, and {_LOCKING} must "
        "leave none: the latencies may be those of their own memory"
        if minor or major
        else ""
    )
    return judged(_NAME, Invalidates.GOOD_NEWS, problem, f"no page fault of {len(before)} measuring threads")


def _exempt(record: Record) -> str:
    """Return why no page fault can make this measurement invalid; empty if one can."""
    if _LOCKING not in record.argv:
        return "the tool does not lock its memory"
    return "" if record.evidence.asked["threads"] else "the tool has no real-time thread of its own"
