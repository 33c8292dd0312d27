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
from rtgate.judge.compare.placebos import Placebos
from rtgate.judge.compare.repetition import repetition_failure
from rtgate.judge.compare.usable import UsableBoots, usable_boots
from rtgate.judge.judging import Subject
from rtgate.judge.limits import Finding
from rtgate.judge.verdict import Kind, Status
from rtgate.records.explained import CaseExplanation
from rtgate.records.record import Record
from rtgate.records.warning_sites import warning_of
from rtgate.tools.case_name import CaseName


def phases(subjects: Sequence[Subject], placebos: Placebos) -> Iterator[tuple[Subject, Finding]]:
    """Yield what the phases of both kernels show, of every case."""
    unseen = not_looked_at([(subject.case, record) for subject in subjects for record in subject.records])
    boots = [usable_boots(subject) for subject in subjects]
    cases = [
        replace(_compare(subject, own, placebos), exercise=_exercise(subject, subjects), not_looked_at=unseen)
        for subject, own in zip(subjects, boots, strict=True)
    ]
    every = [figure for case in cases for figure in case.shifts]
    outcomes, level = iter(decide(every)), first(every)
    for subject, own, case in zip(subjects, boots, cases, strict=True):
        decided_here = tuple(next(outcomes) for _ in case.shifts)
        broken = repetition_failure(subject, own) or own.broken or _overspent(subject)
        for found in (broken,) if broken else findings(_detecting(case, decided_here, level), decided_here):
            yield subject, found


def _exercise(subject: Subject, subjects: Sequence[Subject]) -> RunExercise | None:
    """Return what ran of the change in every case of the run; None where nobody looked by instruction."""
    if subject.explained is None or not subject.explained.changes:
        return None
    return run_exercise(_run(subject, subjects))


def _detecting(case: PhaseComparison, found: Sequence[Shift], level: float) -> PhaseComparison:
    """Return a case with what its boots would have found, if nothing was."""
    if case.once or not found or any(one.outcome is not Outcome.NO_WORSE for one in found):
        return case
    return replace(case, detections=tuple(detections(case.baseline, case.candidate, case.placebos, level)))


def _run(subject: Subject, subjects: Sequence[Subject]) -> dict[str, CaseExplanation]:
    """Return what was traced of the same kernels, by load; by tool and load if tools differ; and by another board."""
    traced = [(one, one.explained) for one in subjects if one.explained and _kernels(one) == _kernels(subject)]
    names = [CaseName.parse(one.case) for one, _ in traced]
    one_tool = len({(name.suite, name.tool) for name in names}) == 1
    return {
        str(name).removeprefix(f"{name.suite}/{name.tool}:" if one_tool else f"{name.suite}/")
        + (f" on {one.board}" if one.board != subject.board else ""): seen
        for name, (one, seen) in zip(names, traced, strict=True)
    }


def _kernels(subject: Subject) -> tuple[str, str] | None:
    seen = subject.explained
    return (seen.baseline_image, seen.candidate_image) if seen else None


def _overspent(subject: Subject) -> Finding | None:
    """Return that more looks may have been taken than share the false alarms allowed; None if not."""
    taken = subject.schedule.taken
    if len(taken) <= LOOKS:
        return None
    told = ", ".join(map(str, taken))
    sentence = (
        f"not compared: the boots came in {len(taken)} batches (then there were {told}), and the false alarms allowed "
        f"are for {LOOKS} interim analyses: measure afresh"
    )
    return Finding(status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)


def _compare(subject: Subject, boots: UsableBoots, placebos: Placebos) -> PhaseComparison:
    before, after = boots.baseline, boots.candidate
    one = next(record for record in (*subject.records, *subject.baseline) if record.has_results)
    # What harmless changes of the baseline do: of another flavour the candidate is a change of it, too.
    flavour = next((record.kernel.flavour for record in subject.baseline), one.kernel.flavour)
    learnt = placebos.model_for(replace(one, kernel=replace(one.kernel, flavour=flavour)))
    other = f"a candidate of another flavour ({one.kernel.flavour}, not {flavour})"
    old, new = [boot_figures(record) for record in before], [boot_figures(record) for record in after]
    found = shifts(old, new, learnt.figures)
    outside = _outside((*before, *after))
    named = {name for boot in (*old, *new) for name in boot} | set(learnt.figures)
    return PhaseComparison(
        board=subject.board,
        absent=tuple(sorted(named - {figure.figure for figure in found})),
        shifts=found,
        baseline=old,
        candidate=new,
        placebos=learnt.figures,
        lost=boots.lost,
        instruction_ns=one.environment.instruction_ns,
        explained=subject.explained,
        warning=warning_of(subject.explained.warning_function, subject.records) if subject.explained else "",
        mismatch=" and ".join(
            filter(None, (learnt.mismatch(one.environment), other if one.kernel.flavour != flavour else ""))
        ),
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
    sources, builds = ({getattr(one.kernel, name): None for one in records} for name in ("source", "name"))
    told = [" and ".join(each) for each in (sources, builds) if len(each) > 1]
    return f"built from {'; '.join(told)}" if told else ""
