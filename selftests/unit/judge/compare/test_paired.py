# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from selftests.examples import examples

from rtgate.judge.compare.margins import Margin, margin
from rtgate.judge.compare.paired import Estimate, Prior, Series, SpikeSeries, estimate
from rtgate.judge.compare.summaries import Spikes

CASE = "latency/cyclictest:idle"
DIFFERENCES = st.lists(st.floats(-2, 2), min_size=2, max_size=12)
NONE = Prior()
PRIORS = st.builds(Prior, st.floats(1e-4, 1), st.integers(0, 40))


def series(*values: float | None, prior: Prior = NONE, metric: str = "exceedance rate") -> Series:
    return Series(case=CASE, metric=metric, differences=values, prior=prior)


def counted(
    candidate: Sequence[int], baseline: Sequence[int], history: Sequence[int] = (), minutes: float = 3.0
) -> SpikeSeries:
    arms = [tuple(Spikes(count, minutes) for count in counts) for counts in (baseline, candidate, history)]
    return SpikeSeries(case=CASE, baseline=arms[0], candidate=arms[1], history=arms[2])


def known(found: Estimate | None) -> Estimate:
    assert found is not None
    return found


# --- the moderated t


@examples(100)
@given(DIFFERENCES)
def test_without_a_history_it_is_the_paired_t(values: list[float]) -> None:
    if max(values) - min(values) < 1e-3:
        return
    found = known(estimate(values, Prior()))
    wanted = stats.ttest_1samp(values, 0, alternative="greater")
    assert found.p == pytest.approx(wanted.pvalue, abs=1e-9)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    reading = series(*values).at(len(values))
    assert reading.effect is not None
    assert reading.effect.interval == pytest.approx((math.exp(low), math.exp(high)), rel=1e-6)


def test_the_history_s_variance_is_pooled_by_degrees_of_freedom() -> None:
    found = known(estimate([0.1, 0.3, 0.2], Prior(0.04, 10)))
    assert found.degrees == 12
    assert found.error == pytest.approx(math.sqrt((10 * 0.04 + 2 * 0.01) / 12 / 3))
    assert found.p == pytest.approx(stats.t.sf(0.2 / found.error, 12))


def test_a_long_history_counts_as_thirty_pairs() -> None:
    assert known(estimate([0.1, 0.2], Prior(0.04, 500))).degrees == 31


def test_one_pair_without_a_history_says_nothing() -> None:
    assert estimate([0.1], Prior()) is None
    assert estimate([], Prior(0.1, 10)) is None
    assert series(0.1).at(1).effect is None


def test_equal_differences_prove_no_more_than_their_signs() -> None:
    assert known(estimate([0.1] * 5, Prior())).p == 0.5**5
    assert known(estimate([0.0] * 5, Prior())).p == 1


@examples(100)
@given(DIFFERENCES, PRIORS, st.floats(0, 2))
def test_a_worse_candidate_looks_worse(values: list[float], prior: Prior, shift: float) -> None:
    before = series(*values, prior=prior).at(len(values))
    after = series(*(value + shift for value in values), prior=prior).at(len(values))
    assert after.p <= before.p + 1e-9
    assert after.large >= before.large
    assert after.small <= before.small


@examples(100)
@given(DIFFERENCES, PRIORS)
def test_the_arms_are_alike(values: list[float], prior: Prior) -> None:
    there, back = (
        series(*values, prior=prior).at(len(values)),
        series(*(-x for x in values), prior=prior).at(len(values)),
    )
    if there.effect is None or back.effect is None:
        assert there.effect is back.effect
        return
    assert there.effect.ratio * back.effect.ratio == pytest.approx(1)
    assert there.effect.interval[0] * back.effect.interval[1] == pytest.approx(1)
    if known(estimate(values, prior)).error:
        assert there.p + back.p == pytest.approx(1)


@examples(60)
@given(DIFFERENCES, PRIORS, st.randoms(use_true_random=False))
def test_the_order_of_pairs_does_not_matter(values: list[float], prior: Prior, random: object) -> None:
    mixed = sorted(values)
    a, b = series(*values, prior=prior).at(len(values)), series(*mixed, prior=prior).at(len(values))
    assert a.p == pytest.approx(b.p, abs=1e-9)
    assert a.small == b.small or abs(a.p - b.p) < 1e-9


def test_only_the_first_pairs_are_looked_at() -> None:
    prior = Prior(0.01, 10)
    assert series(0.1, 0.2, 0.3, 9.0, prior=prior).at(3) == series(0.1, 0.2, 0.3, prior=prior).at(3)


def test_a_boot_without_the_figure_takes_good_news_away_and_leaves_bad_news() -> None:
    prior = Prior(0.0001, 10)
    assert series(0.0, 0.0, 0.01, prior=prior).at(3).small
    assert not series(0.0, None, 0.01, prior=prior).at(3).small
    bad = series(1.0, None, 1.1, prior=prior).at(3)
    assert bad.large
    assert bad.p < 1e-6


@pytest.mark.parametrize(
    ("metric", "wanted"),
    [
        ("exceedance rate", Margin(1.15, 2.0)),
        ("latency rt exceedance rate", Margin(1.15, 2.0)),
        ("1 h return level", Margin(1.04, 1.25)),
        ("winsorised mean", Margin(1.02, 1.08)),
        ("throughput bandwidth", Margin(1.03, 1.05)),
        ("completion.p99.9", Margin(1.04, 1.25)),
        ("completion.mean", Margin(1.02, 1.08)),
    ],
)
def test_margins(metric: str, wanted: Margin) -> None:
    assert margin(metric) == wanted


# --- spikes


@pytest.mark.parametrize("extra", [0, 1, 4])
def test_spikes_follow_the_predictive_law(extra: int) -> None:
    reading = counted([1] * extra + [0] * (6 - extra), [0] * 6, [1, 0, 0, 0, 0, 0]).at(6)
    wanted = stats.nbinom.sf(extra - 1, 1.5, 36 / 54) if extra else 1.0
    assert reading.p == pytest.approx(wanted)


def test_nine_minutes_without_a_spike_are_no_worse() -> None:
    assert counted([0] * 3, [0] * 3, [0] * 20).at(3).small  # 2.3 / 9 min is below 0.3 per minute
    assert not counted([0] * 2, [0] * 2, [0] * 20).at(2).small
    assert not counted([2, 1, 0], [0] * 3, [0] * 20).at(3).small


def test_a_burst_in_one_boot_is_no_proof() -> None:
    assert counted([500, 0, 0, 0, 0], [0] * 5, [0] * 20).at(5).p == counted([3, 0, 0, 0, 0], [0] * 5, [0] * 20).at(5).p
    assert counted([500, 0, 0, 0, 0], [0] * 5, [0] * 20).at(5).p > 1e-4
    assert not counted([500, 0, 0, 0, 0], [0] * 5, [0] * 20).at(5).small


def test_bursts_of_the_baseline_make_counts_count_less() -> None:
    steady, bursty = [1] * 21, [3] * 7 + [0] * 14
    candidate = [3] * 5
    assert counted(candidate, [1] * 5, steady).at(5).p < counted(candidate, [1] * 5, bursty).at(5).p / 5


@examples(60)
@given(
    st.lists(st.integers(0, 8), min_size=3, max_size=8),
    st.lists(st.integers(0, 8), min_size=8, max_size=20),
    st.integers(0, 7),
    st.integers(1, 50),
)
def test_more_spikes_look_worse(candidate: list[int], history: list[int], where: int, more: int) -> None:
    worse = list(candidate)
    worse[where % len(worse)] += more
    baseline = [0] * len(candidate)
    before = counted(candidate, baseline, history).at(len(candidate))
    after = counted(worse, baseline, history).at(len(candidate))
    assert after.p <= before.p
    assert after.large >= before.large
    assert after.small <= before.small


def test_a_boot_whose_spikes_nobody_counted_takes_good_news_away() -> None:
    full = counted([0] * 4, [0] * 4, [0] * 20)
    assert full.at(4).small
    hole = SpikeSeries(case=CASE, baseline=full.baseline, candidate=(*full.candidate[:3], None), history=full.history)
    assert not hole.at(4).small
    none = SpikeSeries(case=CASE, baseline=(None,), candidate=(None,), history=full.history)
    assert none.at(1).effect is None


# --- what a run could have seen, and what it would take


def test_the_smallest_change_seen_has_a_power_of_four_fifths() -> None:
    prior = Prior(0.09, 30)
    values = series(*([0.0] * 3 + [0.1, -0.1, 0.0] * 3), prior=prior)
    found = known(estimate([one for one in values.differences if one is not None], prior))
    smallest = values.smallest(12, 0.001)
    assert smallest is not None
    shift = math.log(smallest) / found.error
    assert stats.nct.sf(stats.t.isf(0.001, found.degrees), found.degrees, shift) == pytest.approx(0.8, abs=0.02)


def test_what_is_not_worth_blocking_is_not_promised() -> None:
    assert series(0.0, 0.001, -0.001, prior=Prior(1e-6, 20)).smallest(3, 0.01) == pytest.approx(1.15)


def test_pairs_that_would_decide() -> None:
    prior = Prior(0.09, 30)
    undecided = series(0.3, 0.1, 0.4, -0.1, prior=prior)
    needed = undecided.enough(4, 0.01)
    assert needed is not None
    assert needed > 4
    more = tuple([0.3, 0.1, 0.4, -0.1] * math.ceil(needed / 4 * 1.5))
    assert series(*more, prior=prior).at(len(more)).p < 0.01
    assert series(0.1).enough(1, 0.01) is None


def test_minutes_that_would_decide_about_spikes() -> None:
    undecided = counted([1, 1, 0, 0], [0] * 4, [0] * 20)
    needed = undecided.enough(4, 0.001)
    assert needed is not None
    assert needed > 4
    smallest = undecided.smallest(4, 0.001)
    assert smallest is not None
    assert smallest > 10
