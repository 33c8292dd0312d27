# SPDX-License-Identifier: MIT
"""Readings: what a live board tells of itself before and after a measurement, and what is no setting of it."""

from __future__ import annotations

from collections.abc import Mapping

from rtgate import isolation, suspend, thermal
from rtgate.tuning import Tuning


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
