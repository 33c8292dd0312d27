# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
import random
from itertools import combinations
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from rtgate.judge.compare import ranks

VALUES = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=6)


@given(VALUES, VALUES)
def test_ties_are_counted_as_by_hand(baseline: list[float], candidate: list[float]) -> None:
    """Against every division of the values, with Mann and Whitney's U: pairs that are larger, ties by half."""
    both = [*baseline, *candidate]
    chosen = set(range(len(baseline), len(both)))

    def u(picked: set[int]) -> float:
        others = [both[i] for i in range(len(both)) if i not in picked]
        return sum((both[i] > other) + (both[i] == other) / 2 for i in picked for other in others)

    divisions = [set(picked) for picked in combinations(range(len(both)), len(candidate))]
    expected = sum(u(picked) >= u(chosen) for picked in divisions) / len(divisions)
    assert ranks.worse(baseline, candidate) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(20))
def test_without_ties_it_is_the_exact_test_of_scipy(seed: int) -> None:
    chance = random.Random(seed)
    baseline = [chance.gauss(0, 1) for _ in range(9)]
    candidate = [chance.gauss(0.7, 2) for _ in range(12)]
    expected = mannwhitneyu(candidate, baseline, alternative="greater", method="exact").pvalue
    assert ranks.worse(baseline, candidate) == pytest.approx(expected, rel=1e-9)


@given(VALUES, VALUES, st.integers(1, 5))
def test_a_candidate_that_is_worse_is_never_less_suspicious(
    baseline: list[float], candidate: list[float], more: int
) -> None:
    worse = [value + more for value in candidate]
    assert ranks.worse(baseline, worse) <= ranks.worse(baseline, candidate)
    assert ranks.shift(baseline, worse) == pytest.approx(ranks.shift(baseline, candidate) + more)


def test_equal_kernels_are_as_far_apart_as_chance_has_it() -> None:
    assert ranks.worse([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]) == 1.0
    assert ranks.worse([1.0, 2.0], [3.0, 4.0]) == ranks.least_p(2, 2) == 1 / 6


@pytest.mark.parametrize(
    ("baseline", "candidate"),
    [
        ([1.0, 5.0, 9.0], [4.0, 6.0]),
        ([0.0], [1.0, 2.0, 3.0, 10.0]),
        ([0.0], [1.0, 2.0, 3.0, 10.0, 20.0]),
        ([0.0], [7.0]),
    ],
)
def test_the_shift_is_the_median_of_all_differences(baseline: list[float], candidate: list[float]) -> None:
    assert ranks.shift(baseline, candidate) == median(new - old for old in baseline for new in candidate)


def test_the_bound_holds_as_often_as_it_says() -> None:
    chance = random.Random(1)
    trials = 2000
    held = sum(
        ranks.at_most([chance.gauss(0, 1) for _ in range(12)], [chance.gauss(1, 1) for _ in range(12)], 0.95) >= 1.0
        for _ in range(trials)
    )
    # 95 % or a little more, because so few boots have few levels; 4 standard deviations of 2000 trials are 2 %.
    assert 0.93 < held / trials < 0.99


def test_two_boots_give_no_bound() -> None:
    assert ranks.at_most([1.0, 2.0], [1.0, 2.0], 0.95) == math.inf


def test_too_few_boots_of_one_kernel_give_no_bound_however_many_the_other_has() -> None:
    many = [float(value) for value in range(3000)]
    assert ranks.at_most([1.0, 2.0], many, 1 - 1e-12) == math.inf
    assert ranks.at_most([1.0, 2.0], many, 0.9) < math.inf


@pytest.mark.parametrize("pair", [([], [1.0]), ([1.0], [])])
def test_nothing_cannot_be_compared(pair: tuple[list[float], list[float]]) -> None:
    for ask in (ranks.worse, ranks.shift):
        with pytest.raises(ValueError, match="two samples"):
            ask(*pair)


@pytest.mark.parametrize("step", [1, 5])
def test_where_counting_ends_the_normal_law_errs_on_the_side_of_equal_kernels(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(3)
    for shift in (0.0, 20.0, 35.0, 60.0):
        baseline = [float(round(chance.gauss(0, 50) / step)) for _ in range(40)]
        candidate = [float(round(chance.gauss(shift, 50) / step)) for _ in range(40)]
        exact, bound = ranks.worse(baseline, candidate), ranks.at_most(baseline, candidate, 0.975)
        with monkeypatch.context() as patch:
            patch.setattr(ranks, "_CELLS", 0)
            ranks._critical_value.cache_clear()
            near, near_bound = ranks.worse(baseline, candidate), ranks.at_most(baseline, candidate, 0.975)
        ranks._critical_value.cache_clear()
        assert near >= 0.98 * exact  # and ever more so in the far tail, which is lighter than the normal law's
        assert near == pytest.approx(exact, rel=0.1) or exact < 1e-3
        assert near_bound == pytest.approx(bound, abs=2)


def test_a_thousand_boots_of_each_kernel_do_not_overflow() -> None:
    chance = random.Random(4)
    baseline = [float(chance.randrange(100)) for _ in range(1000)]
    assert 0 < ranks.worse(baseline, [value + 10 for value in baseline]) < 1e-9
    other = [float(chance.randrange(100)) for _ in range(1000)]
    assert ranks.worse(baseline, other) + ranks.worse(other, baseline) == pytest.approx(1, abs=1e-3)
    assert ranks.worse([1.0] * 1000, [1.0] * 1000) == 1.0
    assert math.isfinite(ranks.at_most(baseline, baseline, 0.975))
    assert ranks.least_p(1000, 1000) == 0.0
