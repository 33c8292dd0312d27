# SPDX-License-Identifier: MIT
"""What the plugin writes about blocks of x86 instructions, whose lengths differ; without a kernel."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rtgate.explain import plugin, trace
from rtgate.explain.trace import TraceRequest
from rtgate.target.qemu import version

_FETCHED = pytest.mark.long("another QEMU is fetched and unpacked")
# A boot sector. It copies a loop to 0x8ff5, where the sixth byte of `movl` is in the next page, and runs it nine times.
LOOP, ROUNDS = 0x8FF5, 9
SECTOR = f"""
.code16
cli; xorw %ax, %ax; movw %ax, %ds; movw %ax, %es; cld
movw $1f, %si; movw ${LOOP}, %di; movw $64, %cx; rep movsb
movw ${ROUNDS}, %bx
ljmp $0, ${LOOP}
1: .skip 9, 0x90
movl $0x12345678, %eax
decw %bx
jnz 1b
outb %al, $0xf4
.org 510; .byte 0x55, 0xaa
"""


@pytest.mark.parametrize(
    "qemu", ["", pytest.param("trixie", marks=_FETCHED), pytest.param("sid", marks=_FETCHED)], indirect=True
)
@pytest.mark.usefixtures("qemu")
def test_an_instruction_that_crosses_into_another_page_belongs_to_one_block(tmp_path: Path) -> None:
    (tmp_path / "a.s").write_text(SECTOR)
    (tmp_path / "order").write_text(TraceRequest(slice_bits=40).text())
    link = ["ld", "-m", "elf_i386", "-Ttext=0x7c00", "--oformat=binary", "-e", "0", "-o", "sector", "a.o"]
    for command in (["as", "--32", "-o", "a.o", "a.s"], link):
        subprocess.run(command, cwd=tmp_path, check=True)
    machine = ["-M", "pc", "-display", "none", "-icount", "shift=3,sleep=off", "-device", "isa-debug-exit,iobase=0xf4"]
    drive = ["-drive", f"format=raw,if=floppy,file={tmp_path / 'sector'}"]
    traced = [
        "-plugin",
        f"{plugin.library(version('qemu-system-x86_64'))},order={tmp_path / 'order'},into={tmp_path / 'trace'}",
    ]
    done = subprocess.run(["qemu-system-x86_64", *machine, *drive, *traced], timeout=120, check=False)
    assert done.returncode & 1  # isa-debug-exit
    found = trace.read(tmp_path / "trace")
    at = {block.address: (number, block) for number, block in found.blocks.items()}
    counts = {int(count["block"]): int(count["instructions"]) for count in found.counts}
    number, nops = at[LOOP]
    assert (nops.instructions, nops.size, nops.last, counts[number]) == (9, 9, b"\x90", 9 * ROUNDS)
    number, across = at[LOOP + 9]
    assert (across.instructions, across.size, counts[number]) == (1, 6, ROUNDS)
