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


def change_of(one: Shift, change: float) -> str:
    """Return a change as a share of the baseline, or as a number where the baseline is zero; a loss has a minus."""
    change = -change if one.better is Better.HIGHER else change
    if not one.baseline:
        return f"{change:+g} {one.unit}"
    return f"{change / abs(one.baseline):+.1%}"


def share(one: Shift, change: float) -> Figure:
    """Return a change as `change_of` tells it, with its number: a ratio, or an amount where the baseline is zero."""
    signed = -change if one.better is Better.HIGHER else change
    number = Quantity(signed / abs(one.baseline), Unit.RATIO) if one.baseline else Quantity(signed, one.unit)
    return Figure(number, change_of(one, change))


def amount(one: Shift, value: float, instruction_ns: str) -> Figure:
    """Return a value of a figure as it was measured: what should be high is kept with a minus sign in a shift."""
    return figure(Quantity(-value if one.better is Better.HIGHER else value, one.unit), instruction_ns)


def _certain(one: Shift) -> str:
    worse = one.shift > 0
    words = ("slower", "faster") if one.unit.virtual else ("worse", "better")
    p = one.p if worse else one.faster_p
    return (
        f"{one.figure} {words[0] if worse else words[1]} for certain by {change_of(one, one.shift)} (between "
        f"{change_of(one, one.least)} and {change_of(one, one.most)}, p = {p:.1g})"
    )


def _harmless(one: Shift) -> str:
    return f" (up to {change_of(one, one.harmless)} seen of harmless changes)"


def clearest(found: Sequence[Shift]) -> Shift:
    """Return the figure that moved most for what is let through."""
    return max(found, key=lambda one: abs(one.shift) / one.practical if one.practical else 0.0)


def slower_sentence(found: Sequence[Shift]) -> str:
    """Return what is worse for certain, by more than harmless changes showed and by less than blocks: once."""
    one = clearest(found)
    others = ", ".join(f"{other.figure} {change_of(other, other.shift)}" for other in found if other is not one)
    sentence = f"{_certain(one)}, below the {change_of(one, one.practical)} that blocks{_harmless(one)}"
    return f"{sentence}; also {others}" if others else sentence


def equal_sentence(found: Sequence[Shift]) -> str:
    """Return what is ruled out, and what moved for certain within what harmless changes do."""
    body = next((one for one in found if one.part is Part.BODY), found[0])
    widest = max(found, key=lambda one: one.ruled_out / abs(one.baseline) if one.baseline else 0.0)
    limits = f"{change_of(body, body.ruled_out)} of {body.figure} and {change_of(widest, widest.ruled_out)} of"
    sentence = (
        f"no worse than the baseline in {len(found)} figures of {body.boots} boots of each kernel; more than "
        f"{limits} {widest.figure} in all boots is ruled out (each at 95 %)"
    )
    moved = [one for one in found if one.slower]
    if moved:
        sentence += f"; {_certain(clearest(moved))}, which harmless changes do too{_harmless(clearest(moved))}"
    faster = [one for one in found if one.faster]
    return f"{sentence}; {_certain(clearest(faster))}" if faster else sentence


def detection_sentence(found: Sequence[Detection]) -> str:
    """Return which changes the boots would have found; empty if nobody tried."""
    told = [
        f"{one.change} from {_percent(one.size)}"
        if one.size is not None
        else f"{one.change} not even from {_percent(SIZES[-1])}"
        for one in found
    ]
    return f"would be found in {CHANCE * 10:.0f} of 10 such runs: {', '.join(told)}" if told else ""


def _percent(share: float) -> str:
    return f"{100 * share:+.3g} %"


def spike_sentence(found: Sequence[Shift], instruction_ns: str) -> str:
    """Return from where on a boot is a spike, which leaves a figure open; empty if no figure has spikes."""
    told = []
    for one in found:
        if one.part is Part.EXTREME and one.spike_from is not None:
            boots = "a single boot" if one.spike_boots == 1 else f"{one.spike_boots} of {one.boots} boots"
            told.append(f"a {one.figure} from {amount(one, one.spike_from, instruction_ns)} in {boots}")
    return f"would be open: {', '.join(told)}" if told else ""


def doubt(one: Shift) -> str:
    """Return why the boots do not decide about a figure."""
    counts = f"and {change_of(one, one.must_see)} counts"
    if not math.isfinite(one.ruled_out):
        return f"{one.boots} boots of each kernel are too few, {counts}"
    if one.ruled_out > one.must_see:
        return f"{one.figure} may have become worse by {change_of(one, one.most)}, {counts}"
    return (
        f"{one.figure} lies {change_of(one, one.shift)} above the baseline's, and the tolerance is "
        f"{change_of(one, one.practical)}, which is not certain yet (p = {one.p:.1g})"
    )


def advice(found: Sequence[Shift], boot_s: float) -> str:
    """Return how many boots would decide, and what they cost; `boot_s` is how long a boot took this machine."""
    needed = [boots_needed(one) for one in found]
    boots = max((number for number in needed if number is not None), default=0)
    if None in needed:
        return "the effect is so near to what counts as worse that more boots hardly decide"
    minutes = 2 * max(0, boots - found[0].boots) * boot_s / 60
    return f"about {boots} boots of each kernel would decide ({minutes:.1f} min more of one core)"


def beyond(one: Shift) -> str:
    """Return what makes a boot of a figure stand out."""
    margin = margin_of(one.part).blocking - 1
    return f"more than {margin:.0%} beyond every boot of every harmless kernel and of the baseline"
