# SPDX-License-Identifier: MIT
"""From a job's log to records: those that came through it, and one for each case whose boot broke before it.

What was to come and did not is planned all the same, so that judging misses it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rtgate import boards, planned
from rtgate import record as records_file
from rtgate.environment import Environment
from rtgate.lava import records
from rtgate.lava.classify import Blame, Ending
from rtgate.lava.log import LogLine
from rtgate.lava.order import Order
from rtgate.lava.phases import Boot, boots
from rtgate.record import Evidence, FaultSeen, Place, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What came of a job.

    Attributes:
        measured: records that came through the log.
        broken: records of boots that broke, made here.
        notes: what was damaged or did not arrive, a sentence each.
    """

    measured: int
    broken: int
    notes: tuple[str, ...]


def fetch(order: Order, lines: Sequence[LogLine], ending: Ending, into: Path) -> Fetched:
    """Write the records of a job into a directory.

    Args:
        order: what the job was to measure.
        lines: its whole log.
        ending: how it ended.
        into: the directory of records; it may hold those of other jobs.

    Raises:
        InfrastructureError: the directory cannot be written.
        ConfigError: the directory holds something damaged.
    """
    found = boots(lines)
    measured, broken, notes = 0, 0, []
    for boot, arm in zip(found, order.boots, strict=False):
        came, said = _decoded(order, arm, boot, into)
        measured += len(came)
        notes += [f"boot {boot.number} ({arm}): {note}" for note in said]
        if boot.number == ending.boot and ending.state:
            broken += _broken(order, arm, boot, (ending, came), into)
    return Fetched(measured=measured, broken=broken, notes=tuple(notes))


def _decoded(order: Order, arm: str, boot: Boot, into: Path) -> tuple[list[Record], Sequence[str]]:
    """Return the records that a boot brought, and what is lacking. One that names another case or arm is kept out."""
    if not boot.booted:
        return [], ()
    decoded = records.decode((line.text for line in boot.shell), into)
    found, notes = [], [*decoded.damaged, *decoded.missing]
    for path in decoded.records:
        record = records_file.read(path)
        if (record.board, record.arm) == (order.board, arm):
            found.append(record)
        else:
            shutil.rmtree(path)
            notes.append(f"a record of {record.arm} on {record.board} does not belong here: refused")
    return found, notes


def _broken(order: Order, arm: str, boot: Boot, result: tuple[Ending, Iterable[Record]], into: Path) -> int:
    """Write a record for each case that a boot did not come to; return how many."""
    ending, came = result
    there = {record.case for record in came}
    lacking = [one.case for one in order.cases if one.case not in there]
    for case in lacking:
        records_file.write(_record(order, arm, case, ending), {}, boot.console.encode(), into)
    return len(lacking)


def _record(order: Order, arm: str, case: str, ending: Ending) -> Record:
    board = boards.board(order.board)
    # A silent boot is not yet anybody's fault: it counts for the lab until a known-good kernel has booted there.
    state = "lab" if ending.blame is Blame.SILENT else ending.state
    return Record(
        case=case,
        board=order.board,
        arm=arm,
        profile=order.profile,
        seed=None,
        boot_id="",
        state=state,
        message=ending.sentence,
        argv=(),
        kernel=order.kernels[arm],
        environment=Environment(board=board.name, soc=board.soc, arch=board.arch, time="real", tuning=order.tuning),
        evidence=Evidence(),
        measurements=(),
        faults=tuple(FaultSeen(kind=one.kind.value, line=one.line, text=one.text) for one in ending.faults),
        line={"received": 0, "damaged": 0, "repeated": 0},
        seconds={},
        machine={},
    )


def plan(order: Order, into: Path) -> None:
    """Plan what was asked for, where no log announced it, so that it is missed. Raises as `fetch`."""
    for arm in order.kernels:
        wanted = sum(one == arm for one in order.boots)
        for one in order.cases:
            planned.at_least(Place(records=into, board=order.board, arm=arm, case=one.case), wanted)


def decided(ending: Ending, *, good: bool) -> Ending:
    """Return whose fault a silent boot was, once a known-good kernel has been tried on the same board."""
    if good:
        sentence = f"{ending.sentence}; a known-good kernel then booted on the same board"
        return replace(ending, blame=Blame.PRODUCT, sentence=sentence)
    sentence = f"{ending.sentence}; a known-good kernel does not boot there either"
    return replace(ending, blame=Blame.LAB, state="lab", sentence=sentence)
