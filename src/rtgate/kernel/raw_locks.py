# SPDX-License-Identifier: MIT
"""Raw spinlocks of a kernel: the functions that take them, and the names of locks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rtgate.kernel.vmlinux import Vmlinux, plain_name

# include/linux/spinlock_api_smp.h. A try does not say by its call whether it got the lock.
LOCKS = re.compile(r"_raw_spin_lock(?:_bh|_irq|_irqsave)?(?:_nested|_nest_lock)?")
_OFFSETS = "__per_cpu_offset"
_WORD = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LockFunctions:
    """Where to look.

    Attributes:
        locks: where functions begin that lock the raw spinlock of their first argument.
        offsets: the address of the kernel's table of where each CPU's own variables are, and its entries; None if it
            has none, with one CPU for good.
    """

    locks: tuple[int, ...] = ()
    offsets: tuple[int, int] | None = None


def lock_functions(kernel: Vmlinux) -> LockFunctions:
    """Return the functions of a kernel; none where locking is inlined."""
    functions = [symbol for symbol in kernel.symbols if symbol.function]
    table = next((symbol for symbol in kernel.symbols if symbol.data and symbol.name == _OFFSETS), None)
    return LockFunctions(
        locks=tuple(symbol.address for symbol in functions if LOCKS.fullmatch(symbol.name)),
        offsets=(table.address, table.size // _WORD) if table else None,
    )


def lock_name(kernel: Vmlinux, address: int, cpu_offsets: Sequence[int]) -> str:
    """Return the name of the variable that a lock is in; empty if the kernel has allocated it.

    A variable that each CPU has is found by where the CPU has its own. The image's own copy of those is no variable: it
    is what each CPU's is made from.
    """
    start, end = (kernel.address_of(name) for name in ("__per_cpu_start", "__per_cpu_end"))
    copies = range(start or 0, end or 0)
    for offset in (0, *filter(None, cpu_offsets)):
        own_address = (address - offset) % (1 << 64)
        if (own_address in copies) is bool(offset) and (place := kernel.resolve(own_address)):
            symbol, _ = place
            if symbol.data and kernel.sections[symbol.section].writable:
                return plain_name(symbol.name)
    return ""
