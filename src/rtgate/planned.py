# SPDX-License-Identifier: MIT
"""`planned.json`: which boots a case was to have, so that one that left no record is missed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.record import Place, Record

_PLANNED = "planned.json"


def plan(place: Place, seeds: Sequence[int], *, virtual: bool) -> None:
    """Write down which boots a case is going to have beside those it has, so that one without a record is missed.

    Raises:
        InfrastructureError: the disk is full or not writable.
    """
    try:
        place.directory.mkdir(parents=True, exist_ok=True)
        there = measured(place)
        planned = {
            "seeds": sorted({*there, *seeds}) if virtual else [],
            "boots": 0 if virtual else len(there) + len(seeds),
        }
        _write(place, planned)
    except OSError as error:
        raise InfrastructureError(f"{place.directory} cannot be written: {error}") from error


def add(place: Place, seeds: Sequence[int], boots: int) -> None:
    """Write down that a case was to have more boots, measured elsewhere. Raises as `plan`, and ConfigError."""
    try:
        place.directory.mkdir(parents=True, exist_ok=True)
        before = read(place)
        _write(place, {"seeds": sorted({*before["seeds"], *seeds}), "boots": before["boots"] + max(0, boots)})
    except OSError as error:
        raise InfrastructureError(f"{place.directory} cannot be written: {error}") from error


def at_least(place: Place, boots: int) -> None:
    """Write down that a case was to have at least so many boots. Raises as `plan`, and ConfigError."""
    before = read(place)
    add(place, [], boots - before["boots"])


def unplan(place: Place, boots: int) -> None:
    """Take boots back that are not going to be, because a person ended them. Raises as `plan`, and ConfigError."""
    before = read(place)
    try:
        _write(place, {**before, "boots": max(0, before["boots"] - boots)})
    except OSError as error:
        raise InfrastructureError(f"{place.directory} cannot be written: {error}") from error


def measured(place: Place) -> tuple[int, ...]:
    """Return the numbers of the directories that hold a case's records."""
    names = [path.parent.name for path in place.directory.glob("*/record.json")]
    return tuple(sorted(int(name) for name in names if name.isdecimal()))


def missing(place: Place, records: Sequence[Record]) -> tuple[str, ...]:
    """Return the boots that were planned and have no record, as people name them. Raises ConfigError."""
    planned = read(place)
    seen = {record.seed for record in records}
    others = planned["boots"] - sum(record.seed is None for record in records)
    found = [f"seed {seed}" for seed in planned["seeds"] if seed not in seen]
    return (*found, *([f"{others} of {planned['boots']} boots"] if others > 0 else []))


def arms(records: Path) -> dict[str, set[str]]:
    """Return the arms that were to be measured, by board."""
    found: dict[str, set[str]] = {}
    for path in records.glob(f"*/*/*/{_PLANNED}"):
        board, arm = path.relative_to(records).parts[:2]
        found.setdefault(board, set()).add(arm)
    return found


def _write(place: Place, planned: Mapping[str, Any]) -> None:
    staged = place.directory / f".{_PLANNED}.writing"
    staged.write_text(json.dumps(planned) + "\n", encoding="utf-8")
    staged.replace(place.directory / _PLANNED)


def read(place: Place) -> dict[str, Any]:
    """Return the `seeds` and the number of `boots` that were planned. Raises ConfigError: the file is damaged."""
    path = place.directory / _PLANNED
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {"seeds": [int(seed) for seed in data["seeds"]], "boots": int(data["boots"])}
    except FileNotFoundError:
        return {"seeds": [], "boots": 0}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: damaged: {error}") from error
