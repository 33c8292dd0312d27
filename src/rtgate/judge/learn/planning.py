# SPDX-License-Identifier: MIT
"""Planning: how much must be measured for an answer, and what a run of given length cannot answer.

Shares are bounded as limits are (Clopper and Pearson; Poisson's law where events are few), changes are found as the
paired test finds them (noncentral t). Figures are for one board.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rtgate.judge import distributions
from rtgate.judge.compare.paired import Prior, priors
from rtgate.judge.compare.summaries import levels, summaries
from rtgate.records.record import Record

_CHANCE = 0.90  # that a run of the planned length decides
_MOST_PAIRS = 10_000


@dataclass(frozen=True, slots=True)
class ShareLimit:
    """A share that must not be exceeded, and the confidence with which that is to be known."""

    share: float
    confidence: float

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError(f"a share lies between 0 and 1, not {self.share:g}")
        if not 0.5 <= self.confidence < 1:
            raise ValueError(f"a confidence lies between 0.5 and 1, not {self.confidence:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePlan:
    """What it takes to prove a share.

    Attributes:
        samples: enough if none of them is over the level.
        likely: by how many times better than the limit a kernel is, samples after which it passes with 90 %.
        broken: samples after which a kernel with three times the limit fails with 90 %.
    """

    samples: int
    likely: Mapping[int, int]
    broken: int


def samples_needed(share: float, confidence: float) -> int:
    """Return how many samples without an event prove a share at a confidence: (1 - share)^n <= 1 - confidence."""
    return math.ceil(math.log1p(-confidence) / math.log1p(-share))


def plan_share(limit: ShareLimit) -> SharePlan:
    """Return how many samples it takes to prove that a share is within a limit."""
    return SharePlan(
        samples=samples_needed(limit.share, limit.confidence),
        likely={factor: math.ceil(events_to_pass(factor, limit.confidence) / limit.share) for factor in (2, 3, 5, 10)},
        broken=math.ceil(events_to_fail(3, limit.confidence) / limit.share),
    )


def events_to_pass(factor: float, confidence: float) -> float:
    """Return the events to expect at the limit, so that a kernel `factor` times better passes with 90 %."""
    for count in range(100_000):
        mean = distributions.poisson_upper(count, confidence)
        if distributions.poisson_at_most(count, mean / factor) >= _CHANCE:
            return mean
    raise ValueError(f"a kernel {factor:g} times better than its limit cannot be distinguished from it")


def events_to_fail(factor: float, confidence: float) -> float:
    """Return the events to expect at the limit, so that a kernel `factor` times worse fails with 90 %."""
    for count in range(1, 100_000):
        lower = distributions.poisson_lower(count, confidence)  # more expected, and so many events are no proof
        events = distributions.poisson_upper(count - 1, _CHANCE) / factor
        if events <= lower:
            return events
    raise ValueError(f"a kernel {factor:g} times worse than its limit cannot be distinguished from it")


def verdict_possible(limit: ShareLimit, samples: int) -> str:
    """Return why a run of so many samples cannot prove a share, as a sentence; empty if it can."""
    least = samples_needed(limit.share, limit.confidence)
    if samples >= least:
        return ""
    events = samples * limit.share
    return (
        f"{samples} samples cannot prove a share of at most {limit.share:g}: at the limit itself they have "
        f"{events:.2g} events over the level, and none at all with a chance of {math.exp(-events):.0%}; it takes "
        f"at least {least} samples without one"
    )


def lacking(limit: ShareLimit, samples: int, measured_minutes: float) -> str:
    """Return what an undecided share still takes, as a sentence.

    Args:
        limit: the limit.
        samples: how many there are.
        measured_minutes: in which they were taken; 0 if nobody knows.
    """
    possible = verdict_possible(limit, samples)
    least = samples_needed(limit.share, limit.confidence)
    if possible:
        return possible + _lasting(least, samples, measured_minutes)
    likely = plan_share(limit).likely[2]
    return f"a kernel twice as good passes after {likely} samples{_lasting(likely, samples, measured_minutes)}"


def _lasting(goal: int, samples: int, measured_minutes: float) -> str:
    if measured_minutes <= 0 or samples <= 0:
        return ""
    return f", {span(goal * measured_minutes / samples)} of this case"


def span(minutes: float) -> str:
    """Return a length of time as people read it, in its largest fitting unit."""
    if minutes < 1:
        return f"{60 * minutes:.0f} s"
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change to find.

    Attributes:
        ratio: how much worse a metric becomes: 1.2 for +20 %.
        power: how surely it is to be found.
        alpha: false alarms allowed in the whole merge request.
        tests: how many metrics of all cases that has.
    """

    ratio: float
    power: float = 0.9
    alpha: float = 0.01
    tests: int = 1

    def __post_init__(self) -> None:
        if not self.ratio > 1:
            raise ValueError(f"a change for the worse is a ratio above 1, not {self.ratio:g}")
        if not 0 < self.power < 1:
            raise ValueError(f"a power lies between 0 and 1, not {self.power:g}")
        if not 0 < self.alpha < 0.5 or self.tests < 1:
            raise ValueError("false alarms lie between 0 and 0.5, of at least one test")


def pairs_needed(change: Change, prior: Prior) -> int | None:
    """Return how many pairs find a change, all looked at once; None for more than ten thousand.

    Args:
        change: what to find.
        prior: the variance of a pair's difference; its degrees of freedom are borrowed when the pairs are judged.
    """
    effect = math.log(change.ratio)
    low, high = 1, 2
    while not _finds(change, prior, effect, high):
        low, high = high, 2 * high
        if high > _MOST_PAIRS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _finds(change, prior, effect, middle) else (middle, high)
    return high


def _finds(change: Change, prior: Prior, effect: float, pairs: int) -> bool:
    return power_of(change, prior, effect, pairs) >= change.power


def power_of(change: Change, prior: Prior, effect: float, pairs: int) -> float:
    """Return how surely so many pairs find an effect, a difference of logarithms."""
    degrees = min(prior.degrees, 30) + pairs - 1
    if prior.variance <= 0:
        return 1.0
    point = distributions.t_point(change.alpha / change.tests, degrees)
    return distributions.t_power(point, degrees, effect * math.sqrt(pairs / prior.variance))


def smallest_detectable(pairs: int, prior: Prior, change: Change) -> float | None:
    """Return the smallest ratio that so many pairs find with the power of a change; None beyond a million."""
    low, high = 0.0, math.log(1e6)
    if power_of(change, prior, high, pairs) < change.power:
        return None
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if power_of(change, prior, middle, pairs) >= change.power else (middle, high)
    return math.exp(high)


def spreads(records: Sequence[Record]) -> Mapping[str, Prior]:
    """Return by metric the variance of pairs of neighbouring boots of one kernel, one case on one device.

    Args:
        records: boots in the order in which they were measured.
    """
    boots = [record for record in records if record.has_results]
    case_levels = levels(boots)
    boot_summaries = [summaries(record, case_levels) for record in boots]
    return priors(zip(boot_summaries[0::2], boot_summaries[1::2], strict=False))
