# SPDX-License-Identifier: MIT
"""Which instructions of a changed function are new: both kernels' instructions, aligned.

Addresses are compared by what they point to; other registers, another place on the stack, and what only aligns code
are the compiler's, unless nothing else differs. What that means for an architecture is its reader's: `READERS`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from operator import attrgetter

from rtgate.kernel import instructions_arm64, instructions_x86
from rtgate.kernel.instruction import Instruction, Reader
from rtgate.kernel.relocation import same_code
from rtgate.kernel.vmlinux import Symbol, Vmlinux, plain_name

READERS: Mapping[str, Callable[[Vmlinux], Reader]] = {
    "arm64": instructions_arm64.reader,
    "x86_64": instructions_x86.reader,
}
"""What makes instructions that can be compared, by architecture."""

_MOST = 3000  # instructions that are left after the common start and end; aligning more takes minutes
_FUNCTIONS = 500  # that are aligned; of more a change is everywhere, as that of an option
_REPORTS = re.compile(
    r"_?printk$|__warn_printk|dump_stack|panic$|_dev_|trace_|__SCT__tp_func_|__stack_chk_fail|refcount_warn"
)
_ONCE = re.compile(r"\.(?:init|exit)\.text")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCode:
    """What is new in a function of the candidate.

    Attributes:
        function: its name in the source.
        places: addresses of instructions that are new, or beside which some are missing, with their names.
        slow: those of `places` that call a function, jump back or repeat themselves, which the baseline's function did
            not: what can take long. Calls that print are not among them.
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
    read_old, read_new = (READERS[kernel.arch](kernel) for kernel in (baseline, candidate))
    changes = []
    for name in sorted(new):
        change = ChangedCode(function=name, places={}, boots=_boots(candidate, new[name]))
        if not everywhere:
            pairs = _pairs(baseline, old.get(name, []), candidate, new[name])
            alignments = [_align(read_old(mine) if mine else None, read_new(theirs)) for mine, theirs in pairs]
            change = _locate(change, [theirs for _, theirs in pairs], alignments)
        changes.append(change)
    return tuple(changes)


def with_lines(code: Sequence[ChangedCode], lines: Mapping[int, str]) -> tuple[ChangedCode, ...]:
    """Return the same with the line of the source beside each place of which one is known (`source_lines`)."""
    return tuple(
        replace(
            change,
            places={
                address: f"{name} in {lines[address]}" if address in lines else name
                for address, name in change.places.items()
            },
        )
        for change in code
    )


def _by_name(kernel: Vmlinux, names: Collection[str]) -> dict[str, list[Symbol]]:
    symbols: dict[str, list[Symbol]] = {}
    for symbol in kernel.symbols:
        name = plain_name(symbol.name)
        if name in names and symbol.size and kernel.sections[symbol.section].code:
            symbols.setdefault(name, []).append(symbol)
    return symbols


def _boots(candidate: Vmlinux, symbols: Sequence[Symbol]) -> bool:
    return all(_ONCE.match(candidate.sections[symbol.section].name) for symbol in symbols)


def _locate(change: ChangedCode, symbols: Sequence[Symbol], alignments: Sequence[_New | None]) -> ChangedCode:
    """Return the change with its places; without any if one of its symbols could not be aligned."""
    places: dict[int, str] = {}
    slow: set[int] = set()
    for symbol, new in zip(symbols, alignments, strict=True):
        if new is None:
            return change
        places |= {
            instruction.address: f"{symbol.name}+{instruction.address - symbol.address:#x}"
            for instruction in new.places
        }
        slow |= {instruction.address for instruction in new.slow}
    return replace(change, places=places, slow=frozenset(slow))


def _pairs(
    baseline: Vmlinux, old: Sequence[Symbol], candidate: Vmlinux, new: Sequence[Symbol]
) -> list[tuple[Symbol | None, Symbol]]:
    """Return each symbol that differs with the baseline's of the same name, of the same file if there are several."""
    rest = list(old)
    different = []
    for symbol in new:
        same = next((mine for mine in rest if same_code(baseline, mine, candidate, symbol)), None)
        if same is None:
            different.append(symbol)
        else:
            rest.remove(same)
    pairs: list[tuple[Symbol | None, Symbol]] = []
    for symbol in different:
        near = min(rest, key=lambda mine: (mine.name != symbol.name, mine.file != symbol.file), default=None)
        if near is not None:
            rest.remove(near)
        pairs.append((near, symbol))
    return pairs


@dataclass(frozen=True, slots=True)
class _New:
    """Instructions that are new, or beside which some are missing; and those that can take long."""

    places: list[Instruction]
    slow: list[Instruction]


def _align(old: Sequence[Instruction] | None, new: Sequence[Instruction]) -> _New | None:
    """Return what is new in a function; None: too much differs."""
    if old is None:
        return _New(list(new), [instruction for instruction in new if _is_slow(instruction)])
    for meaning in (attrgetter("loose"), attrgetter("strict")):
        mine, theirs = (
            [instruction for instruction in code if meaning(instruction) is not None] for code in (old, new)
        )
        before, after = ([meaning(instruction) for instruction in code] for code in (mine, theirs))
        numbers = differences(before, after)
        if numbers is None:
            return None
        insertions, deletions, beside = numbers
        if insertions or beside:
            # A call that the baseline makes elsewhere in the function was moved by the compiler.
            tokens = Counter(before[number] for number in deletions)
            slow = [number for number in insertions if _is_slow(theirs[number]) and not _take(tokens, after[number])]
            return _New([theirs[number] for number in sorted({*insertions, *beside})], [theirs[n] for n in slow])
    return _New([], [])


def _take(tokens: Counter[Hashable], token: Hashable) -> bool:
    tokens[token] -= 1
    return tokens[token] >= 0


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
    insertions: list[int] = []
    deletions: list[int] = []
    beside: set[int] = set()
    for kind, i, j, k, m in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        insertions += range(start + k, start + m)
        deletions += range(start + i, start + j)
        if k == m:
            beside |= {at for at in (start + k - 1, start + k) if 0 <= at < len(new)}
    return insertions, deletions, sorted(beside)


def _is_slow(instruction: Instruction) -> bool:
    """Return whether an instruction calls what does more than print, jumps back, or repeats itself."""
    if instruction.call is not None:
        return not _REPORTS.match(instruction.call)
    return instruction.jumps_back or instruction.repeats
