# SPDX-License-Identifier: MIT
"""Which changes matter: the smallest that is worth blocking a merge request, and the one that must not be missed.

The one table of both methods: metrics of boards (`paired`) and figures of virtual time (`phases`).
docs/explanation/verdicts.md says why these.
"""

from __future__ import annotations

from dataclasses import dataclass

from rtgate.judge.compare.boot_figures import Part
from rtgate.judge.compare.summaries import EXCEEDANCE_RATE, RETURN_LEVEL, THROUGHPUT, WINSORISED_MEAN, percentile


@dataclass(frozen=True, slots=True)
class Margin:
    """Ratios that matter: the smallest worth blocking a change, and the one that must not be missed."""

    blocking: float
    must_detect: float


_BODY = Margin(1.02, 1.08)
# By the last words of a metric's name.
_METRICS = {EXCEEDANCE_RATE: Margin(1.15, 2.0), RETURN_LEVEL: Margin(1.04, 1.25), WINSORISED_MEAN: _BODY}
_THROUGHPUT, _PERCENTILE, _MEAN = Margin(1.03, 1.05), Margin(1.04, 1.25), _BODY
# Phases move tails and maxima by more than that for no reason, whatever the number of boots.
_PARTS = {
    Part.BODY: _BODY,
    Part.TAIL: Margin(1.05, 1.25),
    Part.EXTREME: Margin(1.15, 1.50),
    Part.NUMBER: Margin(1.05, 1.25),
}


def margin(metric: str) -> Margin:
    """Return the ratios that matter in a metric of boards, by its name."""
    for kind, ratios in _METRICS.items():
        if metric == kind or metric.endswith(f" {kind}"):
            return ratios
    if metric.startswith(f"{THROUGHPUT} "):
        return _THROUGHPUT
    return _PERCENTILE if percentile(metric) else _MEAN


def margin_of(part: Part) -> Margin:
    """Return the ratios that matter in a figure of virtual time, by the part of the distribution that it tells of."""
    return _PARTS[part]
