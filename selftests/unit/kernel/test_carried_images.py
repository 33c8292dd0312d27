# SPDX-License-Identifier: MIT
"""Images that a kernel carries as they are: nothing but two marks without a size says where they lie."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

import pytest

from rtgate.kernel.carried_images import carried_images
from rtgate.kernel.differing import differing
from rtgate.kernel.vmlinux import Vmlinux

from .linked import COMPILERS, kernel

ARCHES = pytest.mark.parametrize("arch", ["arm64", "x86_64"])
CODE = "int clock_gettime(int x) { return x * 3; }"


def vdso(arch: str, path: Path, code: str = CODE, build_id: str = "11223344") -> Path:
    """Link a shared object as a kernel's Makefile links its vDSO."""
    compiler = shutil.which(COMPILERS[arch])
    if compiler is None:
        pytest.skip(f"no {COMPILERS[arch]}")
    path.with_suffix(".c").write_text(code)
    options = ("-O2", "-nostdlib", "-shared", "-fPIC", "-s", f"-Wl,--build-id=0x{build_id}")
    subprocess.run([compiler, *options, "-o", path, path.with_suffix(".c")], check=True)
    return path


def carrying(arch: str, directory: Path, name: str, image: Path, marks: tuple[str, str], *, first: str = "") -> Vmlinux:
    begin, end = marks
    lines = (".section .rodata", ".balign 4096", ".global {0}, {1}", "{0}:", f'.incbin \\"{image}\\"', "{1}:")
    text = "".join(f'"{line}\\n"' for line in lines).format(begin, end)
    return kernel(arch, directory, name, a=f"{first} asm({text});", b="int f(int x) { return x * 7; }")


@ARCHES
@pytest.mark.parametrize("bits", ["", "32"])
def test_another_vdso_is_a_difference_and_another_build_id_is_none(arch: str, bits: str, tmp_path: Path) -> None:
    marks = f"vdso{bits}_start", f"vdso{bits}_end"
    images = (
        vdso(arch, tmp_path / "one.so"),
        vdso(arch, tmp_path / "same.so", build_id="55667788"),
        vdso(arch, tmp_path / "other.so", CODE.replace("3", "5")),
    )
    assert images[0].read_bytes() != images[1].read_bytes()
    one, same, other = (carrying(arch, tmp_path, image.stem, image, marks) for image in images)
    moved = carrying(arch, tmp_path, "moved", images[0], marks, first="const int more[5000] = {7};")
    assert differing(one, same).data == ()
    assert differing(one, moved).data == ("more",)
    differences = differing(one, other)
    assert differences.functions == frozenset()
    assert differences.data == ("the vDSO of 32 bits" if bits else "the vDSO",)


def test_the_array_that_x86_has_of_its_vdso_is_compared_alike(tmp_path: Path) -> None:
    def with_array(name: str, image: Path) -> Vmlinux:
        numbers = ", ".join(map(str, image.read_bytes()))
        use = "int look(int at) { return raw_data[at]; }"
        place = tmp_path / f"{name}-vdso"
        place.mkdir()
        text = f"static unsigned char raw_data[] __attribute__((aligned(4096))) = {{{numbers}}};"
        return kernel("x86_64", place, name, **{"vdso-image-64": f"{text} {use}"})

    one, same, other = (
        with_array(path.stem, path)
        for path in (
            vdso("x86_64", tmp_path / "one.so"),
            vdso("x86_64", tmp_path / "same.so", build_id="55667788"),
            vdso("x86_64", tmp_path / "other.so", CODE.replace("3", "5")),
        )
    )
    assert differing(one, same).data == ()
    assert differing(one, other).data == ("the vDSO of vdso-image-64.c",)


def archive(content: bytes, time: int) -> bytes:
    """Return an archive of one file as usr/gen_init_cpio.c writes it."""
    numbers = (721, 0o100644, 0, 0, 1, time, len(content), 3, 1, 0, 0, 5, 0)
    return b"070701" + b"".join(b"%08X" % number for number in numbers) + b"init\0\0" + content


@ARCHES
def test_another_initramfs_is_a_difference_and_another_time_is_none(arch: str, tmp_path: Path) -> None:
    contents = {
        "one": archive(b"#!/bin/sh\n", 1_000_000_000),
        "same": archive(b"#!/bin/sh\n", 1_700_000_000),
        "other": archive(b"#!/bin/ash", 1_000_000_000),
        "packed": gzip.compress(archive(b"#!/bin/sh\n", 1_000_000_000), mtime=0),
    }
    for name, content in contents.items():
        (tmp_path / f"{name}.cpio").write_bytes(content)
    one, same, other, packed = (
        carrying(arch, tmp_path, name, tmp_path / f"{name}.cpio", ("__irf_start", "__irf_end")) for name in contents
    )
    assert differing(one, same).data == ()
    assert differing(one, other).data == differing(one, packed).data == ("the built-in initramfs",)
    assert differing(packed, packed).data == ()


def test_a_device_tree_has_its_name_and_one_that_is_new_is_a_difference(tmp_path: Path) -> None:
    (tmp_path / "board.dtb").write_bytes(b"\xd0\r\xfe\xed tree")
    marks = "__dtb_board_begin", "__dtb_board_end"
    with_tree = carrying("arm64", tmp_path, "tree", tmp_path / "board.dtb", marks)
    without = kernel("arm64", tmp_path, "none", b="int f(int x) { return x * 7; }")
    assert carried_images(without) == {}
    assert carried_images(with_tree) == {"the device tree dtb_board": b"\xd0\r\xfe\xed tree"}
    assert differing(without, with_tree).data == ("the device tree dtb_board",)
