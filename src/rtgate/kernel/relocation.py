# SPDX-License-Identifier: MIT
"""Whether two pieces of code, or of data, are the same but for the addresses in them.

arm64: instructions that hold an address are known by their bits, and an address that is made in two steps (`adrp`, then
the low 12 bits) is put together. x86: where bytes of two functions of equal length differ, the four bytes around them
must be an address, relative or absolute, that means the same in both; no disassembler is needed for that.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rtgate.kernel import arm64, pages
from rtgate.kernel.arm64 import ADR, ADR_BITS, ADRP
from rtgate.kernel.jump_labels import jump_labels
from rtgate.kernel.pages import PageRegister
from rtgate.kernel.vmlinux import Symbol, Vmlinux, plain_name

_KERNEL = 0xFFFF_0000_0000_0000  # addresses from here on are the kernel's
_ADDRESS = (1 << 64) - 1
_TEXT = 96  # bytes by which data without a name are compared

_BRANCH = 0x05  # bits 30 to 26 of b and bl
_CALL_OR_JUMP = re.compile(rb"[\xe8\xe9]")  # x86; four bytes of distance follow

Meaning = tuple[object, ...]
"""What an address stands for."""
Token = Meaning | int
"""What an instruction does: with what its address means, or as it is."""


def same_code(baseline: Vmlinux, mine: Symbol, candidate: Vmlinux, theirs: Symbol) -> bool:
    """Return whether two functions do the same."""
    if mine.size != theirs.size or _jump_labels(baseline, mine) != _jump_labels(candidate, theirs):
        return False
    if baseline.arch != "arm64":
        return _same_x86(_Piece.of(baseline, mine), _Piece.of(candidate, theirs))
    codes = Code(baseline, mine), Code(candidate, theirs)
    differences = [number for number, (a, b) in enumerate(zip(*(code.tokens for code in codes), strict=True)) if a != b]
    if not all(_fits(codes, number) for number in differences):
        return False
    # An address whose low half is nowhere known to belong to it says nothing yet.
    unused_origins = codes[0].made.keys() - (codes[0].used & codes[1].used)
    return all(_agrees(codes, number) for number in unused_origins)


def _jump_labels(kernel: Vmlinux, symbol: Symbol) -> list[tuple[int, Meaning, Meaning, int]]:
    """Return where a function has jump labels, where these lead, and by which key: no instruction names it."""
    return [
        (
            label.address - symbol.address,
            _inside(symbol, label.destination) or target(kernel, label.destination),
            target(kernel, label.key),
            label.flags,
        )
        for label in jump_labels(kernel, symbol)
    ]


def _inside(symbol: Symbol, address: int) -> Meaning | None:
    offset = address - symbol.address
    return ("inside", offset) if 0 <= offset < symbol.size else None


class Code:
    """A function of an arm64 kernel.

    Attributes:
        words: its instructions.
        made: the register and the page of each `adrp`, by number of the instruction.
        used: the `adrp` whose page is known where some low half is added to it.
        tokens: its instructions, with addresses replaced by what they mean.
        places: what an instruction does with an address and this address, by number of the instruction.
    """

    def __init__(self, kernel: Vmlinux, symbol: Symbol) -> None:
        self.kernel = kernel
        self.words = _instructions(kernel, symbol)
        self.used: set[int] = set()
        self.places: dict[int, tuple[tuple[int, ...], int]] = {}
        addresses = range(symbol.address, symbol.address + 4 * len(self.words), 4)
        self.made = {
            number: (word & 31, page)
            for number, (pc, word) in enumerate(zip(addresses, self.words, strict=True))
            if word & ADR_BITS == ADRP and (page := arm64.page_of(word, pc)) is not None
        }
        none: list[Mapping[int, PageRegister]] = [{}] * len(self.words)
        register_states = pages.pages_before(self.words, symbol.address) if self.made else none
        self.tokens = [
            self._token(symbol, number, registers) if registers or _may_name_address(word) else word
            for number, (word, registers) in enumerate(zip(self.words, register_states, strict=True))
        ]

    def _token(self, symbol: Symbol, number: int, registers: Mapping[int, PageRegister]) -> Token:
        """Return what an instruction does, with the pages that registers hold."""
        pc, word = symbol.address + 4 * number, self.words[number]
        if word >> 26 & 31 == _BRANCH:
            return self._to(symbol, number, pc + 4 * arm64.sign_extend(word, 26), (word >> 26,))
        if word & ADR_BITS == ADRP:
            return (ADRP, word & 31)
        near = arm64.adr_address(word, pc)
        if near is not None:
            return self._to(symbol, number, near, (ADR, word & 31))
        register = registers.get(word >> 5 & 31)
        scale = None if register is None else arm64.scale_of(word)
        if scale is None or register is None:
            return word
        self.used.add(register.origin)
        return self._at(number, register.page + arm64.low_half(word, scale), (word & ~(0xFFF << 10),))

    def _to(self, symbol: Symbol, number: int, there: int, kind: tuple[int, ...]) -> Token:
        """Return an instruction that names an address: as it is within the function, with what it means outside."""
        if symbol.address <= there < symbol.address + symbol.size:
            return self.words[number]
        return self._at(number, there, kind)

    def _at(self, number: int, there: int, kind: tuple[int, ...]) -> Token:
        self.places[number] = (kind, there)
        return (*kind, *target(self.kernel, there))

    def meaning(self, number: int, page: int) -> Meaning | None:
        """Return what the low half of an instruction means with a page; None if that is nothing with a name."""
        scale = arm64.scale_of(self.words[number])
        if scale is None:
            return None
        meaning = target(self.kernel, page + arm64.low_half(self.words[number], scale))
        return meaning if _has_name(meaning) else None


def _may_name_address(word: int) -> bool:
    """Whether an instruction may hold an address without a page in a register: b, bl, adr, adrp."""
    return word >> 26 & 31 == _BRANCH or word & ADR_BITS in {ADR, ADRP}


def _fits(both: tuple[Code, Code], number: int) -> bool:
    """Return whether an address is the same mark of the linker, or means the same with a page that is made."""
    a, b = (code.words[number] for code in both)
    if all(number in code.places for code in both):
        (kind, there), (kind_there, there_too) = (code.places[number] for code in both)
        # The end of a table is often the begin of the next, and then has two names.
        return kind == kind_there and bool(both[0].kernel.marks_at(there) & both[1].kernel.marks_at(there_too))
    if not all(isinstance(code.tokens[number], int) for code in both) or (a ^ b) & ~(0xFFF << 10):
        return False
    return any(
        register == a >> 5 & 31 and _same_meaning(both, number, origin)
        for origin, (register, _) in both[0].made.items()
    )


def _agrees(both: tuple[Code, Code], origin: int) -> bool:
    """Return whether a page has the same meaning in both kernels: itself, or with some low half of the function."""
    register, page = both[0].made[origin]
    itself = target(both[0].kernel, page)
    if _has_name(itself) and origin in both[1].made and itself == target(both[1].kernel, both[1].made[origin][1]):
        return True
    return any(
        word >> 5 & 31 == register and isinstance(both[0].tokens[number], int) and _same_meaning(both, number, origin)
        for number, word in enumerate(both[0].words)
    )


def _has_name(meaning: Meaning) -> bool:
    return meaning[0] not in {"nowhere", "unnamed"}


def _same_meaning(both: tuple[Code, Code], number: int, origin: int) -> bool:
    mine, theirs = (code.meaning(number, code.made[origin][1]) if origin in code.made else None for code in both)
    return mine is not None and mine == theirs


def _instructions(kernel: Vmlinux, symbol: Symbol) -> list[int]:
    code = kernel.bytes_at(symbol.address, symbol.size // 4 * 4)
    return [word for (word,) in struct.iter_unpack("<I", code)]


@dataclass(frozen=True, slots=True)
class _Piece:
    """The bytes of a function or of a variable, and where they lie in which kernel."""

    kernel: Vmlinux
    address: int
    data: bytes

    @classmethod
    def of(cls, kernel: Vmlinux, symbol: Symbol) -> _Piece:
        return cls(kernel, symbol.address, kernel.bytes_at(symbol.address, symbol.size))

    def number(self, at: int) -> int:
        """Return four bytes as a number with a sign."""
        return int.from_bytes(self.data[at : at + 4], "little", signed=True)

    def target(self, address: int) -> Meaning:
        return target(self.kernel, address)

    def marks(self, address: int) -> frozenset[str]:
        return self.kernel.marks_at(address & _ADDRESS)


def _same_address(mine: _Piece, here: int, theirs: _Piece, there: int, *, named: bool = False) -> bool:
    """Return whether two addresses mean the same, and something; `named`: what they mean has a name, or is a text."""
    # The end of a table is often the begin of the next, and then has two names.
    if mine.marks(here) & theirs.marks(there):
        return True
    meaning = mine.target(here)
    is_known = _has_name(meaning) if named else not _says_nothing(meaning)
    return is_known and meaning == theirs.target(there)


def same_data(baseline: Vmlinux, mine: Symbol, candidate: Vmlinux, theirs: Symbol) -> bool:
    """Return whether two variables start with the same value."""
    a, b = _Piece.of(baseline, mine), _Piece.of(candidate, theirs)
    return mine.size == theirs.size and _same_fields(a, b, lambda at: _data_field_end(a, b, at))


def _same_fields(mine: _Piece, theirs: _Piece, field_end: Callable[[int], int]) -> bool:
    """Return whether all bytes that differ are in addresses that mean the same.

    `field_end` returns the end of such an address for one of its bytes, or 0 where there is none.
    """
    if mine.data == theirs.data or len(mine.data) != len(theirs.data):
        return mine.data == theirs.data
    at = 0
    while at < len(mine.data):
        if mine.data[at] == theirs.data[at]:
            at += 1
            continue
        at = field_end(at)
        if not at:
            return False
    return True


def _data_field_end(mine: _Piece, theirs: _Piece, at: int) -> int:
    # Not only where eight bytes are aligned: a descriptor of x86 (`idt_descr`) has its address after two bytes.
    for start in range(max(0, at - 7), min(at, len(mine.data) - 8) + 1):
        here, there = (int.from_bytes(piece.data[start : start + 8], "little") for piece in (mine, theirs))
        # x86 links per-CPU variables from 0 on; what else is so small is a number, and has no name.
        is_number = min(here, there) < _KERNEL
        if not (is_number and start % 8) and _same_address(mine, here, theirs, there, named=is_number):
            return start + 8
    start = at // 4 * 4  # of a table of 32-bit distances
    return start + 4 if start + 4 <= len(mine.data) and _same_distance(mine, theirs, start) else 0


def _same_distance(mine: _Piece, theirs: _Piece, at: int) -> bool:
    """Return whether four bytes are distances to the same thing with a name.

    A plain number that changed may by chance lead twice to things without one.
    """
    here, there = (piece.address + at + piece.number(at) for piece in (mine, theirs))
    return _same_address(mine, here, theirs, there, named=True)


def target(kernel: Vmlinux, address: int) -> Meaning:
    """Return what an address means: a symbol and an offset; for things without a name what is in them."""
    address &= _ADDRESS  # x86 reaches its per-CPU variables, which are linked from 0 on, around the end
    place = kernel.resolve(address)
    if place is not None:
        symbol, offset = place
        return (plain_name(symbol.name), offset)
    section = kernel.section_at(address)
    if section is None:
        return ("nowhere", address & 0xFFF if address >= _KERNEL else address)
    text = kernel.bytes_at(address, _TEXT).split(b"\0", 1)[0]
    if len(text) >= 1 and all(32 <= byte < 127 or byte in b"\n\t\x01" for byte in text):
        return ("text", text)
    # Jump tables and constants without a name. Nobody knows where one ends, so what they hold is not compared. Other
    # cases of a `switch` mostly are other code as well; two that change places are not seen.
    return ("unnamed", section.name)


def _same_x86(mine: _Piece, theirs: _Piece) -> bool:
    def field_end(at: int) -> int:
        starts = range(max(0, at - 3), min(at, len(mine.data) - 4) + 1)
        return max((start + 4 for start in starts if _same_field(mine, theirs, start)), default=0)

    return _same_fields(mine, theirs, field_end) and _same_calls(mine, theirs)


def _same_calls(mine: _Piece, theirs: _Piece) -> bool:
    """Return whether calls over the same distance go to the same function."""
    for match in _CALL_OR_JUMP.finditer(mine.data):
        at = match.start() + 1
        distance = mine.data[at : at + 4]
        if len(distance) < 4 or distance != theirs.data[at : at + 4]:
            continue
        ends = [piece.kernel.resolve(piece.address + at + 4 + piece.number(at)) for piece in (mine, theirs)]
        callees = [plain_name(end[0].name) for end in ends if end is not None and end[1] == 0 and end[0].function]
        if len(callees) == 2 and callees[0] != callees[1]:
            return False
    return True


def _same_field(mine: _Piece, theirs: _Piece, at: int) -> bool:
    """Return whether four bytes of code may be an address that means the same in both."""
    here, there = mine.number(at), theirs.number(at)
    # Absolute, signed 32 bits: the kernel is in the last 2 GiB.
    if here < 0 and there < 0 and _same_address(mine, here, theirs, there):
        return True
    # Relative to the end of the instruction: after the address up to four bytes of a constant may follow.
    return any(
        _same_address(mine, mine.address + at + 4 + more + here, theirs, theirs.address + at + 4 + more + there)
        for more in (0, 1, 2, 4)
    )


_SPACE = (".text", ".bss", ".orc_unwind")


def _says_nothing(meaning: Meaning) -> bool:
    """Return whether any two numbers may mean this: what lies outside of sections, or is only the space between things.

    Else a constant that changed would pass for two addresses. What code reaches without a name is elsewhere, as in
    .rodata and .altinstr_aux.
    """
    return meaning[0] == "nowhere" or (meaning[0] == "unnamed" and str(meaning[1]).startswith(_SPACE))
