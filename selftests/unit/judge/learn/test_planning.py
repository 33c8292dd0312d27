# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from selftests.examples import examples
from selftests.unit.judge.compare.test_summaries import exponential, long

from rtgate.judge.compare.paired import Prior
from rtgate.judge.distributions import share_bounds
from rtgate.judge.learn import planning
from rtgate.judge.learn.planning import Change, ShareLimit

PUBLISHED = ShareLimit(8.33e-7, 0.99)  # an RK3568's share of 70 us and more, 36 of 43.2 million


# --- shares


@pytest.mark.parametrize(("factor", "events"), [(2, 20), (3, 9.3), (5, 5.4), (10, 3.9)])
def test_events_that_pass_a_better_kernel_as_worked_out_before(factor: float, events: float) -> None:
    assert planning.events_to_pass(factor, 0.90) == pytest.approx(events, rel=0.02)


@pytest.mark.parametrize(("factor", "events"), [(2, 19), (3, 6.0), (5, 2.2), (10, 0.7)])
def test_events_that_fail_a_worse_kernel_as_worked_out_before(factor: float, events: float) -> None:
    assert planning.events_to_fail(factor, 0.99) == pytest.approx(events, rel=0.1)


@examples(40)
@given(st.sampled_from([2, 3, 5, 10]), st.sampled_from([0.9, 0.95, 0.99]), st.sampled_from([1e-3, 1e-5]))
def test_a_planned_run_decides_as_promised(factor: int, confidence: float, share: float) -> None:
    samples = planning.plan_share(ShareLimit(share, confidence)).likely[factor]
    allowed = max(k for k in range(200) if k == 0 or share_bounds(k, samples, confidence)[1] <= share * 1.01)
    assert stats.binom.cdf(allowed, samples, share / factor) >= 0.89


def test_two_minutes_cannot_give_the_published_share() -> None:
    told = planning.verdict_possible(PUBLISHED, 480_000)
    assert "at the limit itself they have 0.4 events over the level, and none at all with a chance of 67%" in told
    assert "at least 5528414 samples without one" in told
    assert planning.verdict_possible(PUBLISHED, 5_528_414) == ""
    assert planning.verdict_possible(PUBLISHED, 5_528_413) != ""


def test_what_an_undecided_share_lacks_is_said_in_time() -> None:
    assert planning.lacking(PUBLISHED, 480_000, 2).endswith("samples without one, 23 min of this case")
    assert planning.lacking(PUBLISHED, 480_000, 0).endswith("samples without one")
    assert planning.lacking(PUBLISHED, 6_000_000, 25).startswith("a kernel twice as good passes after 47188329 samples")


@pytest.mark.parametrize(("share", "confidence"), [(0, 0.99), (1, 0.99), (1e-6, 0.4), (1e-6, 1.0)])
def test_shares_that_are_none(share: float, confidence: float) -> None:
    with pytest.raises(ValueError, match="between"):
        ShareLimit(share, confidence)


@pytest.mark.parametrize(("minutes", "wanted"), [(0.5, "30 s"), (23.2, "23 min"), (120, "2.0 h")])
def test_spans(minutes: float, wanted: str) -> None:
    assert planning.span(minutes) == wanted


# --- changes


def test_pairs_have_the_power_that_was_asked_for() -> None:
    """Against drawn pairs: the plan must neither promise too much nor ask for too many."""
    source, known, change = random.Random(3), Prior(2 * 0.1**2, 10), Change(ratio=1.2, power=0.8)
    pairs = planning.pairs_needed(change, known)
    assert pairs is not None
    hits = 0
    for _ in range(2000):
        history = sum(source.gauss(0, math.sqrt(known.variance)) ** 2 for _ in range(10))
        drawn = [source.gauss(math.log(1.2), math.sqrt(known.variance)) for _ in range(pairs)]
        mean = sum(drawn) / pairs
        spread = sum((one - mean) ** 2 for one in drawn)
        error = math.sqrt((history + spread) / (9 + pairs) / pairs)
        hits += stats.t.sf(mean / error, 9 + pairs) <= 0.01
    assert 0.77 < hits / 2000 < 0.92


@examples(60)
@given(st.floats(0.01, 0.5), st.integers(0, 30), st.floats(1.05, 3), st.floats(0.5, 0.95))
def test_fewer_pairs_find_larger_changes(sd: float, degrees: int, ratio: float, power: float) -> None:
    known = Prior(2 * sd**2, degrees)
    few = planning.pairs_needed(Change(ratio=ratio * 1.5, power=power), known)
    many = planning.pairs_needed(Change(ratio=ratio, power=power), known)
    assert few is not None
    assert many is None or few <= many
    assert planning.pairs_needed(Change(ratio=ratio, power=power, tests=96), known) is None or many is not None


def test_the_smallest_change_found_takes_the_pairs_it_was_asked_of() -> None:
    known, change = Prior(0.02, 10), Change(ratio=1.2)
    smallest = planning.smallest_detectable(12, known, change)
    assert smallest is not None
    assert planning.pairs_needed(Change(ratio=smallest * 1.001), known) == 12
    assert planning.smallest_detectable(2, Prior(50.0, 0), change) is None


def test_hopeless_and_certain_changes() -> None:
    assert planning.pairs_needed(Change(ratio=1.0001), Prior(1.0, 10)) is None
    assert planning.pairs_needed(Change(ratio=1.1), Prior(0.0, 10)) == 2


@pytest.mark.parametrize("wrong", [{"ratio": 1.0}, {"ratio": 1.2, "power": 1.0}, {"ratio": 1.2, "tests": 0}])
def test_changes_that_are_none(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"change|power|test"):
        Change(**wrong)  # type: ignore[arg-type]


def test_the_spread_of_neighbouring_boots() -> None:
    records = [long(exponential(scale_us=scale), seed=n + 1) for n, scale in enumerate([6, 6, 6, 8, 9, 6])]
    found = planning.spreads(records)
    assert set(found) == {"winsorised mean", "1 h return level", "exceedance rate"}
    assert {prior.degrees for prior in found.values()} == {3}
    assert found["1 h return level"].variance > 0
    assert planning.spreads(records[:1]) == {}
