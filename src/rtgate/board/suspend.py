# SPDX-License-Identifier: MIT
"""Whether a board was suspended while it measured, which no clock of a tool shows: CLOCK_MONOTONIC stands still.

Kernels from 5.4 on count every suspend and every attempt (kernel/power/main.c, Documentation/ABI/testing/sysfs-power);
an attempt that failed has stopped all processes as well. Older kernels, and those that cannot be suspended, have no
such count: there the kernel's log tells. A shell cannot read CLOCK_MONOTONIC to compare it with CLOCK_BOOTTIME.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# What a plan reads before and after.
WATCHED = ("/sys/power/suspend_stats/success", "/sys/power/suspend_stats/fail")

_MOST = 10
# kernel/power/suspend.c, hibernate.c and process.c; the last one is what all of them print, in kernels of any age.
_LINE = re.compile(
    r"^(?:<[0-9]{1,3}>)?(?:\[ *[0-9]+\.[0-9]+\](?:\[ *[TC][0-9]+\])? )?"
    r"((?:PM: suspend entry|PM: hibernation:? .{0,20}entry|Freezing user space processes\b).{0,100})",
    re.MULTILINE,
)


def of(around: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the counts of suspends, by path, before and after."""
    return {path: values for path, values in around.items() if path in WATCHED}


def suspend_lines(log: str) -> tuple[str, ...]:
    """Return the lines of a kernel's log that tell of a suspend, without their times; the first ten."""
    return tuple(match[1].strip() for match in _LINE.finditer(log))[:_MOST]


def format_changes(readings: Mapping[str, tuple[str, str]]) -> str:
    """Return which counts changed, as text; empty for none."""
    changes = [(path, *values) for path, values in of(readings).items() if len(set(values)) > 1]
    return ", ".join(f"{path.rpartition('/')[2]} {before} to {after}" for path, before, after in changes)
