# SPDX-License-Identifier: MIT
"""Where an arm64 kernel keeps the preemption count, and where its exceptions begin."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from rtgate.kernel.preemption_places import Entry, Offsets
from rtgate.kernel.vmlinux import Vmlinux

_MRS_CURRENT = 0xD5384100  # mrs x, sp_el0
_LDR_W, _STR_W = 0xB9400000, 0xB9000000  # with an unsigned offset
_ADD_HARDIRQ = 0x11404000  # add w, w, #0x10, lsl #12
_AND_SOFTIRQ = 0x12181C00  # and w, w, #0xff00
_AND_HARDIRQ = 0x12101C00  # and w, w, #0xff0000
_INSTRUCTION = 4  # bytes
# Each table has four groups of four entries (Arm Architecture Reference Manual, D1.3.1; arch/arm64/kernel/entry.S).
_LEVELS = ("el1t_64", "el1h_64", "el0t_64", "el0t_32")
_EXCEPTIONS = ("sync", "irq", "fiq", "error")
_ENTRY = 0x80  # bytes
_TABLE = len(_LEVELS) * len(_EXCEPTIONS) * _ENTRY


def offsets(code: bytes, _address: int) -> Offsets:
    """Return the offsets in `struct task_struct` that the code of `irq_enter_rcu()` shows."""
    current: set[int] = set()
    sums: set[int] = set()
    loads: dict[int, int] = {}
    count = masked = softirq = None
    for (word,) in struct.iter_unpack("<I", code[: len(code) // _INSTRUCTION * _INSTRUCTION]):
        target, base, offset = word & 31, word >> 5 & 31, (word >> 10 & 0xFFF) * 4
        if word & ~31 == _MRS_CURRENT:
            current.add(target)
        elif word & 0xFFC00000 == _LDR_W and base in current:
            loads[target] = offset
            current.discard(target)
        elif word & 0xFFFFFC00 == _ADD_HARDIRQ and base in loads:
            sums.add(target)
        elif word & 0xFFC00000 == _STR_W and base in current and target in sums and count is None:
            count = offset
        elif word & 0xFFFFFC00 == _AND_HARDIRQ and base in loads and masked is None:
            masked = loads[base]
        elif word & 0xFFFFFC00 == _AND_SOFTIRQ and loads.get(base) not in {None, count} and softirq is None:
            softirq = loads[base]
    # A kernel that traces preemption counts in a function of its own, and asks here whether it is in an interrupt.
    return Offsets(count=masked if count is None else count, softirq=softirq)


def entries(kernel: Vmlinux) -> Iterator[Entry]:
    """Yield the entries of each table of vectors."""
    table, end = kernel.address_of("vectors"), kernel.address_of("__entry_text_end")
    hardened_table = kernel.address_of("__bp_harden_el1_vectors")
    if table is not None:
        yield from map(_entry, range(table, table + _TABLE, _ENTRY), range(_TABLE // _ENTRY))
    if hardened_table and end:
        places = range(hardened_table, end, _ENTRY)
        yield from map(_entry, places, range(len(places)))


def _entry(address: int, number: int) -> Entry:
    level, exception = divmod(number % (_TABLE // _ENTRY), len(_EXCEPTIONS))
    # Of each four: synchronous, interrupt, fast interrupt, error.
    return Entry(address, address + _INSTRUCTION, exception > 0, f"{_LEVELS[level]}_{_EXCEPTIONS[exception]}")
