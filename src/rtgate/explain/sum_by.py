# SPDX-License-Identifier: MIT
"""One of each name: what several boots, slices of a boot, or addresses of one name come to together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def sum_by(parts: Iterable[T], key: Callable[[T], Any], add: Callable[[T, T], T]) -> tuple[T, ...]:
    """Return the sum of all parts of each key, by key; `add` gets them in their order."""
    by_key: dict[Any, T] = {}
    for part in parts:
        name = key(part)
        by_key[name] = add(by_key[name], part) if name in by_key else part
    return tuple(by_key[name] for name in sorted(by_key))
