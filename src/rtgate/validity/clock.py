# SPDX-License-Identifier: MIT
"""Validity check: nothing moved the wall clock of a tool that measures with it."""

from __future__ import annotations

from collections.abc import Mapping

from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for
from rtgate.validity.plan_files import text

# Names in /proc/PID/comm, which has 15 characters.
_CLOCK_KEEPERS = frozenset(
    {
        "chronyd",
        "connmand",
        "htpdate",
        "ntpd",
        "ntpsec",
        "openntpd",
        "phc2sys",
        "ptp4l",
        "systemd-timesyn",
        "timemaster",
    }
)


def processes(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the names of all processes, as read after measuring."""
    return tuple(dict.fromkeys(text(files, "processes").splitlines()))


def _judge(record: Record) -> Answer:
    if not record.evidence.expectation.clock:
        return answer_for("", "the tool does not measure with the wall clock")
    names = record.evidence.processes
    problem = "" if names else "the target's processes were not read, so nobody knows whether its clock was set"
    keepers = sorted({name for name in names if name in _CLOCK_KEEPERS})
    if keepers:
        problem = (
            f"the tool measures with the wall clock, and {', '.join(keepers)} may have set it: stop it on the target"
        )
    return answer_for(problem, "no time synchronisation was running")


CHECK = ValidityCheck(
    name="clock",
    holds="nothing that sets the wall clock was running, for the tools that measure with it",
    invalidates=Invalidates.GOOD_NEWS,
    judge=_judge,
)
