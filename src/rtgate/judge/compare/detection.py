# SPDX-License-Identifier: MIT
"""Which change a run on virtual time would have found: its own boots, drawn anew, made worse, and judged by its rule.

The run's baseline stays as it is, and candidates are drawn from the boots of both kernels, the candidate's moved to
where the baseline lies. Each figure of such a candidate is made worse by a share, and the smallest share on a coarse
scale that is called a regression in nine of ten candidates is what the run would have found. That takes phases and
spread from the run, and what placebos moved from the rule. docs/explanation/verdicts.md has how it was checked.

Nothing is drawn by chance: draw N takes its boots by the digits of SHAKE-128 of N (FIPS 202), so that the same boots
give the same answer in every version of every library.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

from rtgate.judge.compare import ranks
from rtgate.judge.compare.boot_figures import Part
from rtgate.judge.compare.phases import Boots, Placebo, Rule
from rtgate.units import Unit

SIZES = (0.01, 0.02, 0.03, 0.05, 0.075, 0.10, 0.15, 0.20, 0.30)
"""Shares that are tried."""
DRAWS = 100
"""Candidates that each share is tried on."""
MISSES = 10
CHANCE = 1 - MISSES / DRAWS
"""Of these, so many may be missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """The smallest change of one kind that a run would have found in nine of ten cases.

    Attributes:
        change: what becomes worse, in words.
        size: by which share of the baseline; None for more than the largest that is tried.
    """

    change: str
    size: float | None


def detections(baseline: Boots, candidate: Boots, placebos: Mapping[str, Placebo], level: float) -> list[Detection]:
    """Return what a run would have found of a change of all samples, and of one of the tail alone.

    Args:
        baseline: the boots of a case, all with the same figures.
        candidate: of the same case and with the same figures; no worse.
        placebos: by figure; a figure without one is passed over.
        level: the chance of a false alarm that one test of the run has, if it comes first.
    """
    figures = [figure for figure in baseline[0].values() if figure.name in placebos and figure.unit is not Unit.COUNT]
    parts = {figure.part for figure in figures}
    kinds = {
        "every wake-up" if Part.BODY in parts else "every figure": figures,
        "the tail alone": [figure for figure in figures if figure.part in {Part.TAIL, Part.EXTREME}],
    }
    if Part.TAIL not in parts:
        del kinds["the tail alone"]
    changes = []
    for change, group in kinds.items():
        trials = [_Trial.of(figure.name, baseline, candidate, placebos[figure.name]) for figure in group]
        usable = [trial for trial in trials if trial is not None]
        if usable:
            changes.append(Detection(change=change, size=_smallest(usable, len(candidate), level)))
    return changes


def make_worse(value: float, ratio: float) -> float:
    """Return a figure that became worse; larger is worse, and what should be high has a minus."""
    return value * ratio if value >= 0 else value / ratio


@dataclass(frozen=True, slots=True)
class _Trial:
    """One figure: the baseline's boots, those that candidates are drawn from, and what is a regression."""

    baseline: Sequence[float]
    pool: Sequence[float]
    rule: Rule

    @classmethod
    def of(cls, name: str, before: Boots, after: Boots, placebo: Placebo) -> _Trial | None:
        """Return a figure's trial; None where a share of it is nothing."""
        old, new = [boot[name].value for boot in before], [boot[name].value for boot in after]
        middle = median(old)
        shift = ranks.shift(old, new)
        if not middle or shift <= -abs(middle):
            return None
        values = [value - shift for value in new]
        return cls(old, (*old, *values), Rule.of(before[0][name], old, placebo))

    def detects(self, draw: Sequence[int], size: float, level: float) -> bool:
        """Return whether a candidate of these boots, made worse, is a regression."""
        return self.rule.alarms(self.baseline, [make_worse(self.pool[index], 1 + size) for index in draw], level)


def _smallest(trials: Sequence[_Trial], boots: int, level: float) -> float | None:
    """Return the smallest size that is found often enough; a larger one is found at least as often."""
    draws = [_draw(number, len(trials[0].pool), boots) for number in range(DRAWS)]
    low, high = -1, len(SIZES)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _often(trials, draws, SIZES[middle], level) else (middle, high)
    return SIZES[high] if high < len(SIZES) else None


def _often(trials: Sequence[_Trial], draws: Sequence[Sequence[int]], size: float, level: float) -> bool:
    misses = 0
    for draw in draws:
        misses += not any(trial.detects(draw, size, level) for trial in trials)
        if misses > MISSES:
            return False
    return True


@lru_cache(maxsize=1024)
def _draw(number: int, of: int, count: int) -> tuple[int, ...]:
    """Return which boots a draw takes, each as often as it comes."""
    digits = hashlib.shake_128(str(number).encode()).digest(4 * count)
    return tuple(int.from_bytes(digits[at : at + 4], "big") * of >> 32 for at in range(0, 4 * count, 4))
