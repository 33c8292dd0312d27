# SPDX-License-Identifier: MIT
"""Which latencies of a case are plotted together."""

from __future__ import annotations

from collections.abc import Sequence

from rtgate.records.record import Record
from rtgate.report.cases import CaseReport, cpus, figures
from rtgate.report.plots import (
    BootPoint,
    CaseMaximum,
    LimitLine,
    Series,
    boots_plot,
    histogram_plot,
    maxima_plot,
)
from rtgate.tools.measurement import Histogram, Measurement
from rtgate.units import plural

HISTOGRAM = "latency histogram"
"""The name of a case's first plot."""
HISTOGRAM_PNG = f"{HISTOGRAM} (PNG)"
"""The name of the same plot for mails and chats, which show no SVG."""

_FEWEST_CASES = 3  # fewer are read in the table
_MOST_CASES = 40
_MOST_LINES = 7  # more lines than colours cannot be told apart: then boots are added up


def plots(case: CaseReport) -> list[tuple[str, str, bytes]]:
    """Return the case's plots: name, suffix and content of each file; none when nothing was measured."""
    many = max(len(histograms(case.records)), len(histograms(case.baseline))) > _MOST_LINES
    series = (
        [
            *_merge_lines(case.records, named=bool(case.baseline)),
            *_merge_lines(case.baseline, named=True, baseline=True),
        ]
        if many
        else [*_single(case.records), *_single_baseline(case.baseline)]
    )
    if not series:
        return []
    limit = case.max_limit
    # A limit in another clock's unit applies to another board: the verdict says so, a line would mislead.
    lines = [
        LimitLine(label=f"limit {limit}", quantity=limit)
        for limit in ([limit] if limit else [])
        if limit.unit.dimension == series[0].histogram.unit.dimension
    ]
    title = f"{case.case} on {case.board}, {case.arm}, {case.flavour or 'unknown flavour'}"
    histogram = histogram_plot(title, series, lines)
    files = [(HISTOGRAM, "svg", histogram.svg), (HISTOGRAM_PNG, "png", histogram.png)]
    boots = [(record.boot, figures([record])) for record in case.records]
    points = [BootPoint(label=label, high=here.high, mean=here.mean) for label, here in boots]
    # A site's tool may have a histogram and no maximum.
    if len(points) > 1 and any(point.high is not None for point in points):
        svg = boots_plot(f"{title}: maximum and average of each boot", points, lines)
        files.append(("latency by boot", "svg", svg))
    return files


def maxima(reports: Sequence[CaseReport]) -> list[tuple[str, bytes]]:
    """Return an SVG of the largest latency of all cases for each board and arm that has several, by its title."""
    groups: dict[str, list[CaseMaximum]] = {}
    for case in reports:
        high, baseline, limit = figures(case.records).high, figures(case.baseline).high, case.max_limit
        if high is None:
            continue
        baseline, limit = (
            value if value is not None and value.unit.dimension == high.unit.dimension else None
            for value in (baseline, limit)
        )
        title = f"Maxima on {case.board}, {case.arm}, {case.flavour or 'unknown flavour'}, {high.unit}"
        groups.setdefault(title, []).append(CaseMaximum(label=case.case, high=high, baseline=baseline, limit=limit))
    return [_maxima(title, group) for title, group in groups.items() if len(group) >= _FEWEST_CASES]


def _maxima(title: str, group: Sequence[CaseMaximum]) -> tuple[str, bytes]:
    if len(group) > _MOST_CASES:
        title = f"{title}: {_MOST_CASES} of {len(group)} cases"
    return title, maxima_plot(title, group[:_MOST_CASES])


def histograms(records: Sequence[Record]) -> list[tuple[Record, Measurement, Histogram]]:
    """Return the histograms of latencies, one for each boot and CPU, with what they belong to."""
    return [
        (record, measurement, measurement.histogram)
        for record in records
        for measurement in record.measurements
        if measurement.name == "latency" and measurement.histogram is not None
    ]


def _single(records: Sequence[Record]) -> list[Series]:
    """Return a line for each boot and CPU."""
    several = len(cpus(records)) > 1
    lines = []
    for record, measurement, histogram in histograms(records):
        here = figures([record], measurement.labels.get("cpu"))
        label = f"{record.boot} {measurement.label}" if several else record.boot
        lines.append(Series(label=label, histogram=histogram, low=here.low, mean=here.mean, high=here.high))
    return lines


def _single_baseline(records: Sequence[Record]) -> list[Series]:
    """Return a grey line for each boot and CPU, with one entry of the legend for all."""
    over_all = figures(records)
    return [
        Series(
            label="" if number else f"{record.arm}, {plural(len(records), 'boot')}",
            histogram=histogram,
            low=over_all.low,
            mean=over_all.mean,
            high=over_all.high,
            baseline=True,
        )
        for number, (record, _, histogram) in enumerate(histograms(records))
    ]


def _merge_lines(records: Sequence[Record], *, named: bool, baseline: bool = False) -> list[Series]:
    """Return a line for each CPU over all boots; histograms of different ranges cannot be added and stay apart.

    `named`: the kernel's name stands in the legend.
    """
    groups: dict[tuple[str, str, int], list[tuple[Record, Histogram]]] = {}
    for record, measurement, histogram in histograms(records):
        key = (measurement.labels.get("cpu", ""), histogram.unit.value, histogram.limit)
        groups.setdefault(key, []).append((record, histogram))
    lines: list[Series] = []
    count = len({cpu for cpu, _, _ in groups})
    for (cpu, _, _), members in groups.items():
        here = figures([record for record, _ in members], cpu or None)
        arm = f"{members[0][0].arm}, " if named else ""
        name = f"CPU {cpu}, " if cpu else ""
        # The baseline's lines are all grey: the first one's entry stands for them, with the figures of all.
        if baseline:
            here, name = figures(records), f"{count} CPUs, " if count > 1 else name
        series = Series(
            label="" if baseline and lines else f"{arm}{name}{plural(len(members), 'boot')}",
            histogram=Histogram.merge(histogram for _, histogram in members),
            low=here.low,
            mean=here.mean,
            high=here.high,
            baseline=baseline,
        )
        lines.append(series)
    return lines
