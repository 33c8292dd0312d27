# SPDX-License-Identifier: MIT
from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

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


# A symbol: its name, version and library (both empty: none), its type (1: data, 2: function), whether it is defined
# here, and whether the program copies it.
Symbol = tuple[str, str, str, int, bool, bool]


@pytest.fixture
def elf_symbols() -> Callable[[bytes, Sequence[Symbol]], bytes]:
    """Return what gives a program or library the tables of these symbols."""
    return _with_symbols


def _with_symbols(program: bytes, symbols: Sequence[Symbol]) -> bytes:
    versions = sorted({(library, version) for _, version, library, *_ in symbols if version})
    names = bytearray(1)

    def text(name: str) -> int:
        names.extend(name.encode() + b"\0")
        return len(names) - len(name) - 1

    table, numbers, copies = bytearray(24), [0], b""
    for index, (name, version, library, kind, defined, copied) in enumerate(symbols, 1):
        table += struct.pack("<IBBHQQ", text(name), 1 << 4 | kind, 0, 7 if defined or copied else 0, 0, 0)
        numbers.append(versions.index((library, version)) + 2 if version else 1)
        copies += struct.pack("<QQq", 0, index << 32 | 1024, 0) if copied else b""
    needed = b""
    for index, (library, version) in enumerate(versions):
        last = index == len(versions) - 1
        needed += struct.pack("<HHIII", 1, 1, text(library), 16, 0 if last else 32)
        needed += struct.pack("<IHHII", 0, 0, index + 2, text(version), 0)
    parts = (
        (0, b""),
        (11, bytes(table)),
        (3, bytes(names)),
        (0x6FFFFFFF, struct.pack(f"<{len(numbers)}H", *numbers)),
        *(((0x6FFFFFFE, needed),) if versions else ()),
        (4, copies),
    )
    data, headers = bytearray(program), b""
    for kind, content in parts:
        headers += struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, len(data), len(content), 2, 0, 1, 0)
        data += content
    struct.pack_into("<Q", data, 40, len(data))
    struct.pack_into("<HH", data, 58, 64, len(parts))
    return bytes(data) + headers
