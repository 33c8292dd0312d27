# SPDX-License-Identifier: MIT
"""For how long raw spinlocks were held in a boot. The plugin (`locks.c`) knows their addresses; here they get names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from rtgate.explain.sum_by import sum_by
from rtgate.kernel.raw_locks import lock_name
from rtgate.kernel.vmlinux import CALL, Vmlinux

HOLD = np.dtype(
    [
        *((name, "<u8") for name in ("lock", "owner", "count", "total", "longest")),
        *((name, "<u4") for name in ("slice", "unused")),
    ]
)
"""What a lock came to in a slice of the boot, as one function takes it (a return address in that)."""


@dataclass(frozen=True, slots=True)
class RawLock:
    """One raw spinlock, or all that one function locks and the kernel has allocated; lengths in instructions.

    Attributes:
        name: of the variable that it is in; empty for one that the kernel has allocated.
        function: the one that locked it for the longest hold.
        count: how often it was let go.
        seed: the boot that had the longest hold.
    """

    name: str
    function: str
    count: int
    total: int
    longest: int
    seed: int

    def __str__(self) -> str:
        return self.name or f"allocated, locked by {self.function}"


def raw_locks(
    holds: NDArray[np.void], cpu_offsets: NDArray[np.void], slices: range, kernel: Vmlinux, seed: int
) -> tuple[RawLock, ...]:
    """Return the locks that were let go in some slices of a boot, by name."""
    during = holds[(holds["slice"] >= slices.start) & (holds["slice"] < slices.stop)]
    pairs, places = np.unique(during[["lock", "owner"]], return_inverse=True)
    offsets = cpu_offsets["offset"].tolist()
    counts, totals = (np.bincount(places, during[name], len(pairs)).astype(int) for name in ("count", "total"))
    longest = np.zeros(len(pairs), np.uint64)
    np.maximum.at(longest, places, during["longest"])
    return merge_locks(
        RawLock(
            name=lock_name(kernel, int(lock), offsets),
            function=kernel.function_at(int(owner) - CALL),
            count=int(counts[place]),
            total=int(totals[place]),
            longest=int(longest[place]),
            seed=seed,
        )
        for place, (lock, owner) in enumerate(pairs.tolist())
    )


def merge_locks(locks: Iterable[RawLock]) -> tuple[RawLock, ...]:
    """Return locks of several boots, or of several addresses with one name, as one of each name."""
    return sum_by(locks, str, _sum)


def _sum(first: RawLock, second: RawLock) -> RawLock:
    longest = max(first, second, key=attrgetter("longest"))
    return replace(longest, count=first.count + second.count, total=first.total + second.total)
