# SPDX-License-Identifier: MIT
"""Readings: what a live board tells of itself before and after a measurement, and what is no setting of it."""

from __future__ import annotations

from collections.abc import Mapping

from rtgate import isolation, suspend, thermal
from rtgate.tuning import Tuning


def watched(time: str, tuning: Tuning) -> tuple[str, ...]:
    """Return what a plan reads before and after, as patterns of the shell, on a board of this time.

    On virtual time nothing: a boot there has no sensors and is not suspended, and every read moves its histogram.
    """
    if time == "virtual":
        return ()
    return (*thermal.WATCHED, *suspend.WATCHED, *(isolation.WATCHED if tuning.irq_affinity else ()))


def of(around: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the readings among what was read before and after, by path."""
    return thermal.of(around) | suspend.of(around) | isolation.of(around)
