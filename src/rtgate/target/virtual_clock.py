# SPDX-License-Identifier: MIT
"""The clock of a virtual-time board, read over QEMU's monitor without disturbing it."""

from __future__ import annotations

import calendar
import re

from rtgate.target.qemu import Monitor

_EPOCH = calendar.timegm((2024, 1, 1, 0, 0, 0))  # -rtc base=2024-01-01


def virtual_seconds(monitor: Monitor, arch: str) -> float | None:
    """Return the virtual seconds since power-on, read from the machine's real-time clock; None if QEMU is silent.

    arm64 `virt`: the PL031 at 0x09010000 (QEMU hw/arm/virt.c), whose first register counts seconds and may be read at
    any time. x86: QEMU's own `rtc-time` property.
    """
    if arch == "arm64":
        answer = monitor.ask("human-monitor-command", **{"command-line": "xp /1wx 0x09010000"})
        match = re.search(r": (0x[0-9a-f]+)", answer or "")
        return float(int(match[1], 16) - _EPOCH) if match else None
    answer = monitor.ask("qom-get", path="/machine", property="rtc-time")
    if not answer:
        return None
    parts = (
        answer["tm_year"] + 1900,
        answer["tm_mon"] + 1,
        *(answer[f"tm_{key}"] for key in ("mday", "hour", "min", "sec")),
    )
    return float(calendar.timegm(parts) - _EPOCH)
