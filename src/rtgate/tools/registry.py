# SPDX-License-Identifier: MIT
"""All tools, and what each one reports: the names that limits may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Reports(Enum):
    """What a measurement's name stands for, so that a limit's unit can be checked before anything is measured."""

    TIME = "time"
    TIMES = "histogram of times"
    COUNT = "count"
    RATIO = "ratio"


@dataclass(frozen=True, slots=True)
class Registered:
    """A tool's suites and measurement names."""

    suites: tuple[str, ...]
    measurements: Mapping[str, Reports]


TOOLS: Mapping[str, Registered] = {
    "cyclictest": Registered(
        suites=("latency",),
        measurements={
            "latency": Reports.TIMES,
            "latency.min": Reports.TIME,
            "latency.avg": Reports.TIME,
            "latency.max": Reports.TIME,
            "wakeups": Reports.COUNT,
            "wakeups.lost": Reports.COUNT,
        },
    ),
}
