# SPDX-License-Identifier: MIT
"""What a health check found out about a board."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HealthResult:
    """One thing that a health check looked at; `value` is in `unit`."""

    name: str
    good: bool
    value: float
    unit: str
    sentence: str
