# SPDX-License-Identifier: MIT
"""Where the records of a pytest session come from: a run that measures, or one that is stored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rtgate.board.tuning import DEFAULT
from rtgate.cli import suite_options
from rtgate.errors import ConfigError
from rtgate.measure.case import Case
from rtgate.measure.case_plan import plan
from rtgate.measure.raw_output import verify
from rtgate.measure.run import BootPool, Run, records_by_case
from rtgate.records import planned
from rtgate.records.record import Place, Record, paths, read
from rtgate.report.progress import Progress
from rtgate.tools.case_name import CaseName


@dataclass(slots=True, kw_only=True)
class MeasuredRun:
    """A run that measures now.

    Attributes:
        board: its name.
        judged: whether its records are judged, together with those that the directory has of the same cases already:
            a report shows all of them, so a verdict is about all of them.
    """

    run: Run
    board: str
    judged: bool = True
    _cases: Sequence[Case] = ()
    _pool: BootPool | None = None
    _records: list[Record] = field(default_factory=list)
    _earlier: Mapping[str, Sequence[Record]] = field(default_factory=dict)

    @property
    def records(self) -> Path:
        """The directory of the records."""
        return self.run.records

    @property
    def profile(self) -> str:
        """The profile if the command line names none."""
        return suite_options.PROFILE

    @property
    def boards(self) -> tuple[str | None, ...]:
        """The boards that cases are chosen for."""
        return (self.board,)

    @property
    def workers(self) -> int:
        """How many boots are made at once."""
        return self.run.jobs

    def prepare(self, cases: Collection[Case], _offered: Collection[str]) -> int:
        """Write down what is going to be measured; return how many boots. Raises ConfigError, InfrastructureError."""
        self._cases = tuple(cases)
        for case in cases:
            plan(case, self.run.arms[0], 1)  # raises for an unknown load, before anything is written down
        if self.judged:
            self._earlier = {case.name: self._stored(case) for case in cases}
        for case in cases:
            self.run.plan(case)
        return sum(len(self.run.boots(case)) * len(self.run.arms) for case in cases)

    def records_of(self, case: Case, progress: Progress) -> tuple[Record, ...]:
        """Measure a case; return its records, and earlier ones that stayed. Raises as `Run.measure`."""
        with progress.case(case.name):
            measured = self._measure(case, progress)
        replaced = {record.directory for record in measured}
        earlier = (record for record in self._earlier.get(case.name, ()) if record.directory not in replaced)
        records = (*measured, *earlier)
        self._records += records
        return records

    def _stored(self, case: Case) -> tuple[Record, ...]:
        """Return the records of a case that the directory has. Raises ConfigError: one is damaged."""
        places = [Place(records=self.records, board=self.board, arm=arm.name, case=case.name) for arm in self.run.arms]
        return tuple(verify(read(path.parent)) for place in places for path in paths(place.directory))

    def _measure(self, case: Case, progress: Progress) -> tuple[Record, ...]:
        if self.run.jobs == 1:
            return self.run.measure(case, progress.note_boot)
        if self._pool is None:
            self._pool = self._begin_all(case)
        try:
            return self._pool.end(case, progress.note_boot)
        except BaseException:
            self._pool = None
            raise

    def _begin_all(self, first: Case) -> BootPool:
        """Begin this case and all after it, so that no core waits for the last boot of a case."""
        pool = BootPool(self.run)
        try:
            for case in self._cases[self._cases.index(first) :]:
                pool.begin(case)
        except BaseException:
            pool.close()
            raise
        return pool

    def neighbours(self, _names: Collection[str]) -> Iterable[Record]:
        """Return the records of every case that was measured so far."""
        return self._records

    def missing(self, case: Case, board: str, arm: str, records: Sequence[Record]) -> tuple[str, ...]:
        """Return the boots of one arm that were planned, also earlier, and left no record, as people name them."""
        return planned.missing(Place(records=self.records, board=board, arm=arm, case=case.name), records)

    def arms(self) -> dict[str, set[str]]:
        """Return the arms by board."""
        by_board: dict[str, set[str]] = {}
        for arm in self.run.arms:
            by_board.setdefault(arm.board.name, set()).add(arm.name)
        return by_board

    def stop(self) -> None:
        """End all boots now."""
        self.run.stop.set()

    def close(self) -> None:
        """End what is still under way."""
        if self._pool is not None:
            self._pool.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run whose records are judged again.

    Attributes:
        records: the directory of the records.
        board: only this one; empty or None for all.
        tuning: only this one, unless it is the default: then there may be no other.
        by_case: the records.
    """

    records: Path
    board: str | None
    tuning: str
    by_case: Mapping[str, Sequence[Record]]
    workers: int = 1

    @classmethod
    def of(cls, directory: str, board: str | None, tuning: str) -> StoredRun:
        """Read stored records. Raises ConfigError: there are none, or one is damaged."""
        records = Path(directory)
        if not records.is_dir():
            raise ConfigError(f"--replay {directory}: no such directory")
        return cls(records=records, board=board, tuning=tuning, by_case=records_by_case(records, board))

    @property
    def profile(self) -> str:
        """The profile if the command line names none. Raises ConfigError for records of several."""
        names = {record.profile for record in self._all()}
        if len(names) > 1:
            raise ConfigError(f"these are records of {', '.join(sorted(names))}: name one with --profile")
        return names.pop() if names else suite_options.PROFILE

    @property
    def boards(self) -> tuple[str | None, ...]:
        """The boards that cases are chosen for: the one that was named, or those of the records."""
        if self.board:
            return (self.board,)
        there = {record.board for record in self._all()}
        return tuple(sorted(there | set(planned.arms(self.records)))) or (None,)

    def prepare(self, _cases: Collection[Case], offered: Collection[str]) -> int:
        """Return how many boots are going to be made: none.

        Args:
            offered: the names of all cases that the collected tests measure, also of those that -k or --case leave out.

        Raises:
            ConfigError: a record is of another case, so that nobody would judge it.
        """
        boards_by_case = planned.cases(self.records)
        planned_cases = {name for name, boards in boards_by_case.items() if not self.board or self.board in boards}
        all_cases = self.by_case.keys() | planned_cases
        if self.tuning != DEFAULT.name:
            all_cases = {name for name in all_cases if CaseName.parse(name).tuning == self.tuning}
        others = sorted(all_cases - set(offered))
        if others:
            raise ConfigError(
                f"no test here measures {', '.join(others)}, so nobody would judge what --replay {self.records} has of "
                "it: name the tests that do (or their --profile, --tuning), or judge all with rtgate judge "
                f"{self.records}"
            )
        return 0

    def records_of(self, case: Case, _progress: Progress) -> tuple[Record, ...]:
        """Return a case's records."""
        return tuple(self.by_case.get(case.name, ()))

    def neighbours(self, names: Collection[str]) -> Iterable[Record]:
        """Return the records of the cases with these names."""
        return [record for name in names for record in self.by_case.get(name, ())]

    def missing(self, case: Case, board: str, arm: str, records: Sequence[Record]) -> tuple[str, ...]:
        """Return the boots that were planned when they were measured, and left no record, as people name them."""
        from rtgate.workflow.verdicts import planned_in  # noqa: PLC0415 - half a second to load

        return planned_in(self.records, case.name)(board, arm, records)

    def arms(self) -> dict[str, set[str]]:
        """Return the arms by board, of all that is stored or planned."""
        by_board = {
            board: set(arms) for board, arms in planned.arms(self.records).items() if self.board in (None, "", board)
        }
        for record in self._all():
            by_board.setdefault(record.board, set()).add(record.arm)
        return by_board

    def _all(self) -> Iterable[Record]:
        return (record for records in self.by_case.values() for record in records)

    def stop(self) -> None:
        """Do nothing: no boot is made."""

    def close(self) -> None:
        """Do nothing: nothing is under way."""
