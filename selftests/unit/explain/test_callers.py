# SPDX-License-Identifier: MIT
"""Who has called a helper, on x86-64 and on arm64, by the plugin's own code."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from .plugin_parts import GUEST, Cpu, plugin_parts

HELPERS = 4
"""Helpers call those behind them, so each is called once at a time, as locks are."""
LOCKED, JUMPED = 0xA000, 0xB000  # two functions, not helpers
CALL = 4
FRAME, LINK, STACK_POINTER = 29, 30, 31
STACK = 0x4000


class Location(ctypes.Structure):
    """`struct location`."""

    _fields_ = (("address", ctypes.c_uint64), ("end", ctypes.c_uint64), ("helper", ctypes.c_void_p))


class Parts(NamedTuple):
    """The library, and what a test writes of its guest."""

    library: ctypes.CDLL
    registers: ctypes.Array[ctypes.c_uint64]
    words: ctypes.Array[ctypes.c_uint64]
    cpu: Cpu

    def location(self, address: int, size: int = 16) -> Location:
        return Location(address, address + size, self.library.callers_helper(address))

    def begin(self, block: Location, before: Location | None, stack: int) -> None:
        """A block begins; each test must keep `before`, as the plugin keeps blocks."""
        self.registers[STACK_POINTER] = stack
        ctypes.POINTER(ctypes.c_uint64).in_dll(self.library, "instruction_count").contents.value += 3
        if block.helper:
            self.library.callers_block(self.cpu, block, before)

    def caller(self, at: Location, stack: int) -> int:
        self.registers[STACK_POINTER] = stack
        return int(self.library.callers_caller(self.cpu, at))

    def write(self, address: int, value: int) -> None:
        self.words[address // 8] = value


def helper(number: int) -> int:
    return 0x1000 * (number + 1)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    made = plugin_parts(tmp_path_factory.mktemp("callers"), "callers", "ranges", host=GUEST)
    made.callers_order.restype = ctypes.c_bool
    made.callers_helper.argtypes, made.callers_helper.restype = (ctypes.c_uint64,), ctypes.c_void_p
    made.callers_block.argtypes = (ctypes.POINTER(Cpu), ctypes.POINTER(Location), ctypes.POINTER(Location))
    made.callers_caller.argtypes, made.callers_caller.restype = (
        (ctypes.POINTER(Cpu), ctypes.POINTER(Location)),
        ctypes.c_uint64,
    )
    assert not made.callers_order(b"altered 1000\n")
    for number in range(HELPERS):
        assert made.callers_order(f"helper {helper(number):x} {helper(number) + 0x100:x}\n".encode())
    registers = (ctypes.c_uint64 * 32)()
    return Parts(made, registers, (ctypes.c_uint64 * (1 << 12)).in_dll(made, "words"), Cpu(registers, None))


@dataclass(frozen=True)
class Use:
    """A function uses helpers, one from the other.

    Attributes:
        helpers: by their numbers, in the order of calls.
        frames: words that each has on the stack, above its return address, when it calls the next or disables.
        jumps: whether each was jumped to, in place of a call.
        interrupted: an exception has returned to the first instruction of the first helper.
    """

    helpers: tuple[int, ...]
    frames: tuple[int, ...]
    jumps: tuple[bool, ...]
    interrupted: bool
    depth: int


@st.composite
def uses(draw: st.DrawFn) -> Use:
    numbers = sorted(draw(st.sets(st.integers(0, HELPERS - 1), min_size=1)))
    return Use(
        helpers=tuple(numbers),
        frames=tuple(draw(st.integers(0, 14)) for _ in numbers),
        jumps=tuple(draw(st.booleans()) for _ in numbers),
        interrupted=draw(st.booleans()),
        depth=draw(st.integers(0, 40)),
    )


def run(parts: Parts, use: Use) -> Iterator[tuple[int, int]]:
    """Yield what the plugin says of the caller within each helper, and who it is."""
    stack = STACK - 8 * use.depth
    before = parts.location(LOCKED)
    parts.write(stack - 8, LOCKED + 16)
    expected = LOCKED + 16
    if use.jumps[0]:
        # The function that jumps was called by another one, and has left the stack as it was.
        before = parts.location(JUMPED)
        expected = LOCKED + 16 if use.interrupted else JUMPED + CALL
    stack -= 8
    kept = [before]
    for number, name in enumerate(use.helpers):
        block = parts.location(helper(name))
        if number and not use.jumps[number]:
            stack -= 8 * use.frames[number - 1] + 8
            parts.write(stack, kept[-1].end)
        parts.begin(block, None if use.interrupted and not number else kept[-1], stack)
        kept.append(block)
        there = parts.location(helper(name) + 0x20)
        yield parts.caller(there, stack - 8 * use.frames[number]), expected


@examples(300)
@given(st.lists(uses(), min_size=1, max_size=8))
def test_x86_finds_who_called_or_jumped(parts: Parts, series: Sequence[Use]) -> None:
    ctypes.c_bool.in_dll(parts.library, "machine_arm64").value = False
    for use in series:
        for said, expected in run(parts, use):
            assert said == expected


@pytest.mark.parametrize("frames", range(4))
def test_arm64_follows_frames_out_of_helpers(parts: Parts, frames: int) -> None:
    ctypes.c_bool.in_dll(parts.library, "machine_arm64").value = True
    links = [*(helper(number) + 0x40 for number in range(frames)), LOCKED + 16]
    parts.registers[LINK], parts.registers[FRAME] = links[0], STACK
    for number, link in enumerate(links[1:]):
        parts.write(STACK + 32 * number, STACK + 32 * (number + 1))
        parts.write(STACK + 32 * number + 8, link)
    assert parts.caller(parts.location(helper(0)), 0) == LOCKED + 16


def test_what_is_no_helper_has_no_caller(parts: Parts) -> None:
    assert parts.caller(parts.location(LOCKED), STACK) == 0
