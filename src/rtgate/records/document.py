# SPDX-License-Identifier: MIT
"""JSON documents that rtgate wrote: whatever is wrong with one is said with its path, and with what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from rtgate import files
from rtgate.errors import ConfigError

_Value = TypeVar("_Value")
# An integer of `1e999` is an OverflowError; a hundred thousand brackets are a RecursionError.
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


def read_document(
    path: Path, parse: Callable[[Any], _Value], remedy: str, *, supported: int | None = None
) -> _Value | None:
    """Return what a document holds; None if there is none.

    Args:
        path: the file.
        parse: makes a value of the plain data; it may raise any error that damaged data lead to.
        remedy: what to do about a damaged document.
        supported: the number that its field `format` must have; `parse` gets the data without it. None for a document
            that has no such field.

    Raises:
        ConfigError: it is damaged, of another format, or cannot be read; or `parse` raises it.
    """
    try:
        data = json.loads(files.read_text(path, files.JSON_LIMIT))
        if supported is not None and data["format"] != supported:
            raise ConfigError(f"{path}: format {data['format']}, this rtgate reads {supported}: {remedy}")
        return parse(data if supported is None else {name: data[name] for name in data if name != "format"})
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}: {remedy}") from error
    except _DAMAGE as error:
        raise ConfigError(f"{path}: damaged: {files.damage(error)}: {remedy}") from error
