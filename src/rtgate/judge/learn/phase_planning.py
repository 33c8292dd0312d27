# SPDX-License-Identifier: MIT
"""Planning on virtual time: which change the boots of two kernels find, and how many boots it takes.

There boots are phases, and what placebos moved is let through whatever the number of boots (`phases`). So a change is
put upon boots that were measured, many times over, and judged as a gate would judge it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rtgate.judge.compare import phases, ranks
from rtgate.judge.compare.boot_figures import BootFigure
from rtgate.judge.compare.detection import make_worse
from rtgate.judge.compare.looks import Outcome
from rtgate.judge.compare.phases import Placebo
from rtgate.judge.learn.planning import Change

MOST = 32
"""Boots of each kernel that are proposed at most."""
FEWEST = 8
"""Boots that must have been measured: fewer are no kernel to draw from."""
DRAWS = 100
"""Pairs of kernels that each answer was tried on."""
SUREST = 0.95
"""The largest power that so many can tell from another."""
_COUNTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, MOST)  # of boots that are tried


Draw = Callable[[Sequence[BootFigure], int], Sequence[BootFigure]]
"""Draws so many boots by chance, each as often as it comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePlan:
    """What it takes to find a change of one figure of one case.

    Attributes:
        passes: a ratio that is let through, whatever the number of boots; infinite if each is.
        power: how surely as many boots as were measured find the change at the first look.
        boots: of each kernel that find it as surely as asked, one of a few numbers; None for more than `MOST`, or if it
            is let through.
    """

    passes: float
    power: float
    boots: int | None


def plan_phases(figures: Sequence[BootFigure], placebo: Placebo, change: Change, draw: Draw) -> PhasePlan:
    """Return what it takes to find a change.

    Args:
        figures: one figure of the boots of one kernel; none is zero.
        placebo: what harmless kernels moved it by.
        change: what to find; each look has its share of `alpha`, and each of its `tests`.
        draw: draws the boots of the kernels that it is tried on.

    Raises:
        ValueError: too few boots, a middle one of zero, or a power that the draws cannot tell.
    """
    if len(figures) < FEWEST:
        raise ValueError(too_few(len(figures)))
    if change.power > SUREST:
        raise ValueError(f"{DRAWS} draws, by which virtual time is planned, do not show a power above {SUREST:g}")
    trial = _Trial(figures, placebo, change, draw)
    passes = trial.passes
    able = () if change.ratio < passes else (count for count in _COUNTS if ranks.least_p(count, count) <= trial.level)
    return PhasePlan(
        passes=passes,
        power=trial.power(len(figures)),
        boots=next((count for count in able if trial.power(count) >= change.power), None),
    )


def too_few(boots: int) -> str:
    """Return why so few boots are refused."""
    return f"{boots} boots are too few to draw kernels from: measure {FEWEST} at least, better 20"


def error_of(power: float) -> float:
    """Return the standard error of a power that the draws gave: 0.03 at 0.9."""
    return math.sqrt(power * (1 - power) / DRAWS)


@dataclass(frozen=True, slots=True)
class _Trial:
    """A change, put upon boots that are drawn from those measured."""

    measured: Sequence[BootFigure]
    placebo: Placebo
    change: Change
    draw: Draw

    @property
    def level(self) -> float:
        """The chance of a false alarm that one test has at one look, if it comes first (Holm)."""
        return self.change.alpha / phases.LOOKS / self.change.tests

    @property
    def passes(self) -> float:
        """The ratio that is let through."""
        (shift,) = self._shifts(self.measured, self.measured)
        if not shift.baseline:
            raise ValueError(f"{shift.figure} is zero in the middle boot: it has no shares")
        share = shift.practical / abs(shift.baseline)
        if shift.baseline > 0:
            return 1 + share
        return 1 / (1 - share) if share < 1 else math.inf

    def power(self, boots: int) -> float:
        """Return how often so many boots of each kernel show a regression."""
        worse = [replace(figure, value=make_worse(figure.value, self.change.ratio)) for figure in self.measured]
        regressions = 0
        for _ in range(DRAWS):
            shifts = self._shifts(self.draw(self.measured, boots), self.draw(worse, boots))
            # One figure has two tests: of its shift, and of its spikes.
            (shift,) = phases.decide(shifts, 2 * self.level)
            regressions += shift.outcome is Outcome.REGRESSION
        return regressions / DRAWS

    def _shifts(self, before: Sequence[BootFigure], after: Sequence[BootFigure]) -> Sequence[phases.Shift]:
        name = self.measured[0].name
        return phases.shifts(
            [{name: figure} for figure in before], [{name: figure} for figure in after], {name: self.placebo}
        )
