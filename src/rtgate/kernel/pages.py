# SPDX-License-Identifier: MIT
"""Which addresses of pages the registers of an arm64 function hold: what `adrp` made, until something else is written.

An address is made in two steps, often far apart: `adrp` puts a page into a register, and an addition, a load or a store
adds the low 12 bits.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rtgate.kernel.arm64 import (
    ADR_BITS,
    ADRP,
    UNSIGNED_OFFSET,
    calls,
    direct_branch,
    low_half,
    page_of,
    scale_of,
    sign_extend,
)

_CALL_CLOBBERED = (*range(19), 30)  # the procedure call standard, AAPCS64, 6.1.1
_BRANCHES = {0x05, 0x0D, 0x15}  # bits 30 to 26 of b, cbz and tbz, and of b.cond, br and ret: the rest is not a branch


class PageRegister(NamedTuple):
    """A page in a register, and the number of the `adrp` that made it."""

    page: int
    origin: int


def update(pages: dict[int, PageRegister], word: int, at: tuple[int, int]) -> None:
    """Change what registers hold as an instruction does; from 32 on, words of the stack where registers are kept.

    Args:
        pages: by register.
        word: the instruction.
        at: its number and its address.
    """
    page = page_of(word, at[1])
    if page is not None:
        pages[word & 31] = PageRegister(page, at[0])
        return
    if not pages:
        return
    copy, registers, stack_words = _effect(word)
    if copy is not None:
        into, source = copy
        pages.pop(into, None)
        if source in pages:
            pages[into] = pages[source]
        return
    for register in registers:
        pages.pop(register, None)
    if stack_words:
        for place in [place for place in pages if place >= 32 and place - 32 in stack_words]:
            del pages[place]


def _leaves(pages: Mapping[int, PageRegister], word: int) -> bool:
    """Return whether an instruction changes nothing of what registers hold."""
    if word & ADR_BITS == ADRP:
        return False
    if not pages:
        return True
    copy, registers, stack_words = _effect(word)
    if copy is not None:
        return copy[0] not in pages and copy[1] not in pages
    return pages.keys().isdisjoint(registers) and not (stack_words and max(pages) >= 32)


@functools.lru_cache(1 << 18)
def _effect(word: int) -> tuple[tuple[int, int] | None, tuple[int, ...], range]:
    """Return what an instruction copies, which registers it may write, and which words of the stack."""
    return _copy_of(word), _written_registers(word), _written_stack_words(word)


def _copy_of(word: int) -> tuple[int, int] | None:
    """Return where a copy of 64 bits goes, and whence; None if an instruction is none that is known."""
    if word & 0xFFE0FFE0 == 0xAA0003E0:  # mov
        return word & 31, word >> 16 & 31
    if word >> 23 == 0x1F2 and word >> 5 & 31 == 31:  # str or ldr, relative to the stack pointer
        place = 32 + (word >> 10 & 0xFFF)
        return (word & 31, place) if word >> 22 & 1 else (place, word & 31)
    return None


_WHOLE_STACK = range(1 << 12)


def _written_stack_words(word: int) -> range:
    """Return the words of the stack, as the stack pointer counts them, that are not what they were."""
    if not _memory(word):
        moved = word & 31 == 31 and word >> 24 & 0x1F in {0x0B, 0x11}  # add, sub: to the stack pointer
        return _WHOLE_STACK if moved else range(0)
    base = word >> 5 & 31
    loads = word >> 22 & (1 if word >> 26 & 1 else 3)  # a SIMD register of 128 bits is stored with bit 23 set
    if base not in {29, 31} or (_has_unsigned_offset(word) and loads) or (_pair(word) and word >> 22 & 7 == 5):
        return range(0)  # loads of one, or of a pair at an offset
    if base == 31 and _has_unsigned_offset(word) and word >> 24 in UNSIGNED_OFFSET and scale_of(word) in range(4):
        at = low_half(word, UNSIGNED_OFFSET[word >> 24]) // 8
        return range(at, at + 1)
    if base == 31 and word >> 22 == 0x2A4:  # stp of 64 bits at an offset
        at = sign_extend(word >> 15, 7)
        return range(at, at + 2)
    return _WHOLE_STACK


def _memory(word: int) -> bool:
    return word >> 27 & 1 == 1 and word >> 25 & 1 == 0


def _has_unsigned_offset(word: int) -> bool:
    """Whether it loads or stores one register at an unsigned offset."""
    return word >> 24 & 0x3B == 0x39


def _pair(word: int) -> bool:
    return word >> 27 & 7 == 5 and word >> 25 & 1 == 0


def _written_registers(word: int) -> tuple[int, ...]:
    """Return the general registers that an instruction may write; of what is rare it names some that it only reads."""
    if calls(word) or word >> 21 == 0x6A0:  # svc, hvc, smc: the SMC calling convention is that of a call
        return _CALL_CLOBBERED
    if direct_branch(word) is not None or word == 0xD503201F:  # nop
        return ()
    if word & 0xFFFFF01F == 0xD503201F:  # other hints; some sign x17 or x30
        return (17, 30)
    return _loaded_registers(word) if _memory(word) else (word & 31,)


def _loaded_registers(word: int) -> tuple[int, ...]:
    """Return the same of a load or a store."""
    top, into, base, second, status = word >> 24, word & 31, word >> 5 & 31, word >> 10 & 31, word >> 16 & 31
    if _has_unsigned_offset(word):
        return (into,) if word >> 22 & 3 or top not in UNSIGNED_OFFSET else ()
    if _pair(word):
        return (into, second, base) if word >> 23 & 1 else (into, second)
    small = word >> 10 & 3 == 0 and not word >> 21 & 1
    if top & 0x3B == 0x18 or (top & 0x3B == 0x38 and (small or word >> 10 & 3 == 2)):
        return (into,)  # relative to the program counter, at a small offset, at one in a register
    return (into, into + 1, second, base, status, status + 1)  # exclusive, atomic, written back, structures of SIMD


def _following(words: Sequence[int], number: int) -> tuple[int, ...]:
    """Return the instructions of the function to which one leads directly."""
    word, last = words[number], len(words) - 1
    if word >> 26 & 0x1F in _BRANCHES:
        distance = direct_branch(word)
        there = () if distance is None or not 0 <= number + distance <= last else (number + distance,)
        if word >> 26 == 0x05 or (word >> 25 == 0x6B and not calls(word)):  # b; br, ret, eret
            return there
        return (*there, number + 1) if number < last else there
    return (number + 1,) if number < last else ()


def pages_before(words: Sequence[int], start: int) -> list[Mapping[int, PageRegister]]:
    """Return for each instruction which registers hold the page of one `adrp` on every way that leads to it.

    Ways through tables of jumps are not known: what can be reached only so begins with nothing.

    Args:
        words: the function's instructions.
        start: address of the first.
    """
    before: list[dict[int, PageRegister] | None] = [None] * len(words)
    for entry in range(len(words)):
        if before[entry] is not None:
            continue
        before[entry] = {}
        queue = [entry]
        while queue:
            number = queue.pop()
            pages, word = before[number] or {}, words[number]
            after = pages
            if not _leaves(pages, word):
                after = dict(pages)
                update(after, word, (number, start + 4 * number))
            for successor in _following(words, number):
                state = before[successor]
                if state is after:
                    continue
                meet = (
                    after
                    if state is None
                    else {register: page for register, page in state.items() if after.get(register) == page}
                )
                if state is None or len(meet) < len(state):
                    before[successor] = meet
                    queue.append(successor)
    return [pages or {} for pages in before]
