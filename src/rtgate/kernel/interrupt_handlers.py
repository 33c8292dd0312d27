# SPDX-License-Identifier: MIT
"""Where a kernel calls handlers of interrupts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rtgate.kernel.vmlinux import Vmlinux, plain_name

# kernel/irq/handle.c and chip.c, and Dovetail's kernel/irq/pipeline.c. What a compiler inlines is in the next one.
IN_INTERRUPTS = frozenset(
    {
        *("__handle_irq_event_percpu", "handle_irq_event_percpu", "handle_irq_event"),
        *("handle_percpu_devid_irq", "handle_percpu_devid_fasteoi_ipi"),
        *("do_oob_irq", "dispatch_oob_irq", "handle_oob_irq"),
    }
)
IN_THREADS = frozenset({"irq_thread_fn", "irq_forced_thread_fn", "irq_thread", "handle_nested_irq"})  # and manage.c
VECTORS = re.compile(r"__sysvec_\w+")  # arch/x86/include/asm/idtentry.h


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerCalls:
    """Where handlers begin, or are called by their addresses with a number as the first argument.

    Attributes:
        interrupts: start and end of functions that call them in interrupts.
        threads: the same, in threads of interrupts.
        vectors: where handlers of x86-64's vectors begin.
    """

    interrupts: tuple[tuple[int, int], ...] = ()
    threads: tuple[tuple[int, int], ...] = ()
    vectors: tuple[int, ...] = ()


def handler_calls(kernel: Vmlinux) -> HandlerCalls:
    """Return those of a kernel; none where it lacks the functions."""
    functions = [symbol for symbol in kernel.symbols if symbol.function]

    def spans(names: frozenset[str]) -> tuple[tuple[int, int], ...]:
        return tuple(
            (symbol.address, symbol.address + symbol.size) for symbol in functions if plain_name(symbol.name) in names
        )

    return HandlerCalls(
        interrupts=spans(IN_INTERRUPTS),
        threads=spans(IN_THREADS),
        vectors=tuple(symbol.address for symbol in functions if VECTORS.fullmatch(symbol.name)),
    )
