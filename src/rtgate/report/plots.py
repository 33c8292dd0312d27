# SPDX-License-Identifier: MIT
"""Latency plots as SVG and PNG, in the manner that real-time engineers know from OSADL's farm.

The same input gives the same bytes: no date, no random identifiers; SVG keeps text as text. What a mark means stands in
the legend and not beside the mark, so that no label hides a curve or another label.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rtgate.report.text import plain_text
from rtgate.tools.measurement import Histogram
from rtgate.units import Quantity, Unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind people can tell apart, without the yellow that white paper swallows.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
_STYLES = ("solid", "dashed", "dotted")
_BASELINE = "#888888"
_LIMIT = "#b00020"
_COLUMN = 48  # characters of the longest entry of a legend with two columns: longer ones would be cut off
_WIDE = 20.0  # times the smallest: then a linear axis would press most cases against its start
_FLOOR = 0.8  # a bin with one sample stands above the axis; an empty one lies below it
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "rtgate",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 9,
    "path.simplify": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One plot in both formats: SVG for screens, PNG for mails, chats and merge requests, which show no SVG."""

    svg: bytes
    png: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line of a histogram plot: a CPU, a boot, or several together.

    Attributes:
        label: its name in the legend; an empty one stands for "as the one before".
        high: the largest latency as the tool reported it, which may lie beyond the histogram.
        baseline: whether it is shown in grey, as what the others are compared with.
    """

    label: str
    histogram: Histogram
    low: Quantity | None = None
    mean: Quantity | None = None
    high: Quantity | None = None
    baseline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitLine:
    """A limit to draw."""

    label: str
    quantity: Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class BootPoint:
    """One boot's largest and average latency; None where it measured nothing."""

    label: str
    high: Quantity | None
    mean: Quantity | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseMaximum:
    """A case's largest latency over all boots, that of the baseline, and the limit; None without one."""

    label: str
    high: Quantity
    baseline: Quantity | None = None
    limit: Quantity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendLine:
    """One metric over runs.

    Attributes:
        label: what is drawn, with its unit.
        values: each run's.
        changes: indices of the runs where the level changed and stayed.
    """

    label: str
    runs: tuple[str, ...]
    values: tuple[float, ...]
    changes: tuple[int, ...] = ()


def histogram_plot(title: str, series: Sequence[Series], limits: Sequence[LimitLine]) -> Picture:
    """Return the histogram of latencies: linear microseconds across, number of samples on a log scale up.

    Raises:
        ValueError: there is no series, or a limit has the unit of another clock.
    """
    if not series:
        raise ValueError("a histogram plot needs at least one series")
    unit = _microseconds(series[0].histogram.unit)
    edge = _edge(series, limits, unit)
    with _figure(7.6, 4.8) as figure:
        axes = figure.subplots()
        tallest = max(_draw_series(axes, number, curve) for number, curve in enumerate(series))
        tallest = max([tallest, *(curve.histogram.overflow for curve in series)])  # or its mark stands above the plot
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}".replace(",", " "))
        axes.set_ylim(_FLOOR, max(10.0, tallest * 3.0))
        axes.set_xlim(0.0, edge)
        for number, limit in enumerate(limits):
            value = limit.quantity.to(unit).value
            line = axes.axvline(value, color=_LIMIT, linestyle="dashed", linewidth=1.2, gid=f"limit-{number}")
            line.set_label(plain_text(limit.label))
        _mark_maximum(axes, series, edge, unit)
        _mark_overflow(axes, series, unit)
        axes.set_title(plain_text(title), fontsize=11)
        axes.set_xlabel(f"latency in {unit}")
        axes.set_ylabel("samples")
        axes.grid(visible=True, alpha=0.25, linewidth=0.5)
        _legend_below(figure, axes)
        return _picture(figure)


def boots_plot(title: str, boots: Sequence[BootPoint], limits: Sequence[LimitLine]) -> bytes:
    """Return an SVG: maximum and average of each boot as dots, with the limits; a boot without figures is a cross.

    Raises:
        ValueError: no boot has a figure, or a limit has the unit of another clock.
    """
    first = next((boot.high for boot in boots if boot.high is not None), None)
    if first is None:
        raise ValueError("no boot has a maximum")
    unit = _microseconds(first.unit)
    with _figure(7.6, 3.4) as figure:
        axes = figure.subplots()
        _dots(axes, [(x, boot.high.to(unit).value) for x, boot in enumerate(boots) if boot.high], "maximum", "o")
        _dots(axes, [(x, boot.mean.to(unit).value) for x, boot in enumerate(boots) if boot.mean], "average", "_")
        _dots(axes, [(x, 0.0) for x, boot in enumerate(boots) if boot.high is None], "no measurement", "x")
        for number, limit in enumerate(limits):
            value = limit.quantity.to(unit).value
            line = axes.axhline(value, color=_LIMIT, linestyle="dashed", linewidth=1.2, gid=f"limit-{number}")
            line.set_label(plain_text(limit.label))
        step = max(1, -(-len(boots) // 20))  # more than 20 labels side by side cannot be read
        ticks = range(0, len(boots), step)
        axes.set_xticks(list(ticks), [plain_text(boots[x].label) for x in ticks], rotation=45, ha="right", fontsize=8)
        axes.set_xlim(-0.5, len(boots) - 0.5)
        axes.set_ylim(bottom=-0.02 * axes.get_ylim()[1], top=axes.get_ylim()[1] * 1.05)
        axes.set_title(plain_text(title), fontsize=11)
        axes.set_ylabel(f"latency in {unit}")
        axes.grid(visible=True, axis="y", alpha=0.25, linewidth=0.5)
        figure.legend(loc="outside lower center", ncols=4, frameon=False)
        return _svg(figure)


def maxima_plot(title: str, maxima: Sequence[CaseMaximum]) -> bytes:
    """Return an SVG: each case's maximum as a dot on a line of its own, the first on top, with baseline and limit.

    The axis is a log scale if the largest is 20 times the smallest.

    Raises:
        ValueError: there is no case, or one has the unit of another clock.
    """
    if not maxima:
        raise ValueError("a plot of maxima needs at least one case")
    unit = _microseconds(maxima[0].high.unit)
    with _figure(7.6, 1.4 + 0.28 * len(maxima)) as figure:
        axes = figure.subplots()
        values = [
            *_case_marks(axes, [case.baseline for case in maxima], unit, "maximum of the baseline"),
            *_case_marks(axes, [case.high for case in maxima], unit, "maximum"),
            *_case_marks(axes, [case.limit for case in maxima], unit, "limit"),
        ]
        if min(values) > 0 and max(values) > _WIDE * min(values):
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        else:
            axes.set_xlim(0.0, max(values) * 1.08 or 1.0)
        axes.set_yticks(range(len(maxima)), [plain_text(case.label) for case in maxima], fontsize=8)
        axes.set_ylim(len(maxima) - 0.5, -0.5)
        axes.set_title(plain_text(title), fontsize=11)
        axes.set_xlabel(f"largest value in {unit}")
        axes.grid(visible=True, alpha=0.25, linewidth=0.5)
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
        return _svg(figure)


def trend_plot(title: str, lines: Sequence[TrendLine]) -> Picture:
    """Return each metric from run to run as a panel of its own, with a line where its level changed.

    Raises:
        ValueError: there is no line.
    """
    if not lines:
        raise ValueError("a trend needs at least one line")
    with _figure(7.6, 0.8 + 1.8 * len(lines)) as figure:
        panels = figure.subplots(len(lines), 1, squeeze=False)[:, 0]
        for number, (axes, line) in enumerate(zip(panels, lines, strict=True)):
            axes.plot(line.values, marker="o", markersize=4, color=_COLOURS[0], linewidth=1.0, gid=f"trend-{number}")
            for change in line.changes:
                axes.axvline(change - 0.5, color=_LIMIT, linestyle="dashed", linewidth=1.2, gid=f"change-{number}")
            if line.changes:
                places = ", ".join(plain_text(line.runs[change]) for change in line.changes)
                axes.set_title(f"level changed at {places}", fontsize=9, color=_LIMIT, loc="right")
            axes.set_ylabel(plain_text(line.label), fontsize=9)
            axes.grid(visible=True, axis="y", alpha=0.25, linewidth=0.5)
            step = max(1, -(-len(line.runs) // 20))
            ticks = range(0, len(line.runs), step)
            last = number == len(lines) - 1
            names = [plain_text(line.runs[x]) if last else "" for x in ticks]
            axes.set_xticks(list(ticks), names, rotation=45, ha="right", fontsize=8)
        figure.suptitle(plain_text(title), fontsize=11)
        return _picture(figure)


@contextmanager
def _figure(width: float, height: float) -> Iterator[Figure]:
    """Yield a figure of a size in inches. It is drawn with these settings alone: a matplotlibrc would change bytes."""
    # Not above: it takes longer to load than all else of a command that draws nothing.
    from matplotlib import rc_context, rcdefaults, rcParams  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    with rc_context():
        rcdefaults()
        rcParams.update(_STYLE)
        yield Figure(figsize=(width, height), layout="constrained")


def _microseconds(unit: Unit) -> Unit:
    return Unit.VIRTUAL_US if unit.virtual else Unit.US


def _picture(figure: Figure) -> Picture:
    engine = figure.get_layout_engine()
    if engine is not None:  # once for both formats: it takes longer than drawing
        engine.execute(figure)
        figure.set_layout_engine(None)  # with "none" every picture would be drawn twice
    return Picture(svg=_svg(figure), png=_save(figure, "png", {"Software": None}))


def _svg(figure: Figure) -> bytes:
    return _save(figure, "svg", {"Date": None, "Creator": None})


def _save(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    target = io.BytesIO()
    figure.savefig(target, format=kind, metadata=metadata)
    return target.getvalue()


def bin_samples(histogram: Histogram) -> dict[int, int]:
    """Return the samples by whole microseconds, in order; empty bins are left out."""
    width = _microseconds(histogram.unit).scale / histogram.unit.scale
    counts: dict[int, int] = {}
    for value, count in sorted(histogram.counts.items()):
        counts[int(value // width)] = counts.get(int(value // width), 0) + count
    return {value: count for value, count in counts.items() if count}


def _range(histogram: Histogram) -> float:
    """Return the first microsecond beyond the histogram."""
    return Quantity(histogram.limit, histogram.unit).to(_microseconds(histogram.unit)).value


def _edge(series: Sequence[Series], limits: Sequence[LimitLine], unit: Unit) -> float:
    """Return where the plot ends: behind the last sample and the limits, or where the histogram overflows."""
    last = max(max(bin_samples(curve.histogram), default=0) + 1 for curve in series)
    edge = max([last, *(limit.quantity.to(unit).value for limit in limits)]) * 1.08 + 1.0
    ranges = [_range(curve.histogram) for curve in series if curve.histogram.overflow]
    return max([edge, *ranges]) if ranges else edge


def _draw_series(axes: Axes, number: int, series: Series) -> int:
    """Draw one step line and return its largest count. Only corners are drawn, so a sparse histogram stays small."""
    counts = bin_samples(series.histogram)
    x, y = [0.0], [0.1]  # any height under the floor
    for value, count in counts.items():
        if x[-1] != value:
            x += [x[-1], value]
            y += [0.1, 0.1]
        x += [value, value + 1]
        y += [count, count]
    axes.plot(
        [*x, x[-1]],
        [*y, 0.1],
        color=_BASELINE if series.baseline else _COLOURS[number % len(_COLOURS)],
        linestyle="solid" if series.baseline else _STYLES[number // len(_COLOURS) % len(_STYLES)],
        linewidth=1.2,
        label=_legend(series) if series.label else "_nolegend_",
        zorder=1 if series.baseline else 2,
        gid=f"series-{number}",
    )
    return max(counts.values(), default=1)


def _legend(series: Series) -> str:
    values = (("min", series.low), ("mean", series.mean), ("max", series.high))
    parts = [f"{name} {value.to(_microseconds(value.unit)).value:.1f}" for name, value in values if value is not None]
    return f"{plain_text(series.label)}: {', '.join(parts)}" if parts else plain_text(series.label)


def _legend_below(figure: Figure, axes: Axes) -> None:
    longest = max(map(len, axes.get_legend_handles_labels()[1]), default=0)
    figure.legend(loc="outside lower center", ncols=2 if longest <= _COLUMN else 1, frameon=False)


def _mark_maximum(axes: Axes, series: Sequence[Series], edge: float, unit: Unit) -> None:
    curves = [curve for curve in series if curve.high is not None and not curve.baseline]
    worst = max(curves, key=lambda curve: curve.high.to(unit).value if curve.high else 0.0, default=None)
    if worst is None or worst.high is None:
        return
    value = worst.high.to(unit).value
    text = f"maximum {value:.1f} {unit}" + (", beyond this plot" if value > edge else "")
    _mark(axes, [min(value, edge)], [1.0], "v", text, "maximum")


def _mark_overflow(axes: Axes, series: Sequence[Series], unit: Unit) -> None:
    """Mark samples whose latencies the histogram could not hold, at its end."""
    over = [curve for curve in series if curve.histogram.overflow]
    if not over:
        return
    limit = max(_range(curve.histogram) for curve in over)
    heights = [float(curve.histogram.overflow) for curve in over]
    total = sum(curve.histogram.overflow for curve in over)
    text = f"overflow: {total} samples at {limit:g} {unit} or more"
    _mark(axes, [limit] * len(over), heights, ">", text, "overflow")


def _mark(axes: Axes, x: Sequence[float], y: Sequence[float], marker: str, label: str, gid: str) -> None:
    axes.plot(x, y, marker=marker, color=_LIMIT, linestyle="none", clip_on=False, label=label, gid=gid)


def _case_marks(axes: Axes, column: Sequence[Quantity | None], unit: Unit, label: str) -> list[float]:
    """Mark a figure of each case that has one, the first case at 0, and return the values."""
    points = [(value.to(unit).value, y) for y, value in enumerate(column) if value is not None]
    colour = {"maximum": _COLOURS[0], "limit": _LIMIT}.get(label, _BASELINE)
    marker, size = ("|", 12) if label == "limit" else ("o", 6)
    if points:
        x, y = zip(*points, strict=True)
        axes.plot(x, y, marker, color=colour, label=label, markersize=size, markeredgewidth=1.6, gid=f"maxima-{label}")
    return [x for x, _ in points]


def _dots(axes: Axes, points: Sequence[tuple[int, float]], label: str, marker: str) -> None:
    if points:
        colour = _LIMIT if marker == "x" else _COLOURS[0]
        x, y = zip(*points, strict=True)
        axes.plot(x, y, marker=marker, linestyle="none", color=colour, label=label, markersize=6, gid=f"boots-{label}")
