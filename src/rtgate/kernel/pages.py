# SPDX-License-Identifier: MIT
"""Which addresses of pages the registers of an arm64 function hold: what `adrp` made, until something else is written.

An address is made in two steps, often far apart: `adrp` puts a page into a register, and an addition, a load or a store
adds the low 12 bits. Encodings: Arm Architecture Reference Manual (DDI 0487), chapter C4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

_CALL_CLOBBERED = (*range(19), 30)  # the procedure call standard, AAPCS64, 6.1.1
# Loads and stores with an unsigned offset: the top byte, and the scale by size bits (and the 128-bit ones).
_MEMORY = {0x39: 0, 0x79: 1, 0xB9: 2, 0xF9: 3, 0x3D: 0, 0x7D: 1, 0xBD: 2, 0xFD: 3}


def signed(value: int, bits: int) -> int:
    """Return the number that the lowest bits of a value are in two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def page_of(word: int, pc: int) -> int | None:
    """Return the page that an `adrp` puts into its register; None if it is no `adrp`."""
    if word >> 24 & 0x9F != 0x90:
        return None
    return (pc & ~0xFFF) + (signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21) << 12)


def scale_of(word: int) -> int | None:
    """Return by how many bits an instruction that may add a low half shifts its offset; None if it is another."""
    top = word >> 24
    if top & 4 and top in _MEMORY and word & 0x00800000:
        return 4
    return _MEMORY.get(top, 0 if word >> 22 == 0x244 else None)  # or add, 64 bit, not shifted


def low_half(word: int, scale: int) -> int:
    """Return the offset that an instruction adds."""
    return (word >> 10 & 0xFFF) << scale


def update(pages: dict[int, int], word: int, pc: int) -> None:
    """Change what registers hold as an instruction does; from 32 on, words of the stack where registers are kept."""
    page, copied = page_of(word, pc), _copied(word)
    if page is not None:
        pages[word & 31] = page
    elif copied is not None:
        into, source = copied
        if source in pages:
            pages[into] = pages[source]
        else:
            pages.pop(into, None)
    elif pages:
        for register in _written(word):
            pages.pop(register, None)


def _copied(word: int) -> tuple[int, int] | None:
    """Return where a copy of 64 bits goes, and whence; None if an instruction is none that is known."""
    if word & 0xFFE0FFE0 == 0xAA0003E0:  # mov
        return word & 31, word >> 16 & 31
    if word >> 23 == 0x1F2 and word >> 5 & 31 == 31:  # str or ldr, relative to the stack pointer
        place = 32 + (word >> 10 & 0xFFF)
        return (word & 31, place) if word >> 22 & 1 else (place, word & 31)
    return None


def _written(word: int) -> tuple[int, ...]:
    """Return the general registers that an instruction may write; one too many only loses knowledge."""
    top = word >> 24
    if _calls(word):
        return _CALL_CLOBBERED
    # A store (bits 23, 22 both 0) writes no register, nor does any branch (cbz, tbz, b.cond).
    if (top in _MEMORY and not word & 0x00C00000) or _branch(word) is not None:
        return ()
    if word >> 27 & 7 == 5 and word >> 25 & 1 == 0:  # pairs: two registers, or the base by which they are addressed
        return (word & 31, word >> 10 & 31, word >> 5 & 31) if word & 0x00800000 else (word & 31, word >> 10 & 31)
    if top & 0x3B == 0x38 and word & 0x00200400 == 0x00000400:  # one register, and the base is written back
        return (word & 31, word >> 5 & 31)
    return (word & 31,)


def _calls(word: int) -> bool:
    return word >> 26 == 0x25 or (word >> 25 == 0x6B and word >> 21 & 0xF in {1, 9})  # bl; blr, blraa


def _branch(word: int) -> int | None:
    """Return the distance in instructions of a direct branch that is no call; None if it is none."""
    if word >> 26 == 0x05:  # b
        return signed(word, 26)
    if word >> 24 == 0x54 or word >> 24 & 0x7E == 0x34:  # b.cond; cbz, cbnz
        return signed(word >> 5, 19)
    if word >> 24 & 0x7E == 0x36:  # tbz, tbnz
        return signed(word >> 5, 14)
    return None


def _following(words: Sequence[int], number: int) -> Iterator[int]:
    """Yield the instructions of the function to which one leads directly."""
    word = words[number]
    distance = _branch(word)
    if distance is not None and 0 <= number + distance < len(words):
        yield number + distance
    away = word >> 26 == 0x05 or (word >> 25 == 0x6B and not _calls(word))  # b; br, ret, eret
    if not away and number + 1 < len(words):
        yield number + 1


def pages_before(words: Sequence[int], start: int) -> list[Mapping[int, int]]:
    """Return for each instruction which registers hold a page on every way that leads to it.

    Ways through tables of jumps are not known: what can be reached only so begins with nothing.

    Args:
        words: the function's instructions.
        start: address of the first.
    """
    before: list[dict[int, int] | None] = [None] * len(words)
    for entry in range(len(words)):
        if before[entry] is not None:
            continue
        before[entry] = {}
        changed = [entry]
        while changed:
            number = changed.pop()
            after = dict(before[number] or {})
            update(after, words[number], start + 4 * number)
            for following in _following(words, number):
                known = before[following]
                met = after if known is None else {one: page for one, page in known.items() if after.get(one) == page}
                if known is None or len(met) < len(known):
                    before[following] = met
                    changed.append(following)
    return [pages or {} for pages in before]
