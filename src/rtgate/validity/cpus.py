# SPDX-License-Identifier: MIT
"""Validity check: the CPUs that are online are as many as the board has."""

from __future__ import annotations

import re

from rtgate.board.tuning import cpus
from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for


def _judge(record: Record) -> Answer:
    online, there = record.environment.online, record.environment.cpus
    if not online:
        return answer_for("which CPUs were online was not read", "", Invalidates.GOOD_NEWS)
    problem = f"CPUs {online} were online, and the board has {there}" if str(_count(online)) != there else ""
    return answer_for(problem, f"CPUs {online} were online")


def lost_cpus(record: Record) -> bool:
    """Return whether the kernel brought up fewer CPUs than the board has."""
    online, there = record.environment.online, record.environment.cpus
    return 0 < _count(online) < (int(there) if there.isdecimal() else 0)


def _count(online: str) -> int:
    """Return how many CPUs a list in the kernel's notation has; 0 for anything else."""
    return len(cpus(online)) if re.fullmatch(r"\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*", online) else 0


CHECK = ValidityCheck(
    name="cpus",
    holds="as many CPUs were online as the board's file says",
    invalidates=Invalidates.EVERYTHING,
    exceptions='fewer are FAIL "CPUs lost"; good news, if it was not read',
    judge=_judge,
)
