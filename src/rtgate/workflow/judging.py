# SPDX-License-Identifier: MIT
"""The one judging service: records, held against their raw output, become verdicts by limits and by comparison.

Whoever has measured calls it in process: gate, submit, fetch, soak, the suites, and `rtgate judge` for stored records.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from rtgate.errors import ConfigError
from rtgate.judge.judging import Subject, judge
from rtgate.judge.verdict import Verdict, exit_code
from rtgate.measure import run
from rtgate.records import planned
from rtgate.records.record import Record
from rtgate.workflow.verdicts import (
    Missing,
    compare_kernels,
    harmless,
    limits,
    planned_in,
    subjects,
    write_ending,
    write_verdicts,
)
from rtgate.workflow.waivers import load_waivers, waive


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """What records are judged by.

    Attributes:
        thresholds: limits, instead of those of the site and of rtgate.
        history: URL of earlier boots; None for none.
        allow_unjudged: exit code 0 although nothing was judged.
        boards: of a lab, whose comparisons share the false alarms that are allowed; known before they are measured.
    """

    thresholds: Path | None = None
    history: str | None = None
    allow_unjudged: bool = False
    boards: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingRequest:
    """Which records are judged, and by what.

    Attributes:
        records: their directory. Every case is judged that has records there or was planned there.
        board: only this one; empty for all.
        cases: names of cases that have to be there as well, by board.
        arms: which have to be there, by board; of other boards those that have records or were planned.
        only: names of the cases that are judged; empty for all. Each has records, was planned, or is one of `cases`.
    """

    records: Path
    criteria: Criteria = field(default_factory=Criteria)
    board: str = ""
    cases: Mapping[str, Collection[str]] = field(default_factory=dict)
    arms: Mapping[str, Collection[str]] = field(default_factory=dict)
    only: Collection[str] = ()


class Judging:
    """The judging of one run: case after case by the same limits, and then both kernels, all cases together."""

    def __init__(self, criteria: Criteria) -> None:
        """Read limits, waivers and placebos, so that a mistake in them shows now. Raises ConfigError."""
        self.criteria = criteria
        self.subjects: list[Subject] = []
        self.verdicts: list[Verdict] = []
        self._limits = limits(criteria.thresholds)
        self.waivers = load_waivers()
        harmless()

    @property
    def is_complete(self) -> bool:
        """Whether every boot that was planned left a record."""
        return not any((*subject.missing, *subject.unpaired) for subject in self.subjects)

    def case(
        self,
        case: str,
        records: Sequence[Record],
        arms: Mapping[str, Collection[str]],
        missing: Missing,
        beside: Iterable[Record] = (),
    ) -> list[Verdict]:
        """Judge a case on each board, and return its verdicts, never none. For what is given see `subjects`.

        Raises:
            ConfigError: planned.json is damaged.
        """
        mine = list(subjects(case, records, arms, missing, beside))
        self.subjects += mine
        judged_subjects = mine or [Subject(case=case, board="", arm="", flavour="", records=())]
        verdicts = self._waive([verdict for subject in judged_subjects for verdict in judge(subject, self._limits)])
        self.verdicts += verdicts
        return verdicts

    def compare(self) -> tuple[Verdict, ...]:
        """Compare both arms, of all cases together: how probable it is to err depends on how many there are."""
        verdicts = self._waive(compare_kernels(self.subjects, self.criteria.history))
        self.verdicts += verdicts
        return tuple(verdicts)

    def _waive(self, verdicts: Sequence[Verdict]) -> list[Verdict]:
        today = datetime.datetime.now(tz=datetime.UTC).date()
        return waive(verdicts, self.waivers, today, [*chain(*(subject.records for subject in self.subjects))])

    def write(self, path: Path, records: Path) -> None:
        """Write verdict.json; files of `records` are sealed if they are below its directory.

        Raises InfrastructureError.
        """
        write_verdicts(self.verdicts, path, self.subjects, records=records)

    def write_ending(self, path: Path, *, whole: bool) -> int:
        """Write into verdict.json that the run has ended, and return its exit code.

        `whole` says whether every boot of every case was carried out. Raises InfrastructureError.
        """
        code = exit_code(self.verdicts, allow_unjudged=self.criteria.allow_unjudged)
        write_ending(path, self.verdicts, code=code, whole=whole)
        return code


def judge_run(request: JudgingRequest) -> Judging:
    """Judge a run by limits and compare its kernels.

    Raises:
        ConfigError: limits, records or planned.json cannot be read, the history is not a database, or there is nothing
            of a case that is to be judged.
    """
    judging = judge_cases(request)
    judging.compare()
    return judging


def judge_cases(request: JudgingRequest) -> Judging:
    """Judge the cases of a run by limits alone. Raises as `judge_run`."""
    judging, facts = Judging(request.criteria), _RunFacts.of(request)
    everything = list(chain(*facts.stored.values()))
    for case, records in sorted(facts.stored.items()):
        judging.case(case, records, facts.arms_of(case), planned_in(request.records, case), everything)
    return judging


@dataclass(frozen=True, slots=True)
class _RunFacts:
    """What is known of a run before it is judged.

    Attributes:
        stored: records, by case.
        boards: by case, on which it has records or had to have some.
        arms: by board, of all cases.
    """

    stored: Mapping[str, list[Record]]
    boards: Mapping[str, set[str]]
    arms: Mapping[str, Collection[str]]

    @classmethod
    def of(cls, request: JudgingRequest) -> _RunFacts:
        """Read it. Raises ConfigError: a record is damaged, or there is nothing of a case that is to be judged."""
        records_by_case = run.records_by_case(request.records, request.board or None)
        arms, boards = planned.arms(request.records), planned.cases(request.records)
        for record in chain(*records_by_case.values()):
            arms.setdefault(record.board, set()).add(record.arm)
            boards.setdefault(record.case, set()).add(record.board)
        for board, cases in request.cases.items():
            for case in cases:
                boards.setdefault(case, set()).add(board)
        all_names = {case: {board for board in names if request.board in ("", board)} for case, names in boards.items()}
        mine = {case: names for case, names in all_names.items() if names}
        _require_cases(request, mine)
        selection = {case: names for case, names in mine.items() if not request.only or case in request.only}
        return cls({case: records_by_case.get(case, []) for case in selection}, selection, {**arms, **request.arms})

    def arms_of(self, case: str) -> Mapping[str, Collection[str]]:
        """Return the arms that a case has or had to have, by board."""
        return {board: arms for board, arms in self.arms.items() if board in self.boards[case]}


def _require_cases(request: JudgingRequest, cases: Collection[str]) -> None:
    """Raise ConfigError for a case that is to be judged and is not there: a misspelt one must not pass unjudged."""
    absent = sorted(set(request.only) - set(cases))
    if absent:
        board = f" on {request.board}" if request.board else ""
        there = ", ".join(sorted(cases)) or "none"
        raise ConfigError(
            f"case {', '.join(absent)}: neither measured nor planned in {request.records}{board} (there are: {there})"
        )


def boards(records: Path) -> list[str]:
    """Return the boards that have records in a directory, or were to have some. Raises ConfigError."""
    board_names = {record.board for own in run.records_by_case(records, None).values() for record in own}
    return sorted(board_names | planned.arms(records).keys())
