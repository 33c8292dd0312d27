# SPDX-License-Identifier: MIT
"""Code that no symbol has: alternatives, which the kernel writes over instructions while it boots, and assembler."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rtgate.kernel.vmlinux import Symbol, Vmlinux

# What only aligns code. GCC and the assembler write longer ones of x86 as one instruction.
_FILLER = {
    "arm64": rb"\x1f\x20\x03\xd5|\0{4}",
    "x86_64": rb"\xcc|\x66*\x90|\x66*\x2e?\x0f\x1f(?:\0|\x40\0|\x44\0\0|\x80\0{4}|\x84\0{5})",
}


def unnamed_code(kernel: Vmlinux) -> Iterator[Symbol]:
    """Yield the pieces between symbols, each by the name of its section; what aligns code at their ends is left out."""
    ends = {number: section.address for number, section in kernel.sections.items() if section.code}
    for symbol in kernel.symbols:
        if symbol.section in ends and symbol.size:
            yield from _piece(kernel, symbol.section, ends[symbol.section], symbol.address)
            ends[symbol.section] = max(ends[symbol.section], symbol.address + symbol.size)
    for number, end in ends.items():
        section = kernel.sections[number]
        yield from _piece(kernel, number, end, section.address + section.size)


def _piece(kernel: Vmlinux, number: int, start: int, end: int) -> Iterator[Symbol]:
    code = kernel.bytes_at(start, end - start) if end > start else b""
    filler = _FILLER[kernel.arch]
    first = re.match(rb"(?:%b)*" % filler, code)
    before = first.end() if first else 0
    last = re.search(rb"(?:%b)*\Z" % filler, code[before:])
    size = last.start() if last else len(code) - before
    if size:
        yield Symbol(
            name=kernel.sections[number].name,
            address=start + before,
            size=size,
            function=True,
            data=False,
            local=True,
            file="",
            section=number,
        )
