# SPDX-License-Identifier: MIT
"""One run: which board, which kernels, where records go; and measuring a case on all its boots."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtgate import files
from rtgate.errors import ConfigError, Interrupted
from rtgate.measure.case import Arm, Case
from rtgate.measure.case_record import measure
from rtgate.measure.raw_output import verify
from rtgate.records import planned
from rtgate.records import record as records_file
from rtgate.records.record import Place, Record
from rtgate.records.schedule import Steps
from rtgate.tools import registry
from rtgate.tools.case_name import CaseName

OnRecord = Callable[[Record], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is measured, and where to.

    Attributes:
        seeds: boots of a virtual-time board, or numbers of boots of any other; empty for those of the profile.
        records: the directory that gets the records.
        looks: when somebody is going to look at the pairs of a board; empty if not before all are measured.
        screen: whether the boots are compared with the history only.
        stop: set to end all boots now.
    """

    arms: tuple[Arm, ...]
    records: Path
    seeds: tuple[int, ...] = ()
    looks: Steps = ()
    screen: bool = False
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def virtual_time(self) -> bool:
        """Whether all arms are measured on virtual time."""
        return all(arm.virtual_time for arm in self.arms)

    @property
    def jobs(self) -> int:
        """How many boots may run at once: virtual time does not care, a live board is one."""
        return len(os.sched_getaffinity(0)) if self.virtual_time else 1

    def boots(self, case: Case) -> tuple[int, ...]:
        """Return the seeds, or the numbers, of a case's boots on each arm."""
        lengths = self.arms[0].profile.of(case.tool.name, case.suite, case.load)
        return self.seeds or (lengths.seeds if self.virtual_time else tuple(range(1, lengths.boots + 1)))

    def order(self, case: Case) -> Iterator[tuple[Arm, int]]:
        """Yield a case's boots in the order in which they are made."""
        if self.virtual_time and len({arm.kernel.image_sha256 for arm in self.arms}) < len(self.arms):
            # One image in both arms: the second takes what the first has made, and none waits for a boot under way.
            yield from ((arm, seed) for arm in self.arms for seed in self.boots(case))
            return
        for seed in self.boots(case):
            # On a clock the order within the pair changes from pair to pair, so that drift hits both kernels alike.
            swapped = seed % 2 == 0 and not self.virtual_time
            yield from ((arm, seed) for arm in (reversed(self.arms) if swapped else self.arms))

    def measure(self, case: Case, on_record: OnRecord) -> tuple[Record, ...]:
        """Measure a case on every boot of every arm; write each record as it comes and call `on_record`.

        Raises:
            InfrastructureError: this machine cannot measure, or the disk is full.
            KeyboardInterrupt: the user stopped; every boot that was under way is gone without a record.
        """
        beside = BootPool(self)
        try:
            beside.begin(case)
            return beside.end(case, on_record)
        finally:
            beside.close()

    def prepare(self, case: Case) -> None:
        """Check that there is room for a case's records, and write down which are going to come."""
        files.require_free_space(self.records)
        self.plan(case)

    def plan(self, case: Case) -> None:
        """Write down which records of a case are going to come. Raises InfrastructureError."""
        for arm in self.arms:
            place = Place(records=self.records, board=arm.board.name, arm=arm.name, case=case.name)
            planned.plan(place, self.boots(case), virtual=arm.virtual_time, steps=self.looks, screen=self.screen)

    def measure_case(self, case: Case, arm: Arm, seed: int) -> Record:
        """Measure a case on one boot and write its record. Raises as `measure`, and Interrupted after `stop`."""
        if self.stop.is_set():
            raise Interrupted("stopped")
        record, outcome = measure(case, arm, seed)
        # In a job the boot has a number there, and who fetches it knows the pair.
        if not arm.virtual_time and "boot" not in record.machine:
            mark = {"stage": "screen"} if self.screen else {"pair": str(seed)}
            record = replace(record, machine={**record.machine, **mark})
        directory = records_file.write(record, outcome.files, outcome.console, self.records)
        return records_file.read(directory)


class BootPool:
    """Measures the boots of several cases beside each other, as many at once as the run may have."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._pool = ThreadPoolExecutor(max_workers=run.jobs)
        self._begun: dict[str, list[Future[Record]]] = {}
        self._told: set[Future[Record]] = set()

    def begin(self, case: Case) -> None:
        """Put a case's boots at the end of the queue. Raises InfrastructureError when there is no room."""
        run = self._run
        run.prepare(case)
        futures = self._begun.setdefault(case.name, [])
        for arm, seed in run.order(case):
            futures.append(self._pool.submit(run.measure_case, case, arm, seed))

    def end(self, case: Case, on_record: OnRecord) -> tuple[Record, ...]:
        """Wait for a case that was begun; call `on_record` for every boot that ends. Raises as `Run.measure`."""
        mine = self._begun[case.name]
        open_futures = {future for futures in self._begun.values() for future in futures} - self._told
        try:
            for future in as_completed(open_futures):
                if future in mine or not future.exception():
                    on_record(future.result())
                    self._told.add(future)
                if all(boot in self._told for boot in mine):
                    break
        except BaseException:
            self.close()
            raise
        records = [future.result() for future in mine]
        return tuple(sorted(records, key=lambda record: (record.arm, record.seed or 0, record.boot_id)))

    def close(self) -> None:
        """End every boot that is under way, and forget the others."""
        if any(not future.done() for futures in self._begun.values() for future in futures):
            self._run.stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._run.stop.clear()  # every boot is over; more may be measured
        self._begun.clear()


def records_by_case(records: Path, board: str | None) -> dict[str, list[Record]]:
    """Return the records below a directory by case, of one board or of all.

    Raises:
        ConfigError: a record is damaged, or of a tool that is not known here.
    """
    by_case: dict[str, list[Record]] = {}
    for record in _of(records, board):
        _check_tool(record)
        by_case.setdefault(record.case, []).append(record)
    return by_case


def _check_tool(record: Record) -> None:
    """Refuse a record that no suite here would look at. Raises ConfigError."""
    try:
        registry.tool(CaseName.parse(record.case).tool)
    except ConfigError as error:
        raise ConfigError(f"{record.directory}: this record cannot be judged here: {error}") from error


def _of(records: Path, board: str | None) -> Iterator[Record]:
    return (verify(record) for record in records_file.read_all(records) if board is None or record.board == board)
