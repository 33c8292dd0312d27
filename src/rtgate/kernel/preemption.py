# SPDX-License-Identifier: MIT
"""Where a kernel keeps what tells that it cannot be preempted, read from its own instructions.

Kernels are built without debug information, so the places are taken from `irq_enter_rcu()`. It adds HARDIRQ_OFFSET to
the preemption count, and asks for the count of softirqs (include/linux/preempt.h).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rtgate.errors import ConfigError
from rtgate.kernel import preemption_arm64, preemption_x86
from rtgate.kernel.preemption_places import FUNCTION, Entry, Offsets
from rtgate.kernel.vmlinux import Symbol, Vmlinux, plain_name

SOFTIRQ_OFFSET = 0x100
"""What a CPU that runs softirqs has added to their count (include/linux/preempt.h)."""

# Code that counts on behalf of its caller, which is the one to name, as locks do.
HELPERS = frozenset(
    {
        *("preempt_count_add", "preempt_count_sub", "__preempt_count_dec_and_test", "__local_bh_disable_ip"),
        *("raw_spin_rq_lock_nested", "raw_spin_rq_unlock", "raw_spin_rq_trylock"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """Where to look.

    Attributes:
        count: offset of the preemption count in `struct task_struct` (arm64), or its address behind gs (x86-64).
        current: address behind gs of the task that runs (x86-64); None on arm64.
        softirq: offset of the count of softirqs in the task; None if it is part of the preemption count.
        entries: where exceptions begin.
        helpers: start and end of functions that are named by their callers.
    """

    count: int
    current: int | None = None
    softirq: int | None
    entries: tuple[Entry, ...]
    helpers: tuple[tuple[int, int], ...]


_OFFSETS: Mapping[str, Callable[[bytes, int], Offsets]] = {
    "arm64": preemption_arm64.offsets,
    "x86_64": preemption_x86.offsets,
}
_ENTRIES: Mapping[str, Callable[[Vmlinux], Iterator[Entry]]] = {
    "arm64": preemption_arm64.entries,
    "x86_64": preemption_x86.entries,
}


def preemption(kernel: Vmlinux) -> Preemption:
    """Return where a kernel keeps it. Raises ConfigError: its code is not as expected."""
    symbol = next((symbol for symbol in kernel.symbols if symbol.name == FUNCTION and symbol.function), None)
    if symbol is None:
        raise ConfigError(f"the kernel has no function {FUNCTION}: critical sections cannot be followed")
    offsets = _OFFSETS[kernel.arch](kernel.bytes_at(symbol.address, symbol.size), symbol.address)
    if offsets.count is None or (offsets.softirq is None and kernel.address_of("rt_spin_lock") is not None):
        raise ConfigError(f"{FUNCTION} does not show where this kernel counts: critical sections cannot be followed")
    entries = tuple(_ENTRIES[kernel.arch](kernel))
    if not entries:
        raise ConfigError("the kernel has no table of vectors: critical sections cannot be followed")
    return Preemption(
        count=offsets.count,
        current=offsets.current,
        softirq=offsets.softirq,
        entries=entries,
        helpers=tuple(_helpers(kernel)),
    )


def _helpers(kernel: Vmlinux) -> Iterator[tuple[int, int]]:
    locks = lock_text(kernel)
    for symbol in kernel.symbols:
        if symbol.function and symbol.size and (symbol.address in locks or _helps(symbol)):
            yield symbol.address, symbol.address + symbol.size


def lock_text(kernel: Vmlinux) -> range:
    """Return where the functions of spinlocks are."""
    return range(kernel.address_of("__lock_text_start") or 0, kernel.address_of("__lock_text_end") or 0)


def _helps(symbol: Symbol) -> bool:
    return plain_name(symbol.name) in HELPERS
