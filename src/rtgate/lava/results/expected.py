# SPDX-License-Identifier: MIT
"""What a job is expected to bring, and what is made of that which it did not.

A case that was to be measured and left no record is MISS, also when the job never came to measuring it. A boot whose
kernel died before LAVA had a shell leaves no record either, but it is the kernel's failure: it becomes a record of
every case of that boot, so that the ordinary judge says so.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rtgate.board.boards import Board
from rtgate.board.boot import ArmName
from rtgate.lava.in_job.target import time_of
from rtgate.lava.results import boot_log
from rtgate.lava.results.boot_log import BootLog
from rtgate.measure.case import Arm, Case
from rtgate.measure.case_plan import plan
from rtgate.measure.case_record import make_record
from rtgate.measure.profiles import Profile
from rtgate.records import planned
from rtgate.records import record as records_file
from rtgate.records.record import KernelIdentity, Place, Record
from rtgate.target.outcome import LineQuality, Outcome, State
from rtgate.target.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What one job, or one part of it, is to measure.

    Attributes:
        cases: measured in each boot.
        boots: the arm of each boot, in order.
        kernels: by arm.
    """

    board: Board
    profile: Profile
    tuning: str
    cases: tuple[Case, ...]
    boots: tuple[str, ...]
    kernels: Mapping[str, KernelIdentity]

    def arm(self, number: int) -> Arm:
        """Return the arm of a boot, counted from 1, as far as what was measured elsewhere needs one."""
        name = self.boots[number - 1]
        return Arm(
            name=ArmName(name),
            board=self.board,
            kernel=self.kernels[name],
            profile=self.profile,
            time=time_of(self.board),
            target=_RemoteTarget(),
            tuning=self.board.tuning(self.tuning),
        )


class _RemoteTarget:
    """A target that somebody else has."""

    def run(self, plan: Plan) -> Outcome:
        """Refuse."""
        raise AssertionError(f"{plan.case} is measured inside a job, not here")


def plan_records(expectation: Expected, records: Path) -> None:
    """Plan every case of every boot of a job, so that one without a record is missed.

    Raises:
        InfrastructureError: the directory cannot be written.
        ConfigError: it holds something damaged.
    """
    counts: dict[Place, int] = {}
    for name in expectation.boots:
        for case in expectation.cases:
            place = Place(records=records, board=expectation.board.name, arm=name, case=case.name)
            counts[place] = counts.get(place, 0) + 1
    for place, count in counts.items():
        planned.at_least(place, count)


def mark_records(records: Path, mark: Callable[[int], Mapping[str, str]]) -> None:
    """Say in the records of a job which place their boots have in a comparison.

    Args:
        records: their directory.
        mark: returns it for the number of a boot, counted from 1.

    Raises:
        ConfigError: a record is damaged.
        InfrastructureError: the records cannot be written.
    """
    for record in records_file.read_all(records):
        number = record.machine.get("boot", "")
        if number.isdecimal():
            records_file.rewrite(replace(record, machine={**record.machine, **mark(int(number))}), {})


def write_dead_boot(
    expectation: Expected, boot: BootLog, state: State, message: str, records: Path
) -> tuple[Record, ...]:
    """Write a record of each case of a boot that never came to its test, and return them.

    Args:
        expectation: what the job was to measure.
        boot: what LAVA saw of the boot.
        state: `NO_BOOT` or `FAULT` for the kernel's failure, `LAB` for the lab's.
        message: one sentence.
        records: the directory that they go to.
    """
    arm = expectation.arm(boot.number)
    outcome = Outcome(
        state=state,
        message=message,
        console=boot.console.encode(),
        faults=boot.faults,
        line=LineQuality(received=len(boot.console)),
        machine={"boot": str(boot.number), "boot_attempts": str(boot.attempts)},
    )
    case_records = []
    for case in expectation.cases:
        record = make_record(case, arm, plan(case, arm, boot.number), outcome)
        case_records.append(records_file.read(records_file.write(record, {}, outcome.console, records)))
    return tuple(case_records)


def with_boots(records: Path, boots: tuple[BootLog, ...], device: str = "") -> None:
    """Put what LAVA saw of each boot into the records of that boot, its console beside them.

    Raises:
        ConfigError: a record is damaged.
        InfrastructureError: the records cannot be written.
    """
    there = list(records_file.read_all(records))
    by_number = {str(boot.number): _with_late(boot, there) for boot in boots}
    for record in there:
        boot = by_number.get(record.machine.get("boot", ""))
        if boot is not None and not record.environment.device and not record.environment.firmware:
            records_file.rewrite(boot_log.merge_boot(record, boot, device), {"boot.log": boot.console.encode()})


def _with_late(boot: BootLog, records: Sequence[Record]) -> BootLog:
    """Return a boot with what its kernel complained of last among its faults, but for what a case of it has seen."""
    mine = [record for record in records if record.machine.get("boot") == str(boot.number)]
    known_lines = {fault.line for record in mine for fault in record.faults}
    return replace(boot, faults=(*boot.faults, *(fault for fault in boot.late if fault.line not in known_lines)))


def without_broken_pairs(records: Path, boots: tuple[str, ...]) -> tuple[str, ...]:
    """Discard the records of pairs of boots that the lab broke, and return a sentence for each pair.

    Boots 1 and 2 are a pair, 3 and 4, and so on: one of each arm, next to each other in time, so that drift of
    temperature and device cancels. Half a pair would bring the drift back. A kernel that failed breaks no pair, and
    nothing is discarded when no whole pair is left: judging must see why. A pair stays planned, and so is missed,
    unless its records prove that it was the lab: a kernel that freezes between two cases leaves cases without a record,
    or a console on which no shell answers.
    """
    all_records = list(records_file.read_all(records))
    pairs = [(number, number + 1) for number in range(1, len(boots), 2)]
    if len(set(boots)) < 2 or any({boots[first - 1], boots[second - 1]} != set(boots) for first, second in pairs):
        return ()
    broken_pairs = [pair for pair in pairs if _is_incomplete(pair, all_records)]
    if not broken_pairs or len(broken_pairs) == len(pairs):
        return ()
    lab_pairs = [pair for pair in broken_pairs if _by_the_lab(pair, all_records)]
    for record in all_records:
        if any(record.machine.get("boot") in {str(first), str(second)} for first, second in broken_pairs):
            assert record.directory is not None
            shutil.rmtree(record.directory)
    for place in {(record.board, record.arm, record.case) for record in all_records}:
        planned.unplan(Place(records=records, board=place[0], arm=place[1], case=place[2]), len(lab_pairs))
    return tuple(_left_out(pair, excused=pair in lab_pairs) for pair in broken_pairs)


def _left_out(pair: tuple[int, int], *, excused: bool) -> str:
    why = "the lab failed in one of them" if excused else "one of them is not whole, and that is missed"
    return f"boots {pair[0]} and {pair[1]} are left out: {why}"


def _of_boots(pair: tuple[int, int], records: list[Record]) -> tuple[list[Record], list[Record]]:
    first, second = ([record for record in records if record.machine.get("boot") == str(number)] for number in pair)
    return first, second


def _is_incomplete(pair: tuple[int, int], records: list[Record]) -> bool:
    """Return whether a boot of a pair has no records, or only some, and its kernel is not to blame."""
    of_boots = _of_boots(pair, records)
    states = {record.state for boot in of_boots for record in boot}
    if states & {State.NO_BOOT.value, State.FAULT.value, State.HANG.value}:
        return False
    cases = [{record.case for record in boot} for boot in of_boots]
    return cases[0] != cases[1] or not cases[0] or State.LAB in states


# What `console.transport` says of a console that nobody could open, or that closed. A kernel that froze leaves it open;
# that it takes no data any more may be the kernel's doing.
_NO_CONSOLE = re.compile(r"the console \S+ (?:cannot be opened|closed): |the program behind the console ended ")


def _by_the_lab(pair: tuple[int, int], records: list[Record]) -> bool:
    """Return whether both boots of a pair have every case, and those that were not measured had no console."""
    every = {record.case for record in records}
    for boot in _of_boots(pair, records):
        fine = {State.MEASURED.value, State.SKIPPED.value}
        failures = [record for record in boot if record.state not in fine]
        if {record.case for record in boot} != every or any(
            record.state != State.LAB or not _NO_CONSOLE.match(record.message) for record in failures
        ):
            return False
    return True
