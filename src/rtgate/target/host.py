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


def waited_s(pid: int) -> float | None:
    """Return how long that thread of a process has waited which waited longest; None where nobody knows.

    Nobody does once the process is gone, nor where the kernel keeps no account (CONFIG_SCHED_INFO).
    """
    found = (_waited_s(account) for account in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return max((seconds for seconds in found if seconds is not None), default=None)


def _waited_s(account: Path) -> float | None:
    try:
        ran, waited, _ = account.read_text(encoding="ascii").split()
        # A zombie's account goes on to exist; a thread that never ran tells nothing.
        return int(waited) / 1e9 if int(ran) else None
    except (OSError, ValueError):
        return None  # it has just ended
