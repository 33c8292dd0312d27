# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.judge.learn.change_points import FEWEST, FEWEST_POINTS, change_points


def series(*parts: tuple[int, float], sd: float = 0.08, seed: int = 1) -> list[float]:
    chance = random.Random(seed)
    return [chance.gauss(level, sd) for count, level in parts for _ in range(count)]


def test_a_shift_is_found_where_it_was_made() -> None:
    (change,) = change_points(series((40, 3.0), (40, 3.3)))
    assert abs(change.index - 40) <= 1
    assert (change.before, change.after) == pytest.approx((3.0, 3.3), abs=0.05)
    assert change.p <= 0.01


@pytest.mark.parametrize("cut", range(FEWEST, FEWEST_POINTS - FEWEST + 1))
def test_the_fewest_runs_suffice_for_a_shift_without_noise(cut: int) -> None:
    """Wherever it is. Fewer are not looked at: nobody may take what cannot be found for what is not there."""
    (change,) = change_points(series((cut, 1.0), (FEWEST_POINTS - cut, 2.0), sd=0.001))
    assert change.index == cut
    assert not change_points(series((cut - 1, 1.0), (FEWEST_POINTS - cut, 2.0), sd=0.001))


def test_one_run_fewer_would_not_suffice() -> None:
    assert 2 / math.comb(FEWEST_POINTS, FEWEST) < 0.01 < 2 / math.comb(FEWEST_POINTS - 1, FEWEST)


def test_two_shifts_are_two_changes() -> None:
    found = change_points(series((20, 3.0), (20, 3.5), (20, 3.0)))
    assert [round(change.index, -1) for change in found] == [20, 40]
    assert found[0].after == found[1].before


def test_noise_alone_is_seldom_a_change() -> None:
    assert sum(bool(change_points(series((30, 3.0), seed=seed))) for seed in range(60)) <= 3


def test_a_single_run_that_stands_out_is_no_change() -> None:
    values = series((20, 3.0))
    values[10] += 5
    assert not change_points(values)


def test_a_quarter_more_is_found_within_five_runs() -> None:
    assert change_points(series((40, 3.0), (5, 3.25)))


@examples(20)
@given(st.lists(st.floats(-1e6, 1e6), max_size=25), st.integers(0, 9))
def test_parts_are_long_enough_and_the_answer_repeats(values: list[float], seed: int) -> None:
    found = change_points(values, seed=seed)
    edges = [0, *(change.index for change in found), len(values)]
    assert not found or all(after - before >= FEWEST for before, after in pairwise(edges))
    assert found == change_points(values, seed=seed)


def test_series_without_news_have_no_change() -> None:
    assert not change_points([])
    assert not change_points([1.0] * 50)
    assert not change_points([1.0, 2.0, 3.0, 4.0, 5.0])
