# SPDX-License-Identifier: MIT
"""`planned.json`: which boots a case was to have, so that one that left no record is missed."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
        there = {int(path.parent.name) for path in place.directory.glob("[0-9]*/record.json")}
        planned = {
            "seeds": sorted({*there, *seeds}) if virtual else [],
            "boots": 0 if virtual else len(there) + len(seeds),
        }
        staged = place.directory / f".{_PLANNED}.writing"
        staged.write_text(json.dumps(planned) + "\n", encoding="utf-8")
        staged.replace(place.directory / _PLANNED)
    except OSError as error:
        raise InfrastructureError(f"{place.directory} cannot be written: {error}") from error


def missing(place: Place, records: Sequence[Record]) -> tuple[str, ...]:
    """Return the boots that were planned and have no record, as people name them. Raises ConfigError."""
    planned = _read(place)
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


def _read(place: Place) -> dict[str, Any]:
    path = place.directory / _PLANNED
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {"seeds": [int(seed) for seed in data["seeds"]], "boots": int(data["boots"])}
    except FileNotFoundError:
        return {"seeds": [], "boots": 0}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: damaged: {error}") from error
