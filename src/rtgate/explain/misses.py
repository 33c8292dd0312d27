# SPDX-License-Identifier: MIT
"""How often a CPU with caches would have missed, as `caches.c` counted it beside a boot.

Virtual time counts instructions, and caches cost nothing in it. So misses are shown, and nothing is judged by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtgate.errors import ParseError

LEVELS = ("L1I", "L1D", "L2")
"""In this order the plugin counts them."""
MOMENT = np.dtype([("n", "<u8"), ("misses", "<u8", len(LEVELS))])
"""What was missed since power-on, where an interrupt comes and where a program reads the clock."""


_UNSEEN = 0.01
"""Share of wake-ups that the trace may lack: it numbers a few otherwise than the tool does."""


@dataclass(frozen=True, slots=True)
class Misses:
    """How often each cache was missed."""

    l1i: int
    l1d: int
    l2: int

    @classmethod
    def of(cls, counts: NDArray[np.uint64]) -> Misses:
        """Return counts in the plugin's order."""
        return cls(*counts.tolist())

    def __add__(self, other: Misses) -> Misses:
        return Misses(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def __iter__(self) -> Iterator[int]:
        return iter((self.l1i, self.l1d, self.l2))


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionMisses:
    """What was missed in the sections of a site, without the interrupts that a length leaves out.

    Attributes:
        total: in all of them.
        longest: in the longest one.
    """

    total: Misses
    longest: Misses


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeUpMisses:
    """What wake-ups missed from the vector of the timer's interrupt until the program read its clock.

    Attributes:
        count: how many wake-ups.
        instructions: that all of them took.
        total: in all of them.
        most: of each cache, the most in one wake-up.
    """

    count: int
    instructions: int
    total: Misses
    most: Misses

    def __add__(self, other: WakeUpMisses) -> WakeUpMisses:
        return WakeUpMisses(
            count=self.count + other.count,
            instructions=self.instructions + other.instructions,
            total=self.total + other.total,
            most=Misses(*(max(mine, theirs) for mine, theirs in zip(self.most, other.most, strict=True))),
        )


def wakeup_misses(
    moments: NDArray[np.void], wakes: Sequence[int], spans: Sequence[tuple[int, int]]
) -> WakeUpMisses | None:
    """Return what wake-ups missed, on one CPU, without the few that the trace does not have; None if there are none.

    Args:
        moments: of type `MOMENT`, in the order of time.
        wakes: `n` of each event at which a timer woke somebody, in the order of time.
        spans: of each wake-up, `n` where its timer was due, and `n` of the instruction that read its clock.

    Raises:
        ParseError: the moments lack more than one in a hundred of these wake-ups.
    """
    if not spans:
        return None
    due, read = np.array(spans, np.int64).T
    times = moments["n"].astype(np.int64)
    # A sentinel: it is behind the end of every wake-up.
    woken = np.append(np.array(wakes, np.int64), np.iinfo(np.int64).max)[np.searchsorted(wakes, due)]
    first = np.searchsorted(times, woken, side="right") - 1
    last = np.searchsorted(times, read)
    present = (woken <= read) & (first >= 0) & (np.append(times, -1)[last] == read)
    if np.count_nonzero(~present) > _UNSEEN * len(spans):
        raise ParseError(f"the trace lacks the misses of {np.count_nonzero(~present)} of {len(spans)} wake-ups")
    first, last = first[present], last[present]
    of_each = moments["misses"][last] - moments["misses"][first]
    return WakeUpMisses(
        count=int(np.count_nonzero(present)),
        instructions=int((times[last] - times[first]).sum()),
        total=Misses.of(of_each.sum(axis=0)),
        most=Misses.of(of_each.max(axis=0)),
    )
