# SPDX-License-Identifier: MIT
"""Looks at a comparison while it is measured: few planned ones, each with its share of the false alarms allowed.

All metrics of all cases of a merge request are one family: Holm's procedure (Scandinavian Journal of Statistics 6,
1979) keeps the probability that a harmless change is called a regression anywhere in it below `Looks.alpha`, whatever
depends on what. The shares of the looks add up to one (Bonferroni), so a look more costs power, never truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from rtgate.judge.compare.paired import Effect, Evidence, Reading


class Outcome(Enum):
    """What a comparison says."""

    REGRESSION = "regression"
    NO_WORSE = "no worse"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Looks:
    """When to look.

    Attributes:
        steps: pairs of each look, counted from the first, and its share of `alpha`.
        alpha: the false alarms allowed in the whole family.
    """

    steps: tuple[tuple[int, float], ...]
    alpha: float = 0.01

    def __post_init__(self) -> None:
        counts = [pairs for pairs, _ in self.steps]
        if counts != sorted(set(counts)) or not counts or counts[0] < 2:
            raise ValueError("looks need rising numbers of pairs, from 2 on")
        if not 0 < self.alpha < 1 or sum(share for _, share in self.steps) > 1 + 1e-9:
            raise ValueError("the looks' shares must not add up to more than 1")


RELEASE = Looks(((3, 0.2), (6, 0.3), (12, 0.5)))
CONFIRM = Looks(((6, 0.3), (12, 0.7)))


def unplanned_looks(boots: Sequence[int], alpha: float = RELEASE.alpha) -> Looks:
    """Return looks of pairs that came in batches which nobody had planned: each gets half of what is left."""
    counts = [count for count in boots if count >= 2] or [2]
    shares = [0.5 ** (number + 1) for number in range(len(counts))]
    return Looks(tuple(zip(counts, shares, strict=True)), alpha)


def once(pairs: int, alpha: float = RELEASE.alpha) -> Looks:
    """Return the only look at pairs that were all measured before anybody looked; it has more power than several."""
    return Looks(((pairs, 1.0),), alpha)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was found of one metric.

    Attributes:
        effect: None if the pairs say nothing of it.
        adjusted: the effect's p after Holm and the look's share: a regression has at most `Looks.alpha`.
        smallest: the ratio that this run would have seen with a power of 80 %; None if nobody can tell.
        enough: pairs that would decide if the differences go on like this; None if it is decided, or nobody can tell.
    """

    metric: str
    outcome: Outcome
    effect: Effect | None
    adjusted: float
    smallest: float | None = None
    enough: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was found of one case.

    Attributes:
        pairs: how many were looked at; 0 if there were too few for the first look.
        final: whether there is nothing more to measure by plan: it is decided, or the last look was made.
        next_look: how many pairs the next look takes; None if there is none.
    """

    case: str
    outcome: Outcome
    pairs: int
    final: bool
    next_look: int | None
    results: tuple[Result, ...]

    @property
    def decisive(self) -> Result:
        """The metric that speaks for the case: the surest of those that decided it, or what is least decided."""
        results = [result for result in self.results if result.outcome is self.outcome] or list(self.results)
        if self.outcome is Outcome.INCONCLUSIVE:
            return max(results, key=lambda result: (result.enough is None, result.enough or 0))
        return min(results, key=lambda result: result.adjusted)


def holm(p: Mapping[tuple[str, str], float], tests: int) -> dict[tuple[str, str], float]:
    """Return Holm's adjusted p-values of a family of `tests` hypotheses, of which some may have no p-value here."""
    p_values: dict[tuple[str, str], float] = {}
    highest = 0.0
    for rank, key in enumerate(sorted(p, key=lambda key: (p[key], key))):
        highest = max(highest, min(1.0, p[key] * (tests - rank)))
        p_values[key] = highest
    return p_values


def compare(family: Sequence[Evidence], looks: Looks = RELEASE) -> tuple[Comparison, ...]:
    """Return what each case's pairs say, look after look, as if it had been asked while they were measured.

    A case ends with the first look that decides it; pairs beyond that are not looked at. Cases may have different
    numbers of pairs: one that has too few for a look waits, and counts in the family all the same.
    """
    by_case: dict[str, list[Evidence]] = {}
    for evidence in family:
        by_case.setdefault(evidence.case, []).append(evidence)
    rejections: set[tuple[str, str]] = set()
    latest: dict[str, Comparison] = {}
    for number, (pairs, share) in enumerate(looks.steps):
        ready = {
            case: members
            for case, members in by_case.items()
            if (case not in latest or not latest[case].final) and min(evidence.pairs for evidence in members) >= pairs
        }
        readings = {
            (evidence.case, evidence.metric): evidence.at(pairs) for members in ready.values() for evidence in members
        }
        p_values = holm(
            {key: reading.p for key, reading in readings.items()}, len(family) - len(rejections - set(readings))
        )
        next_look = looks.steps[number + 1][0] if number + 1 < len(looks.steps) else None
        step = _Step(pairs, share, looks.alpha, next_look)
        for case, members in ready.items():
            latest[case] = step.of(case, members, readings, p_values)
        rejections |= {key for key in readings if p_values[key] <= looks.alpha * share}
    levels = {pairs: looks.alpha * share / max(len(family), 1) for pairs, share in looks.steps}
    return tuple(
        _planned(latest[case], members, levels) if case in latest else _unseen(case, members, looks.steps[0][0])
        for case, members in sorted(by_case.items())
    )


def _planned(comparison: Comparison, members: Sequence[Evidence], levels: Mapping[int, float]) -> Comparison:
    """Return the comparison with what it would have seen, and with what it would take."""
    pairs, level = comparison.pairs, levels[comparison.pairs]
    results = []
    for evidence, result in zip(members, comparison.results, strict=True):
        undecided = result.outcome is Outcome.INCONCLUSIVE
        enough = evidence.enough(pairs, level) if undecided else None
        results.append(replace(result, smallest=evidence.smallest(pairs, level), enough=enough))
    return replace(comparison, results=tuple(results))


@dataclass(frozen=True, slots=True)
class _Step:
    """One look: its pairs, its share of alpha, alpha, and the next look's pairs."""

    pairs: int
    share: float
    alpha: float
    following: int | None

    def of(
        self,
        case: str,
        members: Sequence[Evidence],
        readings: Mapping[tuple[str, str], Reading],
        p_values: Mapping[tuple[str, str], float],
    ) -> Comparison:
        keys = [(evidence.case, evidence.metric) for evidence in members]
        results = tuple(self._result(key[1], readings[key], p_values[key] / self.share) for key in keys)
        outcomes = {result.outcome for result in results}
        outcome = next(
            outcome for outcome in (Outcome.REGRESSION, Outcome.INCONCLUSIVE, Outcome.NO_WORSE) if outcome in outcomes
        )
        decided = outcome is not Outcome.INCONCLUSIVE
        return Comparison(
            case=case,
            outcome=outcome,
            pairs=self.pairs,
            final=decided or self.following is None,
            next_look=None if decided else self.following,
            results=results,
        )

    def _result(self, metric: str, reading: Reading, p_value: float) -> Result:
        if p_value <= self.alpha and reading.large:
            outcome = Outcome.REGRESSION
        else:
            outcome = Outcome.NO_WORSE if reading.small else Outcome.INCONCLUSIVE
        return Result(metric=metric, outcome=outcome, effect=reading.effect, adjusted=min(1.0, p_value))


def _unseen(case: str, members: Sequence[Evidence], first: int) -> Comparison:
    results = tuple(
        Result(metric=evidence.metric, outcome=Outcome.INCONCLUSIVE, effect=None, adjusted=1.0) for evidence in members
    )
    return Comparison(case=case, outcome=Outcome.INCONCLUSIVE, pairs=0, final=False, next_look=first, results=results)


def cost_minutes(pairs: int, measured_minutes: float, boot_minutes: float) -> float:
    """Return the board-minutes of so many pairs: two boots each."""
    return 2 * pairs * (measured_minutes + boot_minutes)
