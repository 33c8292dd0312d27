# SPDX-License-Identifier: MIT
"""Which functions a wake-up went through: a trace's blocks, put on stacks of calls.

A block's last instruction says how it was left. Calls push and returns pop; an exception starts a stack of its own on
top of the code that it interrupted, but for the trap by which a function warns: that is a call. What was called before
the trace began becomes known when it returns.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

from rtgate.explain.trace import Block, Run
from rtgate.kernel import arm64

USER = "(programs)"
KERNEL_FROM = 1 << 63
"""Addresses below are those of programs."""
_SWITCHES = {"cpu_switch_to", "__switch_to_asm"}
_THUNKS = "__x86_indirect_"
_DEPTH = 64

# What prints and warns, kernel/printk/printk.c, kernel/panic.c, drivers/base/core.c, lib/dump_stack.c as in 6.12.
_WARNING = re.compile(r"__warn\w*|warn_slowpath_fmt")
_PRINTING = re.compile(r"_*v?printk\w*|_*dev_v?printk\w*|_dev_(?:emerg|alert|crit|err|warn|notice|info)|dump_stack\w*")


class BlockExit(Enum):
    """How a block is left."""

    CALL = 1
    RETURN = 2
    EXCEPTION_RETURN = 3
    OTHER = 4
    TRAP = 5  # the function warns: WARN() and its like


def block_exit(arch: str, last: bytes) -> BlockExit:
    """Return how a block with this last instruction is left."""
    return _left_arm64(last) if arch == "arm64" else _left_x86(last)


def _left_arm64(last: bytes) -> BlockExit:
    word = int.from_bytes(last[:4], "little")
    if arm64.calls(word):
        return BlockExit.CALL
    if arm64.returns(word):
        return BlockExit.RETURN
    if arm64.breaks(word):
        return BlockExit.TRAP
    return BlockExit.EXCEPTION_RETURN if arm64.returns_from_exception(word) else BlockExit.OTHER


def _left_x86(last: bytes) -> BlockExit:
    code = last.lstrip(b"\x2e\x3e\xf2\xf3\x66")
    rex = code[:1] and 0x40 <= code[0] <= 0x4F
    plain = code[1:] if rex else code
    if plain[:1] == b"\xe8" or (plain[:1] == b"\xff" and len(plain) > 1 and plain[1] >> 3 & 7 in {2, 3}):
        return BlockExit.CALL
    if plain[:1] in {b"\xc3", b"\xc2", b"\xcb"}:
        return BlockExit.RETURN
    if plain[:2] == b"\x0f\x0b":  # ud2, by which Linux warns
        return BlockExit.TRAP
    return BlockExit.EXCEPTION_RETURN if plain[:1] == b"\xcf" or plain[:2] == b"\x0f\x07" else BlockExit.OTHER


@dataclass(eq=False, slots=True)
class _Frame:
    """One call of a function; `parent` may become known later.

    Attributes:
        exception: it interrupted `parent`, which did not call it.
        trap: `parent` called it by warning.
    """

    name: str
    parent: _Frame | None = None
    exception: bool = False
    trap: bool = False
    count: int = 0


@dataclass(frozen=True, slots=True)
class Profile:
    """Instructions by function.

    Attributes:
        own: instructions of the function itself.
        within: its own and those of what it called, exceptions left out.
        blamed: those that ran within a function that differs, each counted for the innermost such function.
        warning: those that it took to warn, each counted for the function that warned.
        printing: those that it took to write to the kernel's log otherwise, for the function that did.
        total: all of them.
    """

    own: Mapping[str, float] = field(default_factory=dict)
    within: Mapping[str, float] = field(default_factory=dict)
    blamed: Mapping[str, float] = field(default_factory=dict)
    warning: Mapping[str, float] = field(default_factory=dict)
    printing: Mapping[str, float] = field(default_factory=dict)
    total: float = 0


@dataclass(frozen=True, slots=True)
class Code:
    """What is known of the code: architecture, blocks by number, names by address."""

    arch: str
    blocks: Mapping[int, Block]
    name_of: Callable[[int], str]
    _cache: dict[int, tuple[str, BlockExit]] = field(default_factory=dict)

    def of(self, number: int) -> tuple[str, BlockExit]:
        """Return the function that a block is part of, and how it is left."""
        entry = self._cache.get(number)
        if entry is None:
            block = self.blocks[number]
            name = USER if block.address < KERNEL_FROM else self.name_of(block.address)
            entry = self._cache[number] = (name, block_exit(self.arch, block.last))
        return entry


def profile(
    code: Code,
    runs: Sequence[Run],
    span: tuple[int, int],
    changed_names: frozenset[str],
    counts: Callable[[Run], bool] = lambda _: True,
) -> Profile:
    """Return the instructions of each function in `span`, a range of `n`.

    Args:
        code: what is known of the code.
        runs: executions of blocks that cover the span; those before it only make callers known.
        span: first and last `n`.
        changed_names: functions that differ between the kernels.
        counts: whether the instructions of an execution count. Others only make callers known, too.
    """
    stacks: dict[int, _Stack] = {}
    start, last = span
    ends = [*(run.n for run in runs[1:]), last]
    for run, end in zip(runs, ends, strict=False):
        stack = stacks.get(run.cpu)
        if stack is None:
            stack = stacks[run.cpu] = _Stack(code)
        frame = stack.enter(run.block)
        if end > start and counts(run):
            frame.count += max(0, min(end, last) - max(run.n, start))
    return _sum_profile([frame for stack in stacks.values() for frame in stack.frames if frame.count], changed_names)


def mean(profiles: Sequence[Profile]) -> Profile:
    """Return the mean of several profiles."""

    def averaged(tables: Iterable[Mapping[str, float]]) -> dict[str, float]:
        means: dict[str, float] = defaultdict(float)
        for table in tables:
            for name, count in table.items():
                means[name] += count / len(profiles)
        return dict(means)

    return Profile(
        own=averaged(profile.own for profile in profiles),
        within=averaged(profile.within for profile in profiles),
        blamed=averaged(profile.blamed for profile in profiles),
        warning=averaged(profile.warning for profile in profiles),
        printing=averaged(profile.printing for profile in profiles),
        total=sum(profile.total for profile in profiles) / max(1, len(profiles)),
    )


class _Stack:
    """The calls of one CPU."""

    def __init__(self, code: Code) -> None:
        self.frames: list[_Frame] = []
        self._code = code
        self._now: _Frame | None = None
        self._way = BlockExit.OTHER

    def enter(self, number: int) -> _Frame:
        """Return the frame that a block runs in."""
        name, way = self._code.of(number)
        before = self._now
        if before is not None and before.name == name and self._way is BlockExit.OTHER:
            self._way = way
            return before
        if before is None:
            self._now = self._new(name, None)
        elif _is_entry(name) and before.name != name:
            warns = self._way is BlockExit.TRAP
            self._now = self._new(name, before, exception=not warns, trap=warns)
        elif self._way is BlockExit.CALL:
            self._now = self._new(name, before)
        elif self._way is BlockExit.RETURN or self._way is BlockExit.EXCEPTION_RETURN:
            self._now = self._return_to(before, name)
        elif before.name != name:
            # A jump into another function: it returns to whoever called this one.
            self._now = self._new(name, before.parent, exception=before.exception, trap=before.trap)
        self._way = way
        assert self._now is not None
        return self._now

    def _new(self, name: str, parent: _Frame | None, *, exception: bool = False, trap: bool = False) -> _Frame:
        frame = _Frame(name, parent, exception, trap)
        self.frames.append(frame)
        return frame

    def _return_to(self, frame: _Frame, name: str) -> _Frame:
        if frame.name in _SWITCHES:
            return self._new(name, None)
        if frame.name.startswith(_THUNKS):
            # A return that is a call: the thunk puts its target where a return address would be.
            caller: _Frame | None = frame
            while caller is not None and caller.name.startswith(_THUNKS):
                caller = caller.parent
            return self._new(name, caller)
        above, depth = frame.parent, 0
        while above is not None and depth < _DEPTH:
            if above.name == name:
                return above
            above, depth = above.parent, depth + 1
        new_frame = self._new(name, None)
        if frame.parent is None and self._way is BlockExit.RETURN and not frame.exception:
            # Called before the trace began: now it is known by whom.
            frame.parent = new_frame
        return new_frame


# The second: where the branch history is mitigated, as on Cortex-A76 (arch/arm64/kernel/entry.S).
_VECTORS = {"vectors", "__bp_harden_el1_vectors", "tramp_vectors"}


def _is_entry(name: str) -> bool:
    """Return whether a function is where an exception enters the kernel: arm64's vectors, x86's entry code."""
    starts = ("asm_sysvec_", "asm_exc_", "asm_common_interrupt", "irq_entries_")
    return name in _VECTORS or name.startswith(starts)


def _sum_profile(frames: Sequence[_Frame], changed_names: frozenset[str]) -> Profile:
    own, within, blame, warning, printing = (defaultdict[str, float](float) for _ in range(5))
    for frame in frames:
        own[frame.name] += frame.count
        chain = _chain(frame)
        names = [link.name for link in chain]
        for name in set(names):
            within[name] += frame.count
        innermost = next((name for name in names if name in changed_names), None)
        if innermost is not None:
            blame[innermost] += frame.count
        if (printer := _printing(chain)) is not None:
            function, warns = printer
            (warning if warns else printing)[function] += frame.count
    return Profile(dict(own), dict(within), dict(blame), dict(warning), dict(printing), sum(own.values()))


def _chain(frame: _Frame) -> list[_Frame]:
    """Return a frame and its callers, up to the exception that it is part of."""
    chain: list[_Frame] = []
    at: _Frame | None = frame
    while at is not None and len(chain) < _DEPTH:
        chain.append(at)
        at = None if at.exception else at.parent
    return chain


def _printing(chain: Sequence[_Frame]) -> tuple[str, bool] | None:
    """Return the function that prints, and whether it warns, if a chain of callers is part of that.

    It is the one above all that serves it.
    """
    for callee, caller in reversed(list(pairwise(chain))):
        warns = callee.trap or _WARNING.fullmatch(callee.name) is not None
        if warns or _PRINTING.fullmatch(callee.name):
            return caller.name, warns
    return None
