# SPDX-License-Identifier: MIT
"""Validity check: what was measured in rounds had become steady.

Steady state: whether the rounds of a measurement had stopped drifting before it was made.

The rule is that of the SNIA Solid State Storage Performance Test Specification (2.0.2, section 2.1.24), applied to the
last five rounds: largest and smallest lie within 20 % of their mean, and the straight line fitted to them by least
squares rises or falls by no more than 10 % of it. What was measured after the rounds lies within 20 % of it as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for

WINDOW = 5
_RANGE = 0.20
_SLOPE = 0.10


def unsteady(rounds: Sequence[float], figure: float) -> str:
    """Return why rounds, in their order, do not lead to a steady measurement; empty if they do."""
    if len(rounds) < WINDOW:
        return f"{len(rounds)} rounds were measured, and the last {WINDOW} must be steady"
    window = rounds[-WINDOW:]
    mean = sum(window) / WINDOW
    if mean <= 0:
        return "nothing was done in the last rounds"
    spread, drift = (max(window) - min(window)) / mean, abs(_slope(window)) * (WINDOW - 1) / mean
    away = abs(figure - mean) / mean
    if spread > _RANGE:
        return f"the last {WINDOW} rounds lie {spread:.0%} of their mean apart, more than {_RANGE:.0%}"
    if drift > _SLOPE:
        return f"the last {WINDOW} rounds drift by {drift:.0%} of their mean, more than {_SLOPE:.0%}"
    if away > _RANGE:
        return (
            f"what was measured lies {away:.0%} away from the mean of the last {WINDOW} rounds, more than {_RANGE:.0%}"
        )
    return ""


def _slope(values: Sequence[float]) -> float:
    """Return the slope of the least-squares line through values at 0, 1, 2, ..."""
    centre = (len(values) - 1) / 2
    weights = [place - centre for place in range(len(values))]
    return sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(w * w for w in weights)


def _judge(record: Record) -> Answer:
    name = record.evidence.expectation.steady
    if not name:
        return answer_for("", "the tool does not measure in rounds")
    of_rounds = record.numbers(f"round.{name}")
    numbers = [measurement.labels.get("round", "") for _, measurement in of_rounds]
    rounds = [quantity.value for _, (quantity, _) in sorted(zip(numbers, of_rounds, strict=True), key=itemgetter(0))]
    figures = [quantity.value for quantity, _ in record.numbers(name)]
    if not all(numbers):
        problem = f"{numbers.count('')} of {len(numbers)} rounds have no label `round`: their order is not known"
    else:
        problem = unsteady(rounds, figures[0]) if figures else f"{name} was not measured"
    return answer_for(problem, f"the last {WINDOW} of {len(rounds)} rounds were steady")


CHECK = ValidityCheck(
    name="steady",
    holds="the last five rounds before a disk was measured, and the measurement, keep to the "
    "[rule of steady state](tools/fio.md#preconditioning-and-steady-state)",
    invalidates=Invalidates.FIGURES,
    judge=_judge,
)
