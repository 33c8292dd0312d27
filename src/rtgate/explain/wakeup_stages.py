# SPDX-License-Identifier: MIT
"""Where the stages of a boot's wake-ups begin and end, found among the events of its trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rtgate.explain.interruptions import measure_interruptions
from rtgate.explain.intervals import TOLERANCE_NS, Interval
from rtgate.explain.stages import INTERRUPTS, STAGES, WHOLE, Stage, WakeUpStages
from rtgate.explain.trace import INSTRUCTION_NS, Event, EventKind
from rtgate.kernel.call_sites import return_address
from rtgate.kernel.vmlinux import Vmlinux

_NEVER = np.iinfo(np.int64).max
_SLACK = TOLERANCE_NS // INSTRUCTION_NS


def stage_marks(kernel: Vmlinux) -> dict[int, int]:
    """Return where the events are that only stages need, by kind; none if the kernel lacks one of them."""
    addresses = {
        EventKind.WAKEUP_RETURN: return_address(kernel, "hrtimer_wakeup", "wake_up_process"),
        EventKind.SCHEDULER: kernel.address_of("__schedule"),
        EventKind.SWITCH: kernel.address_of("__switch_to"),
    }
    marks = {int(kind): address for kind, address in addresses.items() if address is not None}
    return marks if len(marks) == len(addresses) else {}


def wakeup_stages(
    events: Sequence[Event], passages: tuple[NDArray[np.void], NDArray[np.void]], wakeups: Sequence[Interval]
) -> WakeUpStages | None:
    """Return the stages of the wake-ups of a boot, on one CPU; None if none went the usual way.

    Args:
        events: with those of `stage_marks`, in the order of time.
        passages: interrupts, and sections with a switch, of the same time; of type `sections.PASSAGE`.
        wakeups: what was measured.
    """
    interrupts, _ = passages
    edges = _edges(_times(events), passages, wakeups)
    # One event out of order, or none where there must be one, is a step back.
    edges = edges[:, (np.diff(edges, axis=0) >= 0).all(axis=0)]
    count = edges.shape[1]
    if not count:
        return None
    others = np.array([measure_interruptions(interrupts, *ends) for ends in pairwise(edges)])
    lengths = np.vstack([np.diff(edges, axis=0) - others, others.sum(axis=0)])
    return WakeUpStages(
        count=count,
        others=len(wakeups) - count,
        stages=tuple(map(_stage, (*STAGES, INTERRUPTS), lengths)),
        whole=_stage(WHOLE, edges[-1] - edges[0]),
    )


def _stage(name: str, lengths: NDArray[np.int64]) -> Stage:
    return Stage(name, int(lengths.sum()), int(lengths.max()))


def _times(events: Sequence[Event]) -> Mapping[EventKind, NDArray[np.int64]]:
    kinds = np.array([event.kind for event in events], np.int64)
    times = np.array([event.n for event in events], np.int64)
    return {kind: times[kinds == kind] for kind in EventKind}


def _edges(
    times: Mapping[EventKind, NDArray[np.int64]],
    passages: tuple[NDArray[np.void], NDArray[np.void]],
    wakeups: Sequence[Interval],
) -> NDArray[np.int64]:
    """Return where the stages of each wake-up, one a column, begin and end: ascending, if it went the usual way."""
    interrupts, switches = passages
    starts = np.array([wakeup.start for wakeup in wakeups], np.int64)
    ends = np.array([wakeup.end for wakeup in wakeups], np.int64)
    wakes = _single(times[EventKind.TIMER_WAKEUP], starts, ends)
    place = np.searchsorted(interrupts["start"].astype(np.int64), wakes, "right") - 1
    vectors, interrupt_ends = _at(interrupts["start"], place), _at(interrupts["end"], place)
    handlers = times[EventKind.TIMER_INTERRUPT]
    schedulers = _single(times[EventKind.SCHEDULER], interrupt_ends, ends)
    switch_starts = _single(times[EventKind.SWITCH], interrupt_ends, ends)
    return np.array(
        [
            starts,
            # When the timer was due is known to a tick of the clock; of an interrupt before that another one was due.
            np.where(vectors >= starts - _SLACK, np.maximum(vectors, starts), -1),
            _at(handlers, np.searchsorted(handlers, wakes, "right") - 1),
            wakes,
            _single(times[EventKind.WAKEUP_RETURN], wakes, interrupt_ends),
            interrupt_ends,
            schedulers,
            switch_starts,
            _at(switches["end"], np.searchsorted(switches["end"].astype(np.int64), switch_starts, "right")),
            ends,
        ]
    )


def _single(times: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the event between two places each; `_NEVER` if there is none, or several."""
    first, last = np.searchsorted(times, starts), np.searchsorted(times, ends)
    return np.where(last - first == 1, np.append(times, _NEVER)[first], _NEVER)


def _at(times: NDArray[np.int64] | NDArray[np.uint64], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return some of these times; `_NEVER` for places before the first one and behind the last one."""
    inside = (places >= 0) & (places < len(times))
    return np.where(inside, np.append(times.astype(np.int64), _NEVER)[np.where(inside, places, -1)], _NEVER)
