# SPDX-License-Identifier: MIT
"""Whether two pieces of code, or of data, are the same but for the addresses in them.

arm64: instructions that hold an address are known by their bits, and an address that is made in two steps (`adrp`, then
the low 12 bits) is put together. x86: where bytes of two functions of equal length differ, the four bytes around them
must be an address, relative or absolute, that means the same in both; no disassembler is needed for that.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterator, Mapping

from rtgate.kernel import pages
from rtgate.kernel.vmlinux import Symbol, Vmlinux, plain_name

_KERNEL = 0xFFFF_0000_0000_0000  # addresses from here on are the kernel's
_TEXT = 96  # bytes by which data without a name are compared

_CALL_OR_JUMP = re.compile(rb"[\xe8\xe9]")  # x86; four bytes of distance follow

Token = tuple[object, ...] | int


def same_code(one: Vmlinux, mine: Symbol, other: Vmlinux, theirs: Symbol) -> bool:
    """Return whether two functions do the same."""
    if mine.size != theirs.size:
        return False
    if one.arch != "arm64":
        return _same_x86(one, mine, other, theirs)
    # Line by line is enough for most; what a register holds on every way is asked where that does not do.
    if all(a == b for a, b in zip(_tokens(one, mine), _tokens(other, theirs), strict=True)):
        return True
    pairs = zip(_tokens_on_all_ways(one, mine), _tokens_on_all_ways(other, theirs), strict=True)
    left = [(a, b) for a, b in pairs if a != b]
    return not left or _on_other_ways(one, mine, other, theirs, left)


def _on_other_ways(one: Vmlinux, mine: Symbol, other: Vmlinux, theirs: Symbol, left: list[tuple[Token, Token]]) -> bool:
    """Return whether low halves whose page differs from way to way, or is not known, fit a page of the function."""
    made = list(zip(_pages(one, mine), _pages(other, theirs), strict=False))
    for a, b in left:
        if not isinstance(a, int) or not isinstance(b, int) or (a ^ b) & ~(0xFFF << 10):
            return False
        scale = pages.scale_of(a)
        if scale is None or not any(
            register == (a >> 5 & 31)
            and _meets(one, page + pages.low_half(a, scale), other, page_b + pages.low_half(b, scale))
            for (register, page), (_, page_b) in made
        ):
            return False
    return True


def _instructions(kernel: Vmlinux, symbol: Symbol) -> list[int]:
    code = kernel.bytes_at(symbol.address, symbol.size // 4 * 4)
    return [word for (word,) in struct.iter_unpack("<I", code)]


def _pages(kernel: Vmlinux, symbol: Symbol) -> Iterator[tuple[int, int]]:
    """Yield the register and the address of each `adrp`."""
    for at, word in enumerate(_instructions(kernel, symbol)):
        page = pages.page_of(word, symbol.address + 4 * at)
        if page is not None:
            yield word & 31, page


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
    """Yield a function's instructions, with addresses replaced by what they mean (arm64), as they stand one by one."""
    known: dict[int, int] = {}
    for pc, word in zip(itertools.count(symbol.address, 4), _instructions(kernel, symbol), strict=False):
        yield _token(kernel, symbol, (pc, word), known)
        pages.update(known, word, pc)


def _tokens_on_all_ways(kernel: Vmlinux, symbol: Symbol) -> Iterator[Token]:
    """Yield the same, with addresses replaced only where they are the same on every way that leads there."""
    words = _instructions(kernel, symbol)
    for number, known in enumerate(pages.pages_before(words, symbol.address)):
        yield _token(kernel, symbol, (symbol.address + 4 * number, words[number]), known)


def _token(kernel: Vmlinux, symbol: Symbol, at: tuple[int, int], known: Mapping[int, int]) -> Token:
    """Return what an instruction (its address and word) does, with the pages that registers hold."""
    pc, word = at
    top = word >> 24
    if top & 0x7C == 0x14:  # b, bl
        return _to(kernel, symbol, word, pc + 4 * pages.signed(word, 26), (top & 0xFC,))
    if top & 0x9F == 0x90:  # adrp
        return (top & 0x9F, word & 31)
    if top & 0x9F == 0x10:  # adr
        distance = pages.signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
        return _to(kernel, symbol, word, pc + distance, (top & 0x9F, word & 31))
    scale, page = pages.scale_of(word), known.get(word >> 5 & 31)
    if scale is None or page is None:
        return word
    return (word & ~(0xFFF << 10), *_as_tuple(target(kernel, page + pages.low_half(word, scale))))


def _to(kernel: Vmlinux, symbol: Symbol, word: int, there: int, kind: tuple[int, ...]) -> Token:
    """Return an instruction that names an address: as it is within the function, with what it means outside."""
    if symbol.address <= there < symbol.address + symbol.size:
        return word
    return (*kind, *_as_tuple(target(kernel, there)))


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
    meant = target(one, left)
    return meant == target(other, right) and not (isinstance(meant, tuple) and meant[0] == "nowhere")
