# SPDX-License-Identifier: MIT
"""Traces: what the plugin `trace.c` is asked for, and what it wrote.

Everywhere `n` counts instructions executed since power-on by all CPUs, and the clock is `bias + n * ns` in virtual
nanoseconds, `ns` being what one instruction takes (8 with QEMU's `shift=3`).
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from rtgate.errors import ParseError

_EVENT = struct.Struct("<QqQII")
_RUN = struct.Struct("<QqII")
_BLOCK = struct.Struct("<QQIII16sI")  # the compiler adds nothing: all fields are aligned


class Kind(IntEnum):
    """What an event is."""

    IDLE = 1  # the instruction that waits for an interrupt
    USER_CLOCK = 2  # a program reads the counter
    TIMER_INTERRUPT = 16
    TIMER_WAKEUP = 17


# Functions of the kernel whose first instruction is an event. The second is only called by its address, so it is never
# inlined.
MARKED = {Kind.TIMER_INTERRUPT: "hrtimer_interrupt", Kind.TIMER_WAKEUP: "hrtimer_wakeup"}


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
    bias: int
    block: int
    cpu: int


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions that QEMU translated together; a block ends at the latest with the first jump.

    Attributes:
        counted: its instructions that were executed within the window.
        last: the bytes of its last instruction.
    """

    address: int
    counted: int
    instructions: int
    last: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to trace.

    Attributes:
        marks: addresses of instructions that are events, by kind.
        intervals: (start, end) in `n`: executions of blocks are logged; ascending, not overlapping.
        window: (start, end) in `n`: instructions of each block are counted.
    """

    marks: Mapping[int, int] = field(default_factory=dict)
    intervals: Sequence[tuple[int, int]] = ()
    window: tuple[int, int] = (0, 0)

    def text(self) -> str:
        """Return the order as the plugin reads it."""
        lines = [f"mark {int(kind)} {address:x}" for kind, address in self.marks.items()]
        lines += [f"interval {start} {end}" for start, end in self.intervals]
        return "\n".join([*lines, "window {} {}".format(*self.window)]) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What the plugin wrote about one boot."""

    events: tuple[Event, ...]
    runs: tuple[Run, ...]
    blocks: Mapping[int, Block]


def read(prefix: Path) -> Trace:
    """Read `PREFIX.events`, `.runs` and `.blocks`.

    Raises:
        ParseError: one is missing, cut off, or does not fit the others.
    """
    try:
        events, runs, blocks = (Path(f"{prefix}.{suffix}").read_bytes() for suffix in ("events", "runs", "blocks"))
    except OSError as error:
        raise ParseError(f"the trace is incomplete: {error}") from error
    return parse(events, runs, blocks)


def parse(events: bytes, runs: bytes, blocks: bytes) -> Trace:
    """Return the trace in the bytes of its three files. Raises ParseError: they are damaged."""
    for name, data, record in (("events", events, _EVENT), ("runs", runs, _RUN), ("blocks", blocks, _BLOCK)):
        if len(data) % record.size:
            raise ParseError(f"the trace's {name} are cut off: {len(data)} bytes, {record.size} each")
    known = {
        number: Block(address, counted, instructions, last[: min(size, 16)])
        for address, counted, number, instructions, size, last, _ in _BLOCK.iter_unpack(blocks)
    }
    trace = Trace(
        events=tuple(Event(*fields) for fields in _EVENT.iter_unpack(events)),
        runs=tuple(Run(*fields) for fields in _RUN.iter_unpack(runs)),
        blocks=known,
    )
    for name, numbers in (("events", [e.n for e in trace.events]), ("runs", [r.n for r in trace.runs])):
        if any(later < sooner for sooner, later in itertools.pairwise(numbers)):
            raise ParseError(f"the trace's {name} are not in order")
    unknown = {run.block for run in trace.runs} - known.keys()
    if unknown:
        raise ParseError(f"the trace has no block {min(unknown)}, which was executed")
    return trace
