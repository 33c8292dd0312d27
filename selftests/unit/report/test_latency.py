# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rtgate.judge.verdict import Verdict
from rtgate.records.record import Record
from rtgate.report.cases import cases
from rtgate.report.latency import plots

if TYPE_CHECKING:
    from selftests.unit.report.conftest import World


def _drawn(records: list[Record], verdicts: list[Verdict]) -> dict[str, str]:
    (case,) = cases(records, verdicts)
    return {name: data.decode() for name, suffix, data in plots(case) if suffix == "svg"}


def test_few_boots_have_a_line_each_and_the_baseline_is_grey(world: World) -> None:
    records = [world.record(world.boot(arm=arm, seed=seed)) for arm in ("baseline", "candidate") for seed in (1, 2)]
    drawn = _drawn(records, [world.within_limit()])
    assert list(drawn) == ["latency histogram", "latency by boot"]
    histogram = drawn["latency histogram"]
    assert "seed 1: min" in histogram
    assert "baseline, 2 boots: min" in histogram
    assert 'id="series-3"' in histogram
    assert "limit 80 virtual us" in histogram


def test_boots_without_a_maximum_have_a_histogram_alone(world: World) -> None:
    records = [world.record(world.boot(seed=seed)) for seed in (1, 2)]
    histograms_only = [
        replace(record, measurements=tuple(one for one in record.measurements if one.histogram)) for record in records
    ]
    assert list(_drawn(histograms_only, [world.within_limit()])) == ["latency histogram"]


def test_many_boots_are_added_up(world: World) -> None:
    records = [world.record(world.boot(seed=seed, samples=500)) for seed in range(1, 11)]
    histogram = _drawn(records, [world.within_limit()])["latency histogram"]
    assert "CPU 0, 10 boots: min" in histogram
    assert 'id="series-1"' not in histogram


def test_the_grey_lines_of_a_baseline_share_an_entry_and_long_entries_a_column(world: World) -> None:
    records = [
        world.record(world.boot(arm=arm, seed=seed, cpus=4, samples=300))
        for arm in ("baseline", "candidate")
        for seed in (1, 2)
    ]
    histogram = _drawn(records, [world.within_limit()])["latency histogram"]
    assert histogram.count("baseline, ") == 1
    assert "baseline, 4 CPUs, 2 boots: min" in histogram
    assert {f'id="series-{number}"' in histogram for number in range(8)} == {True}
    places = re.findall(r'<text [^>]*x="([0-9.]+)"[^>]*>(?:candidate, CPU|baseline, 4)', histogram)
    assert len(places) == 5
    assert len(set(places)) == 1


def test_histograms_of_different_ranges_stay_apart(world: World) -> None:
    records = [world.record(world.boot(seed=seed, samples=500)) for seed in range(1, 11)]
    first = records[0].measurements[0]
    assert first.histogram is not None
    other = replace(first, histogram=replace(first.histogram, limit=500_000))
    records[0] = replace(records[0], measurements=(other, *records[0].measurements[1:]))
    histogram = _drawn(records, [world.within_limit()])["latency histogram"]
    assert "CPU 0, 1 boot: min" in histogram
    assert "CPU 0, 9 boots: min" in histogram


def test_a_limit_of_another_clock_is_not_drawn(world: World) -> None:
    drawn = _drawn([world.record(world.boot())], [world.within_limit(limit="80 us")])
    assert list(drawn) == ["latency histogram"]
    assert "limit 80" not in drawn["latency histogram"]


def test_nothing_measured_nothing_drawn(world: World) -> None:
    assert not _drawn([world.record(world.boot(state="hang", message="silence"))], [world.within_limit()])
