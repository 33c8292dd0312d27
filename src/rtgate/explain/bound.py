# SPDX-License-Identifier: MIT
"""The bound of a boot's wake-ups, from its critical sections, its interrupts and its switches of threads.

Interrupts postpone a wake-up for as long as they did in the worst stretch of as many instructions in which the CPU was
never idle: while a wake-up waits it is not. So the bound is the least length that has room for its own interrupts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rtgate.explain.intervals import Interval
from rtgate.explain.sections import Kind, Section
from rtgate.records.bound import Bound, Delay


def bound(
    sections: Iterable[Section],
    passages: tuple[NDArray[np.void], NDArray[np.void]],
    wakeups: Sequence[Interval],
    seed: int,
) -> Bound:
    """Return the bound of the wake-ups of a boot, on one CPU.

    Args:
        sections: those that ended while it measured.
        passages: interrupts, and sections with a switch, of the same time; of type `sections.PASSAGE`.
        wakeups: what was measured meanwhile, in the order of time; at least one.
        seed: that of the boot.
    """
    interrupts, switches = passages
    postponing = [one for one in sections if one.site.kind is Kind.POID]
    entry, way = _ways(interrupts, switches, wakeups)
    undisturbed = Bound(
        seed=seed,
        postponed=_longest(one for one in postponing if not one.site.switches),
        switching=_longest(one for one in postponing if one.site.switches),
        entry=entry,
        way=way,
        interrupts=0,
        interrupt_count=0,
        measured=max(one.instructions for one in wakeups),
    )
    taken, count = _interference(interrupts, undisturbed.instructions)
    return replace(undisturbed, interrupts=taken, interrupt_count=count)


def _longest(sections: Iterable[Section]) -> Delay:
    delays = (Delay(one.longest, one.site.place) for one in sections)
    return max(delays, key=lambda one: one.instructions, default=Delay())


def _ways(interrupts: NDArray[np.void], switches: NDArray[np.void], wakeups: Sequence[Interval]) -> tuple[int, int]:
    """Return the longest way into the scheduler, and the longest from the switch to the end, of all wake-ups."""
    starts = np.array([one.start for one in wakeups], np.int64)
    ends = np.array([one.end for one in wakeups], np.int64)
    last = np.searchsorted(switches["end"], ends.astype(np.uint64), "right") - 1
    there = last >= 0
    there[there] = switches["end"][last[there]].astype(np.int64) > starts[there]
    starts, ends, chosen = starts[there], ends[there], switches[last[there]]
    if not chosen.size:  # the timer expired before the thread had gone to sleep
        return 0, 0
    since_expiry = chosen["start"].astype(np.int64) - starts
    entries = np.minimum(chosen["before"].astype(np.int64), since_expiry)
    switched = chosen["end"].astype(np.int64)
    ways = ends - switched - _taken(interrupts, switched, ends)
    return max(0, int(entries.max())), int(ways.max())


def _taken(interrupts: NDArray[np.void], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many instructions were those of interrupts that came and ended between two places each."""
    sums = _sums(interrupts)
    first = np.searchsorted(interrupts["start"].astype(np.int64), starts)
    last = np.searchsorted(interrupts["end"].astype(np.int64), ends, "right")
    return np.asarray(sums[np.maximum(first, last)] - sums[first], np.int64)


def _sums(interrupts: NDArray[np.void]) -> NDArray[np.int64]:
    """Return what the first n interrupts took, for each n."""
    return np.concatenate([[0], np.cumsum((interrupts["end"] - interrupts["start"]).astype(np.int64))])


def _interference(interrupts: NDArray[np.void], rest: int) -> tuple[int, int]:
    """Return what interrupts take at most of a bound whose other parts are known, and how many they are."""
    taken, count = 0, 0
    while (found := _most(interrupts, rest + taken))[0] > taken:
        taken, count = found
    return taken, count


def _most(interrupts: NDArray[np.void], length: int) -> tuple[int, int]:
    """Return the most that interrupts took that began in one stretch of this length without idle, and their number."""
    best = (0, 0)
    for busy in np.split(interrupts, np.flatnonzero(np.diff(interrupts["stretch"])) + 1):
        starts = busy["start"].astype(np.int64)
        sums, ends = _sums(busy), np.searchsorted(starts, starts + length)
        taken = sums[ends] - sums[:-1]
        if taken.size:
            place = int(taken.argmax())
            best = max(best, (int(taken[place]), int(ends[place]) - place))
    return best
