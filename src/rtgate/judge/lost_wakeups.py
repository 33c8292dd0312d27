# SPDX-License-Identifier: MIT
"""Wake-ups that never happened, because an earlier one was too late."""

from __future__ import annotations

from collections.abc import Sequence

from rtgate.records.record import Record


def lost_wakeups(records: Sequence[Record]) -> tuple[int, int]:
    """Return how many wake-ups of some boots were lost, and how many there should have been."""
    counts = dict.fromkeys(("wakeups", "wakeups.lost"), 0)
    for measurement in (measurement for record in records for measurement in record.measurements):
        if measurement.name in counts and measurement.quantity:
            counts[measurement.name] += int(measurement.quantity.value)
    return counts["wakeups.lost"], sum(counts.values())


def lost_share(losses: int, due: int) -> str:
    """Return the share of lost wake-ups, as part of a sentence."""
    return f"{losses / due:.0%} of the wake-ups were lost ({losses} of {due})"
