# SPDX-License-Identifier: MIT
"""The paired test: boots of baseline and candidate in turns, one difference of logarithms for each pair.

The variance between boots is estimated from the pairs and from pairs of equal kernels in the history together
(moderated t; Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004), so that three pairs are enough
for a valid answer. Spikes are too rare for logarithms: given those of the baseline and its history, their number in the
candidate has a negative binomial law (gamma-Poisson, Jeffreys' prior). Everything is one-sided: worse.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
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


def priors(summary_pairs: Iterable[tuple[Mapping[str, float], Mapping[str, float]]]) -> Mapping[str, Prior]:
    """Return what pairs of equal kernels say, by metric; a pair of which one boot lacks a metric is left out there."""
    squares: dict[str, list[float]] = defaultdict(list)
    for first, second in summary_pairs:
        for metric in first.keys() & second.keys():
            squares[metric].append((second[metric] - first[metric]) ** 2)
    return {metric: Prior(math.fsum(terms) / len(terms), len(terms)) for metric, terms in sorted(squares.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What was found of a metric.

    Attributes:
        ratio: candidate to baseline; more than 1 is worse.
        interval: of the ratio, at 95 %.
        p: that equal kernels look at least as bad, of this metric alone at this look.
    """

    ratio: float
    interval: tuple[float, float]
    p: float


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A metric of one case on one board.

    Attributes:
        differences: candidate minus baseline, of each pair in its order; None where a boot has no figure.
    """

    case: str
    metric: str
    differences: tuple[float | None, ...]
    prior: Prior = Prior()

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return len(self.differences)

    def estimate(self, pairs: int) -> Estimate | None:
        """Return the estimate from the first `pairs` pairs; None if their spread is not known."""
        return estimate([difference for difference in self.differences[:pairs] if difference is not None], self.prior)

    def at(self, pairs: int) -> Reading:
        """Return what the first `pairs` pairs say."""
        whole = self.estimate(pairs)
        if whole is None:
            return Reading(effect=None)
        ratios = margin(self.metric)
        complete = self.pairs >= pairs and None not in self.differences[:pairs]
        return Reading(
            effect=Effect(
                ratio=_exp(whole.mean),
                interval=(_exp(2 * whole.mean - whole.beyond(_INTERVAL)), _exp(whole.beyond(_INTERVAL))),
                p=whole.p,
            ),
            large=whole.mean >= math.log(ratios.blocking),
            # A boot without the figure may be the bad one.
            small=complete and whole.beyond(BETA) < math.log(ratios.must_detect),
        )

    def smallest(self, pairs: int, alpha: float) -> float | None:
        """Return the smallest ratio that `pairs` pairs see at the level `alpha` with a power of 80 %."""
        whole = self.estimate(pairs)
        if whole is None:
            return None
        return _exp(max(_points(alpha, whole.degrees) * whole.error, math.log(margin(self.metric).blocking)))

    def enough(self, pairs: int, alpha: float) -> int | None:
        """Return how many pairs decide, if the differences go on like this.

        What looks worth blocking must become significant; what looks smaller must fall surely below the ratio that must
        not be missed.
        """
        whole, ratios = self.estimate(pairs), margin(self.metric)
        if whole is None:
            return None
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
class _SpikeSample:
    """The spikes of some pairs: `all` of the candidate's, and as `count` those that are taken for independent."""

    boots: int
    all: int
    count: float
    minutes: float
    baseline_count: float
    baseline_minutes: float

    @property
    def unmissable(self) -> float:
        """The rate per minute that must not be missed."""
        return max(_SPIKE_RATIO * (self.baseline_count + 0.5) / self.baseline_minutes, _SPIKE_RATE)


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
        sample = self._sample(pairs)
        if sample is None:
            return Reading(effect=None)
        exposure, before = sample.minutes, sample.baseline_minutes
        count, baseline_count = sample.count, sample.baseline_count
        p = distributions.negative_binomial_at_least(count, baseline_count + 0.5, before / (before + exposure))
        upper = distributions.poisson_upper(sample.all, 1 - BETA) / exposure
        complete = sample.boots == pairs and None not in self.baseline[:pairs]
        ratio = (count + 0.5) / exposure / ((baseline_count + 0.5) / before)
        low, high = (
            distributions.share_bounds(count, count + baseline_count, 1 - _INTERVAL)
            if count + baseline_count
            else (0.0, 1.0)
        )
        odds = before / exposure
        interval = (low / (1 - low) * odds if low < 1 else math.inf, high / (1 - high) * odds if high < 1 else math.inf)
        return Reading(
            effect=Effect(ratio=ratio, interval=interval, p=p),
            large=count / exposure > baseline_count / before,
            small=complete and upper < sample.unmissable,
        )

    def smallest(self, pairs: int, alpha: float) -> float | None:
        """Return how many times the baseline's rate `pairs` pairs see at the level `alpha` with a power of 80 %."""
        sample = self._sample(pairs)
        if sample is None:
            return None
        exposure, before = sample.minutes, sample.baseline_minutes
        count, successes, share = 1, sample.baseline_count + 0.5, before / (before + exposure)
        while count < 10_000 and distributions.negative_binomial_at_least(count, successes, share) > alpha:
            count += 1
        return distributions.poisson_upper(count - 1, POWER) / exposure / (successes / before)

    def enough(self, pairs: int, alpha: float) -> int | None:
        """Return how many pairs decide, if the candidate's rate is what was found and the baseline's is known."""
        sample = self._sample(pairs)
        if sample is None:
            return None
        before, boot_minutes = sample.baseline_minutes, sample.minutes / sample.boots
        for more in range(pairs + 1, 50 * max(pairs, 4)):
            future_count = sample.count * more / pairs
            likely = before + (more - pairs) * boot_minutes
            at_least = distributions.negative_binomial_at_least(
                future_count, sample.baseline_count * likely / before + 0.5, likely / (likely + more * boot_minutes)
            )
            upper = distributions.poisson_upper(future_count, 1 - BETA) / (more * boot_minutes)
            if at_least <= alpha or upper < sample.unmissable:
                return more
        return None

    def _sample(self, pairs: int) -> _SpikeSample | None:
        """Return the spikes of the first `pairs` pairs; None where boots of one kernel tell none."""
        mine = [spikes for spikes in self.candidate[:pairs] if spikes is not None]
        baseline = [*self.history, *(spikes for spikes in self.baseline[:pairs] if spikes is not None)]
        minutes, baseline_minutes = (sum(spikes.minutes for spikes in boots) for boots in (mine, baseline))
        if minutes <= 0 or baseline_minutes <= 0:
            return None
        most = max(_AT_ONCE, math.ceil(_AT_ONCE * sum(spikes.count for spikes in baseline) / len(baseline)))
        before = [min(spikes.count, most) for spikes in baseline]
        scale = _dispersion(before)
        return _SpikeSample(
            boots=len(mine),
            all=sum(spikes.count for spikes in mine),
            count=sum(min(spikes.count, most) for spikes in mine) / scale,
            minutes=minutes,
            baseline_count=sum(before) / scale,
            baseline_minutes=baseline_minutes,
        )


def _dispersion(counts: Sequence[int]) -> float:
    """Return how much more counts vary than Poisson's law lets them; 1 if that may be chance."""
    mean = sum(counts) / len(counts)
    if mean == 0 or len(counts) < 2:
        return 1.0
    dispersion = sum((count - mean) ** 2 for count in counts) / mean / (len(counts) - 1)
    return dispersion if dispersion > _OVERDISPERSED else 1.0
