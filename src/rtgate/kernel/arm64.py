# SPDX-License-Identifier: MIT
"""Instructions of arm64, told from each other by their encoding: Arm Architecture Reference Manual (DDI 0487), C4."""

from __future__ import annotations

UNSIGNED_OFFSET = {0x39: 0, 0x79: 1, 0xB9: 2, 0xF9: 3, 0x3D: 0, 0x7D: 1, 0xBD: 2, 0xFD: 3}
"""Loads and stores with an unsigned offset: the top byte, and the scale by size bits (and the 128-bit ones)."""

ADR_BITS, ADR, ADRP = 0x9F000000, 0x10000000, 0x90000000
"""An instruction is `adr` or `adrp` if its bits under the first are the second or the third."""


def sign_extend(value: int, bits: int) -> int:
    """Return the number that the lowest bits of a value are in two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def page_of(word: int, pc: int) -> int | None:
    """Return the page that an `adrp` puts into its register; None if it is no `adrp`."""
    if word & ADR_BITS != ADRP:
        return None
    return (pc & ~0xFFF) + (_distance(word) << 12)


def adr_address(word: int, pc: int) -> int | None:
    """Return the address that an `adr` puts into its register; None if it is no `adr`."""
    return pc + _distance(word) if word & ADR_BITS == ADR else None


def _distance(word: int) -> int:
    return sign_extend((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)


def scale_of(word: int) -> int | None:
    """Return by how many bits an instruction that may add a low half shifts its offset; None if it is another."""
    top = word >> 24
    if top & 4 and top in UNSIGNED_OFFSET and word & 0x00800000:
        return 4
    return UNSIGNED_OFFSET.get(top, 0 if word >> 22 == 0x244 else None)  # or add, 64 bit, not shifted


def low_half(word: int, scale: int) -> int:
    """Return the offset that an instruction adds."""
    return (word >> 10 & 0xFFF) << scale


def calls(word: int) -> bool:
    """Return whether it is bl, blr, or blraa and its like."""
    return word >> 26 == 0x25 or (word >> 25 == 0x6B and word >> 21 & 0xF in {1, 9})


def call_distance(word: int) -> int | None:
    """Return the distance in instructions of a direct call (bl); None if it is none."""
    return sign_extend(word, 26) if word >> 26 == 0x25 else None


def breaks(word: int) -> bool:
    """Return whether it is brk, by which Linux warns (arch/arm64/include/asm/asm-bug.h)."""
    return word & 0xFFE0001F == 0xD4200000


def direct_branch(word: int) -> int | None:
    """Return the distance in instructions of a direct branch that is not a call; None if it is none."""
    if word >> 26 == 0x05:  # b
        return sign_extend(word, 26)
    if word >> 24 == 0x54 or word >> 24 & 0x7E == 0x34:  # b.cond; cbz, cbnz
        return sign_extend(word >> 5, 19)
    if word >> 24 & 0x7E == 0x36:  # tbz, tbnz
        return sign_extend(word >> 5, 14)
    return None


def returns(word: int) -> bool:
    """Return whether an instruction returns from a call: ret, retaa, retab."""
    return word & 0xFFFFFC1F == 0xD65F0000 or word in {0xD65F0BFF, 0xD65F0FFF}


def returns_from_exception(word: int) -> bool:
    """Return whether it is eret, eretaa or eretab."""
    return word in {0xD69F03E0, 0xD69F0BFF, 0xD69F0FFF}
