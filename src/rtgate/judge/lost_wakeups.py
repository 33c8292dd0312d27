# SPDX-License-Identifier: MIT
"""Wake-ups that never happened, because an earlier one was too late."""

from __future__ import annotations

from collections.abc import Sequence

from rtgate.records.record import Record


def lost_wakeups(records: Sequence[Record]) -> tuple[int, int]:
    """Return how many wake-ups of some boots were lost, and how many there should have been."""
    wakeups, losses = (
        sum(int(quantity.value) for record in records for quantity, _ in record.numbers(name))
        for name in ("wakeups", "wakeups.lost")
    )
    return losses, wakeups + losses


def lost_share(losses: int, due: int) -> str:
    """Return the share of lost wake-ups, as part of a sentence."""
    return f"{losses / due:.0%} of the wake-ups were lost ({losses} of {due})"
