# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rtgate.judge.verdict import Figure, Kind, Status
from rtgate.report.cases import cases, change, cpus, figures
from rtgate.units import Quantity, Unit

if TYPE_CHECKING:
    from selftests.unit.report.conftest import World


def test_a_baseline_is_shown_beside_its_candidate(world: World) -> None:
    records = [world.record(world.boot(arm=arm, seed=seed)) for arm in ("baseline", "candidate") for seed in (1, 2)]
    (case,) = cases(records, [world.within_limit()])
    assert (case.arm, len(case.records), len(case.baseline), case.other_arm) == ("candidate", 2, 2, "baseline")
    assert (case.suite, case.tool, case.load) == ("latency", "cyclictest", "idle")


def test_both_arms_stand_alone_when_both_were_judged(world: World) -> None:
    records = [world.record(world.boot(arm=arm)) for arm in ("baseline", "candidate")]
    found = cases(records, [world.within_limit(), world.within_limit(arm="baseline")])
    assert [(case.arm, len(case.baseline)) for case in found] == [("baseline", 0), ("candidate", 0)]


def test_a_verdict_without_records_is_a_case(world: World) -> None:
    missing = world.verdict(Status.MISS, Kind.MISSING, "the case has no record: nothing was measured")
    (case,) = cases([], [missing])
    assert (case.status, case.records) == (Status.MISS, ())


def test_records_that_nobody_judged_are_not_green(world: World) -> None:
    (case,) = cases([world.record(world.boot())], [])
    assert case.status is Status.MISS
    assert "nobody judged it" in case.headline.sentence


def test_a_pass_does_not_hide_that_another_limit_was_not_decided(world: World) -> None:
    open_end = world.verdict(Status.DONE, Kind.INCONCLUSIVE, "not enough to decide")
    known = world.verdict(Status.DONE, Kind.FAULT, "seed 1: warning: pre-existing")
    assert cases([], [world.within_limit(), known])[0].status is Status.PASS
    assert cases([], [world.within_limit(), known, open_end])[0].headline is open_end
    assert cases([], [world.within_limit(), open_end, world.over_limit()])[0].status is Status.FAIL


def test_a_pass_does_not_hide_what_was_waived(world: World) -> None:
    waived = world.verdict(Status.DONE, Kind.WAIVED, "known since the timer rework")
    (case,) = cases([], [world.within_limit(), waived])
    assert (case.status, case.headline) == (Status.DONE, waived)


def test_of_limits_for_classes_of_cpus_the_one_that_decided_is_shown(world: World) -> None:
    little, big = world.within_limit(), world.over_limit()
    tight = replace(big, limit=Figure.of(Quantity(8, Unit.VIRTUAL_US), "8 virtual us"))
    (case,) = cases([], [little, tight])
    assert case.limit("latency.max") == Quantity(8, Unit.VIRTUAL_US)
    (case,) = cases([], [replace(tight, status=Status.PASS), little])
    assert case.limit("latency.max") == Quantity(8, Unit.VIRTUAL_US)


def test_a_longer_section_keeps_its_sentence_beside_what_it_made_slower(world: World) -> None:
    slow = world.verdict(Status.FAIL, Kind.REGRESSION, "latency mean +9.9%", measurement="latency mean")
    also = world.verdict(Status.FAIL, Kind.REGRESSION, "latency p50 +9%", measurement="latency p50")
    section = world.verdict(Status.FAIL, Kind.REGRESSION, "interrupts off in my_isr", measurement="critical section")
    (case,) = cases([], [slow, also, section])
    assert [one.sentence for one in case.causes] == [
        "latency mean +9.9%; also p50 in single boots",
        "interrupts off in my_isr",
    ]


def test_further_regressions_of_a_lab_s_board_have_their_ratio(world: World) -> None:
    latency = world.verdict(Status.FAIL, Kind.REGRESSION, "worse", measurement="latency exceedance rate")
    ratio = Figure.of(Quantity(1.65, Unit.RATIO), "x1.65")
    response = replace(latency, measurement="response winsorised mean", value=ratio)
    (case,) = cases([], [latency, response])
    assert [one.sentence for one in case.causes] == ["worse; also response winsorised mean x1.65"]


def test_a_difference_to_nothing_is_in_the_unit_of_the_table() -> None:
    assert change(Quantity(0, Unit.VIRTUAL_NS), Quantity(30_792, Unit.VIRTUAL_NS)) == "+30.8"
    assert change(Quantity(0, Unit.COUNT), Quantity(3, Unit.COUNT)) == "+3"


def test_a_limit_that_was_kept_does_not_hide_that_the_change_did_not_run(world: World) -> None:
    why_not_exercised = world.verdict(Status.SKIP, Kind.NOT_EXERCISED, "not exercised here")
    (case,) = cases([], [world.within_limit(), why_not_exercised])
    assert (case.status, case.headline) == (Status.SKIP, why_not_exercised)


def test_figures_over_boots(world: World) -> None:
    records = [world.record(world.boot(seed=seed, high_us=high)) for seed, high in ((1, 61.2), (2, 131.4))]
    found = figures(records)
    assert str(found.high) == "131.4 virtual us"
    assert found.worst is records[1]
    assert found.lost == 0
    assert found.low is not None
    assert found.mean is not None
    assert found.low.value < found.mean.value < 131.4
    assert figures([]).high is None


@pytest.mark.parametrize(("name", "unit"), [("temperature", Unit.CELSIUS), ("throughput", Unit.MB_S)])
def test_the_largest_of_what_is_no_time_is_no_figure_of_the_table(world: World, name: str, unit: Unit) -> None:
    record = world.record(world.boot())
    other = [
        replace(one, name=f"{name}.max", quantity=Quantity(61.0, unit))
        for one in record.measurements
        if one.name == "latency.max"
    ]
    assert figures([replace(record, measurements=tuple(other))]).high is None
    both = replace(record, measurements=(*other, *record.measurements))
    assert figures([both]) == replace(figures([record]), worst=both)


def test_the_average_weighs_wakeups(world: World) -> None:
    short, long = (world.record(world.boot(seed=seed, samples=count)) for seed, count in ((1, 1000), (2, 9000)))
    one, two, both = (figures(records).mean for records in ([short], [long], [short, long]))
    assert one is not None
    assert two is not None
    assert both is not None
    assert both.value == pytest.approx(0.1 * one.value + 0.9 * two.value)


def test_figures_of_one_cpu(world: World) -> None:
    record = world.record(world.boot(seed=None, cpus=2, high_us=90, board="rk3568-evb1"))
    assert cpus([record]) == ("0", "1")
    assert figures([record], "1").high == Quantity(87, Unit.US)


def test_the_limit_comes_from_the_verdict(world: World) -> None:
    share = world.verdict(Status.PASS, Kind.SHARE, "fine", measurement="latency", limit="share 2e-06")
    (case,) = cases([], [share, world.within_limit()])
    assert case.limit("latency.max") == Quantity(80.0, Unit.VIRTUAL_US)
    assert case.limit("latency") is None
