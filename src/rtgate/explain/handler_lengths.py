# SPDX-License-Identifier: MIT
"""For how long interrupts' handlers ran in a boot. The plugin (`handlers.c`) knows addresses; here they get names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from rtgate.explain.sum_by import sum_by
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
    return sum_by(handlers, attrgetter("function", "context"), _sum)


def _sum(first: InterruptHandler, second: InterruptHandler) -> InterruptHandler:
    longest = max(first, second, key=attrgetter("longest"))
    return replace(longest, count=first.count + second.count, total=first.total + second.total)
