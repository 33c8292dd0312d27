# SPDX-License-Identifier: MIT
"""A board's noise between boots of one kernel, and the smallest change that it would show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rtgate.judge.compare.margins import margin
from rtgate.judge.compare.paired import Prior
from rtgate.judge.learn.change_points import change_points

FEWEST_PAIRS = 10
PAIRS = 12  # of the last look of a comparison
MOST_INVALID = 0.05
# One-sided false alarms of 1 %, power 90 %.
_POINTS = 2.3263 + 1.2816


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """One metric of one case.

    Attributes:
        boot_sd: standard deviation between boots, of the natural logarithm.
        smallest: the smallest ratio that 12 pairs show with a power of 90 % at a level of 1 %.
        wanted: the ratio that must not be missed.
    """

    metric: str
    pairs: int
    boot_sd: float
    smallest: float
    wanted: float

    @property
    def problem(self) -> str:
        """Why this metric cannot judge here; empty if it can."""
        if self.smallest <= self.wanted:
            return ""
        return f"{self.metric}: 12 pairs show x{self.smallest:.2f}, and x{self.wanted:.2f} must not be missed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseStanding:
    """What a night said of one case.

    Attributes:
        boots, invalid: how many boots there were, and how many of them were not valid.
        problems: why its comparisons must not be judged; empty if they may.
    """

    case: str
    boots: int
    invalid: int
    noise: tuple[Noise, ...]
    problems: tuple[str, ...]

    @property
    def qualified(self) -> bool:
        """Whether comparisons of this case may be judged."""
        return not self.problems


def smallest_change(prior: Prior, pairs: int = PAIRS) -> float:
    """Return the smallest ratio that so many pairs show: `exp((z_a + z_b) sqrt(variance / pairs))`."""
    return math.exp(_POINTS * math.sqrt(prior.variance / pairs))


def standing(case: str, boots: int, series: Mapping[str, Sequence[float]], priors: Mapping[str, Prior]) -> CaseStanding:
    """Return what boots of one kernel say of a case.

    Args:
        case: the case.
        boots: how many there were, with those that did not measure.
        series: by metric, the value of each valid boot in the order of measuring.
        priors: by metric, what their pairs say of the variance.
    """
    valid = max(map(len, series.values()), default=0)
    noise = tuple(
        Noise(
            metric=metric,
            pairs=prior.degrees,
            boot_sd=math.sqrt(prior.variance / 2),
            smallest=smallest_change(prior),
            wanted=margin(metric).must_detect,
        )
        for metric, prior in sorted(priors.items())
    )
    problems = []
    pairs = min((entry.pairs for entry in noise), default=0)
    if pairs < FEWEST_PAIRS:
        problems.append(f"{pairs} pairs of boots are too few: it takes {FEWEST_PAIRS}")
    if boots - valid > MOST_INVALID * boots:
        problems.append(f"{boots - valid} of {boots} boots were not valid")
    problems += [entry.problem for entry in noise if entry.problem]
    problems += [
        f"{metric} changed at boot {change.index + 1} and stayed: the board drifts"
        for metric, values in sorted(series.items())
        for change in change_points(values, level=0.002)[:1]
    ]
    return CaseStanding(case=case, boots=boots, invalid=boots - valid, noise=noise, problems=tuple(problems))
