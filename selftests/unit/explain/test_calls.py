# SPDX-License-Identifier: MIT
"""How long calls of altered functions take in a section, by the plugin's own code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from .plugin_parts import GUEST, Cpu, plugin_parts

HOST = f"""
#include "calls.h"
{GUEST}
uint64_t longest[4];
static struct calls calls;
void sites_add_call(struct known_site *known, uint32_t function, uint64_t instructions)
{{
	(void)known;
	longest[function] = instructions;
}}
void block(const struct guest_cpu *cpu, uint64_t address, uint64_t time)
{{
	calls_block(&calls, cpu, address, calls_function(address), time);
}}
void another_thread(uint64_t time)
{{
	calls_switch(&calls, time);
}}
void end(uint64_t time)
{{
	memset(longest, 0, sizeof(longest));
	calls_end(&calls, NULL, time);
}}
"""
ALTERED = 3
FUNCTIONS = 5
STACK = 0x4000
LINK, STACK_POINTER = 30, 31


class Block(NamedTuple):
    """A block that begins: its address, what the link register has, and the stack pointer."""

    address: int
    link: int
    stack: int


@dataclass(frozen=True)
class Call:
    """A function that runs: for how long before each of what it calls, and what it jumps to in the end."""

    function: int
    calls: tuple[Call, ...] = ()
    jumps_to: Call | None = None


CALLS = st.recursive(
    st.builds(Call, st.integers(0, FUNCTIONS - 1)),
    lambda inner: st.builds(
        Call, st.integers(0, FUNCTIONS - 1), st.lists(inner, max_size=3).map(tuple), st.none() | inner
    ),
    max_leaves=12,
)


def entry(function: int) -> int:
    return 0x1000 * (function + 1)


class Moment(NamedTuple):
    """Before a block: a function begins, or (None) what was called with this stack pointer has returned."""

    function: int | None
    stack: int


def blocks(call: Call, link: int, stack: int) -> Iterator[Block | Moment]:
    """Yield the blocks of a call, and when functions begin and return; what was jumped to returns with what jumped."""
    yield Moment(call.function, stack)
    yield Block(entry(call.function), link, stack)
    for number, inner in enumerate(call.calls):
        back = entry(call.function) + 16 * (number + 1)
        yield from blocks(inner, back, stack - 64)
        yield Moment(None, stack - 64)
        yield Block(back, back, stack - 64)
    if call.jumps_to is not None:
        yield from blocks(call.jumps_to, link, stack)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    made = plugin_parts(tmp_path_factory.mktemp("calls"), "calls", host=HOST)
    made.calls_order.restype = ctypes.c_bool
    made.block.argtypes = (ctypes.POINTER(Cpu), ctypes.c_uint64, ctypes.c_uint64)
    made.end.argtypes = made.another_thread.argtypes = (ctypes.c_uint64,)
    ctypes.c_bool.in_dll(made, "machine_arm64").value = True
    assert not made.calls_order(b"helper 1 2\n")
    for function in range(ALTERED):
        assert made.calls_order(f"altered {entry(function):x}\n".encode())
    return made


@pytest.fixture(scope="module")
def run(library: ctypes.CDLL) -> Callable[[Sequence[Block]], list[int]]:
    """Return the longest calls in a section of these blocks, ten instructions each."""
    registers = (ctypes.c_uint64 * 32)()
    cpu = Cpu(registers, None)

    def longest(section: Sequence[Block]) -> list[int]:
        for number, one in enumerate(section):
            registers[LINK], registers[STACK_POINTER] = one.link, one.stack
            library.block(cpu, one.address, 10 * number)
        library.end(10 * len(section))
        return list((ctypes.c_uint64 * 4).in_dll(library, "longest"))[:ALTERED]

    return longest


def expected(trace: Sequence[Block | Moment], count: int) -> list[int]:
    """Return the longest call of each altered function in the first blocks, by what begins and returns."""
    longest = [0] * FUNCTIONS
    running: list[tuple[int, int, int]] = []  # function, stack pointer, time
    time = 0
    for item in trace:
        if time == 10 * count:
            break
        if isinstance(item, Block):
            time += 10
        elif item.function is not None:
            running.append((item.function, item.stack, time))
        else:
            while running and running[-1][1] <= item.stack:
                function, _, began = running.pop()
                longest[function] = max(longest[function], time - began)
    for function, _, began in running:
        longest[function] = max(longest[function], time - began)
    return longest[:ALTERED]


@examples(300)
@given(call=CALLS, part=st.floats(0, 1))
def test_the_longest_call_of_each_function_is_known(
    run: Callable[[Sequence[Block]], list[int]], call: Call, part: float
) -> None:
    trace = [*blocks(Call(FUNCTIONS - 1, (call,)), 0xF000, STACK)]
    section = [item for item in trace if isinstance(item, Block)]
    count = round(part * len(section))
    assert run(section[:count]) == expected(trace, count)


def test_a_function_that_jumps_to_its_first_instruction_is_one_call(
    run: Callable[[Sequence[Block]], list[int]],
) -> None:
    loop = Block(entry(0), 0x9010, STACK - 64)
    assert run([loop, loop, loop, Block(0x9010, 0x9010, STACK - 64)]) == [30, 0, 0]


def test_another_thread_ends_what_runs(library: ctypes.CDLL, run: Callable[[Sequence[Block]], list[int]]) -> None:
    assert run([]) == [0, 0, 0]
    registers = (ctypes.c_uint64 * 32)()
    registers[LINK], registers[STACK_POINTER] = 0x9010, STACK
    library.block(Cpu(registers, None), entry(1), 100)
    library.another_thread(130)
    library.end(500)
    assert list((ctypes.c_uint64 * 4).in_dll(library, "longest"))[:ALTERED] == [0, 30, 0]
