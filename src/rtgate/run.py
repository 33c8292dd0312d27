# SPDX-License-Identifier: MIT
"""One run: which board, which kernels, where records go; and measuring a case on all its boots."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from rtgate import record as records_file
from rtgate.measure import Arm, Case, measure
from rtgate.record import Record

Seen = Callable[[Record], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is measured, and where to.

    Attributes:
        seeds: boots of a virtual-time board, or numbers of boots of any other.
        records: the directory that gets the records.
        stop: set to end all boots now.
    """

    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    records: Path
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def jobs(self) -> int:
        """How many boots may run at once: virtual time does not care, a live board is one."""
        parallel = all(arm.time == "virtual" for arm in self.arms)
        return max(1, os.cpu_count() or 1) if parallel else 1

    def measure(self, case: Case, seen: Seen) -> tuple[Record, ...]:
        """Measure a case on every boot of every arm; write each record as it comes and tell `seen`.

        Raises:
            InfrastructureError: this machine cannot measure, or the disk is full.
            KeyboardInterrupt: the user stopped; every boot that was under way is gone without a record.
        """
        records_file.has_room(self.records)
        pool = ThreadPoolExecutor(max_workers=self.jobs)
        try:
            futures = [pool.submit(self._one, case, arm, seed) for seed in self.seeds for arm in self.arms]
            found = []
            for future in as_completed(futures):
                found.append(future.result())
                seen(found[-1])
        except BaseException:
            self.stop.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            self.stop.clear()  # every boot of this case is over; the next case may be measured
        return tuple(sorted(found, key=lambda record: (record.arm, record.seed or 0, record.boot_id)))

    def _one(self, case: Case, arm: Arm, seed: int) -> Record:
        record, outcome = measure(case, arm, seed)
        directory = records_file.write(record, outcome.files, outcome.console, self.records)
        return records_file.read(directory)


def stored(records: Path, board: str | None) -> dict[str, list[Record]]:
    """Return the records below a directory by case, of one board or of all.

    Raises:
        ConfigError: a record is damaged.
    """
    found: dict[str, list[Record]] = {}
    for record in _of(records, board):
        found.setdefault(record.case, []).append(record)
    return found


def _of(records: Path, board: str | None) -> Iterator[Record]:
    return (record for record in records_file.read_all(records) if board is None or record.board == board)
