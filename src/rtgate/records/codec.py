# SPDX-License-Identifier: MIT
"""JSON of our own files: typed values as plain data and back. The one owner of msgspec.

Strict: nothing is turned into another type (a truth value is not a number, a number is not text), a field without a
default must be there, and one that the type does not have must not. Types of fields are looked up at run time: the
module of a dataclass imports them outside of `TYPE_CHECKING`.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any, TypeVar

import msgspec

_Value = TypeVar("_Value")

# msgspec 0.22 keeps what it learns of a dataclass before that is complete; a second thread that decodes one meanwhile
# ends Python with a segmentation fault. Boots of a run are read by several threads.
_ONE_AT_A_TIME = threading.Lock()


def decode(data: object, kind: type[_Value]) -> _Value:
    """Return plain data as a value of a type.

    Raises:
        ValueError: it is not one; the message ends with the place, as in `$.threads[0].priority`.
    """
    try:
        with _ONE_AT_A_TIME:
            value = msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    # msgspec passes over fields that a dataclass does not have: they are not in what the value is made of.
    _check_fields(data, encode(value), "$")
    return value


def _check_fields(data: Any, counterpart: Any, place: str) -> None:
    if data == counterpart:
        return  # as almost all that rtgate wrote: to look at each field takes longer than all else of reading it
    if isinstance(counterpart, dict):
        reject_unknown_fields(data, counterpart, place)
        for name in data:
            _check_fields(data[name], counterpart[name], f"{place}.{name}")
    elif isinstance(counterpart, list | tuple):
        for number, (entry, twin) in enumerate(zip(data, counterpart, strict=True)):
            _check_fields(entry, twin, f"{place}[{number}]")


def reject_unknown_fields(data: Mapping[str, Any], known_names: Collection[str], place: str = "$") -> None:
    """Check that a mapping has no other field than these. Raises ValueError, which names the place."""
    unknown_names = data.keys() - set(known_names)
    if unknown_names:
        raise ValueError(f"field `{min(unknown_names)}` is not known - at `{place}`")


def decimal(text: str) -> int | None:
    """Return the number of a text of at most nine digits; None for any other, which counts nothing that there is."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else None


def encode(value: object) -> Any:
    """Return a value as plain data: dataclasses become mappings, enumerations their values."""
    return msgspec.to_builtins(value)


def require_keys(data: Mapping[str, Any], kind: Any, *, without: Collection[str] = ()) -> None:
    """Check that a mapping has each field of a dataclass, but some, although they have defaults. Raises ValueError."""
    missing_names = {field.name for field in fields(kind)} - set(without) - data.keys()
    if missing_names:
        raise ValueError(f"field `{min(missing_names)}` is missing")
