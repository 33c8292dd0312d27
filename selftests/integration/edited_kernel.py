# SPDX-License-Identifier: MIT
"""A kernel that differs from another in one instruction, which does the same: nothing is built for it."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

from elftools.elf.elffile import ELFFile

from rtgate.kernel.vmlinux import Vmlinux

_MOVE, _MOVE_MASK = 0xAA0003E0, 0xFFE0FFE0  # mov xD, xM: orr xD, xzr, xM
_ADD = 0x91000000  # add xD, xM, #0
_STACK = 31  # a register of this number is the stack pointer to `add`, and zero to `mov`


def with_another_move(kernel: Path, output: Path, function: str) -> Path:
    """Copy an arm64 kernel whose function moves a register by `add` with 0, where it first does so by `mov`."""
    shutil.copytree(kernel, output)
    (output / "build.json").unlink()  # it has the digest of another image
    elf = Vmlinux(kernel / "vmlinux")
    start, base = elf.address_of(function), elf.address_of("_text")
    assert start is not None
    assert base is not None
    words = [word for (word,) in struct.iter_unpack("<I", elf.bytes_at(start, 64))]
    number, move = next((n, word) for n, word in enumerate(words) if _is_move(word))
    address, add = start + 4 * number, _ADD | (move >> 16 & 31) << 5 | move & 31
    for path, place in ((output / "vmlinux", _offset(kernel / "vmlinux", address)), (output / "Image", address - base)):
        content = bytearray(path.read_bytes())
        assert content[place : place + 4] == struct.pack("<I", move)
        content[place : place + 4] = struct.pack("<I", add)
        path.write_bytes(content)
    return output


def _is_move(word: int) -> bool:
    return word & _MOVE_MASK == _MOVE and _STACK not in {word & 31, word >> 16 & 31}


def _offset(path: Path, address: int) -> int:
    """Return where the instruction at an address lies in an ELF file."""
    with path.open("rb") as stream:
        (offset,) = ELFFile(stream).address_offsets(address)
    return int(offset)
