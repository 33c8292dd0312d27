# SPDX-License-Identifier: MIT
"""Cases as plain data: which ones a job is going to measure, for those who are not there when pytest collects them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rtgate import files
from rtgate.errors import ConfigError
from rtgate.measure.case import Case
from rtgate.records.codec import reject_unknown_fields
from rtgate.tools import registry


def as_json(case: Case) -> dict[str, Any]:
    """Return a case as plain data."""
    options = registry.options(case.tool)
    return {"suite": case.suite, "tool": case.tool.name, "options": options, "load": case.load, "tuning": case.tuning}


def from_json(data: Mapping[str, Any]) -> Case:
    """Return the case of plain data. Raises ConfigError: it is none, or of a tool that this rtgate does not know."""
    try:
        reject_unknown_fields(data, ("suite", "tool", "options", "load", "tuning"))
        suite, tool, load, tuning = (str(data[name]) for name in ("suite", "tool", "load", "tuning"))
        return Case(suite=suite, tool=registry.with_options(tool, data["options"]), load=load, tuning=tuning)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{str(data)[:80]!r} is not a case of this version of rtgate: {error}") from error


def write(cases: Iterable[Case], path: Path) -> None:
    """Write down cases, whole or not at all."""
    files.write_text(path, json.dumps([as_json(case) for case in cases]) + "\n")


def read(path: Path) -> tuple[Case, ...]:
    """Return the cases of a file. Raises ConfigError."""
    try:
        entries = list(json.loads(files.read_text(path, files.JSON_LIMIT)))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{path}: no list of cases: {error}") from error
    return tuple(from_json(entry) for entry in entries)
