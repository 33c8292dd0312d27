# SPDX-License-Identifier: MIT
"""JSON files that stand beside the boots of a case: what was seen of all of them together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from rtgate import files
from rtgate.errors import ConfigError
from rtgate.records.codec import decode, encode

FORMAT = 2

_Value = TypeVar("_Value")


def write(path: Path, value: object) -> None:
    """Write a value, whole or not at all. Raises InfrastructureError."""
    with files.writing(path.parent):
        files.write_text(path, json.dumps({"format": FORMAT, **encode(value)}, indent=1) + "\n")


def read(path: Path, kind: type[_Value]) -> _Value | None:
    """Return the value of a file; None if there is none. Raises ConfigError: it is damaged."""
    try:
        return _decode(json.loads(files.read_text(path, files.JSON_LIMIT)), kind)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        what = files.damage(error)
        raise ConfigError(f"{path}: damaged: {what}: run the gate again, or remove the file") from error


def _decode(data: dict[str, Any], kind: type[_Value]) -> _Value:
    if data["format"] != FORMAT:
        raise ValueError(f"format {data['format']}, this rtgate reads {FORMAT}")
    return decode({name: value for name, value in data.items() if name != "format"}, kind)
