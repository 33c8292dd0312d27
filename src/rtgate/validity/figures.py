# SPDX-License-Identifier: MIT
"""Validity check of the record itself: no maximum is below what its histogram holds."""

from __future__ import annotations

from rtgate.records.record import Record
from rtgate.tools.measurement import Histogram
from rtgate.units import Quantity
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for


def _judge(record: Record) -> Answer:
    highest = {
        (one.name.removesuffix(".max"), tuple(sorted(one.labels.items()))): one.quantity
        for one in record.measurements
        if one.name.endswith(".max") and one.quantity is not None
    }
    problems = []
    for one in record.measurements:
        maximum = highest.get((one.name, tuple(sorted(one.labels.items()))))
        if one.histogram is None or maximum is None:
            continue
        least = one.histogram.limit if one.histogram.overflow else _highest_bucket(one.histogram)
        if maximum.to(one.unit).value < least * (1 - 1e-9):
            problems.append(
                f"record.json says {one.name}.max {one.label} {maximum}, its histogram has samples of at least "
                f"{Quantity(least, one.unit)}"
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
