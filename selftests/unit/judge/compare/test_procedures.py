# SPDX-License-Identifier: MIT
from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from scipy import stats
from selftests.unit.judge.compare.test_looks import series
from selftests.unit.judge.compare.test_paired import counted

from rtgate.judge.compare.looks import CONFIRM, RELEASE, Outcome
from rtgate.judge.compare.paired import Evidence, Prior
from rtgate.judge.compare.pairing import CaseHistory
from rtgate.judge.compare.procedures import (
    ComparisonState,
    Measure,
    Screening,
    comparisons,
    next_step,
    screen,
    suspicions,
    suspicious_metrics,
)
from rtgate.judge.compare.summaries import Spikes

WIDE = Prior(1.0, 20)


def sessions(count: int = 10, between: float = 0.02, within: float = 0.1) -> list[tuple[float, float]]:
    source = random.Random(1)
    centres = [source.gauss(0, between) for _ in range(count)]
    return [(centre + source.gauss(0, within), centre + source.gauss(0, within)) for centre in centres]


def interleaved(pairs: Sequence[Evidence]) -> ComparisonState:
    return ComparisonState(pairs=pairs, always=frozenset(one.case for one in pairs), looks=RELEASE)


def screened(
    screens: Sequence[Screening], pairs: Sequence[Evidence] = (), always: frozenset[str] = frozenset(), **changes: Any
) -> ComparisonState:
    return ComparisonState(screens=screens, pairs=pairs, always=always, looks=CONFIRM, **changes)


# --- interleaved


def test_an_interleaved_comparison_goes_on_with_the_open_cases_only() -> None:
    first = next_step(interleaved([series("a"), series("b")]))
    assert first == Measure(("a", "b"), 3, 3)
    second = next_step(interleaved([series("a", *[0.0] * 3), series("b", 0.3, 0.5, 0.4, prior=WIDE)]))
    assert second == Measure(("b",), 3, 6)
    third = next_step(interleaved([series("a", *[0.0] * 3), series("b", *[0.4] * 6, prior=WIDE)]))
    assert third == Measure(("b",), 6, 12)
    last = interleaved([series("a", *[0.0] * 3), series("b", *[0.4] * 12, prior=WIDE)])
    assert next_step(last) is None
    assert [one.outcome for one in comparisons(last)] == [Outcome.NO_WORSE, Outcome.INCONCLUSIVE]


def test_cases_that_are_behind_come_first() -> None:
    state = interleaved([series("a", *[0.4] * 6, prior=WIDE), series("b", 0.0)])
    assert next_step(state) == Measure(("b",), 2, 3)


def test_nobody_waits_for_a_case_that_is_settled() -> None:
    state = interleaved([series("a"), series("b", *[0.4] * 3, prior=WIDE)])
    assert next_step(state) == Measure(("a",), 3, 3)
    assert next_step(state, {"a"}) == Measure(("b",), 3, 6)
    behind = interleaved([series("a", *[0.4] * 3, prior=WIDE), series("b", *[0.4] * 6, prior=WIDE)])
    assert next_step(behind) == Measure(("a",), 3, 6)
    assert next_step(behind, {"a"}) == Measure(("b",), 6, 12)
    assert next_step(behind, {"a", "b"}) is None


def test_a_comparison_of_nothing_is_done_with_nothing() -> None:
    assert next_step(interleaved([])) is None
    assert comparisons(interleaved([])) == ()


# --- screened


def test_what_is_not_suspicious_ends_there() -> None:
    screens = [Screening(case="a", boots=3, suspicion={"winsorised mean": 0.5, "exceedance rate": 0.06})]
    assert next_step(screened(screens)) is None


def test_suspicious_metrics_alone_are_confirmed_on_fresh_pairs() -> None:
    screens = [
        Screening(case="a", boots=3, suspicion={"winsorised mean": 0.5, "exceedance rate": 0.01}),
        Screening(case="b", boots=3, suspicion={"winsorised mean": 0.5}),
    ]
    assert next_step(screened(screens)) == Measure(("a",), 6, 6)
    confirm = [series("a", *[0.0] * 6), series("a", *[3.0] * 6, metric="winsorised mean"), series("b", *[3.0] * 6)]
    assert next_step(screened(screens, confirm)) is None
    (found,) = comparisons(screened(screens, confirm))
    assert (found.case, found.outcome) == ("a", Outcome.NO_WORSE)
    assert [result.metric for result in found.results] == ["exceedance rate"]


def test_an_open_confirmation_is_extended_once() -> None:
    screens = [Screening(case="a", boots=3, suspicion={"exceedance rate": 0.01})]
    six = screened(screens, [series("a", *[0.4] * 6, prior=WIDE)])
    assert next_step(six) == Measure(("a",), 6, 12)
    twelve = screened(screens, [series("a", *[0.4] * 12, prior=WIDE)])
    assert next_step(twelve) is None


def test_some_cases_are_always_confirmed_with_all_their_metrics() -> None:
    state = screened(
        [Screening(case="a", boots=0, suspicion={})],
        always=frozenset({"a"}),
        pairs=[series("a", *[0.0] * 6), series("a", *[0.0] * 6, metric="winsorised mean")],
    )
    assert next_step(state) is None
    assert len(comparisons(state)[0].results) == 2


def test_a_flagged_case_that_died_does_not_keep_another_from_its_second_look() -> None:
    screens = [Screening(case=case, boots=3, suspicion={"exceedance rate": 0.01}) for case in ("a", "b")]
    state = screened(screens, [series("b", *[0.4] * 6, prior=WIDE)])
    assert next_step(state) == Measure(("a",), 6, 6)
    assert next_step(state, {"a"}) == Measure(("b",), 6, 12)


def test_a_case_in_which_nothing_could_be_screened_is_confirmed() -> None:
    state = screened([Screening(case="a", boots=3, suspicion={})])
    assert suspicious_metrics(state) == {("a", "")}
    assert next_step(state) == Measure(("a",), 6, 6)


def test_harmless_changes_fail_no_more_often_than_promised_whatever_device_measures_them() -> None:
    """Devices differ in noise and in the level that was proven for each, and the lab chooses one of them."""
    source = random.Random(11)
    failed, requests = 0, 1000
    for _ in range(requests):
        noise, level = source.choice([(0.05, 0.002), (0.1, 0.05), (0.3, 0.12), (0.3, 1.0)])  # 1.0: all is confirmed
        screens, pairs = [], []
        for case in "abc":
            today = source.gauss(0, noise / 2)
            boots = [today + source.gauss(0, noise) for _ in range(3)]
            p = screen(boots, sessions_of(source, noise))
            screens.append(Screening(case=case, boots=3, suspicion={"exceedance rate": p}))
            apart = (source.gauss(0, noise * 2**0.5) for _ in range(12))
            pairs.append(series(case, *apart, prior=Prior(2 * noise**2, 20)))
        state = screened(screens, pairs, levels=dict.fromkeys("abc", level))
        failed += any(one.outcome is Outcome.REGRESSION for one in comparisons(state))
    assert failed <= stats.binom.ppf(0.999, requests, CONFIRM.alpha)


def sessions_of(source: random.Random, noise: float) -> list[tuple[float, float]]:
    centres = [source.gauss(0, noise / 2) for _ in range(10)]
    return [(centre + source.gauss(0, noise), centre + source.gauss(0, noise)) for centre in centres]


# --- the screen


def test_the_screen_is_a_t_test_between_sessions() -> None:
    """Without a spread within sessions it is the predictive t of one session's mean."""
    centres = [0.0, 0.1, -0.1, 0.05, -0.05, 0.2]
    found = screen([0.3, 0.3], [(one, one) for one in centres])
    wanted = stats.ttest_1samp(centres, 0).statistic  # only to know the mean and spread are scipy's
    mean, sd = sum(centres) / 6, stats.tstd(centres)
    assert found == pytest.approx(stats.t.sf((0.3 - mean) / (sd * (1 + 1 / 6) ** 0.5), 5))
    assert wanted > 0


def test_boots_like_the_history_s_are_flagged_at_the_screen_s_level() -> None:
    source = random.Random(7)
    count = hits = 0
    for _ in range(3000):
        centres = [source.gauss(0, 0.08) for _ in range(10)]
        past = [(centre + source.gauss(0, 0.1), centre + source.gauss(0, 0.1)) for centre in centres]
        today = source.gauss(0, 0.08)
        hits += screen([today + source.gauss(0, 0.1) for _ in range(3)], past) < 0.05
        count += 1
    assert 0.04 < hits / count < 0.08  # the between-session variance is cut at zero, which costs a little


def test_a_shift_is_suspicious_and_an_improvement_is_not() -> None:
    past = sessions()
    assert screen([0.5, 0.6, 0.4], past) < 0.01
    assert screen([-0.5, -0.6, -0.4], past) > 0.9
    assert screen([0.01, -0.01, 0.0], past) > 0.2


def test_no_history_or_a_missing_figure_is_suspicious() -> None:
    assert screen([0.0], sessions(4)) == 0
    assert screen([0.0, None], sessions()) == 0
    assert screen([], sessions()) == 0
    past = CaseHistory(sessions={"winsorised mean": sessions(), "exceedance rate": sessions()})
    found = suspicions([{"winsorised mean": 0.0, "new": 1.0}] * 3, [None] * 3, past)
    assert found["exceedance rate"] == found["new"] == 0
    assert found["winsorised mean"] > 0.2


def test_identical_history_and_boots_are_not_suspicious() -> None:
    assert screen([0.5] * 3, [(0.5, 0.5)] * 6) == 1
    assert screen([0.6] * 3, [(0.5, 0.5)] * 6) == 0


def test_spikes_are_screened_by_the_predictive_law() -> None:
    past = CaseHistory(spikes=tuple(Spikes(n % 2, 3.0) for n in range(20)))
    quiet = suspicions([{}] * 3, [Spikes(0, 3.0)] * 3, past)
    loud = suspicions([{}] * 3, [Spikes(4, 3.0)] * 3, past)
    assert quiet["spikes"] == 1
    assert loud["spikes"] == pytest.approx(stats.nbinom.sf(11, 10.5, 60 / 69))
    assert suspicions([{}] * 3, [Spikes(1, 3.0), None, None], past)["spikes"] == 0
    assert counted([0], [0]).metric == "spikes"
