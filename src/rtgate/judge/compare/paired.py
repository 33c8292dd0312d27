# SPDX-License-Identifier: MIT
"""The paired test: boots of baseline and candidate in turns, one difference of logarithms for each pair.

The variance between boots is estimated from the pairs and from pairs of equal kernels in the history together
(moderated t; Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004), so that three pairs are enough
for a valid answer. Spikes are too rare for logarithms: given those of the baseline and its history, their number in the
candidate has a negative binomial law (gamma-Poisson, Jeffreys' prior). Everything is one-sided: worse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rtgate.judge import distributions
from rtgate.judge.compare.margins import margin
from rtgate.judge.compare.summaries import SPIKES, Spikes

BETA = 0.10  # "no worse" uses one-sided upper bounds at 90 %
POWER = 0.80  # of the smallest change that a run would have seen
_INTERVAL = 0.025  # on each side: what people are shown is a 95 % interval
_DEGREES = 30  # more pairs of the history are not believed more: boards change
_SPIKE_RATIO, _SPIKE_RATE = 10.0, 0.30  # what must not be missed: times the baseline's rate, or per minute
_OVERDISPERSED = 1.5
_AT_ONCE = 3  # spikes of one boot that count as independent, if the baseline has few


@dataclass(frozen=True, slots=True)
class Prior:
    """What the history knows of the differences in pairs of equal kernels.

    Attributes:
        variance: their mean square (of natural logarithms).
        degrees: how many pairs there were.
    """

    variance: float = 0.0
    degrees: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What was found of a metric.

    Attributes:
        ratio: candidate to baseline; more than 1 is worse.
        interval: of the ratio, at 95 %.
        p: that equal kernels look at least as bad, of this metric alone at this look.
        pairs: how many it is from.
    """

    metric: str
    ratio: float
    interval: tuple[float, float]
    p: float
    pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A metric after some pairs.

    Attributes:
        effect: what was found; None if the pairs say nothing.
        large: whether the effect is worth blocking a change.
        small: whether it surely is smaller than what must not be missed.
    """

    effect: Effect | None
    large: bool = False
    small: bool = False

    @property
    def p(self) -> float:
        """The effect's p; 1 if the pairs say nothing."""
        return 1.0 if self.effect is None else self.effect.p


class Evidence(Protocol):
    """The pairs of one metric of one case."""

    @property
    def case(self) -> str:
        """The case."""

    @property
    def metric(self) -> str:
        """The metric."""

    @property
    def pairs(self) -> int:
        """How many pairs there are."""

    def at(self, pairs: int) -> Reading:
        """Return what the first `pairs` pairs say."""

    def smallest(self, pairs: int, alpha: float) -> float | None:
        """Return the smallest ratio that `pairs` pairs see at the level `alpha` with a power of 80 %; None for none."""

    def enough(self, pairs: int, alpha: float) -> int | None:
        """Return how many pairs would decide, if what `pairs` pairs found is so; None if nobody can tell."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean difference of logarithms, its standard error and the degrees of freedom of that."""

    mean: float
    error: float
    degrees: float
    pairs: int

    @property
    def p(self) -> float:
        """That equal kernels differ at least as much. Without any spread it is that of the signs alone."""
        if self.error > 0:
            return distributions.t_above(self.mean / self.error, self.degrees)
        return 0.5**self.pairs if self.mean > 0 else 1.0

    def beyond(self, probability: float) -> float:
        """Return the difference that lies above the true one with all but `probability`."""
        return self.mean + (distributions.t_point(probability, self.degrees) * self.error if self.error else 0.0)


def estimate(differences: Sequence[float], prior: Prior) -> Estimate | None:
    """Return the moderated estimate of paired differences; None if their spread is not known."""
    count, prior_degrees = len(differences), min(prior.degrees, _DEGREES)
    degrees = prior_degrees + count - 1
    if count == 0 or degrees < 1:
        return None
    mean = math.fsum(differences) / count
    spread = math.fsum((difference - mean) ** 2 for difference in differences)
    if spread < 1e-24 * count * max(mean * mean, 1.0):  # rounding, of equal differences
        spread = 0.0
    variance = (prior_degrees * prior.variance + spread) / degrees
    return Estimate(mean, math.sqrt(variance / count), degrees, count)


def pool(estimates: Sequence[Estimate]) -> Estimate:
    """Return the estimate of several boards together, each weighted by the inverse of its variance.

    Degrees of freedom are Satterthwaite's. Without any spread boards weigh alike.
    """
    if any(part.error == 0 for part in estimates):
        mean = sum(part.mean for part in estimates) / len(estimates)
        return Estimate(mean, max(part.error for part in estimates), estimates[0].degrees, min_pairs(estimates))
    weights = [part.error**-2 for part in estimates]
    total = sum(weights)
    mean = sum(weight * part.mean for weight, part in zip(weights, estimates, strict=True)) / total
    degrees = total**2 / sum(weight**2 / part.degrees for weight, part in zip(weights, estimates, strict=True))
    return Estimate(mean, total**-0.5, degrees, min_pairs(estimates))


def min_pairs(estimates: Sequence[Estimate]) -> int:
    """Return the pairs of the board that has fewest."""
    return min(part.pairs for part in estimates)


@dataclass(frozen=True, slots=True)
class BoardPairs:
    """The differences on one board, candidate minus baseline, in their order; None where a boot has no figure."""

    board: str
    differences: tuple[float | None, ...]
    prior: Prior = Prior()


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A metric of one case on one board, or on several of one kind."""

    case: str
    metric: str
    boards: tuple[BoardPairs, ...]

    @property
    def pairs(self) -> int:
        """How many pairs the board with fewest has."""
        return min(len(board.differences) for board in self.boards)

    def estimates(self, pairs: int) -> list[Estimate] | None:
        """Return each board's estimate; None if one of them has none."""
        parts = [
            estimate([difference for difference in b.differences[:pairs] if difference is not None], b.prior)
            for b in self.boards
        ]
        estimates = [part for part in parts if part is not None]
        return estimates if len(estimates) == len(parts) else None

    def at(self, pairs: int) -> Reading:
        """Return what the first `pairs` pairs say.

        Of several boards both all together and each alone can be worse, so that one bad board is not outvoted: the
        p-value is that of Bonferroni over the two ways, and over the boards in the second.
        """
        estimates = self.estimates(pairs)
        if estimates is None:
            return Reading(effect=None)
        whole, worst = pool(estimates), max(estimates, key=lambda part: part.mean)
        p = whole.p
        if len(estimates) > 1:
            p = min(1.0, 2 * p, 2 * len(estimates) * min(part.p for part in estimates))
        ratios = margin(self.metric)
        complete = all(len(b.differences) >= pairs and None not in b.differences[:pairs] for b in self.boards)
        return Reading(
            effect=Effect(
                metric=self.metric,
                ratio=_exp(whole.mean),
                interval=(_exp(2 * whole.mean - whole.beyond(_INTERVAL)), _exp(whole.beyond(_INTERVAL))),
                p=p,
                pairs=pairs,
            ),
            large=worst.mean >= math.log(ratios.blocking),
            # A boot without the figure may be the bad one.
            small=complete and max(whole.beyond(BETA), worst.mean) < math.log(ratios.must_detect),
        )

    def smallest(self, pairs: int, alpha: float) -> float | None:
        """Return the smallest ratio that `pairs` pairs see at the level `alpha` with a power of 80 %."""
        estimates = self.estimates(pairs)
        if estimates is None:
            return None
        whole = pool(estimates)
        return _exp(max(_points(alpha, whole.degrees) * whole.error, math.log(margin(self.metric).blocking)))

    def enough(self, pairs: int, alpha: float) -> int | None:
        """Return how many pairs decide, if the differences go on like this.

        What looks worth blocking must become significant; what looks smaller must fall surely below the ratio that must
        not be missed.
        """
        estimates = self.estimates(pairs)
        if estimates is None:
            return None
        whole, ratios = pool(estimates), margin(self.metric)
        spread = whole.error * math.sqrt(whole.pairs)
        if whole.mean >= math.log(ratios.blocking):
            pair_count = (_points(alpha, whole.degrees) * spread / whole.mean) ** 2
        else:
            room = math.log(ratios.must_detect) - whole.mean
            pair_count = (distributions.t_point(BETA, whole.degrees) * spread / room) ** 2
        return max(pairs + 1, math.ceil(pair_count)) if pair_count < 1e6 else None


def _points(alpha: float, degrees: float) -> float:
    """Return how many standard errors an effect must have to be seen at the level `alpha` with a power of 80 %."""
    return distributions.t_point(alpha, degrees) + distributions.t_point(1 - POWER, degrees)


def _exp(value: float) -> float:
    return math.exp(min(max(value, -700.0), 700.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpikeSeries:
    """The spikes of one case, by boot; None where a boot has no count.

    Attributes:
        history: those of earlier boots of baselines, by boot.
    """

    case: str
    baseline: tuple[Spikes | None, ...]
    candidate: tuple[Spikes | None, ...]
    history: tuple[Spikes, ...] = ()
    metric: str = SPIKES

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return min(len(self.baseline), len(self.candidate))

    def at(self, pairs: int) -> Reading:
        """Return what the first `pairs` pairs say.

        Spikes come in bursts, and a histogram does not tell when: of one boot only a few count as independent, and
        where boots of the baseline differ more than by chance, all counts are divided by how much more.
        """
        mine = [spikes for spikes in self.candidate[:pairs] if spikes is not None]
        baseline = [*self.history, *(spikes for spikes in self.baseline[:pairs] if spikes is not None)]
        exposure, before = sum(spikes.minutes for spikes in mine), sum(spikes.minutes for spikes in baseline)
        if exposure <= 0 or before <= 0:
            return Reading(effect=None)
        count, baseline_count = self._counts(mine, baseline)
        p = distributions.negative_binomial_at_least(count, baseline_count + 0.5, before / (before + exposure))
        upper = distributions.poisson_upper(sum(spikes.count for spikes in mine), 1 - BETA) / exposure
        gaps = pairs - len(mine) + sum(spikes is None for spikes in self.baseline[:pairs])
        ratio = (count + 0.5) / exposure / ((baseline_count + 0.5) / before)
        low, high = (
            distributions.share_bounds(count, count + baseline_count, 1 - _INTERVAL)
            if count + baseline_count
            else (0.0, 1.0)
        )
        odds = before / exposure
        interval = (low / (1 - low) * odds if low < 1 else math.inf, high / (1 - high) * odds if high < 1 else math.inf)
        return Reading(
            effect=Effect(metric=self.metric, ratio=ratio, interval=interval, p=p, pairs=pairs),
            large=count / exposure > baseline_count / before,
            small=not gaps and len(mine) == pairs and upper < self._unmissable(baseline_count, before),
        )

    def smallest(self, pairs: int, alpha: float) -> float | None:
        """Return how many times the baseline's rate `pairs` pairs see at the level `alpha` with a power of 80 %."""
        mine = [spikes for spikes in self.candidate[:pairs] if spikes is not None]
        baseline = [*self.history, *(spikes for spikes in self.baseline[:pairs] if spikes is not None)]
        exposure, before = sum(spikes.minutes for spikes in mine), sum(spikes.minutes for spikes in baseline)
        if exposure <= 0 or before <= 0:
            return None
        _, baseline_count = self._counts(mine, baseline)
        count, success = 1, before / (before + exposure)
        while count < 10_000 and distributions.negative_binomial_at_least(count, baseline_count + 0.5, success) > alpha:
            count += 1
        rate = distributions.poisson_upper(count - 1, POWER) / exposure
        return rate / ((baseline_count + 0.5) / before)

    def enough(self, pairs: int, alpha: float) -> int | None:
        """Return how many pairs decide, if the candidate's rate is what was found and the baseline's is known."""
        mine = [spikes for spikes in self.candidate[:pairs] if spikes is not None]
        baseline = [*self.history, *(spikes for spikes in self.baseline[:pairs] if spikes is not None)]
        exposure, before = sum(spikes.minutes for spikes in mine), sum(spikes.minutes for spikes in baseline)
        if exposure <= 0 or before <= 0:
            return None
        count, baseline_count = self._counts(mine, baseline)
        limit, boot_minutes = self._unmissable(baseline_count, before), exposure / len(mine)
        for more in range(pairs + 1, 50 * max(pairs, 4)):
            future_count = count * more / pairs
            likely = before + (more - pairs) * boot_minutes
            at_least = distributions.negative_binomial_at_least(
                future_count, baseline_count * likely / before + 0.5, likely / (likely + more * boot_minutes)
            )
            if at_least <= alpha or distributions.poisson_upper(future_count, 1 - BETA) / (more * boot_minutes) < limit:
                return more
        return None

    def _counts(self, mine: Sequence[Spikes], baseline: Sequence[Spikes]) -> tuple[float, float]:
        """Return the independent spikes of the candidate and of the baseline."""
        most = max(_AT_ONCE, math.ceil(_AT_ONCE * sum(spikes.count for spikes in baseline) / len(baseline)))
        before = [min(spikes.count, most) for spikes in baseline]
        scale = _dispersion(before)
        return sum(min(spikes.count, most) for spikes in mine) / scale, sum(before) / scale

    def _unmissable(self, baseline_count: float, before: float) -> float:
        return max(_SPIKE_RATIO * (baseline_count + 0.5) / before, _SPIKE_RATE)


def _dispersion(counts: Sequence[int]) -> float:
    """Return how much more counts vary than Poisson's law lets them; 1 if that may be chance."""
    mean = sum(counts) / len(counts)
    if mean == 0 or len(counts) < 2:
        return 1.0
    dispersion = sum((count - mean) ** 2 for count in counts) / mean / (len(counts) - 1)
    return dispersion if dispersion > _OVERDISPERSED else 1.0
