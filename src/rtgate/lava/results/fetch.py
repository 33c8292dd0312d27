# SPDX-License-Identifier: MIT
"""From a job's log to records: those that came through it, and one for each case whose boot broke before it.

What was to come and did not is planned all the same, so that judging misses it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rtgate.console.faults import FATAL
from rtgate.errors import InfrastructureError
from rtgate.lava.client.submission import Attempt
from rtgate.lava.results import boot_log, records
from rtgate.lava.results.classify import Blame, Ending
from rtgate.lava.results.endpoint_records import excuse_death, without_deaths
from rtgate.lava.results.expected import Expected, with_boots, write_dead_boot
from rtgate.lava.results.phases import Boot, boots
from rtgate.records import planned
from rtgate.records import record as records_file
from rtgate.records.record import Place, Record
from rtgate.target.outcome import State
from rtgate.units import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """What came of a job.

    Attributes:
        measured: records that came through the log.
        broken: records of boots that broke, made here.
        notes: what was damaged or did not arrive, a sentence each.
    """

    measured: int
    broken: int
    notes: tuple[str, ...]


def fetch(expectation: Expected, attempt: Attempt, into: Path) -> FetchResult:
    """Write the records of an attempt's job into a directory, which may hold those of other jobs.

    Those of a root complex that lost its endpoint are left out, so that they are missed, but those of its death.

    Raises:
        InfrastructureError: the directory cannot be written.
        ConfigError: the directory holds something damaged, or the job's plans are not those of this rtgate.
    """
    job_boots, ending = boots(attempt.lines), attempt.ending
    record_count, substitutes, notes = 0, 0, []
    for boot, arm in zip(job_boots, expectation.boots, strict=False):
        # Of a board that measures by itself only LAVA knows that silence was a hang, and no log that was cut off.
        hung = boot.number == ending.boot and ending.state == State.HANG
        own_records, boot_notes = _decode(expectation, arm, boot, into, hung=hung)
        if ending.without_endpoint:
            own_records, boot_notes = _deaths(own_records)
        record_count += len(own_records)
        notes += [f"boot {boot.number} ({arm}): {note}" for note in boot_notes]
        for record in own_records if ending.of_endpoint else ():
            excuse_death(record, broke=ending.blame is not Blame.NOBODY)
        if boot.number == ending.boot and ending.state:
            substitutes += _write_missing(expectation, ending, boot, own_records, into)
    logs = tuple(boot_log.parse_boot_log(boot) for boot in job_boots)
    with_boots(into, tuple(map(without_deaths, logs)) if ending.of_endpoint else logs, attempt.job.device)
    return FetchResult(measured=record_count, broken=substitutes, notes=tuple(notes))


def _decode(
    expectation: Expected, arm: str, boot: Boot, into: Path, *, hung: bool
) -> tuple[list[Record], Sequence[str]]:
    """Return the records that a boot brought, and what is lacking. One that names another arm is refused."""
    if not boot.has_booted:
        return [], ()
    contents = records.decode((line.text for line in boot.shell), into, hung=hung)
    own_records, notes = [], [*contents.damaged, *contents.missing]
    for path in contents.records:
        record = records_file.read(path)
        if (record.board, record.arm) == (expectation.board.name, arm):
            own_records.append(record)
        else:
            shutil.rmtree(path)
            notes.append(f"a record of {record.arm} on {record.board} does not belong here: refused")
    return own_records, notes


def _deaths(own_records: Sequence[Record]) -> tuple[list[Record], Sequence[str]]:
    """Return the records in which a kernel died, and a note if others had to be removed."""
    deaths = [
        record
        for record in own_records
        if record.state == State.FAULT or any(fault.kind in FATAL for fault in record.faults)
    ]
    others = [record for record in own_records if record not in deaths]
    for record in others:
        assert record.directory is not None
        shutil.rmtree(record.directory)
    count = plural(len(others), "record")
    return deaths, [f"{count} left out: the root complex lost its endpoint, nobody knows when"] if others else ()


def _write_missing(expectation: Expected, ending: Ending, boot: Boot, own_records: Sequence[Record], into: Path) -> int:
    """Write a record for each case that a boot did not come to; return how many."""
    there = {record.case for record in own_records}
    missing_cases = tuple(case for case in expectation.cases if case.name not in there)
    # A silent boot is not yet anybody's fault: it counts for the lab until a known-good kernel has booted there.
    assert ending.state is not None
    state = State.LAB if ending.blame is Blame.SILENT else ending.state
    log = replace(boot_log.parse_boot_log(boot), faults=ending.faults, console=boot.console)
    return len(write_dead_boot(replace(expectation, cases=missing_cases), log, state, ending.sentence, into))


def merge(part: Path, into: Path) -> None:
    """Move the records of a part, and what was planned for it, to those of other parts.

    Raises:
        InfrastructureError: a directory cannot be written.
        ConfigError: one holds something damaged.
    """
    for path in sorted(part.glob("*/*/*/planned.json")):
        board, arm, _ = path.relative_to(part).parts[:3]
        place = Place(records=into, board=board, arm=arm, case=path.parent.name)
        plan = planned.read(Place(records=part, board=board, arm=arm, case=path.parent.name))
        planned.add(place, plan.seeds, plan.boots)
    try:
        for path in sorted(part.glob("*/*/*/*/record.json")):
            directory = into / path.parent.parent.relative_to(part)
            directory.mkdir(parents=True, exist_ok=True)
            records_file.move_to_number(path.parent, directory, int(path.parent.name))
        shutil.rmtree(part)
    except OSError as error:
        raise InfrastructureError(f"records could not be moved to {into}: {error}") from error
