# SPDX-License-Identifier: MIT
"""Merge requests with cases on boards whose noise is drawn (`boards`), and what gates say of them.

The verdicts are those of rtgate.judge. A merge request has `CASES` cases. Of each the history has sessions of two
boots; the candidate is screened with three boots and suspicious metrics are confirmed on up to twelve pairs (B), or all
cases are measured in up to twelve pairs (A). Beside them stand gates on a maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from selftests.campaigns.boards import MINUTES, NONE, SESSIONS, Boots, Change, FixedLevels, World, draw

from rtgate.judge.compare.looks import CONFIRM, RELEASE, Comparison, Looks, Outcome, compare
from rtgate.judge.compare.paired import Evidence, Prior, Series, SpikeSeries
from rtgate.judge.compare.pairing import CaseHistory
from rtgate.judge.compare.procedures import ComparisonState, Screening, comparisons, suspicions
from rtgate.judge.compare.summaries import EXCEEDANCE_RATE, RETURN_LEVEL, WINSORISED_MEAN, Spikes

BOOT_MINUTES = 2.0
CASES = 24
SCREEN = 3
PAIRS = 12
METRICS = (WINSORISED_MEAN, RETURN_LEVEL, EXCEEDANCE_RATE)


class DrawnCases(NamedTuple):
    """Many cases, one in each row: boots of the history, of the screen, and of the two arms of the pairs."""

    history: Boots
    screen: Boots
    baseline: Boots
    candidate: Boots


def cases(rng: np.random.Generator, world: World, count: int, change: Change, fixed: FixedLevels) -> DrawnCases:
    """Draw cases: their history, and what is measured today, whose drift wanders a little."""
    sd = world.drift
    past = np.repeat(rng.normal(0, sd, (count, SESSIONS)), 2, axis=1)
    today = rng.normal(0, sd, (count, 1))
    wander = today + np.cumsum(rng.normal(0, 0.15 * sd, (count, PAIRS)), axis=1)
    return DrawnCases(
        draw(rng, world, past, NONE, fixed),
        draw(rng, world, today + rng.normal(0, 0.15 * sd, (count, SCREEN)), change, fixed),
        draw(rng, world, wander, NONE, fixed),
        draw(rng, world, wander + rng.normal(0, 0.15 * sd, wander.shape), change, fixed),
    )


class Case(NamedTuple):
    """One case as the judge sees it."""

    suspicion: dict[str, float]
    evidence: tuple[Evidence, ...]
    maxima: tuple[float, float, float]  # of the history, of one boot of the baseline, of one of the candidate


def judge_rows(drawn: DrawnCases, names: Sequence[str]) -> list[Case]:
    """Return the rows as the judge sees them."""
    return [_case(drawn, row, name) for row, name in enumerate(names)]


def _case(drawn: DrawnCases, row: int, name: str) -> Case:
    sessions, series = {}, []
    for metric in METRICS:
        past = drawn.history.logs[metric][row]
        sessions[metric] = [(float(a), float(b)) for a, b in zip(past[0::2], past[1::2], strict=True)]
        difference = drawn.candidate.logs[metric][row] - drawn.baseline.logs[metric][row]
        prior = Prior(float(((past[0::2] - past[1::2]) ** 2).mean()), SESSIONS)
        series.append(Series(case=name, metric=metric, differences=tuple(difference.tolist()), prior=prior))
    history = _spikes(drawn.history, row)
    boots = [{metric: float(drawn.screen.logs[metric][row, boot]) for metric in METRICS} for boot in range(SCREEN)]
    suspicion = suspicions(boots, _spikes(drawn.screen, row), CaseHistory(sessions=sessions, spikes=history))
    spikes = SpikeSeries(
        case=name, baseline=_spikes(drawn.baseline, row), candidate=_spikes(drawn.candidate, row), history=history
    )
    maxima = (drawn.history.maximum[row].max(), drawn.baseline.maximum[row, 0], drawn.candidate.maximum[row, 0])
    return Case(dict(suspicion), (*series, spikes), tuple(map(float, maxima)))  # type: ignore[arg-type]


def _spikes(boots: Boots, row: int) -> tuple[Spikes, ...]:
    return tuple(Spikes(int(count), MINUTES) for count in boots.spikes[row])


class GateOutcome(NamedTuple):
    """What a gate said of a merge request: failed cases, undecided ones, and what it cost in board-minutes."""

    failed: frozenset[str]
    undecided: frozenset[str]
    minutes: float


def by_maximum(request: Sequence[Case], limit: str) -> GateOutcome:
    """Judge one boot of each case by its maximum."""
    failed = set()
    for number, case in enumerate(request):
        history, baseline, candidate = case.maxima
        level = {"100 us": 100.0, "largest of 20 boots": history, "1.1 x baseline": 1.1 * baseline}[limit]
        if candidate > level:
            failed.add(str(number))
    return GateOutcome(frozenset(failed), frozenset(), CASES * MINUTES + BOOT_MINUTES)


def judge_screened(request: Sequence[Case], looks: Looks = CONFIRM) -> GateOutcome:
    """Judge by procedure B."""
    screens = [Screening(case=str(n), boots=SCREEN, suspicion=case.suspicion) for n, case in enumerate(request)]
    confirm = [one for case in request for one in case.evidence]
    found = comparisons(ComparisonState(screens=screens, pairs=confirm, looks=looks))
    return gate_outcome(found, SCREEN * (CASES * MINUTES + BOOT_MINUTES))


def judge_interleaved(request: Sequence[Case], looks: Looks = RELEASE) -> GateOutcome:
    """Judge by procedure A."""
    return gate_outcome(compare([one for case in request for one in case.evidence], looks), 0.0)


def gate_outcome(comparisons: Sequence[Comparison], minutes: float) -> GateOutcome:
    """Return the outcome and its cost: the open cases of a merge request share a boot."""
    pairs = [one.pairs for one in comparisons]
    minutes += 2 * (sum(pairs) * MINUTES + max(pairs, default=0) * BOOT_MINUTES)
    by = {outcome: frozenset(one.case for one in comparisons if one.outcome is outcome) for outcome in Outcome}
    return GateOutcome(by[Outcome.REGRESSION], by[Outcome.INCONCLUSIVE], minutes)


GATES: dict[str, Callable[[Sequence[Case]], GateOutcome]] = {
    "max > 100 us": lambda request: by_maximum(request, "100 us"),
    "max > largest of 20 boots": lambda request: by_maximum(request, "largest of 20 boots"),
    "max > 1.1 x baseline": lambda request: by_maximum(request, "1.1 x baseline"),
    "rtgate, screened (B)": judge_screened,
    "rtgate, interleaved (A)": judge_interleaved,
}
SLOW = "rtgate, interleaved (A)"
