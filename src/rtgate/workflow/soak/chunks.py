# SPDX-License-Identifier: MIT
"""The chunks of a soak in a directory of records: which are there, which are missing, and how one is added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtgate.console.faults import scan
from rtgate.measure.case import Arm, Case, plan, recorded
from rtgate.records import planned
from rtgate.records import record as records_file
from rtgate.records.record import Chunk, Place, Record
from rtgate.target.outcome import Outcome, State
from rtgate.workflow.soak.spec import SoakSpec, forget

# States of records that say how the target seemed to end; what is fetched after all takes their place.
_DEATHS = frozenset(state.value for state in (State.NO_BOOT, State.FAULT, State.HANG, State.LAB))


@dataclass(slots=True, kw_only=True)
class Chunks:
    """The chunks of one soak.

    Methods raise ConfigError for a damaged record, and InfrastructureError when the disk is full.
    """

    order: SoakSpec
    case: Case
    arm: Arm
    records: Path
    _fetched: set[int] = field(default_factory=set)

    @property
    def _place(self) -> Place:
        return Place(records=self.records, board=self.order.board, arm=self.arm.name, case=self.order.case)

    def has(self, number: int) -> bool:
        """Return whether a chunk was fetched. That a target seemed dead during it is no reason not to fetch it."""
        directory = self._place.directory / f"{number:03d}"
        if number not in self._fetched and (directory / "record.json").exists():
            record = records_file.read(directory)
            ours = record.chunk == Chunk(soak=self.order.nonce, number=number)
            if ours and record.state not in _DEATHS:
                self._fetched.add(number)
        return number in self._fetched

    def missing(self) -> list[int]:
        """Return the numbers of the chunks that are still to be fetched."""
        return [number for number in range(self.order.first, self.order.last + 1) if not self.has(number)]

    def add(self, number: int, outcome: Outcome, console: bytes, machine: Mapping[str, str]) -> Record:
        """Write the record of what came of a chunk."""
        faults = scan(console.decode("utf-8", errors="replace"))
        outcome = replace(outcome, console=console, faults=faults, machine={**machine, "soak": self.order.nonce})
        record = recorded(self.case, self.arm, plan(self.case, self.arm, self.order.first), outcome)
        record = replace(record, chunk=Chunk(soak=self.order.nonce, number=number))
        return records_file.read(records_file.write(record, outcome.files, console, self.records))

    def give_up(self) -> None:
        """Wait no longer for the chunks that are missing: a person ended the soak, or it never began."""
        planned.unplan(self._place, len(self.missing()))
        forget(self.records)
