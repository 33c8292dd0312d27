# SPDX-License-Identifier: MIT
"""When a measurement began, by the target's own clock: every plan reads it, for no check alone."""

from __future__ import annotations

from collections.abc import Mapping

# In seconds: since the kernel started, and of all CPUs' idleness.
UPTIME = "/proc/uptime"


def began_s(readings: Mapping[str, tuple[str, str]]) -> float | None:
    """Return when a measurement began, in seconds of the target's uptime; None if the record does not say."""
    try:
        return float(readings[UPTIME][0].split()[0])
    except (KeyError, IndexError, ValueError):
        return None
