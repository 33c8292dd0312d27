# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

from rtgate.kernel.relocation import target

from .linked import kernel


def test_an_address_means_a_symbol_its_text_or_nothing(tmp_path: Path) -> None:
    source = 'int counter[4] = {5}; const char *name(void) { return "hello"; }'
    found = kernel("x86_64", tmp_path, "one", a=source)
    counter = next(symbol for symbol in found.symbols if symbol.name == "counter")
    assert target(found, counter.address + 4) == ("counter", 4)
    assert target(found, 0x1234) == ("nowhere", 0x1234)
    section = next(section for section in found.sections.values() if b"hello" in section.data)
    assert target(found, section.address + section.data.index(b"hello")) == ("text", b"hello")


def test_x86_reaches_low_addresses_around_the_end(tmp_path: Path) -> None:
    found = kernel("x86_64", tmp_path, "one", a="int counter = 5; int f(void) { return counter; }")
    counter = next(symbol for symbol in found.symbols if symbol.name == "counter")
    assert target(found, counter.address + (1 << 64)) == ("counter", 0)
