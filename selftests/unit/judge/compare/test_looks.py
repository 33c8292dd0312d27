# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples
from selftests.unit.judge.compare.test_paired import counted

from rtgate.judge.compare.looks import CONFIRM, RELEASE, Comparison, Looks, Outcome, compare, cost_minutes, holm, once
from rtgate.judge.compare.paired import Evidence, Prior, Series

PRIOR = Prior(0.01, 20)
BADNESS = {Outcome.NO_WORSE: 0, Outcome.INCONCLUSIVE: 1, Outcome.REGRESSION: 2}


def series(case: str, *values: float | None, metric: str = "exceedance rate", prior: Prior = PRIOR) -> Series:
    return Series(case=case, metric=metric, differences=values, prior=prior)


def one(family: list[Evidence], case: str = "a", looks: Looks = RELEASE) -> Comparison:
    (found,) = [comparison for comparison in compare(family, looks) if comparison.case == case]
    return found


def test_holm_as_in_its_paper() -> None:
    p = {("a", "x"): 0.01, ("a", "y"): 0.02, ("b", "x"): 0.03, ("b", "y"): 0.005}
    assert holm(p, 4) == pytest.approx({("b", "y"): 0.02, ("a", "x"): 0.03, ("a", "y"): 0.04, ("b", "x"): 0.04})
    assert holm({("a", "x"): 0.4}, 96) == {("a", "x"): 1.0}


def test_looks_must_be_in_order_and_share_alpha() -> None:
    for steps in ((), ((1, 1.0),), ((5, 0.5), (3, 0.5)), ((3, 0.6), (6, 0.6))):
        with pytest.raises(ValueError, match="looks"):
            Looks(steps)


def test_identical_boots_are_no_worse_at_the_first_look() -> None:
    found = one([series("a", *[0.0] * 12)])
    assert (found.outcome, found.pairs, found.final) == (Outcome.NO_WORSE, 3, True)
    assert one([series("a", *[0.0] * 12, prior=Prior())]).outcome is Outcome.NO_WORSE


def test_a_large_change_is_a_regression_at_the_first_look() -> None:
    found = one([series("a", *[1.0, 1.1, 0.9] * 4)])
    assert (found.outcome, found.pairs, found.final, found.next_look) == (Outcome.REGRESSION, 3, True, None)
    assert found.decisive.adjusted <= 0.01


def test_a_sure_change_that_is_not_worth_blocking_is_no_regression() -> None:
    found = one([series("a", *[0.10, 0.101, 0.099] * 4, prior=Prior(1e-6, 20))])
    assert found.decisive.adjusted < 0.01
    assert found.outcome is Outcome.NO_WORSE


def test_an_undecided_case_asks_for_the_next_look_and_ends_after_the_last() -> None:
    wide = Prior(1.0, 20)
    values = [0.6, 0.5, 0.7] * 4
    early = one([series("a", *values[:3], prior=wide)])
    assert (early.outcome, early.pairs, early.final, early.next_look) == (Outcome.INCONCLUSIVE, 3, False, 6)
    late = one([series("a", *values, prior=wide)])
    assert (late.outcome, late.pairs, late.final, late.next_look) == (Outcome.INCONCLUSIVE, 12, True, None)
    assert late.decisive.enough is not None
    assert late.decisive.enough > 12


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("value", [0.0, 5.0])
def test_too_few_pairs_decide_nothing(count: int, value: float) -> None:
    found = one([series("a", *[value] * count)])
    assert (found.outcome, found.pairs, found.final, found.next_look) == (Outcome.INCONCLUSIVE, 0, False, 3)


def test_a_case_is_no_better_than_its_worst_metric() -> None:
    good, bad = series("a", *[0.0] * 3), series("a", *[1.0] * 3, metric="winsorised mean")
    assert one([good, bad]).outcome is Outcome.REGRESSION
    unsure = series("a", 0.5, None, 0.4, metric="winsorised mean", prior=Prior(1.0, 10))
    assert one([good, unsure]).outcome is Outcome.INCONCLUSIVE
    assert one([good, counted([0] * 3, [0] * 3, [0] * 20)], "a").outcome is Outcome.NO_WORSE


def test_spikes_end_a_case_too() -> None:
    spiky = counted([3] * 3, [0] * 3, [0] * 20)
    assert one([spiky], spiky.case).outcome is Outcome.REGRESSION


def test_more_cases_take_more_proof() -> None:
    values = [0.16, 0.24, 0.2] * 2
    alone = one([series("a", *values)])
    among = one([series("a", *values), *(series(f"b{n}", *[0.0] * 6) for n in range(95))])
    assert alone.decisive.effect is not None
    assert alone.outcome is Outcome.REGRESSION
    assert among.outcome is not Outcome.REGRESSION
    assert among.decisive.adjusted > alone.decisive.adjusted


def test_a_case_that_is_behind_waits_and_counts() -> None:
    found = {each.case: each for each in compare([series("a", *[1.0] * 3), series("b", 0.0)])}
    assert found["a"].outcome is Outcome.REGRESSION
    assert (found["b"].pairs, found["b"].next_look) == (0, 3)


def test_what_was_found_before_costs_nothing_later() -> None:
    """A case that was rejected at the first look makes room for the others at the second (Holm)."""
    middle = [0.2, 0.24, 0.22] * 2
    lonely = one([series("a", *middle), series("b", *[0.0, 0.3] * 3)])
    helped = one([series("a", *middle), series("b", *[2.0] * 6)])
    assert helped.decisive.adjusted <= lonely.decisive.adjusted


def test_rejected_and_yet_open_cases_stay_in_the_family() -> None:
    """Three hypotheses of which the first is rejected without being worth it: the others count two and one."""
    tiny = series("a", *[0.018, 0.0181, 0.0179] * 2, metric="winsorised mean", prior=Prior(1e-8, 20))
    open_ = series("a", *[0.3, 0.6, -0.2] * 2, prior=Prior(1.0, 20))
    other = series("b", *[0.3, 0.6, -0.2] * 2, prior=Prior(1.0, 20))
    found = {each.case: each for each in compare([tiny, open_, other])}
    results = {result.metric: result for result in found["a"].results}
    rate = results["exceedance rate"]
    assert found["a"].pairs == 6
    assert rate.effect is not None
    assert rate.adjusted == pytest.approx(min(1.0, rate.effect.p * 2 / 0.3))


DIFFERENCES = st.lists(st.floats(-1.5, 1.5), min_size=0, max_size=13)
PRIORS = st.builds(Prior, st.floats(1e-4, 1), st.integers(0, 40))


@examples(150)
@given(DIFFERENCES, PRIORS, st.floats(0, 1.5), st.sampled_from([RELEASE, CONFIRM]))
def test_a_worse_candidate_never_gets_a_better_verdict(
    values: list[float], prior: Prior, shift: float, looks: Looks
) -> None:
    """At one look: with several an earlier good one ends the measuring."""
    single = Looks(looks.steps[:1], looks.alpha)
    before = one([series("a", *values, prior=prior)], looks=single)
    after = one([series("a", *(value + shift for value in values), prior=prior)], looks=single)
    assert BADNESS[after.outcome] >= BADNESS[before.outcome]


@examples(60)
@given(st.lists(DIFFERENCES, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_cases_does_not_matter(values: list[list[float]], random: object) -> None:
    family: list[Evidence] = [series(f"case {n}", *found) for n, found in enumerate(values)]
    assert compare(family) == compare(list(reversed(family)))


@examples(60)
@given(DIFFERENCES, PRIORS)
def test_few_data_are_never_good_news(values: list[float], prior: Prior) -> None:
    found = one([series("a", *values, prior=prior)])
    if len(values) < 3:
        assert found.outcome is Outcome.INCONCLUSIVE
    if found.outcome is Outcome.NO_WORSE:
        assert found.pairs >= 3


def test_one_look_at_all_pairs_has_all_of_alpha() -> None:
    slow = [0.0, 0.0, 0.0, *[0.3] * 9]
    assert one([series("a", *slow)]).pairs == 3
    found = one([series("a", *slow)], looks=once(12))
    assert (found.outcome, found.pairs, found.final) == (Outcome.REGRESSION, 12, True)
    assert found.decisive.effect is not None
    assert found.decisive.adjusted == pytest.approx(found.decisive.effect.p)


def test_what_pairs_cost() -> None:
    assert cost_minutes(6, 3, 2) == 60
