# SPDX-License-Identifier: MIT
"""Validity check of the record itself: no maximum is below what its histogram holds."""

from __future__ import annotations

from rtgate.records.record import Record
from rtgate.tools.measurement import Histogram
from rtgate.units import Quantity
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for


def _judge(record: Record) -> Answer:
    highest = {
        (measurement.name.removesuffix(".max"), tuple(sorted(measurement.labels.items()))): measurement.quantity
        for measurement in record.measurements
        if measurement.name.endswith(".max") and measurement.quantity is not None
    }
    problems = []
    for measurement in record.measurements:
        maximum = highest.get((measurement.name, tuple(sorted(measurement.labels.items()))))
        if measurement.histogram is None or maximum is None:
            continue
        if maximum.unit.dimension != measurement.unit.dimension:
            problems.append(
                f"record.json says {measurement.name}.max {measurement.label} {maximum}, "
                f"its histogram is in {measurement.unit}"
            )
            continue
        least = (
            measurement.histogram.limit if measurement.histogram.overflow else _highest_bucket(measurement.histogram)
        )
        if maximum.to(measurement.unit).value < least * (1 - 1e-9):
            problems.append(
                f"record.json says {measurement.name}.max {measurement.label} {maximum}, "
                f"its histogram has samples of at least {Quantity(least, measurement.unit)}"
            )
    return answer_for("; ".join(problems), "no maximum is below its histogram")


def _highest_bucket(histogram: Histogram) -> int:
    counts = histogram.counts
    highest = max(counts, default=0)
    return highest if counts.get(highest) else max((value for value, samples in counts.items() if samples), default=0)


CHECK = ValidityCheck(
    name="figures",
    holds="no maximum is below what its histogram holds",
    invalidates=Invalidates.GOOD_NEWS,
    exceptions="a maximum over its limit stands: the histogram only says that there was more",
    judge=_judge,
)
