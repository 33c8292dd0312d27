# SPDX-License-Identifier: MIT
"""Readings: what a live board tells of itself before and after a measurement, and what is no setting of it."""

from __future__ import annotations

from collections.abc import Mapping

from rtgate.board import isolation, suspend, thermal
from rtgate.board.tuning import Tuning

# Every plan reads it. In seconds: since the kernel started, and of all CPUs' idleness.
UPTIME = "/proc/uptime"


def watched(time: str, tuning: Tuning) -> tuple[str, ...]:
    """Return what a plan reads before and after, as patterns of the shell, on a board of this time.

    On virtual time only what the tuning asks for: a boot there has no sensors and is not suspended, and every read
    moves its histogram.
    """
    isolated = isolation.watched(tuning.command_line, tuning.irq_affinity)
    return isolated if time == "virtual" else (*thermal.WATCHED, *suspend.WATCHED, *isolated)


def of(around: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the readings among what was read before and after, by path."""
    return thermal.of(around) | suspend.of(around) | isolation.of(around)


def began_s(readings: Mapping[str, tuple[str, str]]) -> float | None:
    """Return when a measurement began, in seconds of the target's uptime; None if the record does not say."""
    try:
        return float(readings[UPTIME][0].split()[0])
    except (KeyError, IndexError, ValueError):
        return None
