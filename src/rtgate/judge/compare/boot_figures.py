# SPDX-License-Identifier: MIT
"""One boot in numbers that two kernels are compared by: mean, quantiles and maximum of latencies, and what else counts.

All CPUs of a boot are one here: latencies are added up, of other measurements the worst counts. A number that the boot
does not give is absent, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import mul

from rtgate.records.record import Record
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.units import Unit


class Part(Enum):
    """Which part of a distribution a figure tells of; parts move by different amounts for no reason."""

    BODY = "body"
    TAIL = "tail"
    EXTREME = "extreme"
    NUMBER = "number"


@dataclass(frozen=True, slots=True, kw_only=True)
class BootFigure:
    """One number of one boot.

    Attributes:
        value: in `unit`; larger is worse, so a throughput is negative.
        better: which way the measurement itself improves.
    """

    name: str
    part: Part
    value: float
    unit: Unit
    better: Better = Better.LOWER


_QUANTILES = (("p50", 0.5, Part.BODY), ("p90", 0.9, Part.BODY), ("p99", 0.99, Part.TAIL), ("p99.9", 0.999, Part.TAIL))
HISTOGRAM_FIGURES = ("mean", *(label for label, *_ in _QUANTILES), "maximum")
"""What a distribution with samples enough gives, in this order; as in `latency p99.9`."""
_EVENTS = 4  # beyond a quantile: fewer say nothing about it; 5 s at 1 kHz have 5, less what was lost


def boot_figures(record: Record) -> Mapping[str, BootFigure]:
    """Return the figures of a boot by name, such as `latency p99.9` or `hackbench.time`."""
    histograms: dict[str, list[Histogram]] = {}
    numbers: dict[str, list[Measurement]] = {}
    for measurement in record.measurements:
        if measurement.histogram is not None and measurement.better is Better.LOWER:
            histograms.setdefault(measurement.name, []).append(measurement.histogram)
        elif measurement.quantity is not None and measurement.better is not Better.NEITHER:
            numbers.setdefault(measurement.name, []).append(measurement)
    figures: dict[str, BootFigure] = {}
    for name, parts in histograms.items():
        largest = [number.quantity.value for number in numbers.get(f"{name}.max", ()) if number.quantity is not None]
        figures |= {figure.name: figure for figure in _of_histogram(name, parts, largest)}
    for name, measurements in numbers.items():
        # `latency.avg` of a tool that gives the distribution says less than the distribution.
        if name.partition(".")[0] not in histograms:
            figures[name] = _worst(name, measurements)
    return figures


def _of_histogram(name: str, parts: Sequence[Histogram], largest: Sequence[float]) -> list[BootFigure]:
    """Return the figures of a distribution. Samples beyond its range count as its end: they are at least that.

    Args:
        name: of the measurement.
        parts: by CPU.
        largest: the maxima that the tool reported beside, exact also beyond the range.
    """
    try:
        whole = Histogram.merge(parts)
    except ValueError:
        return []
    total = whole.total
    if not total:
        return []
    counts = whole.counts
    total_value = sum(map(mul, counts.keys(), counts.values())) + whole.limit * whole.overflow
    highest = next((value for value in reversed(counts) if counts[value]), 0)
    if whole.overflow:
        highest = max(highest, whole.limit)
    figures = {"mean": (total_value / total, Part.BODY)}
    quantiles = [(label, share, part) for label, share, part in _QUANTILES if (1 - share) * total >= _EVENTS]
    for (label, _, part), quantile in zip(quantiles, whole.quantiles(share for _, share, _ in quantiles), strict=True):
        figures[label] = (whole.limit if quantile is None else quantile.value, part)
    figures["maximum"] = (max([float(highest), *largest]), Part.EXTREME)
    return [
        BootFigure(name=f"{name} {label}", part=part, value=float(value), unit=whole.unit)
        for label, (value, part) in figures.items()
    ]


def _worst(name: str, measurements: Sequence[Measurement]) -> BootFigure:
    better = measurements[0].better
    unit = measurements[0].unit
    sign = -1.0 if better is Better.HIGHER else 1.0
    values = [
        sign * measurement.quantity.value
        for measurement in measurements
        if measurement.quantity is not None and measurement.unit is unit
    ]
    # What a tool reports as its largest sample moves as the largest of a histogram does.
    part = Part.EXTREME if name.rpartition(".")[2] == "max" else Part.NUMBER
    return BootFigure(name=name, part=part, value=max(values), unit=unit, better=better)
