# SPDX-License-Identifier: MIT
"""The kernel's ELF file `vmlinux`: its sections and its symbols. It needs no debug information."""

from __future__ import annotations

import bisect
import functools
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from rtgate.arches import ARCHES
from rtgate.errors import ConfigError
from rtgate.kernel.elf import ELFFile, machine, open_elf

_ARCHES = {arch.elf: name for name, arch in ARCHES.items() if arch.code}
CALL = 4
"""A return address less this lies in the function that has called."""
_SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym
_NOTYPE, _OBJECT, _FUNC, _FILE = 0, 1, 2, 4
# Marks between code and data (arm64), and labels of the assembler.
_NO_NAME = re.compile(r"\$[dx](?:\.|$)|\.L|__pfx_|__cfi_|__UNIQUE_ID|__pi_\$")
# What GCC adds to the name of a function that it changed, and the numbers of static variables in functions.
_SUFFIX = re.compile(r"\.(?:isra|constprop|part|cold|lto_priv)(?:\.\d+)?|\.\d+")


@dataclass(frozen=True, slots=True)
class Section:
    """One section that is loaded: `data` is empty for memory that starts as zeros."""

    name: str
    address: int
    size: int
    data: bytes
    code: bool
    writable: bool


@dataclass(frozen=True, slots=True)
class Symbol:
    """One symbol: `file` is the source's name as the compiler noted it, empty for a global one."""

    name: str
    address: int
    size: int
    function: bool
    data: bool
    local: bool
    file: str
    section: int


@functools.lru_cache(1 << 18)
def plain_name(name: str) -> str:
    """Return a symbol's name as it stands in the source, without what the compiler added."""
    return _SUFFIX.sub("", name)


class Vmlinux:
    """One `vmlinux`.

    Attributes:
        arch: our name of it, one of `ARCHES`.
        sections: those that are loaded, by number in the file.
        symbols: every symbol within them, by address.
    """

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            ConfigError: it is missing, damaged, of another architecture, or has no symbols.
        """
        with open_elf(path, "not a kernel's ELF file, or damaged") as elf:
            self._read(elf, path)

    def _read(self, elf: ELFFile, path: Path) -> None:
        number = machine(elf)
        if number not in _ARCHES or elf.elfclass != 64:
            raise ConfigError(
                f"{path}: is for {elf['e_machine']}: traces, critical sections and changed functions are read for "
                f"{' and '.join(_ARCHES.values())} only"
            )
        self.arch = _ARCHES[number]
        self.sections: dict[int, Section] = {}
        for number, section in enumerate(elf.iter_sections()):
            flags = section["sh_flags"]
            if flags & 2:
                data = section.data() if section["sh_type"] != "SHT_NOBITS" else b""
                self.sections[number] = Section(
                    section.name, section["sh_addr"], section["sh_size"], data, bool(flags & 4), bool(flags & 1)
                )
        table = elf.get_section_by_name(".symtab")
        names = elf.get_section_by_name(".strtab")
        if table is None or names is None:
            raise ConfigError(f"{path}: has no symbols (it was stripped)")
        self._index(self._symbols(table.data(), names.data()))

    def _index(self, symbols: Iterable[Symbol]) -> None:
        self.symbols = tuple(sorted(symbols, key=_rank))
        self._preferred = _one_each(self.symbols)
        self._starts = [symbol.address for symbol in self._preferred]
        self._code = [symbol for symbol in self._preferred if self.sections[symbol.section].code]
        self._codes = [symbol.address for symbol in self._code]

    def with_names(self, names: Mapping[str, str]) -> Vmlinux:
        """Return the same kernel with other names: the new ones by the old ones, without what the compiler added."""
        return self._with_symbols(_with_name(symbol, names) for symbol in self.symbols) if names else self

    def function_names(self, names: Mapping[str, str]) -> dict[str, str]:
        """Return what `function_at` says with other names, by what it says now, where that is something else.

        Of an address with several names it says one, and with other names another one may come first.
        """
        if not names:
            return {}
        renamed = self.with_names(names)
        both = ((plain_name(symbol.name), renamed.function_at(symbol.address)) for symbol in self._code)
        return {old: new for old, new in both if old != new}

    def with_files(self) -> Vmlinux:
        """Return the same kernel with the file in the name of each static symbol: several files have one of a name."""
        return self._with_symbols(
            replace(symbol, name=f"{plain_name(symbol.name)}@{symbol.file}") if symbol.file else symbol
            for symbol in self.symbols
        )

    def _with_symbols(self, symbols: Iterable[Symbol]) -> Vmlinux:
        kernel = object.__new__(Vmlinux)
        kernel.arch, kernel.sections = self.arch, self.sections
        kernel._index(symbols)
        return kernel

    def _symbols(self, table: bytes, names: bytes) -> Iterator[Symbol]:
        file = ""
        for name_at, info, _, section, address, size in _SYMBOL.iter_unpack(table):
            kind, local = info & 15, info >> 4 == 0
            if kind != _FILE and section not in self.sections:
                continue
            name = names[name_at : names.index(b"\0", name_at)].decode()
            if kind == _FILE:
                file = name
            elif kind in {_NOTYPE, _OBJECT, _FUNC} and name and not _NO_NAME.match(name):
                yield Symbol(name, address, size, kind == _FUNC, kind == _OBJECT, local, file if local else "", section)

    def function_at(self, address: int) -> str:
        """Return the name of the code at an address as the source has it; the address itself if nothing is known."""
        place = bisect.bisect_right(self._codes, address) - 1
        if place >= 0:
            section = self.sections[self._code[place].section]
            if address < section.address + section.size:
                return plain_name(self._code[place].name)
        return f"{address:#x}"

    def starts_of(self, names: Collection[str]) -> tuple[int, ...]:
        """Return where functions of these names start; without cold parts, which are jumped to and not called."""
        functions = (symbol for symbol in self.symbols if symbol.function and ".cold" not in symbol.name)
        return tuple(sorted({symbol.address for symbol in functions if plain_name(symbol.name) in names}))

    def address_of(self, name: str) -> int | None:
        """Return where a function starts, or None."""
        return self._by_name.get(name)

    @functools.cached_property
    def _by_name(self) -> dict[str, int]:
        return {symbol.name: symbol.address for symbol in reversed(self.symbols)}

    def resolve(self, address: int) -> tuple[Symbol, int] | None:
        """Return the symbol that an address belongs to, and the offset in it; None if it belongs to none."""
        place = bisect.bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        symbol = self._preferred[place]
        offset = address - symbol.address
        return (symbol, offset) if offset < symbol.size or offset == 0 else None

    def marks_at(self, address: int) -> frozenset[str]:
        """Return the names that the linker or assembler gave an address: symbols that are no function and no data."""
        return self._marks_at.get(address, frozenset())

    @functools.cached_property
    def _marks_at(self) -> dict[int, frozenset[str]]:
        marks = (symbol for symbol in self.symbols if not (symbol.function or symbol.data))
        return {
            address: frozenset(plain_name(symbol.name) for symbol in there)
            for address, there in groupby(marks, key=lambda symbol: symbol.address)
        }

    def section_at(self, address: int) -> Section | None:
        """Return the section that an address lies in."""
        return next((s for s in self.sections.values() if s.address <= address < s.address + s.size), None)

    def bytes_at(self, address: int, size: int) -> bytes:
        """Return bytes of memory as they are before the kernel starts; fewer at the end of a section."""
        section = self.section_at(address)
        if section is None:
            return b""
        start = address - section.address
        return section.data[start : start + size] if section.data else bytes(min(size, section.size - start))


def _with_name(symbol: Symbol, names: Mapping[str, str]) -> Symbol:
    """Return the symbol with the name that stands for its own, if there is one; what the compiler added stays."""
    old = plain_name(symbol.name)
    return replace(symbol, name=names[old] + symbol.name.removeprefix(old)) if old in names else symbol


def _rank(symbol: Symbol) -> tuple[int, bool, bool, bool, str]:
    """Return what orders symbols: by address, and of those at one address the one that names it best first."""
    return (symbol.address, not (symbol.function or symbol.data), symbol.size == 0, symbol.local, symbol.name)


def _one_each(symbols: tuple[Symbol, ...]) -> list[Symbol]:
    firsts: list[Symbol] = []
    for symbol in symbols:
        if not firsts or firsts[-1].address != symbol.address:
            firsts.append(symbol)
    return firsts
