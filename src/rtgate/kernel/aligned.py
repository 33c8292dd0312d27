# SPDX-License-Identifier: MIT
"""Which instructions of a changed function are new: both kernels' instructions, aligned.

arm64 only: x86 would need a disassembler to know where its instructions begin. Addresses are compared by what they
point to; other registers and another place on the stack are the compiler's, unless nothing else differs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from rtgate.kernel import arm64
from rtgate.kernel.moved import Code, Token, same_code
from rtgate.kernel.vmlinux import Symbol, Vmlinux, plain_name

_MOST = 3000  # instructions that are left after the common start and end; aligning more takes minutes
_FUNCTIONS = 500  # that are aligned; of more a change is everywhere, as that of an option
_REPORTS = re.compile(r"_?printk$|__warn_printk|dump_stack|panic$|_dev_|trace_|__stack_chk_fail|refcount_warn")
_ONCE = re.compile(r"\.(?:init|exit)\.text")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCode:
    """What is new in a function of the candidate.

    Attributes:
        function: its name in the source.
        places: addresses of instructions that are new, or beside which some are missing, with their names.
        slow: those of `places` that call a function or jump back, which the baseline's function did not: what can
            take long. Calls that print are not among them.
        boots: the function runs while booting or never again (`__init`, `__exit`).
    """

    function: str
    places: dict[int, str]
    slow: frozenset[int] = frozenset()
    boots: bool = False


def changed_code(baseline: Vmlinux, candidate: Vmlinux, names: Collection[str]) -> tuple[ChangedCode, ...]:
    """Return what is new in each function of the candidate, by name; no places where they could not be located."""
    old, new = (_by_name(kernel, names) for kernel in (baseline, candidate))
    everywhere = len(new) > _FUNCTIONS
    return tuple(
        _changed(baseline, old.get(name, []), candidate, new[name], everywhere=everywhere) for name in sorted(new)
    )


def _by_name(kernel: Vmlinux, names: Collection[str]) -> dict[str, list[Symbol]]:
    found: dict[str, list[Symbol]] = {}
    for symbol in kernel.symbols:
        name = plain_name(symbol.name)
        if name in names and symbol.size and kernel.sections[symbol.section].code:
            found.setdefault(name, []).append(symbol)
    return found


def _changed(
    baseline: Vmlinux, old: Sequence[Symbol], candidate: Vmlinux, new: Sequence[Symbol], *, everywhere: bool
) -> ChangedCode:
    places: dict[int, str] = {}
    slow: set[int] = set()
    located = candidate.arch == "arm64" and not everywhere
    for mine, theirs in _pairs(baseline, old, candidate, new) if located else ():
        found = _aligned(Code(baseline, mine) if mine else None, Code(candidate, theirs))
        if found is None:
            located = False
            break
        at = [theirs.address + 4 * number for number in found[0]]
        places |= {address: f"{theirs.name}+{address - theirs.address:#x}" for address in at}
        slow |= {theirs.address + 4 * number for number in found[1]}
    boots = all(_ONCE.match(candidate.sections[symbol.section].name) for symbol in new)
    name = plain_name(new[0].name)
    if not located:
        return ChangedCode(function=name, places={}, boots=boots)
    return ChangedCode(function=name, places=places, slow=frozenset(slow), boots=boots)


def _pairs(
    baseline: Vmlinux, old: Sequence[Symbol], candidate: Vmlinux, new: Sequence[Symbol]
) -> list[tuple[Symbol | None, Symbol]]:
    """Return each symbol that differs with the baseline's of the same name, of the same file if there are several."""
    left = list(old)
    different = []
    for symbol in new:
        same = next((one for one in left if same_code(baseline, one, candidate, symbol)), None)
        if same is None:
            different.append(symbol)
        else:
            left.remove(same)
    found: list[tuple[Symbol | None, Symbol]] = []
    for symbol in different:
        near = min(left, key=lambda one: (one.name != symbol.name, one.file != symbol.file), default=None)
        if near is not None:
            left.remove(near)
        found.append((near, symbol))
    return found


def _aligned(old: Code | None, new: Code) -> tuple[list[int], list[int]] | None:
    """Return the numbers of instructions that are new, and of those that can take long; None: too much differs."""
    if old is None:
        every = list(range(len(new.words)))
        return every, [number for number in every if _is_slow(new, number)]
    for meant in (_loose, _strict):
        before, after = ([meant(*each) for each in zip(code.words, code.tokens, strict=True)] for code in (old, new))
        numbers = differences(before, after)
        if numbers is None:
            return None
        inserted, deleted, beside = numbers
        if inserted or beside:
            # A call that the baseline makes elsewhere in the function was moved by the compiler.
            moved = Counter(before[number] for number in deleted)
            slow = [number for number in inserted if _is_slow(new, number)]
            return sorted({*inserted, *beside}), [number for number in slow if not _taken(moved, after[number])]
    return [], []


def _taken(moved: Counter[Hashable], token: Hashable) -> bool:
    moved[token] -= 1
    return moved[token] >= 0


def differences(old: Sequence[Hashable], new: Sequence[Hashable]) -> tuple[list[int], list[int], list[int]] | None:
    """Align two sequences.

    Returns:
        The numbers that are new in the second, those of the first that it lacks, and those of the second that stand
        beside a place where something is missing and nothing is new. None if too much differs.
    """
    start = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    room = min(len(old), len(new)) - start
    end = next((at for at in range(room) if old[-1 - at] != new[-1 - at]), room)
    a, b = old[start : len(old) - end], new[start : len(new) - end]
    if len(a) > _MOST or len(b) > _MOST:
        return None
    inserted: list[int] = []
    deleted: list[int] = []
    beside: set[int] = set()
    for kind, i, j, k, m in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        inserted += range(start + k, start + m)
        deleted += range(start + i, start + j)
        if k == m:
            beside |= {at for at in (start + k - 1, start + k) if 0 <= at < len(new)}
    return inserted, deleted, sorted(beside)


def _is_slow(code: Code, number: int) -> bool:
    """Return whether an instruction calls what does more than print, or jumps back."""
    word, token = code.words[number], code.tokens[number]
    if arm64.calls(word):
        name = token[1] if isinstance(token, tuple) and len(token) > 1 else ""
        return not _REPORTS.match(str(name))
    distance = arm64.direct_branch(word)
    return distance is not None and distance < 0 and number + distance >= 0


def _strict(word: int, token: Token) -> Hashable:
    """Return what an instruction does, wherever in the function it jumps to."""
    if isinstance(token, tuple) or arm64.direct_branch(word) is None:
        return token
    if word >> 26 == 0x05:  # b
        return ("b",)
    if word >> 24 & 0x7E == 0x36:  # tbz, tbnz
        return ("branch", word & ~(0x3FFF << 5))
    return ("branch", word & ~(0x7FFFF << 5))


def _loose(word: int, token: Token) -> Hashable:
    """Return the same, whatever registers it uses and wherever on the stack it keeps something."""
    strict = _strict(word, token)
    if isinstance(strict, tuple):
        if strict[0] == "branch":
            return ("branch", word & _of_branch(word))
        if arm64.near(word, 0) is not None or arm64.page_of(word, 0) is not None:
            return (strict[0], *strict[2:])
        if word >> 26 & 31 == 0x05:  # b, bl
            return strict
        return (word & ~0x3FFFFF, *strict[1:])
    return _without_registers(word)


def _of_branch(word: int) -> int:
    """Return the bits of a branch that say on what it depends: the condition, or the number of the bit."""
    if word >> 24 == 0x54:  # b.cond
        return 0xFF00000F
    return 0xFFF80000 if word >> 24 & 0x7E == 0x36 else 0xFF000000


def _without_registers(word: int) -> int:
    """Return an instruction with its registers as zeros, and with its offset if that is one into the stack."""
    on_stack = word >> 5 & 31 == 31
    if word >> 27 & 1 and not word >> 25 & 1:
        return word & _of_memory(word, on_stack=on_stack)
    if word >> 24 & 0x1F == 0x11 and (on_stack or word & 31 == 31):  # add, sub: the stack pointer
        return word & 0xFF000000
    if word >> 25 & 7 == 5:  # of registers
        return word & 0xFFE0FC00
    if word >> 26 & 7 == 4:  # of a number; movz and movk have no other register
        return word & (0xFFFFFFE0 if word >> 23 & 0x3F == 0x25 else 0xFFFFFC00)
    return word


def _of_memory(word: int, *, on_stack: bool) -> int:
    """Return the bits of a load or store that are no register."""
    if word >> 27 & 7 == 5:  # pairs
        return 0xFFC00000 if on_stack else 0xFFFF8000
    if word >> 24 & 0x3B == 0x39:  # at an unsigned offset
        return 0xFFC00000 if on_stack else 0xFFFFFC00
    return 0xFFE00C00 if word >> 21 & 1 else 0xFFFFFC00
