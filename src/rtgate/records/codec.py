# SPDX-License-Identifier: MIT
"""JSON of our own files: typed values as plain data and back. The one owner of msgspec.

Strict: nothing is turned into another type (a truth value is not a number, a number is not text), and a field without a
default must be there. A field that this version does not know is passed over.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

_Value = TypeVar("_Value")


def decoded(data: object, kind: type[_Value]) -> _Value:
    """Return plain data as a value of a dataclass.

    Raises:
        ValueError: it is not one; the message ends with the place, as in `$.threads[0].priority`.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def encoded(value: object) -> Any:
    """Return a value as plain data: dataclasses become mappings, enumerations their values."""
    return msgspec.to_builtins(value)
