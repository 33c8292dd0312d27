# SPDX-License-Identifier: MIT
"""Validity check: every wake-up is accounted for, as it happened or a measured latency explains why it did not."""

from __future__ import annotations

from rtgate.records.record import Record
from rtgate.tools.measurement import Histogram, Measurement
from rtgate.units import Quantity
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for

_EDGE_CYCLES = 3  # the first wake-up comes one interval late, and the signal that ends the run comes at any time


def _judge(record: Record) -> Answer:
    interval = record.evidence.expectation.interval_us
    if not interval:
        return answer_for("", "the tool has no period to account for")
    problem = ""
    for measurement in record.measurements:
        if measurement.histogram is None:
            continue
        cycles = record.evidence.expectation.duration_s * 1e6 / interval
        losses = cycles - measurement.histogram.total
        periods = _skipped_periods(measurement.histogram, interval, _maximum(record, measurement))
        if losses > periods + _EDGE_CYCLES + cycles * 0.001:
            problem = (
                f"{measurement.label}: {measurement.histogram.total} of {cycles:.0f} wake-ups were measured, and "
                f"the latencies explain only {periods} of the {losses:.0f} lost ones"
            )
    if not any(measurement.histogram for measurement in record.measurements):
        problem = "no histogram was measured"
    return answer_for(problem, "every wake-up is accounted for")


def _skipped_periods(histogram: Histogram, interval_us: int, maximum: Quantity) -> int:
    """Return how many periods the measured latencies skipped; an overflowed sample at most what the maximum did."""
    period = interval_us * 1000.0 / histogram.unit.scale
    # Most have no sample that long, which is found out sooner: a comparison asks this of each boot several times.
    long = max(histogram.counts, default=0) >= period
    periods = sum(count * int(value // period) for value, count in histogram.counts.items()) if long else 0
    return periods + histogram.overflow * int(maximum.to(histogram.unit).value // period)


def _maximum(record: Record, measurement: Measurement) -> Quantity:
    """Return the maximum beside a histogram; none where there is none, or one that is no such length of time."""
    maxima = (
        quantity
        for quantity, maximum in record.numbers("latency.max")
        if dict(maximum.labels) == dict(measurement.labels)
    )
    none = Quantity(0, measurement.unit)
    return next((quantity for quantity in maxima if quantity.unit.dimension == none.unit.dimension), none)


CHECK = ValidityCheck(
    name="cycles",
    holds="every wake-up happened, or a measured latency of that length explains why it did not. Those that are "
    "missing are not told if the tool ended its run with a failure of the kernel",
    invalidates=Invalidates.GOOD_NEWS,
    judge=_judge,
)
