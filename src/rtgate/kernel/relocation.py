# SPDX-License-Identifier: MIT
"""Whether two pieces of code, or of data, are the same but for the addresses in them.

arm64: instructions that hold an address are known by their bits, and an address that is made in two steps (`adrp`, then
the low 12 bits) is put together. x86: where bytes of two functions of equal length differ, the four bytes around them
must be an address, relative or absolute, that means the same in both; no disassembler is needed for that.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping

from rtgate.kernel import arm64, pages
from rtgate.kernel.arm64 import ADR, ADR_BITS, ADRP
from rtgate.kernel.pages import PageRegister
from rtgate.kernel.vmlinux import Symbol, Vmlinux, plain_name

_KERNEL = 0xFFFF_0000_0000_0000  # addresses from here on are the kernel's
_TEXT = 96  # bytes by which data without a name are compared

_BRANCH = 0x05  # bits 30 to 26 of b and bl
_CALL_OR_JUMP = re.compile(rb"[\xe8\xe9]")  # x86; four bytes of distance follow

Token = tuple[object, ...] | int


def same_code(one: Vmlinux, mine: Symbol, other: Vmlinux, theirs: Symbol) -> bool:
    """Return whether two functions do the same."""
    if mine.size != theirs.size:
        return False
    if one.arch != "arm64":
        return _same_x86(one, mine, other, theirs)
    left = Code(one, mine), Code(other, theirs)
    differing = [number for number, (a, b) in enumerate(zip(*(code.tokens for code in left), strict=True)) if a != b]
    if not all(_fits(left, number) for number in differing):
        return False
    # An address whose low half is nowhere known to belong to it says nothing yet.
    unused = left[0].made.keys() - (left[0].used & left[1].used)
    return all(_agrees(left, number) for number in unused)


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
            if (page := arm64.page_of(word, pc)) is not None
        }
        none: list[Mapping[int, PageRegister]] = [{}] * len(self.words)
        held = pages.pages_before(self.words, symbol.address) if self.made else none
        self.tokens = [self._token(symbol, number, known) for number, known in enumerate(held)]

    def _token(self, symbol: Symbol, number: int, held: Mapping[int, PageRegister]) -> Token:
        """Return what an instruction does, with the pages that registers hold."""
        pc, word = symbol.address + 4 * number, self.words[number]
        if word >> 26 & 31 == _BRANCH:
            return self._to(symbol, number, pc + 4 * arm64.sign_extend(word, 26), (word >> 26,))
        if word & ADR_BITS == ADRP:
            return (ADRP, word & 31)
        near = arm64.adr_address(word, pc)
        if near is not None:
            return self._to(symbol, number, near, (ADR, word & 31))
        known = held.get(word >> 5 & 31)
        scale = None if known is None else arm64.scale_of(word)
        if scale is None or known is None:
            return word
        self.used.add(known.origin)
        return self._at(number, known.page + arm64.low_half(word, scale), (word & ~(0xFFF << 10),))

    def _to(self, symbol: Symbol, number: int, there: int, kind: tuple[int, ...]) -> Token:
        """Return an instruction that names an address: as it is within the function, with what it means outside."""
        if symbol.address <= there < symbol.address + symbol.size:
            return self.words[number]
        return self._at(number, there, kind)

    def _at(self, number: int, there: int, kind: tuple[int, ...]) -> Token:
        self.places[number] = (kind, there)
        return (*kind, *_as_tuple(target(self.kernel, there)))

    def meaning(self, number: int, page: int) -> Token | None:
        """Return what the low half of an instruction means with a page; None if that is nothing with a name."""
        scale = arm64.scale_of(self.words[number])
        if scale is None:
            return None
        found = target(self.kernel, page + arm64.low_half(self.words[number], scale))
        return found if _has_name(found) else None


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
        register == a >> 5 & 31 and _same_meaning(both, number, made) for made, (register, _) in both[0].made.items()
    )


def _agrees(both: tuple[Code, Code], made: int) -> bool:
    """Return whether a page has the same meaning in both kernels: itself, or with some low half of the function."""
    register, page = both[0].made[made]
    itself = target(both[0].kernel, page)
    if _has_name(itself) and made in both[1].made and itself == target(both[1].kernel, both[1].made[made][1]):
        return True
    return any(
        word >> 5 & 31 == register and isinstance(both[0].tokens[number], int) and _same_meaning(both, number, made)
        for number, word in enumerate(both[0].words)
    )


def _has_name(meant: Token) -> bool:
    return isinstance(meant, tuple) and meant[0] not in {"nowhere", "unnamed"}


def _same_meaning(both: tuple[Code, Code], number: int, made: int) -> bool:
    one, other = (code.meaning(number, code.made[made][1]) if made in code.made else None for code in both)
    return one is not None and one == other


def _instructions(kernel: Vmlinux, symbol: Symbol) -> list[int]:
    code = kernel.bytes_at(symbol.address, symbol.size // 4 * 4)
    return [word for (word,) in struct.iter_unpack("<I", code)]


def same_data(one: Vmlinux, mine: Symbol, other: Vmlinux, theirs: Symbol) -> bool:
    """Return whether two variables start with the same value."""
    if mine.size != theirs.size:
        return False
    a, b = one.bytes_at(mine.address, mine.size), other.bytes_at(theirs.address, theirs.size)
    if a == b:
        return True
    whole = len(a) // 8 * 8
    if a[whole:] != b[whole:]:
        return False
    for at, ((left,), (right,)) in enumerate(zip(_words(a[:whole]), _words(b[:whole]), strict=True)):
        if left != right and not (
            (min(left, right) >= _KERNEL and target(one, left) == target(other, right))
            or all(_relative(one, mine, other, theirs, 8 * at + half) for half in (0, 4))
        ):
            return False
    return True


def _words(data: bytes) -> Iterator[tuple[int]]:
    return struct.iter_unpack("<Q", data)


def _relative(one: Vmlinux, mine: Symbol, other: Vmlinux, theirs: Symbol, at: int) -> bool:
    """Return whether four bytes are equal, or distances to the same thing (x86's and arm64's 32-bit tables)."""
    a, b = one.bytes_at(mine.address + at, 4), other.bytes_at(theirs.address + at, 4)
    if a == b:
        return True
    left, right = (struct.unpack("<i", data)[0] for data in (a, b))
    return target(one, mine.address + at + left) == target(other, theirs.address + at + right)


def target(kernel: Vmlinux, address: int) -> Token:
    """Return what an address means: a symbol and an offset; for things without a name what is in them."""
    address &= (1 << 64) - 1  # x86 reaches its per-CPU variables, which are linked from 0 on, around the end
    found = kernel.resolve(address)
    if found is not None:
        symbol, offset = found
        return (plain_name(symbol.name), offset)
    section = kernel.section_at(address)
    if section is None:
        return ("nowhere", address & 0xFFF if address >= _KERNEL else address)
    text = kernel.bytes_at(address, _TEXT).split(b"\0", 1)[0]
    if len(text) >= 1 and all(32 <= byte < 127 or byte in b"\n\t\x01" for byte in text):
        return ("text", text)
    # Jump tables and unnamed constants: they follow from code and names, which are compared themselves.
    return ("unnamed", section.name)


def _as_tuple(token: Token) -> tuple[object, ...]:
    return token if isinstance(token, tuple) else (token,)


def _same_x86(one: Vmlinux, mine: Symbol, other: Vmlinux, theirs: Symbol) -> bool:
    a, b = one.bytes_at(mine.address, mine.size), other.bytes_at(theirs.address, theirs.size)
    if len(a) != len(b):
        return False
    at = 0
    while at < len(a):
        if a[at] == b[at]:
            at += 1
            continue
        after = max(
            (
                start + 4
                for start in range(max(0, at - 3), min(at, len(a) - 4) + 1)
                if _same_field(one, mine.address, other, theirs.address, a, b, start)
            ),
            default=0,
        )
        if not after:
            return False
        at = after
    return _same_calls(one, mine.address, other, theirs.address, a, b)


def _same_calls(one: Vmlinux, start_one: int, other: Vmlinux, start_other: int, a: bytes, b: bytes) -> bool:
    """Return whether calls over the same distance go to the same function."""
    for match in _CALL_OR_JUMP.finditer(a):
        at = match.start() + 1
        distance = a[at : at + 4]
        if len(distance) < 4 or distance != b[at : at + 4]:
            continue
        (far,) = struct.unpack("<i", distance)
        ends = [one.resolve(start_one + at + 4 + far), other.resolve(start_other + at + 4 + far)]
        called = [plain_name(end[0].name) for end in ends if end is not None and end[1] == 0 and end[0].function]
        if len(called) == 2 and called[0] != called[1]:
            return False
    return True


def _same_field(  # noqa: PLR0913, PLR0917 - two kernels, two addresses, two codes
    one: Vmlinux, start_one: int, other: Vmlinux, start_other: int, a: bytes, b: bytes, at: int
) -> bool:
    left, right = struct.unpack_from("<i", a, at)[0], struct.unpack_from("<i", b, at)[0]
    # Absolute, signed 32 bits: the kernel is in the last 2 GiB.
    if left < 0 and right < 0 and _meets(one, left & (1 << 64) - 1, other, right & (1 << 64) - 1):
        return True
    # Relative to the end of the instruction: after the address up to four bytes of a constant may follow.
    return any(
        _meets(one, start_one + at + 4 + more + left, other, start_other + at + 4 + more + right)
        for more in (0, 1, 2, 4)
    )


def _meets(one: Vmlinux, left: int, other: Vmlinux, right: int) -> bool:
    # The end of a table is often the begin of the next, and then has two names.
    if one.marks_at(left) & other.marks_at(right):
        return True
    meant = target(one, left)
    return meant == target(other, right) and not (isinstance(meant, tuple) and meant[0] == "nowhere")
