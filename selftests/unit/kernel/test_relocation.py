# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.kernel.relocation import _Piece, _same_address, target

from .linked import kernel


def test_an_address_means_a_symbol_its_text_or_nothing(tmp_path: Path) -> None:
    source = 'int counter[4] = {5}; const char *name(void) { return "hello"; }'
    found = kernel("x86_64", tmp_path, "one", a=source)
    counter = next(symbol for symbol in found.symbols if symbol.name == "counter")
    assert target(found, counter.address + 4) == ("counter", 4)
    assert target(found, 0x1234) == ("nowhere", 0x1234)
    section = next(section for section in found.sections.values() if b"hello" in section.data)
    assert target(found, section.address + section.data.index(b"hello")) == ("text", b"hello")


@pytest.mark.parametrize(("section", "same"), [(".rodata", True), (".text", False), (".bss", False)])
def test_the_space_between_things_means_nothing(tmp_path: Path, section: str, same: bool) -> None:
    """A constant that changed may be a distance into it by chance, before and after."""
    kind = "nobits" if section == ".bss" else "progbits"
    flags = {"text": "ax", "bss": "aw"}.get(section[1:], "a")
    space = f'asm(".section {section},\\"{flags}\\",@{kind}\\n.balign 64\\n.space 256\\n.text");'
    found = kernel("x86_64", tmp_path, "one", a=f"int f(void) {{ return 1; }} {space}")
    place = next(one for one in found.sections.values() if one.name == section)
    first, second = place.address + 128, place.address + 160
    assert target(found, first) == target(found, second) == ("unnamed", section)
    piece = _Piece(found, place.address, b"")
    assert _same_address(piece, first, piece, second) is same


def test_x86_reaches_low_addresses_around_the_end(tmp_path: Path) -> None:
    found = kernel("x86_64", tmp_path, "one", a="int counter = 5; int f(void) { return counter; }")
    counter = next(symbol for symbol in found.symbols if symbol.name == "counter")
    assert target(found, counter.address + (1 << 64)) == ("counter", 0)
