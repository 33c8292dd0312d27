# SPDX-License-Identifier: MIT
"""Comparing on boards: pairs of boots become findings, all metrics of all cases of a board together (Holm).

Which looks there were lies in the records (`Subject.schedule`), so that judging later spends the false alarms that are
allowed in the same shares as the gate did while it measured. Boots that were all measured before anybody looked are
looked at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean

from rtgate.judge.compare import looks, pairing, summaries
from rtgate.judge.compare.inputs import HistoryProvider
from rtgate.judge.compare.looks import Comparison, Looks
from rtgate.judge.compare.pairing import CaseHistory
from rtgate.judge.compare.procedures import (
    ComparisonState,
    Measure,
    Screening,
    comparisons,
    next_step,
    suspicions,
)
from rtgate.judge.compare.usable import is_usable
from rtgate.judge.judging import Subject
from rtgate.judge.verdict import Finding, Kind, Status
from rtgate.records.record import Record
from rtgate.units import plural

BOOT_MINUTES = 1.5
"""Of a board, around its measurements: power, boot loader, kernel, LAVA's own steps; where nobody measured it."""
_FEWEST_PAIRS = 3  # with a history; without one the paired test says how many it takes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One case on one board.

    Attributes:
        pairs: boots that may be judged: (baseline, candidate), neighbours in time, in the order of measuring.
        lost: pairs of which a boot left no record, or one that is no good.
        screening: how suspicious the candidate is against the history; None if nobody screened it.
    """

    subject: Subject
    pairs: Sequence[tuple[Record, Record]]
    history: CaseHistory
    lost: int
    screening: Screening | None


def pairs(subjects: Sequence[Subject], past: HistoryProvider) -> Iterator[tuple[Subject, Finding]]:
    """Yield what pairs of boots say, of every case.

    Boards of different kinds are different families; each may err as often as its share allows.
    """
    names = sorted({subject.board for subject in subjects})
    for name in names:
        cases = [_case(subject, past) for subject in subjects if subject.board == name]
        state = _state(cases, 1 / len(names))
        by_case = {comparison.case: comparison for comparison in comparisons(state)}
        for case in cases:
            for finding in _findings(case, by_case.get(case.subject.case), state):
                yield case.subject, _judge(case, finding, past)


def next_measurement(
    subjects: Sequence[Subject], past: HistoryProvider, boards: int = 1, complete_cases: Collection[str] = ()
) -> Measure | None:
    """Return what a board has to measure next, by the records' own schedule; None if nothing more.

    Args:
        subjects: its cases.
        past: what the history knows.
        boards: how many will be judged with it: what ends its measuring must stand in `pairs`, too.
        complete_cases: cases that need no pairs, whatever they show.
    """
    return next_step(_state([_case(subject, past) for subject in subjects], 1 / boards), complete_cases)


def has_screen(subject: Subject) -> bool:
    """Return whether boots of the candidate alone are compared with the history."""
    return any(record.screening for record in subject.records)


def _case(subject: Subject, past: HistoryProvider) -> _Case:
    arms = [_boots_by_pair(records) for records in (subject.baseline, subject.records)]
    numbers = sorted({number for records in arms for number in records})
    couples = [(arms[0].get(number), arms[1].get(number)) for number in numbers]
    good = [
        (old, new)
        for old, new in couples
        if old is not None and new is not None
        if is_usable(old, subject.not_applicable) and is_usable(new, subject.not_applicable)
    ]
    everything = (*subject.baseline, *subject.records)
    history = past.case_history(_telling(subject), everything)
    return _Case(
        subject=subject,
        pairs=good,
        history=history,
        lost=len(couples) - len(good),
        screening=_screening(subject, history),
    )


def _telling(subject: Subject) -> Record:
    """Return a boot that tells which board it was: one that came to nothing has no environment.

    It is the baseline's if there is one, as the history is of good kernels: a candidate's configuration may change what
    is read back of the board, such as its clock source. A screen has no baseline. Then a candidate like that finds
    nothing in the history, is suspicious, and gets one.
    """
    boots = (*subject.baseline, *subject.records)
    return next((record for record in boots if record.has_results), subject.records[0])


def _boots_by_pair(records: Sequence[Record]) -> Mapping[tuple[int, int], Record]:
    """Return the boots by the number of their pair, and by how many of that number came before.

    Where nobody numbered them, their order counts: an older run that lost none.
    """
    boots: dict[tuple[int, int], Record] = {}
    for place, record in enumerate((boot for boot in records if not boot.screening), 1):
        number, again = record.pair or place, 0
        while (number, again) in boots:
            again += 1
        boots[number, again] = record
    return boots


def _screening(subject: Subject, history: CaseHistory) -> Screening | None:
    boots = [record for record in subject.records if record.screening]
    if not boots:
        return None
    good = [record if is_usable(record, subject.not_applicable) else None for record in boots]
    return Screening(
        case=subject.case,
        boots=len(boots),
        suspicion=suspicions(
            [summaries.summaries(record, history.levels) if record else {} for record in good],
            [summaries.spikes(record, history.levels) if record else None for record in good],
            history,
        ),
    )


def _state(cases: Sequence[_Case], share: float) -> ComparisonState:
    """Return how far the comparison of a board has come. `share` is its part of the false alarms."""
    plan = _looks(cases, looks.RELEASE.alpha * share)
    first = plan.steps[0][0]
    members = tuple(
        evidence for case in cases for evidence in pairing.evidence(case.subject.case, case.pairs, case.history, first)
    )
    screens = [case.screening for case in cases if case.screening is not None]
    levels = {case.subject.case: case.history.screen for case in cases}
    unscreened_cases = frozenset(case.subject.case for case in cases if case.screening is None)
    return ComparisonState(
        screens=screens,
        pairs=members,
        # Without a screen, pairs that nobody can use are not measured again: another look would not mend them.
        always=unscreened_cases if screens else unscreened_cases & {evidence.case for evidence in members},
        looks=plan,
        levels={case: level for case, level in levels.items() if level is not None},
    )


def _looks(cases: Sequence[_Case], alpha: float) -> Looks:
    schedules = [case.subject.schedule for case in cases]
    steps = max((schedule.steps for schedule in schedules), key=len, default=())
    if steps:
        return Looks(steps, alpha)
    # A look takes as many pairs as every case has that has enough of them at all.
    counts = [len(case.pairs) for case in cases if len(case.pairs) >= _FEWEST_PAIRS]
    count = min(counts, default=_FEWEST_PAIRS)
    batches = max((schedule.taken for schedule in schedules), key=len, default=())
    if len(batches) < 2:
        return looks.once(count, alpha)
    return looks.unplanned_looks([*(boots for boots in batches[:-1] if boots < count), count], alpha)


def _judge(case: _Case, finding: Finding, past: HistoryProvider) -> Finding:
    """Return a finding with what its board and its boots allow to be said."""
    why = past.disqualification(_telling(case.subject))
    if why:
        sentence = f"{finding.sentence}; not judged: {why}"
        return replace(finding, status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)
    if case.lost and finding.status is Status.PASS:
        sentence = f"{finding.sentence}; but {plural(case.lost, 'pair')} could not be used: that does not count as good"
        return replace(finding, status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)
    return finding


def _findings(case: _Case, comparison: Comparison | None, state: ComparisonState) -> tuple[Finding, ...]:
    suspicion = _suspicion(case.screening, state)
    if comparison is not None:
        findings = pairing.findings(comparison, summaries.minutes(case.pairs[0][0]), _boot_minutes(case.pairs))
        return tuple(
            replace(finding, sentence=f"{finding.sentence}; {suspicion}") if suspicion else finding
            for finding in findings
        )
    if case.screening is not None and not state.suspicious(case.screening):
        return (Finding(status=Status.PASS, kind=Kind.NOT_SUSPICIOUS, sentence=suspicion),)
    if case.pairs:
        sentence = "nothing of what was measured can be compared"
    else:
        sentence = (
            "no pair of boots can be used" if not suspicion else "not confirmed: no pair of boots of both kernels"
        )
    sentence = f"{sentence}; {suspicion}" if suspicion else sentence
    return (Finding(status=Status.DONE, kind=Kind.INCONCLUSIVE, sentence=sentence),)


def _suspicion(screening: Screening | None, state: ComparisonState) -> str:
    """Return what the screen said, in words; empty if there was none."""
    if screening is None:
        return ""
    suspicious = [metric or "everything" for metric in state.suspicious(screening)]
    before = f"in {plural(screening.boots, 'boot')} against the history"
    if suspicious:
        return f"{before} suspicious: {', '.join(suspicious)}"
    least = min(screening.suspicion, key=lambda metric: screening.suspicion[metric])
    detail = f"least likely {least}, p {screening.suspicion[least]:.2g}"
    return f"not suspicious {before} ({detail}); that is weaker than no worse"


def _boot_minutes(pairs: Sequence[tuple[Record, Record]]) -> float:
    """Return what a boot costs the board beside what it measures."""
    boots = [record for pair in pairs for record in pair]
    total = [record.seconds["total"] / 60 for record in boots if "total" in record.seconds]
    if not total:
        return BOOT_MINUTES
    return max(0.0, mean(total) - summaries.minutes(boots[0]))
