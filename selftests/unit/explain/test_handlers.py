# SPDX-License-Identifier: MIT
"""For how long handlers of interrupts run, by the plugin's own code, on arm64 and x86-64."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.explain.handler_lengths import HANDLER_SUM, HandlerContext

from .plugin_parts import GUEST, Cpu, plugin_parts

HOST = f"""
#include "handlers.h"
{GUEST}
static struct handlers hard, threads[2];
static struct handler_place before;
static uint64_t before_end;
static unsigned int current;
void block(const struct guest_cpu *cpu, uint64_t address, bool calls, bool interrupt, bool returned, uint64_t time)
{{
	struct handler_place place = handlers_place(address);
	struct handler_moment moment = {{ address, before_end, &place, &before, 0, time, interrupt, returned }};

	moment.stack = guest_stack(cpu);
	place.calls = place.dispatcher && calls;
	if (handlers_matter(&hard, &threads[current], &place, &before))
		handlers_block(&hard, &threads[current], cpu, &moment);
	before = place;
	before_end = address + 4;
}}
void switch_to(unsigned int thread, uint64_t time)
{{
	handlers_leave(&threads[current], time);
	current = thread;
	handlers_go_on(&threads[current], time);
}}
void forget(void)
{{
	hard = threads[0] = threads[1] = (struct handlers){{ 0 }};
	before = (struct handler_place){{ 0 }};
}}
"""
DISPATCHER, THREAD_DISPATCHER, CHIP, VECTOR, OTHER, X86_VECTOR = 0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x6000
POINTER = 0xFFFFFF80_12345678
STACKS = (0x2000, 0x4000)
IRQ_STACK = 0x6000
LINK, RDI, STACK_POINTER = 30, 7, 31
BLOCK = 10  # instructions


def handler(number: int) -> int:
    return 0x10000 + 0x1000 * number


@dataclass(frozen=True)
class Interrupt:
    """An interrupt: handlers that it calls, by number and blocks; then another thread may run for some blocks."""

    handlers: tuple[tuple[int, int], ...]
    vector: int  # blocks of a handler that no dispatcher calls; 0: none runs
    other_thread: int


@dataclass(frozen=True)
class Step:
    """What a handler's thread does: it may wait, then interrupts may come, then it runs a block."""

    interrupts: tuple[Interrupt, ...]
    waits: int  # for how many blocks of another thread


INTERRUPTS = st.lists(
    st.builds(
        Interrupt,
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=2).map(tuple),
        st.integers(0, 2),
        st.integers(0, 2),
    ),
    max_size=2,
).map(tuple)
STEPS = st.lists(st.builds(Step, INTERRUPTS, st.integers(0, 2)), min_size=1, max_size=4)
RUNS = st.lists(st.tuples(st.integers(0, 2), STEPS), max_size=4)
Length = tuple[int, HandlerContext, int]  # handler, context, instructions


class Parts:
    """The library, on one architecture."""

    def __init__(self, library: ctypes.CDLL, *, arm64: bool) -> None:
        self.library, self.arm64 = library, arm64
        self.registers = (ctypes.c_uint64 * 32)()
        self.words = (ctypes.c_uint64 * (1 << 12)).in_dll(library, "words")
        self.cpu = Cpu(self.registers, None)

    def lengths(self, directory: Path, run: Callable[[], object]) -> list[tuple[int, ...]]:
        """Return the records that the plugin writes of what runs."""
        prefix = ctypes.create_string_buffer(str(directory / "trace").encode())
        ctypes.c_void_p.in_dll(self.library, "prefix").value = ctypes.addressof(prefix)
        ctypes.c_bool.in_dll(self.library, "machine_arm64").value = self.arm64
        self.library.forget()
        self.library.handlers_install()
        run()
        self.library.handlers_end()
        return list(np.frombuffer((directory / "trace.handlers").read_bytes(), HANDLER_SUM).tolist())


@dataclass
class Board:
    """Runs blocks, and knows how long each handler was."""

    parts: Parts
    time: int = 0
    thread: int = 0
    returned: bool = False
    lengths: list[Length] = field(default_factory=list)

    def block(self, address: int, stack: int, *, calls: bool = False, interrupt: bool = False) -> None:
        self.parts.registers[STACK_POINTER] = stack
        self.parts.library.block(self.parts.cpu, address, calls, interrupt, self.returned, self.time)
        self.returned = False
        self.time += BLOCK

    def called(self, stack: int, back: int, argument: int) -> int:
        """Return the stack pointer with which a function begins; it returns to an address."""
        registers = self.parts.registers
        registers[LINK if not self.parts.arm64 else RDI] = 0xDEAD
        if self.parts.arm64:
            registers[LINK], registers[0] = back, argument
            return stack
        registers[RDI], registers[0] = argument, POINTER
        self.parts.words[(stack - 8) // 8] = back
        return stack - 8

    def call(self, stack: int, place: int, address: int, argument: int, blocks: int) -> None:
        """A block calls a function by its address, which runs and returns."""
        self.block(place, stack, calls=True)
        begin = self.called(stack, place + 4, argument)
        for number in range(blocks):
            self.block(address + 16 * number, begin - 32 * (number > 0))
        self.block(place + 4, stack)

    def interrupt(self, stack: int, event: Interrupt) -> None:
        """Runs on a thread whose stack pointer is given, and returns to it."""
        self.block(VECTOR, stack, interrupt=True)
        for number, blocks in event.handlers:
            self.call(IRQ_STACK, DISPATCHER, CHIP, POINTER, 2)
            self.call(IRQ_STACK, DISPATCHER + 0x20, handler(number), 27, blocks)
            self.lengths.append((handler(number), HandlerContext.HARDIRQ, BLOCK * blocks))
        if event.vector:
            self.call(IRQ_STACK, OTHER, X86_VECTOR, POINTER, event.vector)
            self.lengths.append((X86_VECTOR, HandlerContext.HARDIRQ, BLOCK * event.vector))
        self.returned = True  # an exception within it
        self.block(VECTOR + 64, stack - 64)
        self.other_thread(event.other_thread)
        self.block(VECTOR + 128, stack)
        self.returned = True

    def other_thread(self, blocks: int) -> None:
        """Another thread runs, in which an interrupt returns as well."""
        if not blocks:
            return
        own, self.thread = self.thread, 1 - self.thread
        self.parts.library.switch_to(self.thread, self.time)
        stack = STACKS[self.thread]
        self.block(OTHER, stack)
        self.interrupt(stack, Interrupt((), 0, 0))
        self.call(stack, THREAD_DISPATCHER, handler(7), 27, blocks)
        self.lengths.append((handler(7), HandlerContext.THREAD, BLOCK * blocks))
        self.thread = own
        self.parts.library.switch_to(self.thread, self.time)

    def threaded(self, number: int, steps: Sequence[Step]) -> None:
        """A thread calls a handler, which is interrupted and waits."""
        stack = STACKS[self.thread]
        self.block(THREAD_DISPATCHER, stack, calls=True)
        begin = self.called(stack, THREAD_DISPATCHER + 4, 27)
        for place, step in enumerate(steps):
            if place:  # a thread that waits has run
                self.other_thread(step.waits)
            registers = list(self.parts.registers)
            for event in step.interrupts:
                self.interrupt(begin - 32 * (place > 0), event)
                self.parts.registers[:] = registers
            self.block(handler(number) + 16 * place, begin - 32 * (place > 0))
        self.block(THREAD_DISPATCHER + 4, stack)
        self.lengths.append((handler(number), HandlerContext.THREAD, BLOCK * len(steps)))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    made = plugin_parts(tmp_path_factory.mktemp("handlers"), "handlers", "ranges", host=HOST)
    made.handlers_order.restype = ctypes.c_bool
    made.block.argtypes = (
        ctypes.POINTER(Cpu),
        ctypes.c_uint64,
        *[ctypes.c_bool] * 3,
        ctypes.c_uint64,
    )
    made.switch_to.argtypes = (ctypes.c_uint, ctypes.c_uint64)
    assert not made.handlers_order(b"helper 1 2\n")
    assert made.handlers_order(f"dispatcher {DISPATCHER:x} {DISPATCHER + 0x100:x}\n".encode())
    assert made.handlers_order(f"thread-dispatcher {THREAD_DISPATCHER:x} {THREAD_DISPATCHER + 0x100:x}\n".encode())
    assert made.handlers_order(f"handler {X86_VECTOR:x}\n".encode())
    return made


@pytest.fixture(scope="module", params=[True, False], ids=["arm64", "x86_64"])
def parts(library: ctypes.CDLL, request: pytest.FixtureRequest) -> Parts:
    return Parts(library, arm64=request.param)


@examples(300)
@given(runs=RUNS)
def test_each_handler_has_its_own_instructions(
    parts: Parts, tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[int, list[Step]]]
) -> None:
    board = Board(parts)

    def run() -> None:
        for number, steps in runs:
            board.threaded(number, steps)

    found = parts.lengths(tmp_path_factory.mktemp("run"), run)
    expected: dict[tuple[int, int], list[int]] = {}
    for address, context, length in board.lengths:
        expected.setdefault((address, list(HandlerContext).index(context)), []).append(length)
    assert {(address, context): (count, total, longest) for address, count, total, longest, _, context in found} == {
        key: (len(lengths), sum(lengths), max(lengths)) for key, lengths in expected.items()
    }
    assert len(found) == len(expected)


def test_what_a_dispatcher_calls_by_name_or_with_a_pointer_is_no_handler(parts: Parts, tmp_path: Path) -> None:
    board = Board(parts)

    def run() -> None:
        board.call(IRQ_STACK, DISPATCHER, handler(0), POINTER, 1)
        board.call(IRQ_STACK, OTHER, handler(1), 27, 1)  # not by a dispatcher
        board.block(DISPATCHER, IRQ_STACK)  # which calls a function by its name
        begin = board.called(IRQ_STACK, DISPATCHER + 4, 27)
        board.block(handler(2), begin)
        board.block(DISPATCHER + 4, IRQ_STACK)
        board.block(DISPATCHER, IRQ_STACK, calls=True)  # which jumps, so the handler returns elsewhere
        begin = board.called(IRQ_STACK, OTHER, 27)
        board.block(handler(3), begin)
        board.block(OTHER, IRQ_STACK)

    assert parts.lengths(tmp_path, run) == []


def test_a_handler_that_begins_with_a_loop_or_again_is_one(parts: Parts, tmp_path: Path) -> None:
    board = Board(parts)

    def run() -> None:
        begin = board.called(IRQ_STACK, OTHER, POINTER)
        for _ in range(3):
            board.block(X86_VECTOR, begin)
        board.block(OTHER, IRQ_STACK)

    assert [record[:4] for record in parts.lengths(tmp_path, run)] == [(X86_VECTOR, 1, 30, 30)]


def test_a_handler_may_call_those_of_other_interrupts(parts: Parts, tmp_path: Path) -> None:
    board = Board(parts)

    def run() -> None:
        for _ in range(9):
            board.block(DISPATCHER, IRQ_STACK, calls=True)
            begin = board.called(IRQ_STACK, DISPATCHER + 4, 27)
            board.block(handler(0), begin)
            board.call(begin - 128, DISPATCHER, handler(1), 28, 3)
            board.call(begin - 128, DISPATCHER, handler(2), 29, 1)
            board.block(DISPATCHER + 4, IRQ_STACK)

    lengths = {record[0]: record[1:4] for record in parts.lengths(tmp_path, run)}
    # With two blocks of the dispatcher for each of the other two.
    assert lengths == {handler(0): (9, 810, 90), handler(1): (9, 270, 30), handler(2): (9, 90, 10)}


def test_a_handler_may_let_interrupts_in(parts: Parts, tmp_path: Path) -> None:
    board = Board(parts)

    def run() -> None:
        board.block(DISPATCHER, IRQ_STACK, calls=True)
        begin = board.called(IRQ_STACK, DISPATCHER + 4, 27)
        board.block(handler(0), begin)
        board.block(VECTOR, begin - 64, interrupt=True)
        board.call(begin - 512, DISPATCHER, CHIP, POINTER, 2)
        board.block(VECTOR + 128, begin - 64)
        board.returned = True
        board.block(handler(0) + 16, begin - 64)
        board.block(DISPATCHER + 4, IRQ_STACK)

    assert [record[:4] for record in parts.lengths(tmp_path, run)] == [(handler(0), 1, 20, 20)]


def test_a_handler_of_which_the_end_was_not_seen_is_left_out(parts: Parts, tmp_path: Path) -> None:
    board = Board(parts)

    def run() -> None:
        for _ in range(9):
            board.block(DISPATCHER, IRQ_STACK, calls=True)
            begin = board.called(IRQ_STACK, DISPATCHER + 4, 27)
            board.block(handler(0), begin)
            board.block(VECTOR, begin, interrupt=True)
        board.call(IRQ_STACK, DISPATCHER, handler(0), 27, 2)

    assert [record[:4] for record in parts.lengths(tmp_path, run)] == [(handler(0), 1, 20, 20)]


def test_handlers_are_counted_in_the_slice_in_which_they_return(parts: Parts, tmp_path: Path) -> None:
    board = Board(parts)
    now = ctypes.POINTER(ctypes.c_uint64).in_dll(parts.library, "instruction_count").contents
    bits = ctypes.c_uint.in_dll(parts.library, "slice_bits")

    def run() -> None:
        for number, blocks in enumerate((1, 4, 2)):
            now.value = 64 * (number // 2)
            board.call(IRQ_STACK, DISPATCHER, handler(0), 27, blocks)

    try:
        bits.value = 6
        records = parts.lengths(tmp_path, run)
    finally:
        bits.value = now.value = 0
    assert records == [(handler(0), 2, 50, 40, 0, 0), (handler(0), 1, 20, 20, 1, 0)]
