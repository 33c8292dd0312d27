# SPDX-License-Identifier: MIT
"""For how long interrupts' handlers ran in a boot. The plugin (`handlers.c`) knows addresses; here they get names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from rtgate.kernel.vmlinux import Vmlinux

HANDLER_SUM = np.dtype(
    [
        *((name, "<u8") for name in ("handler", "count", "total", "longest")),
        *((name, "<u4") for name in ("slice", "context")),
    ]
)
"""What a handler came to in a slice of the boot, by the address where it begins."""


class HandlerContext(StrEnum):
    """Where a handler runs. In this order the plugin numbers them."""

    HARDIRQ = "hardirq"
    THREAD = "thread"


@dataclass(frozen=True, slots=True)
class InterruptHandler:
    """One function that the kernel calls as a handler of interrupts; lengths in instructions, with all that it calls.

    Attributes:
        count: how often it returned.
        seed: the boot that had the longest run.
    """

    function: str
    context: HandlerContext
    count: int
    total: int
    longest: int
    seed: int


def interrupt_handlers(
    sums: NDArray[np.void], slices: range, kernel: Vmlinux, seed: int
) -> tuple[InterruptHandler, ...]:
    """Return the handlers that returned in some slices of a boot, by name and context."""
    during = sums[(sums["slice"] >= slices.start) & (sums["slice"] < slices.stop)]
    return merge_handlers(
        InterruptHandler(
            function=kernel.function_at(handler),
            context=tuple(HandlerContext)[context],
            count=count,
            total=total,
            longest=longest,
            seed=seed,
        )
        for handler, count, total, longest, _, context in during.tolist()
    )


def merge_handlers(handlers: Iterable[InterruptHandler]) -> tuple[InterruptHandler, ...]:
    """Return handlers of several boots, or of several slices, as one of each name and context."""
    by_name: defaultdict[tuple[str, HandlerContext], list[InterruptHandler]] = defaultdict(list)
    for handler in handlers:
        by_name[handler.function, handler.context].append(handler)
    return tuple(_sum(by_name[name]) for name in sorted(by_name))


def _sum(handlers: list[InterruptHandler]) -> InterruptHandler:
    longest = max(handlers, key=lambda handler: handler.longest)
    return replace(
        longest, count=sum(handler.count for handler in handlers), total=sum(handler.total for handler in handlers)
    )
