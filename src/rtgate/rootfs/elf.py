# SPDX-License-Identifier: MIT
"""ELF files of the target: what a program needs to start, and libraries that stand in for absent ones.

A program does not start without all its libraries, even those of functions that it never calls. `stand_in` makes a
library that has the functions by name and ends the program, with a message, when one is called.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from rtgate.arches import ARCHES

_MAGIC_64_LITTLE = b"\x7fELF\x02\x01"
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_PT_GNU_STACK = 0x6474E551
_DT_NEEDED, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 1, 4, 5, 6, 10, 11, 14
_DT_VERSYM, _DT_VERDEF, _DT_VERDEFNUM = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD
_SHT_RELA, _SHT_DYNSYM, _SHT_VERNEED, _SHT_VERSYM = 4, 11, 0x6FFFFFFE, 0x6FFFFFFF
_STB_GLOBAL, _STT_FUNC = 1, 2
_PAGE = 0x10000  # the largest page of our kernels

ABSENT_STATUS = 127  # what the dynamic linker ends with when it misses a function


@dataclass(frozen=True, slots=True)
class Segment:
    """One program header: its type, and where its bytes are in the file and in memory."""

    kind: int
    offset: int
    address: int
    size: int


@dataclass(frozen=True, slots=True)
class Needs:
    """The interpreter's path (empty without one) and the names of the shared libraries."""

    interpreter: str = ""
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Import:
    """A symbol that a file takes from its libraries; `version` and `library` are empty where the file names none."""

    name: str
    version: str
    library: str
    is_function: bool


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    binding: int
    kind: int
    defined: bool


def is_elf(data: bytes) -> bool:
    """Return whether this is a 64-bit little-endian ELF file, as all our targets use."""
    return data.startswith(_MAGIC_64_LITTLE)


def needs(data: bytes) -> Needs:
    """Return what an ELF file needs at run time.

    Raises:
        ValueError: it is no such file, or a broken one.
    """
    if not is_elf(data):
        raise ValueError("not a 64-bit little-endian ELF file")
    try:
        segments = _segments(data)
        interpreter = next((_text(data, part.offset) for part in segments if part.kind == _PT_INTERP), "")
        return Needs(interpreter, _libraries(data, segments))
    except (struct.error, IndexError, StopIteration, OverflowError) as error:
        raise ValueError(f"a broken ELF file: {error}") from error


def _segments(data: bytes) -> list[Segment]:
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    segments = []
    for number in range(count):
        kind, _, offset, address, _, file_size = struct.unpack_from("<IIQQQQ", data, table + number * size)
        segments.append(Segment(kind, offset, address, file_size))
    return segments


def _libraries(data: bytes, segments: list[Segment]) -> tuple[str, ...]:
    dynamic = [part for part in segments if part.kind == _PT_DYNAMIC]
    entries = [
        struct.unpack_from("<qQ", data, part.offset + at) for part in dynamic for at in range(0, part.size - 15, 16)
    ]
    names = [value for tag, value in entries if tag == _DT_NEEDED]
    if not names:
        return ()
    table = next(value for tag, value in entries if tag == _DT_STRTAB)
    home = next(part for part in segments if part.kind == _PT_LOAD and part.address <= table < part.address + part.size)
    return tuple(_text(data, home.offset + table - home.address + name) for name in names)


def _text(data: bytes, offset: int) -> str:
    end = data.find(b"\0", offset)
    if end < 0 or offset >= len(data):
        raise IndexError(f"no text at offset {offset}")
    return data[offset:end].decode("ascii", "replace")


def machine(data: bytes) -> int:
    """Return the number that ELF gives to the file's processor."""
    return int.from_bytes(data[18:20], "little")


def exports(data: bytes) -> frozenset[str]:
    """Return the names of the symbols that a library offers.

    Raises:
        ValueError: a broken file, or one without a table of sections.
    """
    try:
        return frozenset(symbol.name for symbol in _symbols(data, _sections(data)) if symbol.defined and symbol.binding)
    except (struct.error, IndexError, KeyError, OverflowError) as error:
        raise ValueError(f"a broken ELF file: {error!r}") from error


def imports(data: bytes) -> tuple[Import, ...]:
    """Return the symbols without which a file does not start; weak ones may be missing.

    Raises:
        ValueError: a broken file, or one without a table of sections.
    """
    try:
        sections = _sections(data)
        numbers = _version_numbers(data, sections)
        versions = _versions_needed(data, sections)
        copies = _copied_symbols(data, sections)
        symbols = []
        for number, symbol in enumerate(_symbols(data, sections)):
            # What is copied counts as the program's own, but the library must have it all the same.
            if number in copies or (not symbol.defined and symbol.binding == _STB_GLOBAL):
                version, library = versions.get(numbers[number] & 0x7FFF, ("", "")) if numbers else ("", "")
                symbols.append(Import(symbol.name, version, library, number not in copies and symbol.kind == _STT_FUNC))
        return tuple(symbols)
    except (struct.error, IndexError, KeyError, OverflowError) as error:
        raise ValueError(f"a broken ELF file: {error!r}") from error


def _sections(data: bytes) -> list[_Section]:
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    if not count:
        raise ValueError("an ELF file without a table of sections")
    sections = []
    for number in range(count):
        fields = struct.unpack_from("<IIQQQQIIQQ", data, table + number * size)
        sections.append(_Section(kind=fields[1], offset=fields[4], size=fields[5], link=fields[6]))
    return sections


def _symbols(data: bytes, sections: list[_Section]) -> Iterator[_Symbol]:
    for section in sections:
        if section.kind == _SHT_DYNSYM:
            names = sections[section.link].offset
            for at in range(section.offset, section.offset + section.size - 23, 24):
                name, info, _, where, _, _ = struct.unpack_from("<IBBHQQ", data, at)
                yield _Symbol(_text(data, names + name), info >> 4, info & 15, where != 0)


def _version_numbers(data: bytes, sections: list[_Section]) -> tuple[int, ...]:
    for section in sections:
        if section.kind == _SHT_VERSYM:
            return struct.unpack_from(f"<{section.size // 2}H", data, section.offset)
    return ()


def _versions_needed(data: bytes, sections: list[_Section]) -> dict[int, tuple[str, str]]:
    """Return version and library by the number that symbols have for them."""
    versions: dict[int, tuple[str, str]] = {}
    for section in sections:
        if section.kind != _SHT_VERNEED:
            continue
        names, library_at, further = sections[section.link].offset, section.offset, 1
        while further:
            _, count, file, first, further = struct.unpack_from("<HHIII", data, library_at)
            at = library_at + first
            for _ in range(count):
                _, _, number, name, step = struct.unpack_from("<IHHII", data, at)
                versions[number] = (_text(data, names + name), _text(data, names + file))
                at += step
            library_at += further
    return versions


def _copied_symbols(data: bytes, sections: list[_Section]) -> frozenset[int]:
    copy = _PROCESSORS[machine(data)].copy
    return frozenset(
        info >> 32
        for section in sections
        if section.kind == _SHT_RELA
        for _, info, _ in struct.iter_unpack("<QQq", data[section.offset : section.offset + section.size])
        if info & 0xFFFFFFFF == copy
    )


def stand_in(processor: int, soname: str, functions: Iterable[tuple[str, str]]) -> bytes:
    """Return a shared library with these functions (name and version, which may be empty).

    Each writes its name to standard error and ends the process with ABSENT_STATUS, by system calls alone: it needs no
    other library, and the program's own exit handlers do not run.

    Raises:
        ValueError: the processor is not one of our targets'.
    """
    pairs = sorted(set(functions))
    versions = {name: number for number, name in enumerate(sorted({version for _, version in pairs if version}), 2)}
    strings = _Strings()
    strings.add(soname)
    code, entries = _code(processor, [name for name, _ in pairs])
    hash_table = _hash_table([name for name, _ in pairs])
    numbers = struct.pack(f"<{len(pairs) + 1}H", 0, *(versions.get(version, 1) for _, version in pairs))
    definitions = _version_definitions(soname, versions, strings)
    places = [(strings.add(name), entry) for (name, _), entry in zip(pairs, entries, strict=True)]
    body, at = bytearray(64 + 4 * 56), []
    for part in (hash_table, numbers, definitions, bytes(strings.data), code):
        body += bytes(-len(body) % 16)
        at.append(len(body))
        body += part
    body += bytes(-len(body) % 16)
    symbols = bytes(24) + b"".join(
        struct.pack("<IBBHQQ", name, _STB_GLOBAL << 4 | _STT_FUNC, 0, 1, at[4] + entry, 0) for name, entry in places
    )
    tags = {_DT_SONAME: strings.add(soname), _DT_HASH: at[0], _DT_STRTAB: at[3], _DT_STRSZ: len(strings.data)}
    tags |= {_DT_SYMTAB: len(body), _DT_SYMENT: 24, _DT_VERSYM: at[1], _DT_VERDEF: at[2]}
    tags |= {_DT_VERDEFNUM: len(versions) + 1}
    dynamic = b"".join(struct.pack("<qQ", tag, value) for tag, value in (*tags.items(), (0, 0)))
    body += symbols + bytes(-len(symbols) % 16)
    body[: 64 + 4 * 56] = _headers(processor, len(body), len(dynamic))
    return bytes(body) + dynamic


class _Strings:
    """A table of texts that end with a zero byte."""

    def __init__(self) -> None:
        self.data = bytearray(1)
        self._known: dict[str, int] = {}

    def add(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = len(self.data)
            self.data += text.encode("ascii") + b"\0"
        return self._known[text]


def _headers(processor: int, size: int, dynamic: int) -> bytes:
    # The dynamic section lies on a page of its own because the dynamic linker may write to it.
    segments = (
        (_PT_LOAD, 5, 0, 0, size, _PAGE),
        (_PT_LOAD, 6, size, size + _PAGE, dynamic, _PAGE),
        (_PT_DYNAMIC, 6, size, size + _PAGE, dynamic, 8),
        (_PT_GNU_STACK, 6, 0, 0, 0, 16),  # without it the whole program would get a stack that can be executed
    )
    table = b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, offset, address, address, length, length, align)
        for kind, flags, offset, address, length, align in segments
    )
    flags = _PROCESSORS[processor].flags
    fields = struct.pack("<HHIQQQIHHHHHH", 3, processor, 1, 0, 64, 0, flags, 64, 56, len(segments), 64, 0, 0)
    return _MAGIC_64_LITTLE + b"\x01" + bytes(9) + fields + table


def _code(processor: int, names: list[str]) -> tuple[bytes, list[int]]:
    """Return the functions' code, with the common end and the messages behind it, and where each function begins."""
    if processor not in _PROCESSORS:
        raise ValueError(f"no stand-in for the ELF processor {processor}")
    kind = _PROCESSORS[processor]
    common = kind.step * len(names)
    code, messages = bytearray(), bytearray()
    for number, name in enumerate(names):
        message = f"{name}: the library of this function is not in this image\n".encode("ascii")
        here, text = number * kind.step, common + len(kind.end) + len(messages)
        code += kind.function(text - here, len(message), common - here)
        messages += message
    return bytes(code) + kind.end + bytes(messages), [number * kind.step for number in range(len(names))]


def _x86_64_function(text: int, length: int, end: int) -> bytes:
    # lea rsi, text; mov edx, length; jmp end
    load = b"\x48\x8d\x35" + struct.pack("<i", text - 7)
    return load + b"\xba" + struct.pack("<I", length) + b"\xe9" + struct.pack("<i", end - 17)


def _aarch64_function(text: int, length: int, end: int) -> bytes:
    # adr x1, text; mov w2, length; b end
    load = 0x10000001 | (text & 3) << 29 | (text >> 2) << 5
    return struct.pack("<III", load, 0x52800002 | length << 5, 0x14000000 | (end - 8) >> 2)


def _riscv_function(text: int, length: int, end: int) -> bytes:
    # auipc a1, high; addi a1, a1, low; addi a2, zero, length; j end
    high = (text + 0x800) >> 12
    jump = end - 12
    bits = (jump >> 20 & 1) << 31 | (jump >> 1 & 0x3FF) << 21 | (jump >> 11 & 1) << 20 | (jump >> 12 & 0xFF) << 12
    load = struct.pack("<II", 0x00000597 | (high & 0xFFFFF) << 12, 0x00058593 | (text - (high << 12) & 0xFFF) << 20)
    return load + struct.pack("<II", 0x00000613 | length << 20, 0x0000006F | bits)


@dataclass(frozen=True, slots=True)
class _Processor:
    """What a stand-in is made of.

    Attributes:
        copy: the relocation that copies a library's data into the program.
        step: bytes of each function.
        function: makes its code: it has the message's address and length where write(2) wants them, and jumps to the
            end. Takes the distances from its begin to the message and to the end, and the message's length.
        flags: `e_flags`: without that of its ABI the dynamic linker takes a library for another machine's.
        end: write(2, text, length); exit_group(ABSENT_STATUS); an instruction that faults.
    """

    copy: int
    step: int
    function: Callable[[int, int, int], bytes]
    end: bytes
    flags: int = 0


_X86_64_END = struct.pack(
    "<BIBI2sBIBI2s2s", 0xBF, 2, 0xB8, 1, b"\x0f\x05", 0xBF, ABSENT_STATUS, 0xB8, 231, b"\x0f\x05", b"\x0f\x0b"
)
_AARCH64_END = struct.pack(
    "<7I", *(0x52800000 | 2 << 5, 0x52800008 | 64 << 5, 0xD4000001),
    *(0x52800000 | ABSENT_STATUS << 5, 0x52800008 | 94 << 5, 0xD4000001, 0),
)  # fmt: skip
# li a0, 2; li a7, 64; ecall; li a0, ABSENT_STATUS; li a7, 94; ecall; no instruction at all
_RISCV_END = struct.pack(
    "<7I", *(0x00000513 | 2 << 20, 0x00000893 | 64 << 20, 0x00000073),
    *(0x00000513 | ABSENT_STATUS << 20, 0x00000893 | 94 << 20, 0x00000073, 0),
)  # fmt: skip
_RISCV_DOUBLE_FLOAT = 4  # EF_RISCV_FLOAT_ABI_DOUBLE
_PROCESSORS = {
    ARCHES["x86_64"].elf: _Processor(copy=5, step=17, function=_x86_64_function, end=_X86_64_END),
    ARCHES["arm64"].elf: _Processor(copy=1024, step=12, function=_aarch64_function, end=_AARCH64_END),
    ARCHES["riscv64"].elf: _Processor(
        copy=4, step=16, function=_riscv_function, end=_RISCV_END, flags=_RISCV_DOUBLE_FLOAT
    ),
}


def _hash_table(names: list[str]) -> bytes:
    count = max(1, len(names))
    buckets, chains = [0] * count, [0] * (len(names) + 1)
    for number, name in enumerate(names, 1):
        bucket = _hash(name) % count
        chains[number], buckets[bucket] = buckets[bucket], number
    return struct.pack(f"<{2 + count + len(chains)}I", count, len(chains), *buckets, *chains)


def _version_definitions(soname: str, versions: Mapping[str, int], strings: _Strings) -> bytes:
    # The first, which names the library itself, is the base that unversioned symbols belong to.
    rows = [(soname, 1, 1), *((name, number, 0) for name, number in versions.items())]
    return b"".join(
        struct.pack("<HHHHIII", 1, flags, number, 1, _hash(name), 20, 0 if number == len(rows) else 28)
        + struct.pack("<II", strings.add(name), 0)
        for name, number, flags in rows
    )


def _hash(name: str) -> int:
    value = 0
    for byte in name.encode("ascii"):
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value
