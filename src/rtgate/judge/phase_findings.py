# SPDX-License-Identifier: MIT
"""From what the phases of two kernels show (`phases`) to findings that people read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rtgate.explained import Explained
from rtgate.judge.boot_figures import Part
from rtgate.judge.limits import Finding, shown
from rtgate.judge.looks import Outcome
from rtgate.judge.margins import margin_of
from rtgate.judge.phases import Shift, boots_needed
from rtgate.judge.verdict import Kind, Status
from rtgate.measurement import Better
from rtgate.units import Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One case on virtual time.

    Attributes:
        found: what both kernels' valid boots show, by figure.
        absent: figures that not every boot has, or that placebos had and no boot has.
        lost: how many boots of either kernel are not valid in every respect.
        boot_s: how long a boot took this machine.
        explained: what traced boots showed; None without any.
        same: whether both kernels are one image, from the same source and configuration.
        outside: what else they are, where one image may be two kernels: what differs is not in it; empty if not.
        once: whether both kernels are one image that was booted once for both.
        strange: what the boots were measured with that placebos were not; empty if nothing.
    """

    board: str
    found: tuple[Shift, ...]
    absent: tuple[str, ...] = ()
    lost: int
    instruction_ns: str
    boot_s: float
    explained: Explained | None = None
    same: bool = False
    outside: str = ""
    once: bool = False
    strange: str = ""


def findings(case: Compared, found: Sequence[Shift]) -> Iterator[Finding]:
    """Yield what is found of a case. What was measured with another QEMU or another series of kernels says so."""
    alone = _elsewhere(case) if case.outside else _once(case, found) if case.once else None
    for one in (alone,) if alone else _findings(case, found):
        # How much harmless kernels move there nobody knows: a regression stands, good news does not.
        status = Status.DONE if case.strange and one.status is Status.PASS else one.status
        sentence = f"{one.sentence}; measured with {case.strange}" if case.strange else one.sentence
        yield replace(one, status=status, sentence=sentence)


def _findings(case: Compared, found: Sequence[Shift]) -> Iterator[Finding]:
    """Yield a finding for each regression; and one for what is open, what was never learnt, and what is no worse."""
    judged = [one for one in found if one.learnt]
    of = {outcome: [one for one in judged if one.outcome is outcome] for outcome in Outcome}
    for one in of[Outcome.REGRESSION]:
        yield _regression(case, one)
    blind = [one for one in of[Outcome.INCONCLUSIVE] if one.blind]
    if blind:
        yield _blind(blind)
    if len(blind) < len(of[Outcome.INCONCLUSIVE]):
        yield _open(case, [one for one in of[Outcome.INCONCLUSIVE] if not one.blind])
    if case.absent:
        sentence = f"not compared: not every boot has {', '.join(case.absent)}"
        yield Finding(status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)
    if len(judged) < len(found) or not found:
        yield _unknown(case, [one for one in found if not one.learnt])
    elif len(of[Outcome.NO_WORSE]) == len(found) and not case.absent:
        slept = case.explained is not None and not case.explained.exercised and not case.same
        yield _not_exercised(case, case.explained) if case.explained and slept else _no_worse(case, found)


def _not_exercised(case: Compared, explained: Explained) -> Finding:
    """Return that equal figures say nothing about a change that did not run."""
    sentence = f"not exercised here, boards needed: while {case.board} measured, {explained.slept}"
    return Finding(status=Status.SKIP, kind=Kind.NOT_EXERCISED, sentence=sentence)


def _elsewhere(case: Compared) -> Finding:
    """Return that figures of one image, which repeat bit by bit, say nothing about a module or a driver left out."""
    sentence = (
        f"not exercised here, boards needed: what differs is not in this kernel's image, which is the same on both "
        f"sides: {case.outside}"
    )
    return Finding(status=Status.SKIP, kind=Kind.NOT_EXERCISED, sentence=sentence)


def _once(case: Compared, found: Sequence[Shift]) -> Finding | None:
    """Return that nothing can have become worse; None where boots are lost, which the figures then say."""
    if case.lost or not found:
        return None
    sentence = (
        f"both kernels are one image, built from one source: each of {found[0].boots} boots was made once and stands "
        "for both, and none can be worse than the other"
    )
    return Finding(status=Status.PASS, kind=Kind.NO_WORSE, sentence=sentence)


def _regression(case: Compared, one: Shift) -> Finding:
    old, new = _shown(case, one, one.baseline), _shown(case, one, one.candidate)
    if not one.by_spikes:
        sentence = (
            f"{one.figure} {_change(one, one.shift)}: {old} before, {new} now (medians of {one.boots} boots of each "
            f"kernel, p = {one.p:.1g}; up to {_change(one, one.practical)} passes)"
        )
    else:
        sentence = (
            f"{one.figure}: {one.spikes} of {one.boots} boots had one {_beyond(one)} (p = {one.spike_p:.1g}); median "
            f"{old} before, {new} now"
        )
    if case.explained is not None and case.explained.sentence:
        sentence += f"; {case.explained.sentence}"
    return Finding(
        status=Status.FAIL,
        kind=Kind.REGRESSION,
        sentence=sentence,
        value=new,
        limit=_shown(case, one, one.baseline + one.practical),
        measurement=one.figure,
    )


def _open(case: Compared, found: Sequence[Shift]) -> Finding:
    wide = [one for one in found if one.ruled_out > one.must_see]
    leaning = [one for one in found if one.leans]
    if not wide and not leaning:
        return _spiked(found)
    if wide:
        worst = max(wide, key=lambda one: (one.most - one.must_see) / (abs(one.baseline) or 1.0))
    else:
        worst = min(leaning, key=lambda one: one.p)
    names = ", ".join(one.figure for one in found)
    sentence = f"the boots do not decide about {names}: {_doubt(worst)}; {_advice(case, found)}"
    return Finding(status=Status.DONE, kind=Kind.INCONCLUSIVE, sentence=sentence, measurement=worst.figure)


def _doubt(one: Shift) -> str:
    counts = f"and {_change(one, one.must_see)} counts"
    if not math.isfinite(one.ruled_out):
        return f"{one.boots} boots of each kernel are too few, {counts}"
    if one.ruled_out > one.must_see:
        return f"{one.figure} may have become worse by {_change(one, one.most)}, {counts}"
    return (
        f"{one.figure} lies {_change(one, one.shift)} above the baseline's, and up to {_change(one, one.practical)} "
        f"passes, which is not sure yet (p = {one.p:.1g})"
    )


def _spiked(found: Sequence[Shift]) -> Finding:
    """Return that no figure moved, but that single boots were worse than those of all placebos."""
    worst = min(found, key=lambda one: one.spike_p)
    names = ", ".join(one.figure for one in found)
    sentence = (
        f"the boots do not decide about {names}: none moved by what counts, but {worst.spikes} of {worst.boots} boots "
        f"had a {worst.figure} {_beyond(worst)} (p = {worst.spike_p:.1g}): more boots show whether it was chance"
    )
    return Finding(status=Status.DONE, kind=Kind.INCONCLUSIVE, sentence=sentence, measurement=worst.figure)


def _beyond(one: Shift) -> str:
    return f"more than {margin_of(one.part).worth - 1:.0%} beyond every boot of every placebo and of the baseline"


def _blind(found: Sequence[Shift]) -> Finding:
    told = ", ".join(
        f"{one.figure} (up to {_change(one, one.practical)}, and {_change(one, one.must_see)} counts)" for one in found
    )
    sentence = f"not compared: harmless kernels move more than must not be missed: {told}"
    return Finding(status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence, measurement=found[0].figure)


def _advice(case: Compared, found: Sequence[Shift]) -> str:
    needed = [boots_needed(one) for one in found]
    boots = max((number for number in needed if number is not None), default=0)
    if None in needed:
        return "the effect is so near to what counts as worse that more boots hardly decide"
    minutes = 2 * max(0, boots - found[0].boots) * case.boot_s / 60
    return f"about {boots} boots of each kernel would decide ({minutes:.1f} min more of one core)"


def _unknown(case: Compared, found: Sequence[Shift]) -> Finding:
    told = "; ".join(f"{one.figure} {_change(one, one.shift)} (p = {one.p:.1g})" for one in found)
    sentence = (
        "compared, not judged: placebos.yaml does not say how much harmless kernels of this flavour move this case on "
        f"{case.board} with this command line" + (f": {told}" if told else "")
    )
    return Finding(status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)


def _no_worse(case: Compared, found: Sequence[Shift]) -> Finding:
    if case.lost:
        sentence = f"no regression seen, but {case.lost} boots are not valid in every respect: that is not good enough"
        return Finding(status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)
    body = next((one for one in found if one.part is Part.BODY), found[0])
    widest = max(found, key=lambda one: one.ruled_out / abs(one.baseline) if one.baseline else 0.0)
    limits = f"{_change(body, body.ruled_out)} of {body.figure} and {_change(widest, widest.ruled_out)} of"
    sentence = (
        f"no worse than the baseline in {len(found)} figures of {body.boots} boots of each kernel; more than "
        f"{limits} {widest.figure} in all boots is ruled out (each at 95 %)"
    )
    if not case.same:
        sentence += f"; {case.explained.told if case.explained else 'nobody looked whether what differs ran'}"
    # What may not even have run is not good: boards must say.
    seen = case.same or case.explained is not None
    return Finding(status=Status.PASS if seen else Status.DONE, kind=Kind.NO_WORSE, sentence=sentence)


def _change(one: Shift, change: float) -> str:
    """Return a change as a share of the baseline, or as a number where the baseline is zero; a loss has a minus."""
    change = -change if one.better is Better.HIGHER else change
    if not one.baseline:
        return f"{change:+g} {one.unit}"
    return f"{change / abs(one.baseline):+.1%}"


def _shown(case: Compared, one: Shift, value: float) -> str:
    # What should be high is kept with a minus sign, so that larger is worse everywhere.
    amount = -value if one.better is Better.HIGHER else value
    return shown(Quantity(amount, one.unit), case.instruction_ns)
