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
from rtgate.judge.compare.remedy import remedy_sentence
from rtgate.judge.verdict import Finding, Kind, Status
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


def findings(case: PhaseComparison, shifts: Sequence[Shift]) -> Iterator[Finding]:
    """Yield what is found of a case. What was measured with another QEMU or another kernel line says so."""
    alone = _outside(case) if case.outside else _once(case, shifts) if case.once else None
    for finding in (alone,) if alone else _findings(case, shifts):
        # How much harmless kernels move there nobody knows: a regression stands, good news does not.
        status = Status.DONE if case.mismatch and finding.status is Status.PASS else finding.status
        sentence = f"{finding.sentence}; measured with {case.mismatch}" if case.mismatch else finding.sentence
        yield replace(finding, status=status, sentence=sentence)


def _findings(case: PhaseComparison, shifts: Sequence[Shift]) -> Iterator[Finding]:
    """Yield a finding for each regression; and one for what is open, what was never learnt, and what is no worse."""
    known_shifts = [shift for shift in shifts if shift.learnt]
    of = {outcome: [shift for shift in known_shifts if shift.outcome is outcome] for outcome in Outcome}
    regressions = (finding for shift in of[Outcome.REGRESSION] for finding in _regressions(case, shift))
    for number, finding in enumerate(regressions):
        yield _add_explanation(case, finding) if number == 0 else finding
    slower = (
        []
        if of[Outcome.REGRESSION]
        else [shift for shift in known_shifts if shift.slower and shift.shift > shift.harmless]
    )
    noise_exceeds_margin = [shift for shift in of[Outcome.INCONCLUSIVE] if shift.noise_exceeds_margin]
    if noise_exceeds_margin:
        yield _blind(noise_exceeds_margin)
    if len(noise_exceeds_margin) < len(of[Outcome.INCONCLUSIVE]):
        yield _open(case, [shift for shift in of[Outcome.INCONCLUSIVE] if not shift.noise_exceeds_margin])
    if case.absent:
        sentence = f"not compared: not every boot has {', '.join(case.absent)}"
        yield Finding(status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)
    if len(known_shifts) < len(shifts) or not shifts:
        yield _unknown(case, [shift for shift in shifts if not shift.learnt])
        why = "" if case.same or of[Outcome.REGRESSION] else _why_not_exercised(case)
        if why:
            yield _not_exercised_finding(case, why)
    elif len(of[Outcome.NO_WORSE]) == len(shifts) and not case.absent:
        why = "" if case.same else _why_not_exercised(case)
        yield _not_exercised_finding(case, why) if why else _no_worse(case, shifts)
    elif slower:
        yield Finding(
            status=Status.DONE, kind=Kind.SLOWER, sentence=slower_sentence(slower), measurement=clearest(slower).figure
        )


def _not_exercised_finding(case: PhaseComparison, why: str) -> Finding:
    """Return that equal figures say nothing about a change that did not run."""
    assert case.explained is not None
    run = case.exercise
    needed = remedy_sentence(case.explained, run.missing if run else (), untraced=bool(run and run.untraced))
    sentence = f"not exercised here, {needed}: while {case.board} measured, {why}"
    return Finding(status=Status.SKIP, kind=Kind.NOT_EXERCISED, sentence=sentence)


def _why_not_exercised(case: PhaseComparison) -> str:
    """Return what of the change ran in no case of the run, in words; empty if all that matters ran."""
    if case.explained is None:
        return ""
    run = case.exercise
    if run is None:
        return "" if case.explained.is_exercised else case.explained.why_not_exercised
    return "; ".join(filter(None, (run.gap_sentence, run.summary))) if run.missing else ""


def _change_ran(case: PhaseComparison) -> bool:
    """Return whether something of the change ran in this case; True where nobody can tell by instruction."""
    explanation = case.explained
    return explanation is None or not explanation.changes or bool(explanation.executed)


def _exercise_sentence(case: PhaseComparison) -> str:
    if case.explained is None:
        return "nobody looked whether what differs ran"
    by_instruction = case.exercise.summary if case.exercise else ""
    here = "" if _change_ran(case) else "; nothing of it ran in this case"
    return "; ".join(filter(None, (case.explained.summary, by_instruction))) + here


def _outside(case: PhaseComparison) -> Finding:
    """Return that figures of one image, which repeat bit by bit, say nothing about a module or a driver left out."""
    note = ", and each boot was made once and stands for both" if case.once else ""
    if case.outside == UNKNOWN:
        sentence = (
            f"not exercised here: both kernels are one image{note}; {UNKNOWN}, so a module or a driver that is not in "
            "it may differ: name build directories of `rtgate build`, or measure on boards"
        )
    else:
        sentence = (
            f"not exercised here, boards needed: what differs is not in this kernel's image, which is the same on both "
            f"sides{note}: {case.outside}"
        )
    return Finding(status=Status.SKIP, kind=Kind.NOT_EXERCISED, sentence=sentence)


def _once(case: PhaseComparison, shifts: Sequence[Shift]) -> Finding | None:
    """Return that nothing can have become worse; None where boots are lost, which the figures then say."""
    if case.lost or not shifts:
        return None
    sentence = (
        f"both kernels are one image, built from one source: each of {shifts[0].boots} boots was made once and stands "
        "for both, and none can be worse than the other"
    )
    return Finding(status=Status.PASS, kind=Kind.NO_WORSE, sentence=sentence)


def _regressions(case: PhaseComparison, shift: Shift) -> Iterator[Finding]:
    """Yield that all boots of a figure became worse, and that few became far worse: a waiver may cover one of both."""
    if shift.moved:
        yield _regression(case, shift)
    if shift.has_outliers:
        yield _spike_regression(case, shift)


def _regression(case: PhaseComparison, shift: Shift) -> Finding:
    old, new = amount(shift, shift.baseline, case.instruction_ns), amount(shift, shift.candidate, case.instruction_ns)
    sentence = (
        f"{shift.figure} {change_of(shift, shift.shift)}: {old} before, {new} now (medians of {shift.boots} boots "
        f"of each kernel, p = {shift.p:.1g}; tolerance {change_of(shift, shift.practical)})"
    )
    return Finding(
        status=Status.FAIL,
        kind=Kind.REGRESSION,
        sentence=sentence,
        value=new,
        limit=amount(shift, shift.baseline + shift.practical, case.instruction_ns),
        baseline=old,
        change=share(shift, shift.shift),
        measurement=shift.figure,
    )


def _spike_regression(case: PhaseComparison, shift: Shift) -> Finding:
    """Return that few boots are far worse. The worst one decided: the median, which it hardly moves, may be equal."""
    assert shift.spike_from is not None
    old, new, old_worst, new_worst, limit = (
        amount(shift, value, case.instruction_ns)
        for value in (
            shift.baseline,
            shift.candidate,
            shift.baseline_worst,
            shift.candidate_worst,
            shift.spike_from,
        )
    )
    sentence = (
        f"{shift.figure}: {shift.spikes} of {shift.boots} boots had one {beyond(shift)} (p = {shift.spike_p:.1g}), "
        f"up to {new_worst}; median {old} before, {new} now"
    )
    return Finding(
        status=Status.FAIL,
        kind=Kind.REGRESSION,
        sentence=sentence,
        value=new_worst,
        limit=limit,
        baseline=old_worst,
        measurement=shift.figure,
    )


def _add_explanation(case: PhaseComparison, finding: Finding) -> Finding:
    """Return a regression with where its instructions went: one cause, said at one figure of the case."""
    if case.explained is None or not case.explained.sentence:
        return finding
    cause = f"{case.warning} costs the time: " if case.warning else ""
    return replace(finding, cause=f"{cause}{case.explained.sentence}")


def _open(case: PhaseComparison, shifts: Sequence[Shift]) -> Finding:
    wide = [shift for shift in shifts if shift.ruled_out > shift.must_see]
    suspects = [shift for shift in shifts if shift.over_threshold]
    if not wide and not suspects:
        return _spike_finding(shifts)
    if wide:
        worst = max(wide, key=lambda shift: (shift.most - shift.must_see) / (abs(shift.baseline) or 1.0))
    else:
        worst = min(suspects, key=lambda shift: shift.p)
    names = ", ".join(shift.figure for shift in shifts)
    sentence = f"not enough boots to decide about {names}: {doubt(worst)}; {advice(shifts, case.boot_s)}"
    return Finding(status=Status.DONE, kind=Kind.INCONCLUSIVE, sentence=sentence, measurement=worst.figure)


def _spike_finding(shifts: Sequence[Shift]) -> Finding:
    """Return that no figure moved, but that single boots were worse than those of all placebos."""
    worst = min(shifts, key=lambda shift: shift.spike_p)
    names = ", ".join(shift.figure for shift in shifts)
    sentence = (
        f"not enough boots to decide about {names}: none moved by what counts, but {worst.spikes} of {worst.boots} "
        f"boots had a {worst.figure} {beyond(worst)} (p = {worst.spike_p:.1g}): more boots show whether it was chance"
    )
    return Finding(status=Status.DONE, kind=Kind.INCONCLUSIVE, sentence=sentence, measurement=worst.figure)


def _blind(shifts: Sequence[Shift]) -> Finding:
    figures = ", ".join(
        f"{shift.figure} (up to {change_of(shift, shift.practical)}, and {change_of(shift, shift.must_see)} counts)"
        for shift in shifts
    )
    sentence = f"not compared: harmless kernels move more than must not be missed: {figures}"
    return Finding(status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence, measurement=shifts[0].figure)


def _unknown(case: PhaseComparison, shifts: Sequence[Shift]) -> Finding:
    figures = "; ".join(f"{shift.figure} {change_of(shift, shift.shift)} (p = {shift.p:.1g})" for shift in shifts)
    sentence = (
        "compared, not judged: placebos.yaml does not say how much harmless kernels of this flavour move this case on "
        f"{case.board} with this command line" + (f": {figures}" if figures else "")
    )
    if case.explained is not None and not case.same:
        sentence += f"; {_exercise_sentence(case)}"
    return Finding(status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)


def _no_worse(case: PhaseComparison, shifts: Sequence[Shift]) -> Finding:
    if case.lost:
        sentence = f"no regression seen, but not every check held in {plural(case.lost, 'boot')}: not good enough"
        return Finding(status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)
    slower = [shift for shift in shifts if shift.slower and shift.shift > shift.harmless]
    movement = slower_sentence(slower) if slower else equal_sentence(shifts)
    parts = (movement, detection_sentence(case.detections), spike_sentence(shifts, case.instruction_ns))
    sentence = "; ".join(filter(None, parts))
    if case.not_looked_at:
        sentence += f"; not looked at: {', '.join(case.not_looked_at)}"
    if not case.same:
        exercise = _exercise_sentence(case)
        sentence = f"{sentence}; {exercise}" if case.explained else f"not proven, as {exercise}: {sentence}"
    # What may not even have run is not good: boards must say.
    has_run = case.same or (case.explained is not None and _change_ran(case))
    return Finding(
        status=Status.PASS if has_run else Status.DONE,
        kind=Kind.SLOWER if slower else Kind.NO_WORSE,
        sentence=sentence,
        measurement=clearest(slower).figure if slower else "",
        ruled_out=tuple(_bounds(shifts)),
        detectable=tuple(
            {"change": detection.change, "from": detection.size, "chance": CHANCE} for detection in case.detections
        ),
        not_looked_at=case.not_looked_at,
    )


def _bounds(shifts: Sequence[Shift]) -> Iterator[Mapping[str, Any]]:
    """Yield for verdict.json what is ruled out: `value` is the shift of all boots, or the level of a spike."""
    for shift in shifts:
        if math.isfinite(shift.ruled_out):
            yield {
                "figure": shift.figure,
                "change": "all boots by more than",
                "value": shift.ruled_out,
                "unit": str(shift.unit),
            }
        if shift.spike_from is not None:
            change = f"{shift.spike_boots} of {shift.boots} boots from"
            yield {"figure": shift.figure, "change": change, "value": shift.spike_from, "unit": str(shift.unit)}
