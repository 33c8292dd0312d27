# SPDX-License-Identifier: MIT
"""What a comparison sees of one boot: a few natural logarithms, larger is worse, and the number of spikes.

Of each histogram measurement, over all CPUs of one class together, at levels that the baseline's boots fixed:

* `exceedance rate`: how often the tail level is reached, `ln((k + 1/2) / n)`;
* `1 h return level`: what is exceeded once in an hour, from the mean excess over the tail level (peaks over threshold
  with an exponential tail; Hosking and Wallis, Technometrics 29, 1987);
* `winsorised mean`: that of all samples, where those in the tail count as the tail level, so that no rare event moves
  it;
* spikes: samples so far beyond the tail that they are something else, which are counted apart.

Of single numbers: `throughput NAME`, and the name itself for means, percentiles and lengths of time. Never a maximum.
A figure that a boot cannot give is left out; whoever compares must take that for missing data.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rtgate.records.record import Record
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.units import Unit

EXCEEDANCE_RATE, RETURN_LEVEL, WINSORISED_MEAN = "exceedance rate", "1 h return level", "winsorised mean"
THROUGHPUT, SPIKES = "throughput", "spikes"

_SHARE = 1e-4  # of the baseline's samples are in the tail, if that is enough events
_EVENTS = 30  # in the tail of a boot of the baseline
_FEWEST = 10  # fewer expected in a boot's tail say nothing
_MOST = 0.05  # more of the samples are no tail
# The exponential tail reaches the spike level once in so many hours; real tails bend up a little.
_SPIKE_HOURS = 1000.0
# Labels of measurements that are alike and are taken together; all others tell different things apart.
_ALIKE = frozenset({"cpu", "thread", "pair", "task"})
_GATED = frozenset({"rate", "virtual rate", "frequency", "virtual frequency"})
_TIMES = frozenset({"time", "virtual time"})
_LASTS = frozenset({"avg", "mean", "duration", "period"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The levels of one histogram measurement, in buckets of its unit.

    Attributes:
        name: what the metrics' names begin with; empty for a case's only histogram.
        measurement: the measurement's name.
        labels: those of its labels that tell it apart.
        limit: the first value beyond the histograms' range.
        tail: the first bucket of the tail; None where the boots have too few samples for one.
        share: of the baseline's samples, those in the tail.
        spike: the first bucket of spikes; None where the range ends too early to tell spikes from the tail.
    """

    name: str
    measurement: str
    labels: tuple[tuple[str, str], ...]
    unit: Unit
    limit: int
    tail: int | None
    share: float
    spike: int | None

    def metric(self, kind: str) -> str:
        """Return the name of one of this histogram's metrics."""
        return f"{self.name} {kind}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """The levels of all histograms of a case; empty for a case without any."""

    histograms: tuple[Level, ...] = ()


@dataclass(frozen=True, slots=True)
class Spikes:
    """Spikes that were counted, and the minutes in which they were."""

    count: int = 0
    minutes: float = 0.0


Group = tuple[str, tuple[tuple[str, str], ...]]


def levels(records: Sequence[Record]) -> Levels | None:
    """Return the levels that boots of the baseline fix; None if none of them measured.

    They hold for every boot of a comparison, so they come from the history, or from the boots of the first look, and
    never change between two looks.
    """
    boots = [record for record in records if record.has_results]
    if not boots:
        return None
    groups: dict[Group, list[tuple[Record, Histogram]]] = {}
    for record in boots:
        for measurement in _histograms(record):
            assert measurement.histogram is not None
            groups.setdefault(_group(measurement), []).append((record, measurement.histogram))
    group_levels = (_level(group, parts, len(groups)) for group, parts in sorted(groups.items()))
    return Levels(histograms=tuple(level for level in group_levels if level is not None))


def summaries(record: Record, levels: Levels | None) -> Mapping[str, float]:
    """Return the metrics of one boot by name: natural logarithms, larger is worse.

    Args:
        record: the boot; one that did not measure has no metrics.
        levels: those that the baseline fixed; without them histograms give nothing.
    """
    if not record.has_results:
        return {}
    metrics: dict[str, float] = {}
    for level in levels.histograms if levels else ():
        whole = _merge_histograms(record, level)
        if whole is not None:
            metrics.update(_of_histogram(whole, level, minutes(record)))
    return {**metrics, **_numbers(record)}


def spikes(record: Record, levels: Levels | None) -> Spikes | None:
    """Return the spikes of one boot; None where they cannot be told from the tail, or were not measured.

    Several histograms of one case (timerlat's interrupt and thread) see the same spike: the one with most counts.
    """
    if not record.has_results or levels is None:
        return None
    counts: dict[str, int] = {}
    for level in levels.histograms:
        if level.spike is None:
            continue
        whole = _merge_histograms(record, level)
        if whole is None:
            return None
        counts[level.measurement] = counts.get(level.measurement, 0) + _reach(whole, level.spike)
    return Spikes(max(counts.values()), minutes(record)) if counts and minutes(record) > 0 else None


def minutes(record: Record) -> float:
    """Return how long the boot's tool had to measure, in minutes of the target's time; 0 if nobody said."""
    return record.evidence.expectation.duration_s / 60


def _histograms(record: Record) -> Iterator[Measurement]:
    for measurement in record.measurements:
        if measurement.histogram is not None and measurement.better is Better.LOWER and measurement.histogram.total:
            yield measurement


def _group(measurement: Measurement) -> Group:
    return measurement.name, tuple(
        sorted((key, value) for key, value in measurement.labels.items() if key not in _ALIKE)
    )


def _merge_histograms(record: Record, level: Level) -> Histogram | None:
    """Return a boot's histograms for a level, added; None without any, or if one does not fit the level."""
    measurements = [
        measurement for measurement in _histograms(record) if _group(measurement) == (level.measurement, level.labels)
    ]
    parts = [measurement.histogram for measurement in measurements if measurement.histogram is not None]
    fit = all(part.unit is level.unit and part.limit == level.limit for part in parts)
    return Histogram.merge(parts) if parts and fit else None


def _reach(histogram: Histogram, bucket: int) -> int:
    """Return how many samples are in a bucket or beyond. It lies within the range, so all overflowed ones are."""
    return sum(count for value, count in histogram.counts.items() if value >= bucket) + histogram.overflow


def _level(group: Group, parts: Sequence[tuple[Record, Histogram]], groups: int) -> Level | None:
    measurement, labels = group
    if len({(histogram.unit, histogram.limit) for _, histogram in parts}) != 1:
        return None
    whole = Histogram.merge(histogram for _, histogram in parts)
    boots = {id(record): minutes(record) for record, _ in parts}
    tail = _tail(whole, len(boots))
    share = _reach(whole, tail) / whole.total if tail is not None else 0.0
    name = " ".join([measurement, *(value for _, value in labels)]) if groups > 1 else ""
    return Level(
        name=name,
        measurement=measurement,
        labels=labels,
        unit=whole.unit,
        limit=whole.limit,
        tail=tail,
        share=share,
        spike=None if tail is None else _spike(whole, tail, sum(boots.values())),
    )


def _tail(whole: Histogram, boots: int) -> int | None:
    """Return the bucket from which on are about 1e-4 of the samples, or as many as each boot needs."""
    quota = max(_SHARE * whole.total, float(_EVENTS * boots))
    values = [*sorted(whole.counts), whole.limit]
    count, tail = whole.overflow, None
    for value in reversed(values):
        count += whole.counts.get(value, 0)
        if count > _MOST * whole.total:
            break
        if count >= _FEWEST * boots:
            tail = value
        if count >= quota:
            break
    return tail


def _spike(whole: Histogram, tail: int, total_minutes: float) -> int | None:
    """Return the level that an exponential tail reaches once in a thousand hours; None if the range is too short.

    The mean excess is taken below the level that it gives, again and again: otherwise spikes would hide themselves.
    """
    excesses = sorted((value - tail + 0.5, count) for value, count in whole.counts.items() if value >= tail)
    events = sum(count for _, count in excesses)
    if not events or total_minutes <= 0:
        return None
    hourly = events * 60 / total_minutes
    mean, level = _median(excesses, events) / math.log(2), tail
    for _ in range(20):
        before, level = level, tail + math.ceil(mean * max(1.0, math.log(hourly * _SPIKE_HOURS)))
        if level == before:
            break
        below = [(excess, count) for excess, count in excesses if excess < level - tail]
        mean = sum(excess * count for excess, count in below) / sum(count for _, count in below)
    if level <= whole.limit:
        return level
    # Cut at the end of the range it still tells, if what is exceeded once in ten hours lies within.
    return whole.limit if tail + mean * math.log(max(hourly * 10, 1.0)) <= whole.limit else None


def _median(excesses: Sequence[tuple[float, int]], events: int) -> float:
    rank = 0
    for excess, count in excesses:
        rank += count
        if 2 * rank >= events:
            return excess
    raise AssertionError("a median lies within")


def _of_histogram(whole: Histogram, level: Level, length: float) -> Iterator[tuple[str, float]]:
    total = whole.total
    cap = level.limit if level.tail is None else level.tail
    total_value = sum(count * (value + 0.5 if value < cap else cap + 0.5) for value, count in whole.counts.items())
    yield level.metric(WINSORISED_MEAN), math.log((total_value + whole.overflow * (cap + 0.5)) / total)
    if level.tail is None or total * level.share < _FEWEST:
        return
    end = level.limit if level.spike is None else level.spike
    excesses = [(value - level.tail + 0.5, count) for value, count in whole.counts.items() if level.tail <= value < end]
    events = sum(count for _, count in excesses) + (whole.overflow if level.spike is None else 0)
    yield level.metric(EXCEEDANCE_RATE), math.log((events + 0.5) / total)
    if level.spike is not None and length > 0:
        mean = sum(excess * count for excess, count in excesses) / events if events else 0.5
        hourly = max(events, 1) * 60 / length
        yield level.metric(RETURN_LEVEL), math.log(level.tail + mean * max(math.log(hourly), 0.0))


def _numbers(record: Record) -> Mapping[str, float]:
    """Return the metrics of single numbers: the mean of those that are alike."""
    histograms = {measurement.name for measurement in record.measurements if measurement.histogram is not None}
    values: dict[str, list[float]] = {}
    lower: set[str] = set()
    for measurement in record.measurements:
        kind = _kind(measurement, histograms)
        if kind is None or measurement.quantity is None:
            continue
        labels = (value for key, value in sorted(measurement.labels.items()) if key not in _ALIKE)
        key = " ".join([*([THROUGHPUT] if kind is Better.HIGHER else []), measurement.name, *labels])
        values.setdefault(key, []).append(measurement.quantity.value * measurement.unit.scale)
        if kind is Better.LOWER:
            lower.add(key)
    means = {key: sum(numbers) / len(numbers) for key, numbers in values.items() if min(numbers) > 0}
    return {key: math.log(mean) if key in lower else -math.log(mean) for key, mean in means.items()}


def _kind(measurement: Measurement, histograms: set[str]) -> Better | None:
    """Return which way a number that is compared improves; None for one that is not compared."""
    if measurement.quantity is None:
        return None
    kind = summary_direction(measurement.name, measurement.better, measurement.unit)
    # A histogram says more than its own mean and percentiles.
    return None if kind is Better.LOWER and measurement.name.rpartition(".")[0] in histograms else kind


def measurement_of(metric: str) -> str:
    """Return what a metric is of: all of one histogram are of one measurement, a number is its own.

    Empty for a case's only histogram, whose metrics do not name it.
    """
    kinds = (EXCEEDANCE_RATE, RETURN_LEVEL, WINSORISED_MEAN)
    return next((metric.removesuffix(kind).rstrip() for kind in kinds if metric.endswith(kind)), metric)


@functools.cache
def summary_direction(name: str, better: Better, unit: Unit) -> Better | None:
    """Return which way numbers improve that summaries look at; None for all others, which no history gives them."""
    if "round" in name.split("."):
        return None
    if better is Better.HIGHER:
        return Better.HIGHER if unit.dimension in _GATED else None
    if better is not Better.LOWER or unit.dimension not in _TIMES:
        return None
    return Better.LOWER if name.rpartition(".")[2] in _LASTS or percentile(name) >= 99 else None


def percentile(name: str) -> float:
    """Return the percentile that a measurement's name ends with, as `completion.p99.9`; 0 for none."""
    for part in (name.partition(".p")[2], name.rpartition(".p")[2]):
        try:
            return float(part)
        except ValueError:
            continue
    return 0.0
