# SPDX-License-Identifier: MIT
"""The clock of a virtual-time board, read over QEMU's monitor without disturbing it."""

from __future__ import annotations

import calendar
import re

from rtgate.target.qemu import Monitor

_EPOCH = calendar.timegm((2024, 1, 1, 0, 0, 0))  # -rtc base=2024-01-01


def virtual_seconds(monitor: Monitor, arch: str) -> float | None:
    """Return the virtual seconds since power-on, read from the machine's real-time clock; None if QEMU is silent."""
    seconds = CLOCKS[arch](monitor)
    return None if seconds is None else float(seconds - _EPOCH)


def _pl031(monitor: Monitor) -> int | None:
    """Read the PL031 of arm64's `virt` (QEMU hw/arm/virt.c): its first register counts seconds."""
    answer = monitor.ask("human-monitor-command", **{"command-line": "xp /1wx 0x09010000"})
    match = re.search(r": (0x[0-9a-f]+)", answer or "")
    return int(match[1], 16) if match else None


def _goldfish(monitor: Monitor) -> int | None:
    """Read the Goldfish RTC of RISC-V's `virt` (QEMU hw/rtc/goldfish_rtc.c): nanoseconds, the low half first.

    Reading the low half latches the high one. That is no disturbance: the board's kernel has no driver of it.
    """
    answer = monitor.ask("human-monitor-command", **{"command-line": "xp /2wx 0x00101000"})
    match = re.search(r": (0x[0-9a-f]+) (0x[0-9a-f]+)", answer or "")
    return (int(match[2], 16) << 32 | int(match[1], 16)) // 1_000_000_000 if match else None


def _pc_rtc(monitor: Monitor) -> int | None:
    """Read the clock of a PC: QEMU's own `rtc-time` property."""
    answer = monitor.ask("qom-get", path="/machine", property="rtc-time")
    if not answer:
        return None
    date = (answer["tm_year"] + 1900, answer["tm_mon"] + 1, *(answer[f"tm_{key}"] for key in _TIME))
    return calendar.timegm(date)


_TIME = ("mday", "hour", "min", "sec")
CLOCKS = {"arm64": _pl031, "x86_64": _pc_rtc, "riscv64": _goldfish}
