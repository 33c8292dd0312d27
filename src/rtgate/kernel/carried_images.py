# SPDX-License-Identifier: MIT
"""Files that a kernel carries as they are, between two marks: vDSOs, device trees, and the initramfs built in."""

from __future__ import annotations

import io
import re
from collections.abc import Hashable, Iterator

from rtgate.kernel.elf import DamagedElfError, read_elf
from rtgate.kernel.vmlinux import Symbol, Vmlinux

# The mark at the begin, what the end is called in place of it, and the image in words.
_MARKS = (
    (re.compile(r"vdso_start"), "vdso_end", "the vDSO"),
    (re.compile(r"vdso32_start"), "vdso32_end", "the vDSO of 32 bits"),
    (re.compile(r"__irf_start"), "__irf_end", "the built-in initramfs"),
    (re.compile(r"__(dtbo?_\w+)_begin"), r"__\1_end", r"the device tree \1"),
)
_ALLOCATED = 2  # SHF_ALLOC
# A header of an archive (usr/gen_init_cpio.c): its time is the sixth number after the magic one.
_TIME = re.compile(rb"(07070[12][0-9A-Fa-f]{40})[0-9A-Fa-f]{8}")


def is_vdso(symbol: Symbol) -> bool:
    """Return whether a variable is a vDSO: x86 has an array of bytes."""
    return symbol.name == "raw_data" and symbol.file.startswith("vdso")


def carried_images(kernel: Vmlinux) -> dict[str, Hashable]:
    """Return what the images of a kernel hold, by what each is, in words.

    What only says who built it is left out: the notes of a vDSO (version and build id), the times of an archive that is
    not compressed.
    """
    return {name: _of_archive(data) if "initramfs" in name else _of_elf(data) for name, data in _images(kernel)}


def _images(kernel: Vmlinux) -> Iterator[tuple[str, bytes]]:
    for symbol in kernel.symbols:
        if is_vdso(symbol):
            yield f"the vDSO of {symbol.file}", kernel.bytes_at(symbol.address, symbol.size)
        for begin, end_name, words in _MARKS:
            match = begin.fullmatch(symbol.name)
            end = kernel.address_of(match.expand(end_name)) if match else None
            if match and end is not None and end > symbol.address:
                yield match.expand(words), kernel.bytes_at(symbol.address, end - symbol.address)


def _of_archive(data: bytes) -> bytes:
    return _TIME.sub(rb"\1", data)


def _of_elf(data: bytes) -> Hashable:
    """Return the sections of an ELF file that are loaded, without notes; what is not an ELF file as it is."""
    try:
        with read_elf(io.BytesIO(data), "not an ELF file") as elf:
            return tuple(
                (section.name, section["sh_addr"], section.data())
                for section in elf.iter_sections()
                if section["sh_flags"] & _ALLOCATED and section["sh_type"] != "SHT_NOTE"
            )
    except DamagedElfError:
        return data
