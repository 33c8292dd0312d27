# SPDX-License-Identifier: MIT
"""JSON files that stand beside the boots of a case: what was seen of all of them together."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TypeVar

from rtgate import files
from rtgate.records.codec import decode, encode
from rtgate.records.document import read_document

FORMAT = 2

_Value = TypeVar("_Value")


def write(path: Path, value: object) -> None:
    """Write a value, whole or not at all. Raises InfrastructureError."""
    with files.writing(path.parent):
        files.write_text(path, json.dumps({"format": FORMAT, **encode(value)}, indent=1) + "\n")


def read(path: Path, kind: type[_Value]) -> _Value | None:
    """Return the value of a file; None if there is none. Raises ConfigError: it is damaged."""
    return read_document(path, partial(decode, kind=kind), "run the gate again, or remove the file", supported=FORMAT)
