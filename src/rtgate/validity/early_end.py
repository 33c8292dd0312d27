# SPDX-License-Identifier: MIT
"""A tool that ends its run with the failure that it found: a shorter run is no fault of the run's."""

from __future__ import annotations

from rtgate.records.record import Record


def ended_early(record: Record) -> bool:
    """Return whether the tool ended its run with the failure that it found."""
    name = record.evidence.expectation.ends_with
    return any(quantity.value > 0 for quantity, _ in record.numbers(name))
