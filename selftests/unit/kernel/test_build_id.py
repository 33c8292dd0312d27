# SPDX-License-Identifier: MIT
"""The build id of a kernel, in its notes, its vmlinux and its image."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.kernel.build_id import in_notes, of_kernel

# /sys/kernel/notes of Debian 12's 6.12.117 in QEMU begins with notes of Xen's and Linux's own kinds.
ID, OTHER = bytes(range(20)), bytes(range(20, 40))


def note(name: bytes, kind: int, content: bytes) -> bytes:
    pad = -len(name) % 4, -len(content) % 4
    return struct.pack("<III", len(name), len(content), kind) + name + bytes(pad[0]) + content + bytes(pad[1])


def vdso(build_id: bytes) -> bytes:
    """Return what looks like an ELF file of 64 bits that holds a build id before its table of two sections."""
    content = note(b"GNU\0", 3, build_id)
    head = bytearray(0x40)
    head[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", head, 0x28, 0x40 + len(content))
    struct.pack_into("<HH", head, 0x3A, 0x40, 2)
    return bytes(head) + content + bytes(0x80)


def test_a_build_id_is_found_among_other_notes() -> None:
    notes = (
        note(b"Xen\0", 6, b"linux\0") + note(b"Linux\0", 0x101, b"\0") + note(b"GNU\0", 3, ID) + note(b"A\0", 1, b"")
    )
    assert in_notes(notes) == ID.hex()


@pytest.mark.parametrize(
    "notes", [b"", b"short", note(b"Xen\0", 3, ID), note(b"GNU\0", 1, ID), note(b"GNU\0", 3, ID)[:-1], b"\xff" * 64]
)
def test_notes_without_a_build_id_tell_none(notes: bytes) -> None:
    assert in_notes(notes) == ""


def test_an_image_shows_the_kernel_s_build_id_and_not_its_vdso_s(tmp_path: Path) -> None:
    image = tmp_path / "Image"
    image.write_bytes(bytes(100) + vdso(OTHER) + bytes(52) + note(b"GNU\0", 3, ID) + bytes(100) + vdso(OTHER))
    assert of_kernel(image, None) == ID.hex()


@pytest.mark.parametrize("content", [b"compressed", vdso(ID), note(b"GNU\0", 3, ID) + note(b"GNU\0", 3, OTHER)])
def test_an_image_that_shows_none_or_several_tells_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "Image").write_bytes(content)
    assert of_kernel(tmp_path / "Image", None) == ""


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Image: cannot be read"):
        of_kernel(tmp_path / "Image", None)


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_an_elf_file_tells_the_build_id_that_its_linker_made(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    vmlinux = tmp_path / "vmlinux"
    subprocess.run(["gcc", "-Wl,--build-id=0x" + ID.hex(), "-o", vmlinux, tmp_path / "a.c"], check=True)
    assert of_kernel(tmp_path / "Image", vmlinux) == ID.hex()
    (tmp_path / "vmlinux").write_bytes(b"no ELF file")
    assert of_kernel(tmp_path / "Image", vmlinux) == ""
