# SPDX-License-Identifier: MIT
"""Comparing on virtual time: the phases of two kernels become findings, all cases of a run together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import mean

from rtgate.judge.compare.boot_figures import boot_figures
from rtgate.judge.compare.detection import detections
from rtgate.judge.compare.exercise import RunExercise, run_exercise
from rtgate.judge.compare.looked_at import not_looked_at
from rtgate.judge.compare.looks import Outcome
from rtgate.judge.compare.phase_findings import UNKNOWN, PhaseComparison, findings
from rtgate.judge.compare.phases import LOOKS, Shift, decide, first, shifts
from rtgate.judge.compare.placebos import Placebos, model_of
from rtgate.judge.compare.repetition import repetition_failure
from rtgate.judge.compare.usable import UsableBoots, usable_boots
from rtgate.judge.judging import Subject
from rtgate.judge.verdict import Finding, Kind, Status
from rtgate.records.explained import CaseExplanation
from rtgate.records.record import Record
from rtgate.records.warning_sites import warning_of
from rtgate.tools.case_name import CaseName
from rtgate.tools.registry import is_compared


def phases(subjects: Sequence[Subject], placebos: Placebos) -> Iterator[tuple[Subject, Finding]]:
    """Yield what the phases of both kernels show, of every case."""
    blind_spots = not_looked_at([(subject.case, record) for subject in subjects for record in subject.records])
    subjects = [subject for subject in subjects if is_compared(subject.case)]
    boots = [usable_boots(subject) for subject in subjects]
    cases = [
        replace(_compare(subject, own, placebos), exercise=_exercise(subject, subjects), not_looked_at=blind_spots)
        for subject, own in zip(subjects, boots, strict=True)
    ]
    every = [figure for case in cases for figure in case.shifts]
    outcomes, level = iter(decide(every)), first(every)
    for subject, own, case in zip(subjects, boots, cases, strict=True):
        case_shifts = tuple(next(outcomes) for _ in case.shifts)
        failure = repetition_failure(subject, own) or own.broken or _overspent(subject)
        for finding in (failure,) if failure else findings(_detecting(case, case_shifts, level), case_shifts):
            yield subject, finding


def _exercise(subject: Subject, subjects: Sequence[Subject]) -> RunExercise | None:
    """Return what ran of the change in every case of the run; None where nobody looked by instruction."""
    if subject.explained is None or not subject.explained.changes:
        return None
    untraced = tuple(_name_beside(subject, peer) for peer in subjects if peer.explained is None)
    return replace(run_exercise(_run(subject, subjects)), untraced=untraced)


def _detecting(case: PhaseComparison, figures: Sequence[Shift], level: float) -> PhaseComparison:
    """Return a case with what its boots would have found, if nothing was."""
    if case.once or case.absent or not figures or any(figure.outcome is not Outcome.NO_WORSE for figure in figures):
        return case
    return replace(case, detections=tuple(detections(case.baseline, case.candidate, case.placebos, level)))


def _run(subject: Subject, subjects: Sequence[Subject]) -> dict[str, CaseExplanation]:
    """Return what was traced of the same kernels, by load; by tool and load if tools differ; and by another board."""
    explanations = [
        (peer, peer.explained) for peer in subjects if peer.explained and _kernels(peer) == _kernels(subject)
    ]
    names = [CaseName.parse(peer.case) for peer, _ in explanations]
    one_tool = len({(name.suite, name.tool) for name in names}) == 1
    return {
        str(name).removeprefix(f"{name.suite}/{name.tool}:" if one_tool else f"{name.suite}/")
        + (f" on {peer.board}" if peer.board != subject.board else ""): explanation
        for name, (peer, explanation) in zip(names, explanations, strict=True)
    }


def _name_beside(subject: Subject, peer: Subject) -> str:
    """Return the name of another case of the run, with its board if that is another one."""
    return f"{peer.case} on {peer.board}" if peer.board != subject.board else peer.case


def _kernels(subject: Subject) -> tuple[str, str] | None:
    explanation = subject.explained
    return (explanation.baseline_image, explanation.candidate_image) if explanation else None


def _overspent(subject: Subject) -> Finding | None:
    """Return that more looks may have been taken than share the false alarms allowed; None if not."""
    batches = subject.schedule.taken
    if len(batches) <= LOOKS:
        return None
    counts = ", ".join(map(str, batches))
    sentence = (
        f"not compared: the boots came in {len(batches)} batches (then there were {counts}), and the false alarms "
        f"allowed are for {LOOKS} interim analyses: measure afresh"
    )
    return Finding(status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)


def _compare(subject: Subject, boots: UsableBoots, placebos: Placebos) -> PhaseComparison:
    before, after = boots.baseline, boots.candidate
    example = next(record for record in (*subject.records, *subject.baseline) if record.has_results)
    model, mismatch = model_of(subject, placebos)
    old, new = [boot_figures(record) for record in before], [boot_figures(record) for record in after]
    figures = shifts(old, new, model.figures)
    outside = _outside((*before, *after))
    figure_names = {name for boot in (*old, *new) for name in boot} | set(model.figures)
    return PhaseComparison(
        board=subject.board,
        absent=tuple(sorted(figure_names - {figure.figure for figure in figures})),
        shifts=figures,
        baseline=old,
        candidate=new,
        placebos=model.figures,
        lost=boots.lost,
        instruction_ns=example.environment.instruction_ns,
        explained=subject.explained,
        warning=warning_of(subject.explained.warning_function, subject.records) if subject.explained else "",
        mismatch=mismatch,
        same=_one_image((*before, *after)) and not outside,
        outside=outside,
        once=_one_image((*before, *after)) and any("shared" in record.machine for record in (*before, *after)),
        boot_s=mean(record.seconds.get("total", 0.0) for record in (*before, *after)) if before or after else 0.0,
    )


def _one_image(records: Sequence[Record]) -> bool:
    images = {record.kernel.image_sha256 for record in records}
    return len(images) == 1 and images != {""}


def _outside(records: Sequence[Record]) -> str:
    """Return how kernels of one image may differ all the same: in a module, or a driver that is not built at all."""
    if not _one_image(records):
        return ""
    if any(record.kernel.provenance == "unknown" for record in records):
        return UNKNOWN
    sources, builds = ({getattr(record.kernel, name): None for record in records} for name in ("source", "name"))
    origins = [" and ".join(names) for names in (sources, builds) if len(names) > 1]
    inputs = {record.kernel.inputs for record in records}
    if not origins and len(inputs) > 1:
        return UNKNOWN if "" in inputs else "patches, configuration, compiler, or how they were built"
    return f"built from {'; '.join(origins)}" if origins else ""
