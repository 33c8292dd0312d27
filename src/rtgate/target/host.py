# SPDX-License-Identifier: MIT
"""How long a machine that we started waited for this host's processors.

On host time a busy host looks like a kernel that hangs. The host's kernel keeps account: `/proc/PID/task/TID/schedstat`
holds nanoseconds run, nanoseconds waited on a run queue, and time slices (Documentation/scheduler/sched-stats.rst).
"""

from __future__ import annotations

from pathlib import Path

BUSY = 0.4
"""The share of the time from which on silence is the host's fault.

On an otherwise idle machine with two cores a board with two CPUs waited 0.28 at most (cyclictest under stress-ng).
"""


def waited_s(pid: int) -> float:
    """Return how long that thread of a process has waited which waited longest; 0 where nobody knows."""
    return max((_waited_s(thread) for thread in Path(f"/proc/{pid}/task").glob("*/schedstat")), default=0.0)


def _waited_s(account: Path) -> float:
    try:
        return int(account.read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0  # it has just ended
