# SPDX-License-Identifier: MIT
"""`planned.json`: which boots a case was to have, so that one that left no record is missed; and who looked when."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rtgate import files
from rtgate.records.codec import decode, encode, require_keys
from rtgate.records.document import read_document
from rtgate.records.record import Place, Record
from rtgate.records.schedule import Schedule, Steps

_PLANNED = "planned.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePlan:
    """What was planned for one case on one arm.

    Attributes:
        seeds: of virtual-time boots.
        boots: how many boots of any other board.
        schedule: when somebody was going to look at them, or may have looked.
    """

    seeds: tuple[int, ...] = ()
    boots: int = 0
    schedule: Schedule = field(default_factory=Schedule)

    @property
    def count(self) -> int:
        """How many boots there are to be."""
        return len(self.seeds) + self.boots

    def extend(self) -> CasePlan:
        """Return the plan with its boots as a further batch."""
        return replace(self, schedule=replace(self.schedule, taken=self.schedule.extend(self.count)))


def plan(place: Place, numbers: Sequence[int], *, virtual: bool, steps: Steps = (), screen: bool = False) -> None:
    """Write down which boots a case is going to have beside those it has, so that one without a record is missed.

    What was planned before stays, also what left no record. Planning the same boots twice changes nothing.

    Args:
        place: the case.
        numbers: seeds, or numbers of boots.
        virtual: whether they are seeds.
        steps: the looks that are planned; then numbers are those of pairs, counted from 1 in all batches together.
        screen: whether the boots are the candidate's alone, to be compared with the history.

    Raises:
        InfrastructureError: the disk is full or not writable.
        ConfigError: what was planned before is damaged.
    """
    before, there = read(place), measured_numbers(place)
    schedule = before.schedule
    if screen:
        schedule = replace(schedule, screened=max(schedule.screened, len(numbers)))
    if steps:
        schedule = replace(schedule, steps=steps)
    if virtual:
        case_plan = replace(before, seeds=tuple(sorted({*before.seeds, *there, *numbers})), schedule=schedule)
    else:
        # A boot of an earlier batch that left no record must not be made up for by one of this batch.
        whole = schedule.screened + max(numbers, default=0) if steps and not screen else 0
        case_plan = replace(before, boots=max(before.boots, len(there) + len(numbers), whole), schedule=schedule)
    _write(place, case_plan.extend())


def add(place: Place, seeds: Sequence[int], boots: int) -> None:
    """Write down that a case was to have more boots, measured elsewhere. Raises as `plan`."""
    before = read(place)
    _write(place, replace(before, seeds=tuple(sorted({*before.seeds, *seeds})), boots=before.boots + max(0, boots)))


def at_least(place: Place, boots: int) -> None:
    """Write down that a case was to have at least so many boots. Raises as `plan`."""
    before = read(place)
    _write(place, replace(before, boots=max(before.boots, boots)))


def unplan(place: Place, boots: int) -> None:
    """Take boots back that are not going to be, because the lab broke them. Raises as `plan`."""
    before = read(place)
    _write(place, replace(before, boots=max(0, before.boots - boots)))


def note_look(place: Place, steps: Steps, screen_boots: int) -> None:
    """Write down that what was measured elsewhere is looked at now, by this schedule. Raises as `plan`."""
    before = read(place)
    old_schedule = before.schedule  # of an earlier look, which a later one does not undo
    schedule = replace(
        old_schedule, steps=steps or old_schedule.steps, screened=max(screen_boots, old_schedule.screened)
    )
    _write(place, replace(before, schedule=schedule).extend())


def measured_numbers(place: Place) -> tuple[int, ...]:
    """Return the numbers of the directories that hold a case's records."""
    names = [path.parent.name for path in place.directory.glob("*/record.json")]
    return tuple(sorted(int(name) for name in names if name.isdecimal()))


def missing(place: Place, records: Sequence[Record]) -> tuple[str, ...]:
    """Return the boots that were planned and have no record, as people name them. Raises ConfigError."""
    case_plan = read(place)
    measured_seeds = {record.seed for record in records}
    shortfall = case_plan.boots - sum(record.seed is None for record in records)
    missing_seeds = [f"seed {seed}" for seed in case_plan.seeds if seed not in measured_seeds]
    return (*missing_seeds, *([f"{shortfall} of {case_plan.boots} boots"] if shortfall > 0 else []))


def arms(records: Path) -> dict[str, set[str]]:
    """Return the arms that were to be measured, by board."""
    by_board: dict[str, set[str]] = {}
    for path in records.glob(f"*/*/*/{_PLANNED}"):
        board, arm = path.relative_to(records).parts[:2]
        by_board.setdefault(board, set()).add(arm)
    return by_board


def cases(records: Path) -> dict[str, set[str]]:
    """Return the boards on which each case was to be measured, by the case's name."""
    by_case: dict[str, set[str]] = {}
    for path in records.glob(f"*/*/*/{_PLANNED}"):
        board, _, name = path.relative_to(records).parts[:3]
        by_case.setdefault(name.replace(".", "/", 1), set()).add(board)  # as `Place.directory` names it
    return by_case


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """What stands in the file: of one look at all boots no word."""

    seeds: tuple[int, ...]
    boots: int
    looks: Schedule | None = None


def _write(place: Place, case_plan: CasePlan) -> None:
    data = encode(_File(seeds=case_plan.seeds, boots=case_plan.boots, looks=case_plan.schedule))
    if case_plan.schedule.is_single_look:
        del data["looks"]
    with files.writing(place.directory):
        place.directory.mkdir(parents=True, exist_ok=True)
        files.write_text(place.directory / _PLANNED, json.dumps(data) + "\n")


def read(place: Place) -> CasePlan:
    """Return what was planned. Raises ConfigError: the file is damaged."""
    return read_in(place.directory)


def read_in(directory: Path) -> CasePlan:
    """Return what was planned for the boots in a directory; nothing if nobody planned. Raises ConfigError."""
    remedy = "measure the case again, or remove the file"
    return read_document(directory / _PLANNED, _parse, remedy) or CasePlan()


def _parse(data: Mapping[str, Any]) -> CasePlan:
    content = decode(data, _File)
    if content.looks is not None:
        require_keys(data["looks"], Schedule)
    case_plan = CasePlan(seeds=content.seeds, boots=content.boots)
    return replace(case_plan, schedule=content.looks) if content.looks else case_plan.extend()
