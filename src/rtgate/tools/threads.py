# SPDX-License-Identifier: MIT
"""Measuring threads: which there must be while a tool runs, and where they are found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

# include/uapi/linux/sched.h
SCHED_OTHER, SCHED_FIFO, SCHED_RR, SCHED_DEADLINE = 0, 1, 2, 6
POLICIES = {0: "SCHED_OTHER", 1: "SCHED_FIFO", 2: "SCHED_RR", 3: "SCHED_BATCH", 5: "SCHED_IDLE", 6: "SCHED_DEADLINE"}


class ThreadScope(Enum):
    """Where a tool's measuring threads are found while it runs.

    The run ends with the tool; with `OWN` it ends with these threads, while the main one may still print.
    """

    OWN = "own"  # threads of its process, beside its main one, which end with the measurement
    SESSION = "session"  # all threads of all processes that it started
    SYSTEM = "system"  # threads of the kernel, by their name


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """Threads that must be seen while a tool runs.

    Attributes:
        count: how many.
        policy: their scheduling policy, as in `/proc/PID/stat` field 41 (1 is SCHED_FIFO).
        priority: their real-time priority, field 40; 0 for SCHED_DEADLINE and SCHED_OTHER.
    """

    count: int
    policy: int
    priority: int
