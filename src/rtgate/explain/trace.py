# SPDX-License-Identifier: MIT
"""Traces: what the plugin `trace.c` is asked for, and what it wrote.

Everywhere `n` counts instructions executed since power-on by all CPUs, and the clock is `bias + n * INSTRUCTION_NS` in
virtual nanoseconds.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtgate.errors import ParseError
from rtgate.explain import sections
from rtgate.explain.cache_models import CacheModel
from rtgate.kernel.interrupt_handlers import HandlerCalls
from rtgate.kernel.preemption import SOFTIRQ_OFFSET, Preemption
from rtgate.kernel.raw_locks import LockFunctions

INSTRUCTION_NS = 8
"""What one instruction takes, with QEMU's `shift=3`: the plugin knows no other."""

_EVENT = struct.Struct("<QqQII")
_RUN = struct.Struct("<QII")
_BLOCK = struct.Struct("<QIII16sI")  # the compiler adds nothing: all fields are aligned

COUNT = np.dtype([("block", "<u4"), ("slice", "<u4"), ("instructions", "<u8")])
"""How many instructions of a block were executed in a slice. A boot has a million of these."""


class EventKind(IntEnum):
    """What an event is."""

    IDLE = 1  # the instruction that waits for an interrupt
    USER_CLOCK = 2  # a program reads the counter
    TIMER_INTERRUPT = 16
    TIMER_WAKEUP = 17
    SIGNAL = 18  # a program sends a signal to a thread
    WAKEUP_RETURN = 19  # the handler of a timer has woken a thread
    SCHEDULER = 20
    SWITCH = 21  # the scheduler has picked another thread


@dataclass(frozen=True, slots=True)
class Event:
    """One execution of a marked instruction; `n` does not count it yet."""

    n: int
    bias: int
    address: int
    kind: int
    cpu: int


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a block of instructions; `n` counts those before it."""

    n: int
    block: int
    cpu: int


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions that QEMU translated together; a block ends at the latest with the first jump.

    Attributes:
        last: the bytes of its last instruction.
        size: bytes of all its instructions.
    """

    address: int
    instructions: int
    last: bytes
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """What to trace.

    Attributes:
        marks: addresses of instructions that are events, by kind.
        intervals: (start, end) in `n`: executions of blocks are logged; ascending, not overlapping.
        window: (start, end) in `n`: instructions of each block are counted.
        slice_bits: they are counted from power-on to the end, in each slice of 2 to the power of this for itself; 0 to
            count those of the window.
        preemption: where the kernel keeps what sections are followed by; None to follow none.
        altered: where functions begin whose calls are followed that begin in a section.
        locks: the functions by which raw spinlocks are followed, where sections are.
        handlers: the functions by which handlers of interrupts are, where sections are.
        caches: of which misses are counted, where sections are followed; None for none.
    """

    marks: Mapping[int, int] = field(default_factory=dict)
    intervals: Sequence[tuple[int, int]] = ()
    window: tuple[int, int] = (0, 0)
    slice_bits: int = 0
    preemption: Preemption | None = None
    altered: Sequence[int] = ()
    locks: LockFunctions = field(default_factory=LockFunctions)
    handlers: HandlerCalls = field(default_factory=HandlerCalls)
    caches: CacheModel | None = None

    def text(self) -> str:
        """Return the order as the plugin reads it."""
        lines = [f"mark {int(kind)} {address:x}" for kind, address in self.marks.items()]
        lines += [f"interval {start} {end}" for start, end in self.intervals]
        lines.append(f"slices {self.slice_bits}" if self.slice_bits else "window {} {}".format(*self.window))
        lines += _following(self.preemption) if self.preemption else []
        lines += [f"altered {address:x}" for address in self.altered]
        lines += [f"lock {address:x}" for address in self.locks.locks]
        lines += ["percpu-offsets {:x} {}".format(*self.locks.offsets)] if self.locks.offsets else []
        lines += [f"dispatcher {start:x} {end:x}" for start, end in self.handlers.interrupts]
        lines += [f"thread-dispatcher {start:x} {end:x}" for start, end in self.handlers.threads]
        lines += [f"handler {address:x}" for address in self.handlers.vectors]
        lines += self.caches.order if self.caches and self.preemption else []
        return "\n".join(lines) + "\n"


def _following(layout: Preemption) -> list[str]:
    """Return the lines that have critical sections followed."""
    lines = [f"count {layout.count}" if layout.current is None else f"percpu {layout.count:x} {layout.current:x}"]
    lines += [f"softirq {layout.softirq} {SOFTIRQ_OFFSET:x}"] if layout.softirq is not None else []
    lines += [
        f"{'interrupt' if entry.interrupt else 'exception'} {entry.start:x} {entry.end:x}" for entry in layout.entries
    ]
    return lines + [f"helper {start:x} {end:x}" for start, end in layout.helpers]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """What the plugin wrote about one boot.

    Attributes:
        counts: of type `COUNT`, one for each block and slice in which it ran; a window is slice 0.
        sections: None if they were not followed.
    """

    events: tuple[Event, ...]
    runs: tuple[Run, ...]
    counts: NDArray[np.void] = field(default_factory=lambda: np.empty(0, COUNT))
    blocks: Mapping[int, Block]
    sections: sections.Log | None = None


def read(prefix: Path, *, followed: bool = False) -> Trace:
    """Read `PREFIX.events`, `.runs`, `.counts` and `.blocks`, and what sections left if they were followed.

    Raises:
        ParseError: one is missing, cut off, or does not fit the others.
    """
    try:
        parts = [Path(f"{prefix}.{suffix}").read_bytes() for suffix in ("events", "runs", "counts", "blocks")]
    except OSError as error:
        raise ParseError(f"the trace is incomplete: {error}") from error
    return replace(parse(*parts), sections=sections.read(prefix) if followed else None)


def parse(events: bytes, runs: bytes, counts: bytes, blocks: bytes) -> Trace:
    """Return the trace in the bytes of its four files. Raises ParseError: they are damaged."""
    sizes = {"events": _EVENT.size, "runs": _RUN.size, "counts": COUNT.itemsize, "blocks": _BLOCK.size}
    for (name, size), data in zip(sizes.items(), (events, runs, counts, blocks), strict=True):
        if len(data) % size:
            raise ParseError(f"the trace's {name} are cut off: {len(data)} bytes, {size} each")
    by_number = {
        number: Block(address, instructions, last[: min(last_size, 16)], size)
        for address, number, instructions, last_size, last, size in _BLOCK.iter_unpack(blocks)
    }
    trace = Trace(
        events=tuple(Event(*fields) for fields in _EVENT.iter_unpack(events)),
        runs=tuple(Run(*fields) for fields in _RUN.iter_unpack(runs)),
        counts=np.frombuffer(counts, COUNT),
        blocks=by_number,
    )
    for name, numbers in (("events", [e.n for e in trace.events]), ("runs", [r.n for r in trace.runs])):
        if any(later < sooner for sooner, later in itertools.pairwise(numbers)):
            raise ParseError(f"the trace's {name} are not in order")
    strays = {run.block for run in trace.runs}.union(np.unique(trace.counts["block"]).tolist()) - by_number.keys()
    if strays:
        raise ParseError(f"the trace has no block {min(strays)}, which was executed")
    return trace
