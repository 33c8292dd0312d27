# SPDX-License-Identifier: MIT
"""What to measure next in a comparison on boards: one state machine, a pure function of what there is so far.

*Screened*: a few boots of the candidate alone against the history, and fresh pairs of those metrics only that look
suspicious. *Interleaved*: pairs of all cases. They differ in where they begin and in when somebody looks. Because the
pairs of a screened comparison are fresh, a false alarm needs both, and the family of its tests is no larger than what
was flagged. A re-run adds to the same pairs; it never replaces them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rtgate.judge import distributions
from rtgate.judge.compare.looks import CONFIRM, RELEASE, Comparison, Looks, compare
from rtgate.judge.compare.paired import Evidence
from rtgate.judge.compare.summaries import SPIKES, Spikes
from rtgate.units import plural

FEWEST_SESSIONS = 5  # with fewer the spread between sessions is a guess
SCREEN_BOOTS = 3
SCREEN_LEVEL = 0.05  # of one metric: what is less likely than this is looked at again


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing more to measure by plan. Cases that are not among the comparisons were not suspicious."""

    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class Screen:
    """Measure so many more boots of the candidate alone."""

    cases: tuple[str, ...]
    boots: int


@dataclass(frozen=True, slots=True)
class Measure:
    """Measure so many more pairs, baseline and candidate alternately."""

    cases: tuple[str, ...]
    pairs: int

    @property
    def sentence(self) -> str:
        """What is measured, in words."""
        return f"{plural(self.pairs, 'more pair')} of {', '.join(self.cases)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHistory:
    """What the history of good kernels knows of one case on one board.

    Attributes:
        sessions: by metric, for each session the summaries of two boots of one kernel, close in time.
        spikes: those of each boot.
    """

    sessions: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    spikes: tuple[Spikes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Screening:
    """How suspicious a case is.

    Attributes:
        boots: boots of the candidate so far.
        suspicion: by metric, how likely an equal kernel looks as bad (see `suspicions`).
    """

    case: str
    boots: int
    suspicion: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """Where a comparison begins, and when somebody looks at its pairs.

    Attributes:
        screen: boots of the candidate alone, against the history, before there are any pairs; 0 for none.
    """

    looks: Looks
    screen: int = 0

    def first(self, cases: Sequence[str] = ()) -> Screen | Measure:
        """Return what is measured first, of these cases."""
        if self.screen:
            return Screen(tuple(cases), self.screen)
        return Measure(tuple(cases), self.looks.steps[0][0])


INTERLEAVED = Procedure(looks=RELEASE)
SCREENED = Procedure(looks=CONFIRM, screen=SCREEN_BOOTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonState:
    """How far a comparison has come.

    Attributes:
        screens: the cases that were screened; none in an interleaved comparison.
        pairs: the pairs so far, of any case and metric; what was screened and not flagged is passed over.
        always: cases that are compared with all their metrics, whatever the screen says.
        looks: when somebody looks at the pairs.
        boots, level: of the screen.
        levels: of cases for which one was calibrated, instead of `level`.
    """

    screens: Sequence[Screening] = ()
    pairs: Sequence[Evidence] = ()
    always: frozenset[str] = frozenset()
    looks: Looks
    boots: int = SCREEN_BOOTS
    level: float = SCREEN_LEVEL
    levels: Mapping[str, float] = field(default_factory=dict)


def next_step(state: ComparisonState) -> Done | Screen | Measure:
    """Return what to measure next, or what was found."""
    lacking = [screen for screen in state.screens if screen.boots < state.boots and screen.case not in state.always]
    if lacking:
        boots = max(state.boots - screen.boots for screen in lacking)
        return Screen(tuple(sorted(screen.case for screen in lacking)), boots)
    unmeasured = sorted({case for case, _ in suspicious_metrics(state)} - {one.case for one in state.pairs})
    if unmeasured:
        return Measure(tuple(unmeasured), state.looks.steps[0][0])
    return _next_step(family(state), state.looks)


def family(state: ComparisonState) -> tuple[Evidence, ...]:
    """Return the evidence that is judged together."""
    chosen = suspicious_metrics(state)
    return tuple(one for one in state.pairs if (one.case, one.metric) in chosen or (one.case, "") in chosen)


def comparisons(state: ComparisonState) -> tuple[Comparison, ...]:
    """Return what was found so far."""
    return compare(family(state), state.looks)


def suspicious_metrics(state: ComparisonState) -> set[tuple[str, str]]:
    """Return the (case, metric) pairs to compare; an empty metric stands for all of a case."""
    chosen = {(case, "") for case in state.always}
    for screen in state.screens:
        if not screen.suspicion:
            chosen.add((screen.case, ""))  # nothing was to be seen: that is no reason to trust it
        level = state.levels.get(screen.case, state.level)
        chosen |= {(screen.case, metric) for metric, p in screen.suspicion.items() if p < level}
    return chosen


def _next_step(found: Sequence[Evidence], looks: Looks) -> Done | Measure:
    compared = compare(found, looks)
    have: dict[str, int] = {}
    for one in found:
        have[one.case] = min(have.get(one.case, one.pairs), one.pairs)
    waiting = {one.case: one.next_look for one in compared if one.next_look is not None}
    if not waiting:
        return Done(compared)
    # Cases that are behind come first, so that all of a family are looked at together.
    first = min(waiting.values())
    lacking = {case: first - have[case] for case, look in waiting.items() if look == first}
    return Measure(tuple(sorted(lacking)), max(lacking.values()))


def suspicions(
    boots: Sequence[Mapping[str, float]], spikes: Sequence[Spikes | None], past: SessionHistory
) -> Mapping[str, float]:
    """Return by metric how likely a kernel like those of the history gives boots as bad as these.

    Sessions differ from each other (temperature, clocks), so boots of today are compared with what sessions do. What
    the history or a boot does not have is suspicious: 0.

    Args:
        boots: summaries of the candidate's boots, all of one session.
        spikes: of the same boots.
        past: the history.
    """
    metrics = {metric for boot in boots for metric in boot} | set(past.sessions)
    found = {
        metric: screen([boot.get(metric) for boot in boots], past.sessions.get(metric, ()))
        for metric in sorted(metrics)
    }
    if past.spikes or any(spikes):
        found[SPIKES] = _screen_spikes(spikes, past.spikes)
    return found


def screen(values: Sequence[float | None], sessions: Sequence[tuple[float, float]]) -> float:
    """Return the p-value of boots of one session against earlier sessions of two boots each."""
    count, known = len(sessions), [value for value in values if value is not None]
    if count < FEWEST_SESSIONS or not known or len(known) < len(values):
        return 0.0
    within = math.fsum((first - second) ** 2 for first, second in sessions) / count / 2
    centres = [(first + second) / 2 for first, second in sessions]
    centre = math.fsum(centres) / count
    between = max(math.fsum((one - centre) ** 2 for one in centres) / (count - 1) - within / 2, 0.0)
    error = math.sqrt(between * (1 + 1 / count) + within * (1 / len(known) + 1 / (2 * count)))
    difference = math.fsum(known) / len(known) - centre
    if error == 0:
        return 0.0 if difference > 1e-12 else 1.0
    return distributions.t_above(difference / error, count - 1)


def _screen_spikes(spikes: Sequence[Spikes | None], past: Sequence[Spikes]) -> float:
    known = [one for one in spikes if one is not None]
    exposure, before = sum(one.minutes for one in known), sum(one.minutes for one in past)
    if exposure <= 0 or before <= 0 or len(known) < len(spikes):
        return 0.0
    count, expected = sum(one.count for one in known), sum(one.count for one in past)
    return distributions.negative_binomial_at_least(count, expected + 0.5, before / (before + exposure))
