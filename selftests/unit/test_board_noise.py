# SPDX-License-Identifier: MIT
"""The simulation of boards draws summaries: they must be those of whole histograms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from selftests.campaigns import board_gates, boards

from rtgate.judge.compare.summaries import Level, Levels, spikes, summaries
from rtgate.units import Unit


def _levels(fixed: tuple[int, int]) -> Levels:
    tail, spike = fixed
    level = Level(
        name="",
        measurement="latency",
        labels=(),
        unit=Unit.US,
        limit=boards.RANGE_US,
        tail=tail,
        share=1e-4,
        spike=spike,
    )
    return Levels(histograms=(level,))


@pytest.mark.parametrize("name", ["quiet", "noisy", "bimodal"])
def test_drawn_summaries_are_those_of_the_whole_histogram(name: str) -> None:
    rng, world, fixed = np.random.default_rng(4), boards.WORLDS[name], boards.FixedLevels(29, 60)
    law = boards.factors(rng, world, np.zeros(8), boards.NONE)
    counts, latencies = boards.events(rng, world, law, fixed.tail)
    found = boards.summarise(counts, latencies, fixed)
    start = 0
    for boot, count in enumerate(counts):
        mine = latencies[start : start + count]
        start += count
        record = boards.with_histogram(mine, np.full(20_000, 8.0), ("latency/bench:idle", "candidate"))
        wanted = summaries(record, _levels(fixed))
        assert found.level[boot] == pytest.approx(wanted["1 h return level"], abs=1e-12)
        # The record's other samples are a whole number of bodies.
        assert found.rate[boot] == pytest.approx(wanted["exceedance rate"], abs=0.05)
        assert math.exp(wanted["winsorised mean"]) == pytest.approx(8.5, rel=0.01)
        seen = spikes(record, _levels(fixed))
        assert seen is not None
        assert found.beyond[boot] == seen.count
        assert found.largest[boot] == mine.max()


def test_the_law_above_a_level_is_the_law() -> None:
    """Drawing above 22 us and looking above 29 us is drawing above 29 us."""
    world, drift = boards.WORLDS["noisy"], np.zeros(4000)
    numbers = []
    for level in (22.0, 29.0):
        rng = np.random.default_rng(6)
        counts, latencies = boards.events(rng, world, boards.factors(rng, world, drift, boards.NONE), level)
        beyond = latencies[latencies > 29.0]
        numbers.append((len(beyond) / len(counts), float(np.mean(beyond))))
    assert numbers[0] == pytest.approx(numbers[1], rel=0.03)


def test_levels_come_from_the_histograms() -> None:
    tail, spike = boards.levels_of(boards.WORLDS["quiet"])
    assert tail in (28, 29)  # 15 us + 6 us ln 10
    assert 105 < spike < 125


def test_equal_requests_are_judged_alike() -> None:
    rng, world = np.random.default_rng(9), boards.WORLDS["quiet"]
    fixed = boards.levels_of(world)
    names = [str(number) for number in range(board_gates.CASES)]
    request = board_gates.judge_rows(board_gates.cases(rng, world, board_gates.CASES, boards.NONE, fixed), names)
    assert board_gates.judge_screened(request) == board_gates.judge_screened(request)
    bad = board_gates.judge_rows(board_gates.cases(rng, world, 1, boards.CHANGES["probability x4"], fixed), ["0"])
    assert "0" in board_gates.judge_screened([*bad, *request[1:]]).failed
    assert "0" in board_gates.judge_interleaved([*bad, *request[1:]]).failed
