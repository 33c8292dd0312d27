# SPDX-License-Identifier: MIT
"""Whether plans for virtual time come true: real harmful kernels, planned from the kernel without the change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from selftests.campaigns.comparisons import UNPATCHED, changes
from selftests.campaigns.kernels import Kernels
from selftests.campaigns.teaching import Teachers, figures_of

from rtgate.cli.plan_phases import draws
from rtgate.judge.compare.boot_figures import BootFigure
from rtgate.judge.compare.looks import Outcome
from rtgate.judge.compare.phases import ERROR, LOOKS, Placebo, Shift, decide, shifts
from rtgate.judge.learn.phase_planning import FEWEST, PhasePlan, plan_phases
from rtgate.judge.learn.planning import Change

TESTS = 48  # of a gate: three cases with seven figures and one with three, each with its shift and its spikes
_MOVED = 0.005  # a figure of a case by which nothing happened is not an example


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFigure:
    """One figure that a harmful kernel moved.

    Attributes:
        ratio: by which it moved.
        passes: the ratio that is let through.
        power: how surely as many boots find that, as was planned without the harmful kernel's boots.
        shift: what came of it.
    """

    kernel: str
    ratio: float
    passes: float
    power: float
    shift: Shift

    @property
    def is_found(self) -> bool:
        """Whether it was found."""
        return self.shift.outcome is Outcome.REGRESSION

    @property
    def true(self) -> bool:
        """Whether it was found where that was more likely than not."""
        return self.is_found == (self.power > 0.5)

    @property
    def beyond(self) -> bool:
        """Whether a plan that drew nothing would be true: found is what moved beyond what is let through."""
        return self.is_found == (self.ratio >= self.passes)


def drawn_plan(measured: Sequence[BootFigure], placebo: Placebo, change: Change) -> PhasePlan:
    """Return the plan for a change, always the same one."""
    return plan_phases(measured, placebo, change, draws(measured[0].name))


def plans(kernels: Kernels, teachers: Teachers) -> Iterator[PlannedFigure]:
    """Yield every figure of a case that a harmful kernel made worse in a campaign."""
    before, learnt = kernels[UNPATCHED].figures, figures_of(teachers.campaigns)
    for name, change in changes().items():
        if change.group == "harmful" and name in kernels and len(kernels[name].records) >= FEWEST:
            # As in a gate of all cases: the tests of this one have their share of the false alarms.
            error = ERROR / LOOKS * 2 * len(learnt) / TESTS
            for shift in decide(shifts(before, kernels[name].figures, learnt), error):
                values = [boot[shift.figure] for boot in before]
                if shift.learnt and all(one.value for one in values) and shift.shift > _MOVED * abs(shift.baseline):
                    ratio = 1 + shift.shift / abs(shift.baseline)
                    plan = drawn_plan(values, learnt[shift.figure], Change(ratio=ratio, tests=TESTS))
                    yield PlannedFigure(kernel=name, ratio=ratio, passes=plan.passes, power=plan.power, shift=shift)
