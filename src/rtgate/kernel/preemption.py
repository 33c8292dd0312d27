# SPDX-License-Identifier: MIT
"""Where an arm64 kernel keeps what tells that it cannot be preempted, read from its own instructions.

Kernels are built without debug information, so the places are taken from `irq_enter_rcu()`. It adds HARDIRQ_OFFSET to
the preemption count, and asks for the count of softirqs (include/linux/preempt.h).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from rtgate.errors import ConfigError
from rtgate.kernel.vmlinux import Symbol, Vmlinux, plain_name

SOFTIRQ_OFFSET = 0x100
"""What a CPU that runs softirqs has added to their count (include/linux/preempt.h)."""

_FUNCTION = "irq_enter_rcu"
_MRS_CURRENT = 0xD5384100  # mrs x, sp_el0
_LDR_W, _STR_W = 0xB9400000, 0xB9000000  # with an unsigned offset
_ADD_HARDIRQ = 0x11404000  # add w, w, #0x10, lsl #12
_AND_SOFTIRQ = 0x12181C00  # and w, w, #0xff00
_VECTORS = 0x800  # bytes of a table of vectors
# Code that counts on behalf of its caller, which is the one to name, as locks do.
_HELPERS = frozenset(
    {
        *("preempt_count_add", "preempt_count_sub", "__preempt_count_dec_and_test", "__local_bh_disable_ip"),
        *("raw_spin_rq_lock_nested", "raw_spin_rq_unlock", "raw_spin_rq_trylock"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """Where to look.

    Attributes:
        count: offset of the preemption count in `struct task_struct`.
        softirq: offset of the count of softirqs there; None if it is part of the preemption count.
        vectors: where exceptions begin: start and end of each table.
        helpers: start and end of functions that are named by their callers.
    """

    count: int
    softirq: int | None
    vectors: tuple[tuple[int, int], ...]
    helpers: tuple[tuple[int, int], ...]


def preemption(kernel: Vmlinux) -> Preemption:
    """Return where a kernel keeps it. Raises ConfigError: it is not arm64, or its code is not as expected."""
    if kernel.arch != "arm64":
        raise ConfigError(f"critical sections are followed on arm64 only, this kernel is for {kernel.arch}")
    count, softirq = _offsets(_words(kernel))
    if count is None or (softirq is None and kernel.address_of("rt_spin_lock") is not None):
        raise ConfigError(f"{_FUNCTION} does not show where this kernel counts: critical sections cannot be followed")
    return Preemption(count=count, softirq=softirq, vectors=_vectors(kernel), helpers=_helpers(kernel))


def _words(kernel: Vmlinux) -> tuple[int, ...]:
    """Return the instructions of the function that shows the offsets."""
    symbol = next((one for one in kernel.symbols if one.name == _FUNCTION and one.function), None)
    if symbol is None:
        raise ConfigError(f"the kernel has no function {_FUNCTION}: critical sections cannot be followed")
    data = kernel.bytes_at(symbol.address, symbol.size)
    return struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])


def _offsets(words: tuple[int, ...]) -> tuple[int | None, int | None]:
    """Return the offsets of the preemption count and of the count of softirqs, as far as instructions show them."""
    current: set[int] = set()
    added: set[int] = set()
    loads: dict[int, int] = {}
    count = softirq = None
    for word in words:
        target, base, offset = word & 31, word >> 5 & 31, (word >> 10 & 0xFFF) * 4
        if word & ~31 == _MRS_CURRENT:
            current.add(target)
        elif word & 0xFFC00000 == _LDR_W and base in current:
            loads[target] = offset
            current.discard(target)
        elif word & 0xFFFFFC00 == _ADD_HARDIRQ and base in loads:
            added.add(target)
        elif word & 0xFFC00000 == _STR_W and base in current and target in added and count is None:
            count = offset
        elif word & 0xFFFFFC00 == _AND_SOFTIRQ and loads.get(base) not in {None, count} and softirq is None:
            softirq = loads[base]
    return count, softirq


def _vectors(kernel: Vmlinux) -> tuple[tuple[int, int], ...]:
    table, end = kernel.address_of("vectors"), kernel.address_of("__entry_text_end")
    if table is None:
        raise ConfigError("the kernel has no table of vectors: critical sections cannot be followed")
    hardened = kernel.address_of("__bp_harden_el1_vectors")
    return ((table, table + _VECTORS), *(((hardened, end),) if hardened and end and hardened < end else ()))


def _helpers(kernel: Vmlinux) -> tuple[tuple[int, int], ...]:
    start, end = kernel.address_of("__lock_text_start"), kernel.address_of("__lock_text_end")
    ranges = [(start, end)] if start and end else []
    ranges += [(one.address, one.address + one.size) for one in kernel.symbols if _helps(one)]
    return tuple(ranges)


def _helps(symbol: Symbol) -> bool:
    return symbol.function and symbol.size > 0 and plain_name(symbol.name) in _HELPERS
