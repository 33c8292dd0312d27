# SPDX-License-Identifier: MIT
"""ELF files, by pyelftools: what it raises where a file is damaged is an error of ours here, whatever it is."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from elftools.common.exceptions import DWARFError, ELFError
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_E_MACHINE

from rtgate.errors import ConfigError

__all__ = ["DWARFInfo", "DamagedElfError", "ELFFile", "machine", "open_elf", "read_elf"]

# Sizes and places come from the file, and may be more than memory has. pyelftools checks some, and asserts others.
_DAMAGE = (
    *(ELFError, DWARFError, struct.error, zlib.error),
    *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError),
    *(OSError, RecursionError, TypeError, ValueError),
)


class DamagedElfError(ConfigError):
    """A file is not an ELF file, or is damaged: make it again."""


@contextmanager
def open_elf(path: Path, damage: str) -> Iterator[ELFFile]:
    """Yield an ELF file, to be read within the block. Raises as `read_elf`, and ConfigError: it cannot be opened."""
    try:
        stream = path.open("rb")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    with stream, read_elf(stream, f"{path}: {damage}") as elf:
        yield elf


@contextmanager
def read_elf(stream: BinaryIO, damage: str) -> Iterator[ELFFile]:
    """Yield an ELF file, to be read within the block.

    Args:
        stream: its bytes.
        damage: what is wrong, and with what, if it cannot be read.

    Raises:
        DamagedElfError: it cannot be read, or what is in it.
    """
    try:
        yield ELFFile(stream)
    except _DAMAGE as error:
        raise DamagedElfError(f"{damage}: {str(error) or type(error).__name__}") from error


def machine(elf: ELFFile) -> int:
    """Return the number of the architecture (elf(5), e_machine)."""
    name = elf["e_machine"]
    return int(ENUM_E_MACHINE.get(name, name))
