# SPDX-License-Identifier: MIT
"""Jump labels: instructions that the kernel patches to jump or not to jump, as a key says.

Which key that is stands in a table of its own (`__jump_table`), and in no instruction.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from rtgate.kernel.vmlinux import Symbol, Vmlinux

_ENTRY = struct.Struct("<iiq")  # struct jump_entry, include/linux/jump_label.h: each relative to its own field
_ADDRESS = (1 << 64) - 1
_FLAGS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpLabel:
    """One entry of the table.

    Attributes:
        address: of the instruction.
        destination: where it jumps to.
        key: the address of its key.
        flags: whether it jumps while the key is off.
    """

    address: int
    destination: int
    key: int
    flags: int


_tables: WeakKeyDictionary[Vmlinux, tuple[list[int], list[JumpLabel]]] = WeakKeyDictionary()


def jump_labels(kernel: Vmlinux, symbol: Symbol) -> Sequence[JumpLabel]:
    """Return the jump labels of a function, by address."""
    table = _tables.get(kernel)
    if table is None:
        labels = _read(kernel)
        table = _tables[kernel] = [label.address for label in labels], labels
    addresses, labels = table
    first = bisect.bisect_left(addresses, symbol.address)
    return labels[first : bisect.bisect_left(addresses, symbol.address + symbol.size, first)]


def _read(kernel: Vmlinux) -> list[JumpLabel]:
    start, stop = (kernel.address_of(f"__{end}___jump_table") for end in ("start", "stop"))
    if start is None or stop is None:
        return []
    entries = kernel.bytes_at(start, (stop - start) // _ENTRY.size * _ENTRY.size)
    places = range(start, start + len(entries), _ENTRY.size)
    labels = [
        JumpLabel(
            address=at + code & _ADDRESS,
            destination=at + 4 + there & _ADDRESS,
            key=at + 8 + (key & ~_FLAGS) & _ADDRESS,
            flags=key & _FLAGS,
        )
        for at, (code, there, key) in zip(places, _ENTRY.iter_unpack(entries), strict=True)
    ]
    return sorted(labels, key=lambda label: label.address)
