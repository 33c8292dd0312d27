# SPDX-License-Identifier: MIT
"""The simulation of `bench/worlds.py` draws summaries: they must be those of whole histograms."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from rtgate.judge.compare.summaries import Level, Levels, spikes, summaries
from rtgate.units import Unit

BENCH = Path(__file__).resolve().parents[2] / "bench" / "worlds.py"


@pytest.fixture(scope="module")
def worlds() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_worlds", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_worlds"] = module
    spec.loader.exec_module(module)
    return module


def _levels(worlds: ModuleType, fixed: tuple[int, int]) -> Levels:
    tail, spike = fixed
    level = Level(
        name="",
        measurement="latency",
        labels=(),
        unit=Unit.US,
        limit=worlds.RANGE_US,
        tail=tail,
        share=1e-4,
        spike=spike,
    )
    return Levels(histograms=(level,))


@pytest.mark.parametrize("name", ["quiet", "noisy", "bimodal"])
def test_drawn_summaries_are_those_of_the_whole_histogram(worlds: ModuleType, name: str) -> None:
    rng, world, fixed = np.random.default_rng(4), worlds.WORLDS[name], worlds.FixedLevels(29, 60)
    law = worlds.factors(rng, world, np.zeros(8), worlds.NONE)
    counts, latencies = worlds.events(rng, world, law, fixed.tail)
    found = worlds.summarise(counts, latencies, fixed)
    start = 0
    for boot, count in enumerate(counts):
        mine = latencies[start : start + count]
        start += count
        record = worlds.with_histogram(mine, np.full(20_000, 8.0), ("latency/bench:idle", "candidate"))
        wanted = summaries(record, _levels(worlds, fixed))
        assert found.level[boot] == pytest.approx(wanted["1 h return level"], abs=1e-12)
        # The record's other samples are a whole number of bodies.
        assert found.rate[boot] == pytest.approx(wanted["exceedance rate"], abs=0.05)
        assert math.exp(wanted["winsorised mean"]) == pytest.approx(8.5, rel=0.01)
        seen = spikes(record, _levels(worlds, fixed))
        assert seen is not None
        assert found.beyond[boot] == seen.count
        assert found.largest[boot] == mine.max()


def test_the_law_above_a_level_is_the_law(worlds: ModuleType) -> None:
    """Drawing above 22 us and looking above 29 us is drawing above 29 us."""
    world, drift = worlds.WORLDS["noisy"], np.zeros(4000)
    numbers = []
    for level in (22.0, 29.0):
        rng = np.random.default_rng(6)
        counts, latencies = worlds.events(rng, world, worlds.factors(rng, world, drift, worlds.NONE), level)
        beyond = latencies[latencies > 29.0]
        numbers.append((len(beyond) / len(counts), float(np.mean(beyond))))
    assert numbers[0] == pytest.approx(numbers[1], rel=0.03)


def test_levels_come_from_the_histograms(worlds: ModuleType) -> None:
    tail, spike = worlds.levels_of(worlds.WORLDS["quiet"])
    assert tail in (28, 29)  # 15 us + 6 us ln 10
    assert 105 < spike < 125


def test_equal_requests_are_judged_alike(worlds: ModuleType) -> None:
    rng, world = np.random.default_rng(9), worlds.WORLDS["quiet"]
    fixed = worlds.levels_of(world)
    names = [str(number) for number in range(worlds.CASES)]
    request = worlds.judge_rows(worlds.cases(rng, world, worlds.CASES, worlds.NONE, fixed), names)
    assert worlds.judge_screened(request) == worlds.judge_screened(request)
    bad = worlds.judge_rows(worlds.cases(rng, world, 1, worlds.CHANGES["probability x4"], fixed), ["0"])
    assert "0" in worlds.judge_screened([*bad, *request[1:]]).failed
    assert "0" in worlds.judge_interleaved([*bad, *request[1:]]).failed
