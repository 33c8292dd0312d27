# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from rtgate.report.cases import figures
from rtgate.report.plots import (
    BootPoint,
    CaseMaximum,
    LimitLine,
    Picture,
    Series,
    TrendLine,
    bin_samples,
    boots_plot,
    histogram_plot,
    maxima_plot,
    trend_plot,
)
from rtgate.tools.measurement import Histogram
from rtgate.units import Quantity, Unit

if TYPE_CHECKING:
    from selftests.unit.report.conftest import World

    from rtgate.records.record import Record

LIMIT = LimitLine(label="limit 80 virtual us", quantity=Quantity(80, Unit.VIRTUAL_US))


def series(record: Record) -> list[Series]:
    made = []
    for one in record.measurements:
        if one.histogram is not None:
            here = figures([record], one.labels["cpu"])
            made.append(Series(label=one.label, histogram=one.histogram, low=here.low, mean=here.mean, high=here.high))
    return made


def ids(svg: bytes) -> list[str]:
    return [found for element in ET.fromstring(svg).iter() if (found := element.get("id"))]


def texts(svg: bytes, within: str = "figure_1") -> list[str]:
    """Return the texts of a group of the drawing."""
    (group,) = (element for element in ET.fromstring(svg).iter() if element.get("id") == within)
    return [element.text for element in group.iter("{http://www.w3.org/2000/svg}text") if element.text]


def test_a_line_per_cpu_with_a_legend_and_the_limit(world: World) -> None:
    svg = histogram_plot("idle", series(world.record(world.boot(cpus=2))), [LIMIT]).svg
    assert [name for name in ids(svg) if name.startswith(("series", "limit", "maximum", "overflow"))] == [
        "series-0",
        "series-1",
        "limit-0",
        "maximum",
    ]
    found = texts(svg)
    assert "limit 80 virtual us" in found
    assert "latency in virtual us" in found
    assert "maximum 61.2 virtual us" in found
    assert [text for text in found if text.startswith("CPU 0: min ") and text.endswith(", max 61.2")]
    assert {"1", "10", "100", "1 000"} <= set(found)


def test_real_microseconds_with_overflow(world: World) -> None:
    record = world.record(world.boot(seed=None, board="rk3568-evb1", high_us=1500, overflow=3, samples=40_000))
    svg = histogram_plot("loaded", series(record), []).svg
    assert "overflow: 3 samples at 1000 us or more" in texts(svg)
    assert "maximum 1500.0 us, beyond this plot" in texts(svg)
    assert "overflow" in ids(svg)
    assert len(svg) < 150_000


def test_the_same_input_gives_the_same_bytes(world: World) -> None:
    made = series(world.record(world.boot()))
    first = histogram_plot("idle", made, [LIMIT]).svg
    with mpl.rc_context({"svg.hashsalt": "another", "lines.linewidth": 9.0}):
        assert histogram_plot("idle", made, [LIMIT]).svg == first
    assert mpl.rcParams["svg.fonttype"] == "path"
    assert b"<dc:date>" not in first


def test_text_from_outside_cannot_break_the_drawing(world: World) -> None:
    svg = histogram_plot("a $x_{$ <b>\x1b[31m& \x00", series(world.record(world.boot())), [LIMIT]).svg
    assert "a $x_{$ <b>& \ufffd" in texts(svg)


def test_nanoseconds_are_put_into_bins_of_a_microsecond() -> None:
    histogram = Histogram(
        unit=Unit.VIRTUAL_NS, counts={0: 1, 992: 2, 1000: 4, 1999: 8, 2000: 16}, overflow=0, limit=9000
    )
    assert bin_samples(histogram) == {0: 3, 1: 12, 2: 16}


def test_a_histogram_in_which_everything_overflowed() -> None:
    lost = Histogram(unit=Unit.US, counts={}, overflow=7, limit=100)
    svg = histogram_plot("all gone", [Series(label="CPU 0", histogram=lost, high=Quantity(900, Unit.US))], []).svg
    assert "overflow: 7 samples at 100 us or more" in texts(svg)


def test_a_limit_of_another_clock_is_refused(world: World) -> None:
    made = series(world.record(world.boot()))
    with pytest.raises(ValueError, match="cannot be converted"):
        histogram_plot("idle", made, [LimitLine(label="150 us", quantity=Quantity(150, Unit.US))])
    with pytest.raises(ValueError, match="at least one series"):
        histogram_plot("idle", [], [])


def test_boots_as_dots() -> None:
    points = [
        BootPoint(
            label=f"seed {seed}", high=Quantity(50_000 + seed, Unit.VIRTUAL_NS), mean=Quantity(5, Unit.VIRTUAL_US)
        )
        for seed in range(1, 41)
    ]
    points.append(BootPoint(label="seed 41", high=None, mean=None))
    svg = boots_plot("idle", points, [LIMIT])
    assert boots_plot("idle", points, [LIMIT]) == svg
    assert {"boots-maximum", "boots-average", "boots-no measurement", "limit-0"} <= set(ids(svg))
    (dots,) = (one for one in ET.fromstring(svg).iter() if one.get("id") == "boots-maximum")
    assert len([one for one in dots.iter() if one.tag.endswith("}use")]) == 40
    ticks = [text for text in texts(svg) if text.startswith("seed ")]
    assert 10 < len(ticks) <= 21
    with pytest.raises(ValueError, match="no boot"):
        boots_plot("idle", points[-1:], [])


def marks(svg: bytes, name: str) -> list[tuple[float, float]]:
    """Return where the marks of a group lie, from the left and from the top."""
    (group,) = (one for one in ET.fromstring(svg).iter() if one.get("id") == name)
    return [(float(one.attrib["x"]), float(one.attrib["y"])) for one in group.iter() if one.tag.endswith("}use")]


def test_maxima_of_all_cases_lie_on_lines_of_their_own() -> None:
    def us(value: float) -> Quantity:
        return Quantity(value, Unit.VIRTUAL_US)

    first = CaseMaximum(label="latency/cyclictest:idle", high=Quantity(61_000, Unit.VIRTUAL_NS), limit=us(86))
    second = CaseMaximum(label="signal/signaltest:idle", high=us(120), baseline=us(61))
    svg = maxima_plot("all", [first, second])
    assert maxima_plot("all", [first, second]) == svg
    (one, other), (before,), (limit,) = (
        marks(svg, f"maxima-{name}") for name in ("maximum", "maximum of the baseline", "limit")
    )
    assert one[1] < other[1]  # the first is on top
    assert (one[1], other[1]) == (limit[1], before[1])
    assert one[0] == pytest.approx(before[0])
    assert one[0] < limit[0] < other[0]
    assert {"0", first.label, second.label} <= set(texts(svg))
    wide = maxima_plot("all", [first, CaseMaximum(label="nvme/fio-read:idle", high=us(5000))])
    assert {"100", "1000"} <= set(texts(wide))
    assert "0" not in texts(wide)
    with pytest.raises(ValueError, match="at least one case"):
        maxima_plot("all", [])
    with pytest.raises(ValueError, match="us"):
        maxima_plot("all", [first, CaseMaximum(label="real", high=Quantity(5, Unit.US))])


def test_marks_are_named_in_the_legend_where_no_label_hides_a_curve(world: World) -> None:
    record = world.record(world.boot(seed=None, board="rk3568-evb1", high_us=900, overflow=3, samples=40_000))
    near = [LimitLine(label="limit 901 us", quantity=Quantity(901, Unit.US))]
    svg = histogram_plot("loaded", series(record), near).svg
    inside = texts(svg, "axes_1")
    assert {"limit 901 us", "maximum 900.0 us"} <= set(texts(svg, "legend_1"))
    assert [text for text in inside if not text.replace(" ", "").isdigit()] == ["latency in us", "samples", "loaded"]


def test_a_picture_is_png_too_and_the_same_each_time(world: World) -> None:
    first, second = (histogram_plot("idle", series(world.record(world.boot())), [LIMIT]) for _ in range(2))
    assert first.png.startswith(b"\x89PNG\r\n")
    assert first == second


def test_a_trend_has_its_unit_the_runs_and_where_the_level_changed() -> None:
    runs = tuple(f"run {number}" for number in range(1, 7))
    line = TrendLine(label="maximum\nvirtual us", runs=runs, values=(50, 51, 50, 60, 61, 60), changes=(3,))
    found = texts(trend_plot("idle", [line]).svg)
    assert {*runs, "maximum", "virtual us", "level changed at run 4", "idle"} <= set(found)
    with pytest.raises(ValueError, match="at least one line"):
        trend_plot("idle", [])


def test_each_format_is_drawn_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []
    draw = Figure.draw

    def counted(figure: Figure, renderer: Any) -> None:
        drawn.append(figure)
        draw(figure, renderer)

    monkeypatch.setattr(Figure, "draw", counted)
    histogram_plot("a title", series(world.record(world.boot())), [])
    assert len(drawn) == len(fields(Picture))
