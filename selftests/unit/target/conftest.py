# SPDX-License-Identifier: MIT
from __future__ import annotations

import struct
from collections.abc import Callable

import pytest


@pytest.fixture
def elf_program() -> Callable[[str, tuple[str, ...]], bytes]:
    """Return what makes the least that is a program with this interpreter and these shared libraries."""
    return lambda interpreter, libraries: _program(interpreter.encode(), tuple(name.encode() for name in libraries))


def _program(interpreter: bytes, libraries: tuple[bytes, ...]) -> bytes:
    base = 0x400000
    strings = b"\0" + b"".join(name + b"\0" for name in libraries)
    offsets = [strings.index(name + b"\0") for name in libraries]
    count = 3 if interpreter else 2
    start = 64 + 56 * count
    dynamic = b"".join(struct.pack("<qQ", 1, offset) for offset in offsets)
    dynamic += struct.pack("<qQ", 5, base + start) + struct.pack("<qQ", 0, 0)
    body = strings + dynamic + interpreter + b"\0"
    headers = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, start + len(body), start + len(body), 4096)
    headers += struct.pack("<IIQQQQQQ", 2, 6, start + len(strings), 0, 0, len(dynamic), len(dynamic), 8)
    if interpreter:
        at = start + len(strings) + len(dynamic)
        headers += struct.pack("<IIQQQQQQ", 3, 4, at, 0, 0, len(interpreter) + 1, len(interpreter) + 1, 1)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    fields = struct.pack("<HHIQQQIHHHHHH", 2, 183, 1, base, 64, 0, 0, 64, 56, count, 0, 0, 0)
    return ident + fields + headers + body
