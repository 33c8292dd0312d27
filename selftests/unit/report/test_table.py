# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rtgate.judge.verdict import Figure, Kind, Status, Verdict
from rtgate.records.record import Record
from rtgate.report.cases import cases
from rtgate.report.table import Line, lines, tables
from rtgate.tools.measurement import Better, Measurement
from rtgate.units import Quantity, Unit

if TYPE_CHECKING:
    from selftests.unit.report.conftest import World


def _both(world: World, seeds: int = 1) -> list[Record]:
    arms = ("baseline", "candidate")
    return [world.record(world.boot(arm=arm, seed=seed)) for arm in arms for seed in range(1, seeds + 1)]


def _named(found: tuple[Line, ...], name: str) -> Line:
    (line,) = (line for line in found if line.name == name)
    return line


def test_a_maximum_is_the_largest_and_a_mean_the_median_of_all_boots(world: World) -> None:
    records = [world.record(world.boot(seed=seed, high_us=50.0 + seed)) for seed in range(1, 4)]
    (case,) = cases(records, [world.within_limit()])
    found = lines(case)
    assert [line.name for line in found] == ["mean", "max"]
    assert found[1].judged == Quantity(53_000, Unit.VIRTUAL_NS)
    means = sorted(line.judged.value for one in records if (line := lines(cases([one], [])[0])[0]).judged)
    assert found[0].judged == Quantity(means[1], Unit.VIRTUAL_NS)
    assert found[1].limit == Quantity(80.0, Unit.VIRTUAL_US)
    assert {line.change for line in found} == {"-"}


def test_a_throughput_that_fell_has_a_minus(world: World) -> None:
    rates = {"baseline": 400.0, "candidate": 300.0}
    records = [
        replace(
            one,
            measurements=(
                Measurement(name="copy.rate", better=Better.HIGHER, quantity=Quantity(rates[one.arm], Unit.MB_S)),
            ),
        )
        for one in _both(world)
    ]
    (table,) = tables(cases(records, [world.verdict(Status.DONE, Kind.UNJUDGED, "no limit")]))
    (row,) = table.rows
    assert row.cells == ("rate", "400 MB/s", "300 MB/s", "-25.0%", "-", "1")


def _with_bound(world: World) -> Verdict:
    def us(value: float) -> Figure:
        return Figure.of(Quantity(value, Unit.VIRTUAL_US), f"{value} virtual us")

    told = world.verdict(Status.PASS, Kind.LIMIT, "within", measurement="latency.bound")
    return replace(told, value=us(110.9), baseline=us(120.0), limit=us(150.0))


def test_a_bound_stands_beside_the_longest_that_was_measured(world: World) -> None:
    (table,) = tables(cases([world.record(world.boot())], [world.within_limit(), _with_bound(world)]))
    assert table.columns == ("boots", "min", "mean", "max", "limit", "bound", "its limit", "lost")
    assert table.rows[0].cells[4:7] == ("80.0", "110.9", "150.0")
    (table,) = tables(cases([world.record(world.boot())], [world.within_limit()]))
    assert "bound" not in table.columns


def test_of_two_kernels_it_is_a_row(world: World) -> None:
    (table,) = tables(cases(_both(world), [world.within_limit(), _with_bound(world)]))
    shown = {row.cells[0]: row.cells[1:5] for row in table.rows}
    assert shown["bound"] == ("120.0", "110.9", "-7.6%", "150.0")


def test_a_board_s_regression_is_a_ratio(world: World) -> None:
    ratio = Figure.of(Quantity(1.4, Unit.RATIO), "x1.4")
    worse = replace(
        world.verdict(Status.FAIL, Kind.REGRESSION, "worse", measurement="exceedance rate latency"), value=ratio
    )
    (case,) = cases(_both(world), [worse])
    assert _named(lines(case), "exceedance rate latency").change == "x1.4"
    assert [line.name for line in lines(case)] == ["mean", "max", "exceedance rate latency"]


def test_the_numbers_of_a_regression_are_the_verdict_s_and_a_limit_is_about_the_largest(world: World) -> None:
    def us(value: float) -> Figure:
        return Figure.of(Quantity(value, Unit.VIRTUAL_US), f"{value} virtual us")

    worse = replace(
        world.verdict(Status.FAIL, Kind.REGRESSION, "worse", measurement="latency maximum"),
        value=us(60.0),
        baseline=us(40.0),
        limit=us(48.0),
        change=Figure.of(Quantity(0.51, Unit.RATIO), "+51.0%"),
    )
    (table,) = tables(cases(_both(world), [worse, world.within_limit()]))
    shown = {row.cells[0]: row.cells[1:5] for row in table.rows}
    assert shown["median max"] == ("40.0", "60.0", "+51.0%", "-")
    assert shown["max"] == ("61.2", "61.2", "+0.0%", "80.0")


def test_a_regression_by_few_boots_has_the_largest_of_all_boots_alone(world: World) -> None:
    """Its numbers are those of the worst boot of each kernel: of the median they say nothing."""
    worst, before = (Figure.of(Quantity(us, Unit.VIRTUAL_US), f"{us} virtual us") for us in (5000.0, 61.2))
    worse = world.verdict(Status.FAIL, Kind.REGRESSION, "4 of 12 boots", measurement="latency maximum")
    (table,) = tables(cases(_both(world), [replace(worse, value=worst, baseline=before), world.within_limit()]))
    assert [row.cells[0] for row in table.rows] == ["mean", "max"]


def test_a_baseline_that_is_judged_alone_stands_in_its_own_column(world: World) -> None:
    records = [*_both(world), world.record(world.boot(case="latency/cyclictest:disk", arm="baseline", high_us=70.0))]
    alone = world.within_limit(case="latency/cyclictest:disk", arm="baseline")
    (table,) = tables(cases(records, [world.within_limit(), alone]))
    shown = {(row.case.case, row.cells[0]): row.cells[1:3] for row in table.rows}
    assert shown["latency/cyclictest:disk", "max"] == ("70.0", "-")
    assert shown["latency/cyclictest:idle", "max"] == ("61.2", "61.2")


def test_boots_that_were_lost_are_counted_for_each_kernel(world: World) -> None:
    records = [*_both(world, 2), world.record(world.boot(seed=3, state="lab", message="no QEMU"))]
    (table,) = tables(cases(records, [world.within_limit()]))
    assert [row.cells[-1] for row in table.rows] == ["2+2/3", ""]
