# SPDX-License-Identifier: MIT
"""What to measure next in a comparison on boards: one state machine, a pure function of what there is so far.

*Screened*: a few boots of the candidate alone against the history, and fresh pairs of those metrics only that look
suspicious. *Interleaved*: pairs of all cases. They differ in where they begin and in when somebody looks. Because the
pairs of a screened comparison are fresh, a false alarm needs both, and the family of its tests is no larger than what
was flagged. A re-run adds to the same pairs; it never replaces them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from rtgate.judge import distributions
from rtgate.judge.compare.looks import CONFIRM, RELEASE, Comparison, Looks, compare
from rtgate.judge.compare.paired import Evidence
from rtgate.judge.compare.pairing import CaseHistory
from rtgate.judge.compare.summaries import SPIKES, Spikes
from rtgate.units import plural

FEWEST_SESSIONS = 5  # with fewer the spread between sessions is a guess
SCREEN_BOOTS = 3
SCREEN_LEVEL = 0.05  # of one metric: what is less likely than this is looked at again


@dataclass(frozen=True, slots=True)
class Measure:
    """Measure so many more pairs, baseline and candidate alternately.

    Attributes:
        look: how many pairs the look takes that they are for. The same order twice: nothing came of the first.
    """

    cases: tuple[str, ...]
    pairs: int
    look: int

    @property
    def sentence(self) -> str:
        """What is measured, in words."""
        return f"{plural(self.pairs, 'more pair')} of {', '.join(self.cases)}"


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
        level: of the screen.
        levels: of cases for which one was calibrated, instead of `level`.
    """

    screens: Sequence[Screening] = ()
    pairs: Sequence[Evidence] = ()
    always: frozenset[str] = frozenset()
    looks: Looks
    level: float = SCREEN_LEVEL
    levels: Mapping[str, float] = field(default_factory=dict)

    def suspicious(self, screening: Screening) -> list[str]:
        """Return the metrics of a case that are suspicious, the worst first; an empty name stands for all of them."""
        if not screening.suspicion:
            return [""]  # nothing was to be seen: that is no reason to trust it
        level = self.levels.get(screening.case, self.level)
        metrics = [metric for metric, p in screening.suspicion.items() if p < level]
        return sorted(metrics, key=lambda metric: screening.suspicion[metric])


def next_step(state: ComparisonState, complete_cases: Collection[str] = ()) -> Measure | None:
    """Return what to measure next; None if nothing more is planned.

    Args:
        state: what was measured so far.
        complete_cases: those that need no pairs, whatever they show. They stay in the family, but nobody waits.
    """
    measured_cases = {evidence.case for evidence in state.pairs}
    cases = sorted({case for case, _ in suspicious_metrics(state)} - measured_cases - set(complete_cases))
    if cases:
        return Measure(tuple(cases), state.looks.steps[0][0], state.looks.steps[0][0])
    return _next_step(family(state), state.looks, complete_cases)


def family(state: ComparisonState) -> tuple[Evidence, ...]:
    """Return the evidence that is judged together."""
    metrics = suspicious_metrics(state)
    return tuple(
        evidence
        for evidence in state.pairs
        if (evidence.case, evidence.metric) in metrics or (evidence.case, "") in metrics
    )


def comparisons(state: ComparisonState) -> tuple[Comparison, ...]:
    """Return what was found so far."""
    return compare(family(state), state.looks)


def suspicious_metrics(state: ComparisonState) -> set[tuple[str, str]]:
    """Return the (case, metric) pairs to compare; an empty metric stands for all of a case."""
    flagged = {(screening.case, metric) for screening in state.screens for metric in state.suspicious(screening)}
    return {(case, "") for case in state.always} | flagged


def _next_step(members: Sequence[Evidence], looks: Looks, complete_cases: Collection[str]) -> Measure | None:
    pairs: dict[str, int] = {}
    for evidence in members:
        pairs[evidence.case] = min(pairs.get(evidence.case, evidence.pairs), evidence.pairs)
    next_looks = {
        comparison.case: comparison.next_look
        for comparison in compare(members, looks)
        if comparison.next_look is not None and comparison.case not in complete_cases
    }
    if not next_looks:
        return None
    # Cases that are behind come first, so that all of a family are looked at together.
    first = min(next_looks.values())
    shortfalls = {case: first - pairs[case] for case, look in next_looks.items() if look == first}
    return Measure(tuple(sorted(shortfalls)), max(shortfalls.values()), first)


def suspicions(
    boots: Sequence[Mapping[str, float]], spikes: Sequence[Spikes | None], past: CaseHistory
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
    p_values = {
        metric: screen([boot.get(metric) for boot in boots], past.sessions.get(metric, ()))
        for metric in sorted(metrics)
    }
    if past.spikes or any(spikes):
        p_values[SPIKES] = _screen_spikes(spikes, past.spikes)
    return p_values


def screen(values: Sequence[float | None], sessions: Sequence[tuple[float, float]]) -> float:
    """Return the p-value of boots of one session against earlier sessions of two boots each."""
    count, numbers = len(sessions), [value for value in values if value is not None]
    if count < FEWEST_SESSIONS or not numbers or len(numbers) < len(values):
        return 0.0
    within = math.fsum((first - second) ** 2 for first, second in sessions) / count / 2
    centres = [(first + second) / 2 for first, second in sessions]
    centre = math.fsum(centres) / count
    between = max(math.fsum((middle - centre) ** 2 for middle in centres) / (count - 1) - within / 2, 0.0)
    error = math.sqrt(between * (1 + 1 / count) + within * (1 / len(numbers) + 1 / (2 * count)))
    difference = math.fsum(numbers) / len(numbers) - centre
    if error == 0:
        return 0.0 if difference > 1e-12 else 1.0
    return distributions.t_above(difference / error, count - 1)


def _screen_spikes(spikes: Sequence[Spikes | None], past: Sequence[Spikes]) -> float:
    boots = [boot for boot in spikes if boot is not None]
    exposure, before = sum(boot.minutes for boot in boots), sum(boot.minutes for boot in past)
    if exposure <= 0 or before <= 0 or len(boots) < len(spikes):
        return 0.0
    count, past_count = sum(boot.count for boot in boots), sum(boot.count for boot in past)
    return distributions.negative_binomial_at_least(count, past_count + 0.5, before / (before + exposure))
