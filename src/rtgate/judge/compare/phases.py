# SPDX-License-Identifier: MIT
"""Comparing two kernels on virtual time, where a boot is a phase and not a measurement with noise.

One kernel and one seed give one result, always. Another seed, or one more instruction anywhere before, shifts the phase
of timers against work and gives another result, from the same population if the change is harmless: so the boots of
two kernels with many seeds are two samples, and what is asked is whether they come from one population. Three
questions are put to each figure, and a regression needs a yes to the first two:

1. Can equal kernels show this? (exact rank test, all figures of the run together by Holm)
2. Is it more than what placebos moved, and worth blocking? (`Placebo`, learnt from harmless kernels)
3. If not: how large a change do these boots still rule out? (Hodges and Lehmann's upper bound, 95 %)

What is rare shows in few boots only and moves no median. For it the number of boots counts that lie beyond every boot
of every placebo (`Placebo.spike`) by an amount worth blocking.

docs/explanation/verdicts.md has the method, what it was measured on, and its error rates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, count
from statistics import NormalDist, median

from rtgate.judge.compare import ranks
from rtgate.judge.compare.boot_figures import BootFigure, Part
from rtgate.judge.compare.looks import Outcome
from rtgate.judge.compare.margins import margin_of
from rtgate.tools.measurement import Better
from rtgate.units import Unit

LOOKS = 2
"""How often a run may be judged: once, and again with more boots of the cases that stayed open."""
ERROR = 0.01
"""Chance of a regression where there is none, of a whole run and all looks, before placebos are asked."""

_SUSPICIOUS = 0.05  # spikes that are less probable than this leave a figure open
_BEYOND_PLACEBOS = 1.5  # a shift must exceed the largest that a placebo showed by this factor
_HOPELESS = 100  # times as many boots are not proposed
_CONFIDENCE = 1 - 0.05 / LOOKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Placebo:
    """How much harmless kernels moved one figure of one case on one board.

    Attributes:
        move: the largest shift between two harmless kernels, as a share of the median of the one compared with.
        spike: the largest figure of any boot, as a multiple of its own kernel's median.
        move_by: the largest shift in the figure's own unit; only where some median was zero, which has no shares.
        spike_at: the largest figure of any boot of a kernel whose median was zero.
        kernels: how many placebos had data of their own.
        boots: of each.
    """

    move: float
    spike: float
    kernels: int
    boots: int
    move_by: float = 0.0
    spike_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """What the boots of two kernels show of one figure, in the figure's unit; larger is worse.

    Attributes:
        baseline, candidate: medians of the boots.
        baseline_worst, candidate_worst: their largest boots.
        shift: how far the candidate lies above the baseline.
        most: its upper bound, at 95 % over both looks.
        p: how probable so much is for equal kernels.
        better: which way the measurement itself improves.
        practical: a smaller shift is not a regression.
        ruled_out: a larger shift is ruled out by these boots, at 95 %; infinite if they rule out nothing.
        spikes: candidate's boots beyond all that placebos showed, by what is worth blocking; None where nobody
            measured placebos.
        moved: whether the shift of all boots makes it a regression.
        spiked: whether spikes make it one; both may.
        fewest: boots of each kernel with which anything can be called a regression in this run.
        learnt: whether placebos showed how much this figure moves for no reason; otherwise it is not judged.
        outcome: decided for all figures of the run together, see `decide`.
        least: lower bound of the shift, at 95 % over both looks.
        faster_p: how probable so much in the good direction is for equal kernels.
        harmless: the largest shift that a placebo showed.
        certain: whether it lies above or below the baseline for certain, by however little.
        spike_from: a boot with so much counts as a spike; None as `spikes`.
        spike_boots: so many of them leave the figure open at least.
    """

    figure: str
    part: Part
    unit: Unit
    baseline: float
    candidate: float
    baseline_worst: float
    candidate_worst: float
    boots: int
    shift: float
    most: float
    p: float
    practical: float
    must_see: float
    ruled_out: float
    learnt: bool
    better: Better = Better.LOWER
    spikes: int | None = None
    spike_p: float = 1.0
    moved: bool = False
    spiked: bool = False
    fewest: int = 2
    outcome: Outcome = Outcome.INCONCLUSIVE
    least: float = -math.inf
    faster_p: float = 1.0
    harmless: float = 0.0
    certain: bool = False
    spike_from: float | None = None
    spike_boots: int = 1

    @property
    def slower(self) -> bool:
        """Whether it is worse for certain, by less than blocks."""
        return self.certain and 0 < self.shift < self.practical

    @property
    def has_outliers(self) -> bool:
        """Whether spikes say more than the shift: where all boots became slower, all may lie beyond the placebos'."""
        if not self.spiked or self.spike_from is None:
            return False
        growth = self.candidate / self.baseline if self.baseline else 1.0
        return not self.moved or self.candidate_worst > self.spike_from * max(1.0, growth)

    @property
    def faster(self) -> bool:
        """Whether it is better for certain, by more than harmless changes showed."""
        return self.certain and self.shift < -self.harmless

    @property
    def noise_exceeds_margin(self) -> bool:
        """Whether harmless kernels move the figure by more than must not be missed: no boots can say "no worse"."""
        return self.practical > self.must_see

    @property
    def over_threshold(self) -> bool:
        """Whether it lies so far above the baseline that it would be a regression, were it sure."""
        return 0 < self.practical <= self.shift


Boots = Sequence[Mapping[str, BootFigure]]


def shifts(baseline: Boots, candidate: Boots, placebos: Mapping[str, Placebo]) -> tuple[Shift, ...]:
    """Return what each figure shows that every boot of both kernels has; undecided."""
    if not baseline or not candidate:
        return ()
    common = set(baseline[0]).intersection(*baseline, *candidate)
    units = {name: {boot[name].unit for boot in (*baseline, *candidate)} for name in common}
    names = [name for name in baseline[0] if name in common and len(units[name]) == 1]
    return tuple(
        _shift([boot[name] for boot in baseline], [boot[name] for boot in candidate], placebos.get(name))
        for name in names
    )


@dataclass(frozen=True, slots=True)
class Rule:
    """What is a regression of one figure, as far as the baseline and placebos say.

    Attributes:
        practical: a smaller shift is none.
        spike_from: a boot with more counts as a spike; None where nobody knows.
    """

    practical: float
    spike_from: float | None
    placebo: Placebo | None

    @classmethod
    def of(cls, figure: BootFigure, old: Sequence[float], placebo: Placebo | None) -> Rule:
        """Return the rule of a figure, by the baseline's boots."""
        middle, margin = median(old), margin_of(figure.part)
        move = _BEYOND_PLACEBOS * placebo.move if placebo else 0.0
        least = _BEYOND_PLACEBOS * placebo.move_by if placebo else 0.0
        practical = max(max(margin.blocking - 1, move) * abs(middle), least) or _unit_change(figure.unit)
        is_known = placebo is not None and middle >= 0
        return cls(practical, _spike_level(old, placebo, margin.blocking) if placebo and is_known else None, placebo)

    def spikes(self, new: Sequence[float]) -> tuple[int | None, float]:
        """Return how many boots are spikes, and how probable so many are for a harmless kernel."""
        if self.placebo is None or self.spike_from is None:
            return None, 1.0
        beyond = sum(value > self.spike_from for value in new)
        return beyond, _spike_p(beyond, len(new), self.placebo)

    def alarms(self, old: Sequence[float], new: Sequence[float], level: float) -> bool:
        """Return whether a figure is a regression that no other of the run helps (Holm's first step, see `first`)."""
        if ranks.shift(old, new) >= self.practical and ranks.worse(old, new) <= level:
            return True
        beyond, p = self.spikes(new)
        return bool(beyond) and p <= level


def _shift(before: Sequence[BootFigure], after: Sequence[BootFigure], placebo: Placebo | None) -> Shift:
    figure = before[0]
    old, new = [boot.value for boot in before], [boot.value for boot in after]
    middle = median(old)
    margin = margin_of(figure.part)
    rule = Rule.of(figure, old, placebo)
    practical, spike_from, spike_boots = rule.practical, rule.spike_from, 1
    spikes, spike_p = rule.spikes(new)
    if placebo and spikes is not None:
        spike_boots = next(
            (few for few in range(1, len(new)) if _spike_p(few, len(new), placebo) <= _SUSPICIOUS), len(new)
        )
    return Shift(
        figure=figure.name,
        part=figure.part,
        unit=figure.unit,
        baseline=middle,
        candidate=median(new),
        baseline_worst=max(old),
        candidate_worst=max(new),
        boots=min(len(old), len(new)),
        shift=ranks.shift(old, new),
        most=ranks.at_most(old, new, _CONFIDENCE),
        p=ranks.worse(old, new),
        practical=practical,
        # Placebos that move more than that must not make it grow: then nothing is ruled out.
        must_see=(margin.must_detect - 1) * abs(middle) or practical,
        ruled_out=math.inf,
        learnt=placebo is not None,
        better=figure.better,
        spikes=spikes,
        spike_p=spike_p,
        least=ranks.at_least(old, new, _CONFIDENCE),
        faster_p=ranks.worse(new, old),
        harmless=max(placebo.move * abs(middle), placebo.move_by) if placebo else 0.0,
        spike_from=spike_from,
        spike_boots=spike_boots,
    )


def _unit_change(unit: Unit) -> float:
    """Return what counts as a change of something that is zero: one, of what is counted."""
    return 1.0 if unit is Unit.COUNT else 0.0


def _spike_level(old: Sequence[float], placebo: Placebo, worth: float) -> float:
    """Return what lies further out than every boot of every placebo and of the baseline, by an amount worth blocking.

    As a multiple of the median of the kernel without the change.
    """
    middle = median(old)
    return worth * max(placebo.spike * middle if middle else placebo.spike_at, *old)


def _spike_p(beyond: int, boots: int, placebo: Placebo) -> float:
    """Return how probable so many boots beyond all that placebos showed are for another harmless kernel.

    If the candidate is harmless all boots, the placebos' and its own, are exchangeable: that at least k of S new ones
    lie above all N old ones has the probability S!/(S-k)! (N+S-k)!/(N+S)!, whatever the distribution. That they lie
    above them by some amount is less probable still.
    """
    placebo_boots = placebo.kernels * placebo.boots
    return math.prod((boots - index) / (placebo_boots + boots - index) for index in range(beyond))


def first(figures: Sequence[Shift], error: float = ERROR / LOOKS) -> float:
    """Return the chance of a false alarm that one test of a run has, if it comes first (Holm)."""
    return error / max(1, sum(shift.learnt for shift in figures) + sum(shift.spikes is not None for shift in figures))


def decide(figures: Sequence[Shift], error: float = ERROR / LOOKS) -> tuple[Shift, ...]:
    """Return the outcome of every figure of a run, with the chance of any wrong regression at most `error` (Holm).

    Args:
        figures: the figures of all cases.
        error: for this look; by default each look gets its share (Bonferroni), whether the others happen or not.
    """
    tests = sorted(
        [(shift.p, index) for index, shift in enumerate(figures) if shift.learnt]
        + [(shift.spike_p, index) for index, shift in enumerate(figures) if shift.spikes is not None]
    )
    significant: set[tuple[float, int]] = set()
    for rank, (p, index) in enumerate(tests):
        if not p <= error / (len(tests) - rank):
            break
        significant.add((p, index))
    return tuple(_decide(shift, index, significant, first(figures, error)) for index, shift in enumerate(figures))


def _decide(shift: Shift, index: int, significant: set[tuple[float, int]], level: float) -> Shift:
    if not shift.learnt:
        return shift
    # With fewer boots nothing could be called a regression, so nothing is ruled out.
    fewest = next(boots for boots in count(2) if ranks.least_p(boots, boots) <= level)
    bound = max(shift.practical, shift.most) if shift.boots >= fewest else math.inf
    moved = (shift.p, index) in significant and shift.shift >= shift.practical
    spiked = bool(shift.spikes) and (shift.spike_p, index) in significant
    # What may be a regression, for all that is known, is not called no worse for want of boots.
    suspicious = shift.over_threshold or (bool(shift.spikes) and shift.spike_p <= _SUSPICIOUS)
    if moved or spiked:
        outcome = Outcome.REGRESSION
    elif bound <= shift.must_see and not suspicious:
        outcome = Outcome.NO_WORSE
    else:
        outcome = Outcome.INCONCLUSIVE
    return replace(
        shift,
        ruled_out=bound,
        outcome=outcome,
        moved=moved,
        spiked=spiked,
        fewest=fewest,
        # A loss is tested with all others; a gain alarms nobody, so each figure is simply held to the same level.
        certain=(shift.p, index) in significant or shift.faster_p <= level,
    )


def placebos_from(reference: Boots, harmless: Sequence[Boots]) -> Mapping[str, Placebo]:
    """Return how much harmless kernels moved each figure against the kernel without their changes.

    Raises:
        ValueError: there is no placebo, or a kernel was not measured.
    """
    if not harmless or not all((reference, *harmless)):
        raise ValueError("the kernel itself and at least one placebo must have been measured")
    common = set(reference[0]).intersection(*reference, *(boot for boots in harmless for boot in boots))
    return {name: _placebo_shifts(name, reference, harmless) for name in reference[0] if name in common}


def _placebo_shifts(name: str, reference: Boots, harmless: Sequence[Boots]) -> Placebo:
    """Return what harmless kernels showed against each other: each of them could have been the baseline."""
    kernels = [[boot[name].value for boot in boots] for boots in (reference, *harmless)]
    # As far as one lies above another, the other lies below it.
    pairs = [(abs(ranks.shift(kernel, partner)), (kernel, partner)) for kernel, partner in combinations(kernels, 2)]
    shifts = [(shift, abs(median(before))) for shift, pair in pairs for before in pair]
    zero = [values for values in kernels if not median(values)]
    return Placebo(
        move=max((shift / middle for shift, middle in shifts if middle), default=0.0),
        move_by=max(shift for shift, _ in shifts) if zero else 0.0,
        spike_at=max((max(values) for values in zero), default=0.0),
        spike=max((max(values) / median(values) for values in kernels if median(values) > 0), default=1.0),
        kernels=len(harmless),
        boots=min(len(values) for values in kernels[1:]),
    )


def boots_needed(shift: Shift) -> int | None:
    """Return how many boots of each kernel would decide about a figure that is open; None if more hardly help.

    With the root of their number the bound comes nearer to the shift, and the rank test's deviation grows.
    """
    if not math.isfinite(shift.ruled_out):
        return shift.fewest
    times = math.inf
    room = shift.must_see - shift.shift
    if room > 0 and not shift.over_threshold:  # what leans is narrow enough, and not sure
        times = ((shift.most - shift.shift) / room) ** 2
    if shift.shift >= shift.practical and shift.p < 0.5:
        # By Holm it may take less than the level that the fewest boots reach.
        quantile = NormalDist().inv_cdf(ranks.least_p(shift.fewest, shift.fewest))
        times = min(times, (quantile / NormalDist().inv_cdf(shift.p)) ** 2)
    return max(shift.fewest, math.ceil(shift.boots * times)) if times <= _HOPELESS else None
