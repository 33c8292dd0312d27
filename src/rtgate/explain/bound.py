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

from rtgate.explain.interruptions import interrupt_sums, measure_interruptions
from rtgate.explain.intervals import Interval
from rtgate.explain.sections import Kind, Section
from rtgate.records.bound import Bound, Delay
from rtgate.tools.wakeup_bound import interference


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
    postponements = [section for section in sections if section.site.kind is Kind.POID]
    entry, way = _ways(interrupts, switches, wakeups)
    base = Bound(
        seed=seed,
        postponed=_longest(section for section in postponements if not section.site.switches),
        switching=_longest(section for section in postponements if section.site.switches),
        entry=entry,
        way=way,
        interrupts=0,
        interrupt_count=0,
        measured=_longest_wakeup(interrupts, switches, wakeups),
    )
    instructions, count = interference(base.instructions, lambda length: _most(interrupts, length))
    return replace(base, interrupts=instructions, interrupt_count=count)


def _longest(sections: Iterable[Section]) -> Delay:
    delays = (Delay(section.longest, section.site.place) for section in sections)
    return max(delays, key=lambda delay: delay.instructions, default=Delay())


def _ways(interrupts: NDArray[np.void], switches: NDArray[np.void], wakeups: Sequence[Interval]) -> tuple[int, int]:
    """Return the longest way into the scheduler, and the longest from the switch to the end, of all wake-ups."""
    starts = np.array([wakeup.start for wakeup in wakeups], np.int64)
    ends = np.array([wakeup.end for wakeup in wakeups], np.int64)
    last = np.searchsorted(switches["end"], ends.astype(np.uint64), "right") - 1
    there = last >= 0
    there[there] = switches["end"][last[there]].astype(np.int64) > starts[there]
    starts, ends, last_switches = starts[there], ends[there], switches[last[there]]
    if not last_switches.size:  # the timer expired before the thread had gone to sleep
        return 0, 0
    since_expiry = last_switches["start"].astype(np.int64) - starts
    entries = np.minimum(last_switches["before"].astype(np.int64), since_expiry)
    switch_ends = last_switches["end"].astype(np.int64)
    ways = ends - switch_ends - measure_interruptions(interrupts, switch_ends, ends)
    return max(0, int(entries.max())), int(ways.max())


def _longest_wakeup(interrupts: NDArray[np.void], switches: NDArray[np.void], wakeups: Sequence[Interval]) -> int:
    """Return the longest wake-up, each without the threads that ran in it and are above the measured one.

    A wake-up that only waits for its turn has two switches at most: one that was under way, and its own. What runs
    between others is above: a stopper, as the watchdog has one each 4 s.
    """
    starts = np.array([wakeup.start for wakeup in wakeups], np.int64)
    ends = np.array([wakeup.end for wakeup in wakeups], np.int64)
    lengths = ends - starts
    switch_ends = switches["end"].astype(np.int64)
    first = np.searchsorted(switch_ends, starts, "right")
    last = np.searchsorted(switch_ends, ends, "right") - 1
    delayed = last - first > 1
    begin, end = switch_ends[first[delayed]], switches["start"][last[delayed]].astype(np.int64)
    lengths[delayed] -= end - begin - measure_interruptions(interrupts, begin, end)
    return int(lengths.max())


def _most(interrupts: NDArray[np.void], length: int) -> tuple[int, int]:
    """Return the most that interrupts took that began in one stretch of this length without idle, and their number."""
    best = (0, 0)
    for busy in np.split(interrupts, np.flatnonzero(np.diff(interrupts["stretch"])) + 1):
        starts = busy["start"].astype(np.int64)
        sums, ends = interrupt_sums(busy), np.searchsorted(starts, starts + length)
        totals = sums[ends] - sums[:-1]
        if totals.size:
            place = int(totals.argmax())
            best = max(best, (int(totals[place]), int(ends[place]) - place))
    return best
