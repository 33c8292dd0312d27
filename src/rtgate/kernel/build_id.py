# SPDX-License-Identifier: MIT
"""The GNU build id of a kernel: the linker's digest of what it linked, which the running kernel tells again.

It is a note (elf(5), NT_GNU_BUILD_ID) in the section `.notes` of vmlinux, which /sys/kernel/notes shows as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from rtgate.errors import ConfigError
from rtgate.kernel.elf import DamagedElfError, open_elf

_NOTE = struct.Struct("<III")  # Elf64_Nhdr: size of the name, size of the content, type
_GNU, _BUILD_ID, _SHA1 = b"GNU\0", 3, 20  # the linker's --build-id=sha1, as the kernel's Makefile asks for
_START = _NOTE.pack(len(_GNU), _SHA1, _BUILD_ID) + _GNU
# Where a file's table of sections is, its entries' size and number, by the class of an ELF file (elf(5)).
_ELF = {b"\x7fELF\x01\x01": (0x20, "<I", 0x2E), b"\x7fELF\x02\x01": (0x28, "<Q", 0x3A)}


def in_notes(data: bytes) -> str:
    """Return the build id of a section of notes, or of /sys/kernel/notes, in hexadecimal; empty without one."""
    at = 0
    while at + _NOTE.size <= len(data):
        name, size, kind = _NOTE.unpack_from(data, at)
        content = at + _NOTE.size + _align(name)
        if kind == _BUILD_ID and data[at + _NOTE.size :][: len(_GNU)] == _GNU and name == len(_GNU):
            return data[content : content + size].hex() if size == len(data[content : content + size]) else ""
        at = content + _align(size)
    return ""


def of_kernel(image: Path, vmlinux: Path | None) -> str:
    """Return the build id of a kernel, by its vmlinux or by its image; empty where neither shows it for certain.

    arm64's `Image` holds its notes as they are; what is compressed, as x86's `bzImage`, shows none.

    Raises:
        ConfigError: a file cannot be read.
    """
    if vmlinux:
        return _in_elf(vmlinux)
    try:
        return _in_image(image.read_bytes())
    except OSError as error:
        raise ConfigError(f"{image}: cannot be read: {error.strerror}") from error


def _in_elf(path: Path) -> str:
    try:
        with open_elf(path, "damaged") as elf:
            sections = elf.iter_sections("SHT_NOTE")
            return next((build_id for section in sections if (build_id := in_notes(section.data()))), "")
    except DamagedElfError:
        return ""


def _in_image(data: bytes) -> str:
    """Return the only build id outside the ELF files that an image holds, as its vDSOs; empty for none or several."""
    inner = list(_elf_files(data))
    build_ids = {
        data[at + len(_START) : at + len(_START) + _SHA1].hex()
        for at in _places(data, _START)
        if not any(start <= at < end for start, end in inner)
    }
    return build_ids.pop() if len(build_ids) == 1 else ""


def _elf_files(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield from where to where the ELF files in an image reach: to the end of their tables of sections."""
    for magic, (table, kind, entry) in _ELF.items():
        for start in _places(data, magic):
            if start + 0x40 <= len(data):
                (offset,) = struct.unpack_from(kind, data, start + table)
                size, number = struct.unpack_from("<HH", data, start + entry)
                yield start, start + offset + size * number


def _places(data: bytes, pattern: bytes) -> Iterator[int]:
    at = data.find(pattern)
    while at >= 0:
        yield at
        at = data.find(pattern, at + 1)


def _align(size: int) -> int:
    return (size + 3) & ~3
