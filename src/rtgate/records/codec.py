# SPDX-License-Identifier: MIT
"""JSON of our own files: typed values as plain data and back. The one owner of msgspec.

Strict: nothing is turned into another type (a truth value is not a number, a number is not text), and a field without a
default must be there. Types of fields are looked up at run time: the module of a dataclass imports them outside of
`TYPE_CHECKING`.
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


def decoded(data: object, kind: type[_Value]) -> _Value:
    """Return plain data as a value of a type; a field that this version does not know is passed over.

    Raises:
        ValueError: it is not one; the message ends with the place, as in `$.threads[0].priority`.
    """
    try:
        with _ONE_AT_A_TIME:
            return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def encoded(value: object) -> Any:
    """Return a value as plain data: dataclasses become mappings, enumerations their values."""
    return msgspec.to_builtins(value)


def check_keys(data: Mapping[str, Any], kind: Any, *, without: Collection[str] = ()) -> None:
    """Check that a mapping has a key for each field of a dataclass, but some, and no other.

    Raises:
        ValueError: a key is missing, or unknown.
    """
    names = {field.name for field in fields(kind)} - set(without)
    for what, keys in (("is missing", names - data.keys()), ("is not known", data.keys() - names)):
        if keys:
            raise ValueError(f"field `{min(keys)}` {what}")
