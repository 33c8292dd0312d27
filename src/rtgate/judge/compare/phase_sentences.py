# SPDX-License-Identifier: MIT
"""What people read of a figure that the phases of two kernels show: its change, its doubt, what it rules out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rtgate.judge.compare.boot_figures import Part
from rtgate.judge.compare.detection import CHANCE, SIZES, Detection
from rtgate.judge.compare.margins import margin_of
from rtgate.judge.compare.phases import Shift, boots_needed
from rtgate.judge.limits import figure
from rtgate.judge.verdict import Figure
from rtgate.tools.measurement import Better
from rtgate.units import Quantity, Unit


def change_of(shift: Shift, change: float) -> str:
    """Return a change as a share of the baseline, or as a number where the baseline is zero; a loss has a minus."""
    change = -change if shift.better is Better.HIGHER else change
    if not shift.baseline:
        return f"{change:+g} {shift.unit}"
    return f"{change / abs(shift.baseline):+.1%}"


def share(shift: Shift, change: float) -> Figure:
    """Return a change as `change_of` tells it, with its number: a ratio, or an amount where the baseline is zero."""
    difference = -change if shift.better is Better.HIGHER else change
    number = (
        Quantity(difference / abs(shift.baseline), Unit.RATIO) if shift.baseline else Quantity(difference, shift.unit)
    )
    return Figure.of(number, change_of(shift, change))


def amount(shift: Shift, value: float, instruction_ns: str) -> Figure:
    """Return a value of a figure as it was measured: what should be high is kept with a minus sign in a shift."""
    return figure(Quantity(-value if shift.better is Better.HIGHER else value, shift.unit), instruction_ns)


def _certain(shift: Shift) -> str:
    worse = shift.shift > 0
    words = ("slower", "faster") if shift.unit.virtual else ("worse", "better")
    p = shift.p if worse else shift.faster_p
    return (
        f"{shift.figure} {words[0] if worse else words[1]} for certain by {change_of(shift, shift.shift)} (between "
        f"{change_of(shift, shift.least)} and {change_of(shift, shift.most)}, p = {p:.1g})"
    )


def _harmless(shift: Shift) -> str:
    return f" (up to {change_of(shift, shift.harmless)} seen of harmless changes)"


def clearest(shifts: Sequence[Shift]) -> Shift:
    """Return the figure that moved most for what is let through."""
    return max(shifts, key=lambda shift: abs(shift.shift) / shift.practical if shift.practical else 0.0)


def slower_sentence(shifts: Sequence[Shift]) -> str:
    """Return what is worse for certain, by more than harmless changes showed and by less than blocks: once."""
    largest = clearest(shifts)
    rest = ", ".join(f"{shift.figure} {change_of(shift, shift.shift)}" for shift in shifts if shift is not largest)
    sentence = f"{_certain(largest)}, below the {change_of(largest, largest.practical)} that blocks{_harmless(largest)}"
    return f"{sentence}; also {rest}" if rest else sentence


def equal_sentence(shifts: Sequence[Shift]) -> str:
    """Return what is ruled out, and what moved for certain within what harmless changes do."""
    body = next((shift for shift in shifts if shift.part is Part.BODY), shifts[0])
    widest = max(shifts, key=lambda shift: shift.ruled_out / abs(shift.baseline) if shift.baseline else 0.0)
    limits = f"{change_of(body, body.ruled_out)} of {body.figure} and {change_of(widest, widest.ruled_out)} of"
    sentence = (
        f"no worse than the baseline in {len(shifts)} figures of {body.boots} boots of each kernel; more than "
        f"{limits} {widest.figure} in all boots is ruled out (each at 95 %)"
    )
    slower = [shift for shift in shifts if shift.slower]
    if slower:
        sentence += f"; {_certain(clearest(slower))}, which harmless changes do too{_harmless(clearest(slower))}"
    faster = [shift for shift in shifts if shift.faster]
    return f"{sentence}; {_certain(clearest(faster))}" if faster else sentence


def detection_sentence(detections: Sequence[Detection]) -> str:
    """Return which changes the boots would have found; empty if nobody tried."""
    changes = [
        f"{detection.change} from {_percent(detection.size)}"
        if detection.size is not None
        else f"{detection.change} not even from {_percent(SIZES[-1])}"
        for detection in detections
    ]
    return f"would be found in {CHANCE * 10:.0f} of 10 such runs: {', '.join(changes)}" if changes else ""


def _percent(share: float) -> str:
    return f"{100 * share:+.3g} %"


def spike_sentence(shifts: Sequence[Shift], instruction_ns: str) -> str:
    """Return from where on a boot is a spike, which leaves a figure open; empty if no figure has spikes."""
    spikes = []
    for shift in shifts:
        if shift.part is Part.EXTREME and shift.spike_from is not None:
            boots = "a single boot" if shift.spike_boots == 1 else f"{shift.spike_boots} of {shift.boots} boots"
            spikes.append(f"a {shift.figure} from {amount(shift, shift.spike_from, instruction_ns)} in {boots}")
    return f"would be open: {', '.join(spikes)}" if spikes else ""


def doubt(shift: Shift) -> str:
    """Return why the boots do not decide about a figure."""
    counts = f"and {change_of(shift, shift.must_see)} counts"
    if not math.isfinite(shift.ruled_out):
        return f"{shift.boots} boots of each kernel are too few, {counts}"
    if shift.ruled_out > shift.must_see:
        return f"{shift.figure} may have become worse by {change_of(shift, shift.most)}, {counts}"
    return (
        f"{shift.figure} lies {change_of(shift, shift.shift)} above the baseline's, and the tolerance is "
        f"{change_of(shift, shift.practical)}, which is not certain yet (p = {shift.p:.1g})"
    )


def advice(shifts: Sequence[Shift], boot_s: float) -> str:
    """Return how many boots would decide, and what they cost; `boot_s` is how long a boot took this machine."""
    numbers = [boots_needed(shift) for shift in shifts]
    boots = max((number for number in numbers if number is not None), default=0)
    if None in numbers:
        return "the effect is so near to what counts as worse that more boots hardly decide"
    minutes = 2 * max(0, boots - shifts[0].boots) * boot_s / 60
    return f"about {boots} boots of each kernel would decide ({minutes:.1f} min more of one core)"


def beyond(shift: Shift) -> str:
    """Return what makes a boot of a figure stand out."""
    margin = margin_of(shift.part).blocking - 1
    return f"more than {margin:.0%} beyond every boot of every harmless kernel and of the baseline"
