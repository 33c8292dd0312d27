# SPDX-License-Identifier: MIT
"""Whether two pieces of code, or of data, are the same but for the addresses in them.

arm64: instructions that hold an address are known by their bits, and an address that is made in two steps (`adrp`, then
the low 12 bits) is put together. x86: where bytes of two functions of equal length differ, the four bytes around them
must be an address, relative or absolute, that means the same in both; no disassembler is needed for that.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from rtgate.kernel.vmlinux import Symbol, Vmlinux, plain_name

_KERNEL = 0xFFFF_0000_0000_0000  # addresses from here on are the kernel's
_TEXT = 96  # bytes by which data without a name are compared
_CALL_CLOBBERED = (*range(19), 30)
# Loads and stores with an unsigned offset: the top byte, and the scale by size bits (and the 128-bit ones).
_MEMORY = {0x39: 0, 0x79: 1, 0xB9: 2, 0xF9: 3, 0x3D: 0, 0x7D: 1, 0xBD: 2, 0xFD: 3}

_CALL_OR_JUMP = re.compile(rb"[\xe8\xe9]")  # x86; four bytes of distance follow

Token = tuple[object, ...] | int


def same_code(one: Vmlinux, mine: Symbol, other: Vmlinux, theirs: Symbol) -> bool:
    """Return whether two functions do the same."""
    if mine.size != theirs.size:
        return False
    if one.arch != "arm64":
        return _same_x86(one, mine, other, theirs)
    pairs = zip(_tokens(one, mine), _tokens(other, theirs), strict=True)
    left = [(a, b) for a, b in pairs if a != b]
    return not left or _on_other_paths(one, mine, other, theirs, left)


def _on_other_paths(
    one: Vmlinux, mine: Symbol, other: Vmlinux, theirs: Symbol, left: list[tuple[Token, Token]]
) -> bool:
    """Return whether low halves whose page was not known (it was made on another path) fit a page of the function."""
    pages = list(zip(_pages(one, mine), _pages(other, theirs), strict=False))
    for a, b in left:
        if not isinstance(a, int) or not isinstance(b, int) or (a ^ b) & ~(0xFFF << 10):
            return False
        scale = _scale(a)
        offsets = [(word >> 10 & 0xFFF) << (scale or 0) for word in (a, b)]
        if scale is None or not any(
            register == (a >> 5 & 31) and _meets(one, page + offsets[0], other, page_b + offsets[1])
            for (register, page), (_, page_b) in pages
        ):
            return False
    return True


def _pages(kernel: Vmlinux, symbol: Symbol) -> Iterator[tuple[int, int]]:
    """Yield the register and the address of each `adrp`."""
    code = kernel.bytes_at(symbol.address, symbol.size // 4 * 4)
    for at, (word,) in enumerate(struct.iter_unpack("<I", code)):
        if word >> 24 & 0x9F == 0x90:
            distance = _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
            yield word & 31, ((symbol.address + 4 * at) & ~0xFFF) + (distance << 12)


def _scale(word: int) -> int | None:
    """Return by how many bits an instruction that may add a low half shifts its offset; None if it is another."""
    top = word >> 24
    if top & 4 and top in _MEMORY and word & 0x00800000:
        return 4
    return _MEMORY.get(top, 0 if word >> 22 == 0x244 else None)  # or add, 64 bit, not shifted


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


def _tokens(kernel: Vmlinux, symbol: Symbol) -> Iterator[Token]:
    """Yield a function's instructions, with addresses replaced by what they mean (arm64)."""
    start, end = symbol.address, symbol.address + symbol.size
    pages: dict[int, int] = {}
    code = kernel.bytes_at(start, symbol.size // 4 * 4)
    for pc, (word,) in zip(range(start, end, 4), struct.iter_unpack("<I", code), strict=False):
        top = word >> 24
        if top & 0x7C == 0x14:  # b, bl
            there = pc + 4 * _signed(word, 26)
            yield word if start <= there < end else (top & 0xFC, *_as_tuple(target(kernel, there)))
            if top & 0x80:
                for register in _CALL_CLOBBERED:
                    pages.pop(register, None)
        elif top & 0x1F == 0x10:  # adr, adrp
            distance = _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
            if top & 0x80:
                pages[word & 31] = (pc & ~0xFFF) + (distance << 12)
                yield (top & 0x9F, word & 31)
            else:
                pages.pop(word & 31, None)
                there = pc + distance
                yield word if start <= there < end else (top & 0x9F, word & 31, *_as_tuple(target(kernel, there)))
        else:
            yield _low_part(kernel, word, pages)


def _low_part(kernel: Vmlinux, word: int, pages: dict[int, int]) -> Token:
    """Return an instruction that may add the low 12 bits to a page's address."""
    top, base, into = word >> 24, word >> 5 & 31, word & 31
    scale, page = _scale(word), pages.get(base)
    made: Token = word
    if page is not None and scale is not None:
        made = (word & ~(0xFFF << 10), *_as_tuple(target(kernel, page + ((word >> 10 & 0xFFF) << scale))))
    # A store (bits 23, 22 both 0) writes no register; everything else may.
    store = top in _MEMORY and not word & 0x00C00000
    if not store and top & 0x7C != 0x34 and top != 0x54:
        pages.pop(into, None)
    return made


def _as_tuple(token: Token) -> tuple[object, ...]:
    return token if isinstance(token, tuple) else (token,)


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


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
    meant = target(one, left)
    return meant == target(other, right) and not (isinstance(meant, tuple) and meant[0] == "nowhere")
