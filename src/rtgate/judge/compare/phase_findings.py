# SPDX-License-Identifier: MIT
"""From what the phases of two kernels show (`phases`) to findings that people read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rtgate.judge.compare.detection import CHANCE, Detection
from rtgate.judge.compare.exercise import RunExercise
from rtgate.judge.compare.looks import Outcome
from rtgate.judge.compare.phase_sentences import (
    advice,
    amount,
    beyond,
    change_of,
    clearest,
    detection_sentence,
    doubt,
    equal_sentence,
    share,
    slower_sentence,
    spike_sentence,
)
from rtgate.judge.compare.phases import Boots, Placebo, Shift
from rtgate.judge.limits import Finding
from rtgate.judge.verdict import Kind, Status
from rtgate.records.explained import CaseExplanation
from rtgate.units import plural

UNKNOWN = "nobody knows what it was built from"
"""`PhaseComparison.outside` of an image that no build directory came with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseComparison:
    """One case on virtual time.

    Attributes:
        shifts: what both kernels' valid boots show, by figure.
        absent: figures that not every boot has, or that placebos had and no boot has.
        lost: how many boots of either kernel are not valid in every respect.
        boot_s: how long a boot took this machine.
        explained: what traced boots showed; None without any.
        exercise: what ran of the change in all cases of the run together; None where nobody looked by instruction.
        warning: the candidate's warning that costs the time, in words; empty without one.
        same: whether both kernels are one image, from the same source and configuration.
        outside: what else they are, where one image may be two kernels: what differs is not in it; empty if not.
        once: whether both kernels are one image that was booted once for both.
        mismatch: what the boots were measured with that placebos were not; empty if nothing.
        not_looked_at: what no case of the run looks at.
        baseline, candidate: the valid boots of each kernel.
        placebos: what harmless kernels moved, by figure.
        detections: which changes these boots would have found; empty where one is found, or more boots are needed.
    """

    board: str
    shifts: tuple[Shift, ...]
    absent: tuple[str, ...] = ()
    lost: int
    instruction_ns: str
    boot_s: float
    explained: CaseExplanation | None = None
    exercise: RunExercise | None = None
    warning: str = ""
    same: bool = False
    outside: str = ""
    once: bool = False
    mismatch: str = ""
    not_looked_at: tuple[str, ...] = ()
    baseline: Boots = ()
    candidate: Boots = ()
    placebos: Mapping[str, Placebo] = field(default_factory=dict)
    detections: tuple[Detection, ...] = ()


def findings(case: PhaseComparison, found: Sequence[Shift]) -> Iterator[Finding]:
    """Yield what is found of a case. What was measured with another QEMU or another kernel line says so."""
    alone = _outside(case) if case.outside else _once(case, found) if case.once else None
    for one in (alone,) if alone else _findings(case, found):
        # How much harmless kernels move there nobody knows: a regression stands, good news does not.
        status = Status.DONE if case.mismatch and one.status is Status.PASS else one.status
        sentence = f"{one.sentence}; measured with {case.mismatch}" if case.mismatch else one.sentence
        yield replace(one, status=status, sentence=sentence)


def _findings(case: PhaseComparison, found: Sequence[Shift]) -> Iterator[Finding]:
    """Yield a finding for each regression; and one for what is open, what was never learnt, and what is no worse."""
    judged = [one for one in found if one.learnt]
    of = {outcome: [one for one in judged if one.outcome is outcome] for outcome in Outcome}
    for number, one in enumerate(of[Outcome.REGRESSION]):
        yield _add_explanation(case, _regression(case, one)) if number == 0 else _regression(case, one)
    slower = [] if of[Outcome.REGRESSION] else [one for one in judged if one.slower and one.shift > one.harmless]
    noise_exceeds_margin = [one for one in of[Outcome.INCONCLUSIVE] if one.noise_exceeds_margin]
    if noise_exceeds_margin:
        yield _blind(noise_exceeds_margin)
    if len(noise_exceeds_margin) < len(of[Outcome.INCONCLUSIVE]):
        yield _open(case, [one for one in of[Outcome.INCONCLUSIVE] if not one.noise_exceeds_margin])
    if case.absent:
        sentence = f"not compared: not every boot has {', '.join(case.absent)}"
        yield Finding(status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)
    if len(judged) < len(found) or not found:
        yield _unknown(case, [one for one in found if not one.learnt])
        why = "" if case.same or of[Outcome.REGRESSION] else _why_not_exercised(case)
        if why:
            yield _not_exercised_finding(case, why)
    elif len(of[Outcome.NO_WORSE]) == len(found) and not case.absent:
        why = "" if case.same else _why_not_exercised(case)
        yield _not_exercised_finding(case, why) if why else _no_worse(case, found)
    elif slower:
        yield Finding(
            status=Status.DONE, kind=Kind.SLOWER, sentence=slower_sentence(slower), measurement=clearest(slower).figure
        )


def _not_exercised_finding(case: PhaseComparison, why: str) -> Finding:
    """Return that equal figures say nothing about a change that did not run."""
    sentence = f"not exercised here, boards or other loads needed: while {case.board} measured, {why}"
    return Finding(status=Status.SKIP, kind=Kind.NOT_EXERCISED, sentence=sentence)


def _why_not_exercised(case: PhaseComparison) -> str:
    """Return what of the change ran in no case of the run, in words; empty if all that matters ran."""
    if case.explained is None:
        return ""
    run = case.exercise
    if run is None:
        return "" if case.explained.is_exercised else case.explained.why_not_exercised
    if run.missing:
        others = f" and {len(run.missing) - 3} more" if len(run.missing) > 3 else ""
        return "; ".join(filter(None, (f"in no case ran {', '.join(run.missing[:3])}{others}", run.summary)))
    return ""


def _change_ran(case: PhaseComparison) -> bool:
    """Return whether something of the change ran in this case; True where nobody can tell by instruction."""
    seen = case.explained
    return seen is None or not seen.changes or bool(seen.executed)


def _exercise_sentence(case: PhaseComparison) -> str:
    if case.explained is None:
        return "nobody looked whether what differs ran"
    by_instruction = case.exercise.summary if case.exercise else ""
    here = "" if _change_ran(case) else "; nothing of it ran in this case"
    return "; ".join(filter(None, (case.explained.summary, by_instruction))) + here


def _outside(case: PhaseComparison) -> Finding:
    """Return that figures of one image, which repeat bit by bit, say nothing about a module or a driver left out."""
    made = ", and each boot was made once and stands for both" if case.once else ""
    if case.outside == UNKNOWN:
        sentence = (
            f"not exercised here: both kernels are one image{made}; {UNKNOWN}, so a module or a driver that is not in "
            "it may differ: name build directories of `rtgate build`, or measure on boards"
        )
    else:
        sentence = (
            f"not exercised here, boards needed: what differs is not in this kernel's image, which is the same on both "
            f"sides{made}: {case.outside}"
        )
    return Finding(status=Status.SKIP, kind=Kind.NOT_EXERCISED, sentence=sentence)


def _once(case: PhaseComparison, found: Sequence[Shift]) -> Finding | None:
    """Return that nothing can have become worse; None where boots are lost, which the figures then say."""
    if case.lost or not found:
        return None
    sentence = (
        f"both kernels are one image, built from one source: each of {found[0].boots} boots was made once and stands "
        "for both, and none can be worse than the other"
    )
    return Finding(status=Status.PASS, kind=Kind.NO_WORSE, sentence=sentence)


def _regression(case: PhaseComparison, one: Shift) -> Finding:
    old, new = amount(one, one.baseline, case.instruction_ns), amount(one, one.candidate, case.instruction_ns)
    if not one.by_spikes:
        sentence = (
            f"{one.figure} {change_of(one, one.shift)}: {old} before, {new} now (medians of {one.boots} boots of each "
            f"kernel, p = {one.p:.1g}; tolerance {change_of(one, one.practical)})"
        )
    else:
        sentence = (
            f"{one.figure}: {one.spikes} of {one.boots} boots had one {beyond(one)} (p = {one.spike_p:.1g}); median "
            f"{old} before, {new} now"
        )
    return Finding(
        status=Status.FAIL,
        kind=Kind.REGRESSION,
        sentence=sentence,
        value=new,
        limit=amount(one, one.baseline + one.practical, case.instruction_ns),
        baseline=old,
        change=None if one.by_spikes else share(one, one.shift),
        measurement=one.figure,
    )


def _add_explanation(case: PhaseComparison, finding: Finding) -> Finding:
    """Return a regression with where its instructions went: one cause, said at one figure of the case."""
    if case.explained is None or not case.explained.sentence:
        return finding
    cause = f"{case.warning} costs the time: " if case.warning else ""
    return replace(finding, cause=f"{cause}{case.explained.sentence}")


def _open(case: PhaseComparison, found: Sequence[Shift]) -> Finding:
    wide = [one for one in found if one.ruled_out > one.must_see]
    leaning = [one for one in found if one.over_threshold]
    if not wide and not leaning:
        return _spike_finding(found)
    if wide:
        worst = max(wide, key=lambda one: (one.most - one.must_see) / (abs(one.baseline) or 1.0))
    else:
        worst = min(leaning, key=lambda one: one.p)
    names = ", ".join(one.figure for one in found)
    sentence = f"not enough boots to decide about {names}: {doubt(worst)}; {advice(found, case.boot_s)}"
    return Finding(status=Status.DONE, kind=Kind.INCONCLUSIVE, sentence=sentence, measurement=worst.figure)


def _spike_finding(found: Sequence[Shift]) -> Finding:
    """Return that no figure moved, but that single boots were worse than those of all placebos."""
    worst = min(found, key=lambda one: one.spike_p)
    names = ", ".join(one.figure for one in found)
    sentence = (
        f"not enough boots to decide about {names}: none moved by what counts, but {worst.spikes} of {worst.boots} "
        f"boots had a {worst.figure} {beyond(worst)} (p = {worst.spike_p:.1g}): more boots show whether it was chance"
    )
    return Finding(status=Status.DONE, kind=Kind.INCONCLUSIVE, sentence=sentence, measurement=worst.figure)


def _blind(found: Sequence[Shift]) -> Finding:
    told = ", ".join(
        f"{one.figure} (up to {change_of(one, one.practical)}, and {change_of(one, one.must_see)} counts)"
        for one in found
    )
    sentence = f"not compared: harmless kernels move more than must not be missed: {told}"
    return Finding(status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence, measurement=found[0].figure)


def _unknown(case: PhaseComparison, found: Sequence[Shift]) -> Finding:
    told = "; ".join(f"{one.figure} {change_of(one, one.shift)} (p = {one.p:.1g})" for one in found)
    sentence = (
        "compared, not judged: placebos.yaml does not say how much harmless kernels of this flavour move this case on "
        f"{case.board} with this command line" + (f": {told}" if told else "")
    )
    if case.explained is not None and not case.same:
        sentence += f"; {_exercise_sentence(case)}"
    return Finding(status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)


def _no_worse(case: PhaseComparison, found: Sequence[Shift]) -> Finding:
    if case.lost:
        sentence = f"no regression seen, but not every check held in {plural(case.lost, 'boot')}: not good enough"
        return Finding(status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)
    slower = [one for one in found if one.slower and one.shift > one.harmless]
    moved = slower_sentence(slower) if slower else equal_sentence(found)
    parts = (moved, detection_sentence(case.detections), spike_sentence(found, case.instruction_ns))
    sentence = "; ".join(filter(None, parts))
    if case.not_looked_at:
        sentence += f"; not looked at: {', '.join(case.not_looked_at)}"
    if not case.same:
        ran = _exercise_sentence(case)
        sentence = f"{sentence}; {ran}" if case.explained else f"not proven, as {ran}: {sentence}"
    # What may not even have run is not good: boards must say.
    seen = case.same or (case.explained is not None and _change_ran(case))
    return Finding(
        status=Status.PASS if seen else Status.DONE,
        kind=Kind.SLOWER if slower else Kind.NO_WORSE,
        sentence=sentence,
        measurement=clearest(slower).figure if slower else "",
        ruled_out=tuple(_bounds(found)),
        detectable=tuple({"change": one.change, "from": one.size, "chance": CHANCE} for one in case.detections),
        not_looked_at=case.not_looked_at,
    )


def _bounds(found: Sequence[Shift]) -> Iterator[Mapping[str, Any]]:
    """Yield for verdict.json what is ruled out: `value` is the shift of all boots, or the level of a spike."""
    for one in found:
        if math.isfinite(one.ruled_out):
            yield {
                "figure": one.figure,
                "change": "all boots by more than",
                "value": one.ruled_out,
                "unit": str(one.unit),
            }
        if one.spike_from is not None:
            change = f"{one.spike_boots} of {one.boots} boots from"
            yield {"figure": one.figure, "change": change, "value": one.spike_from, "unit": str(one.unit)}
