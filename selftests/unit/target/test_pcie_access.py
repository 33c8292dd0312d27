# SPDX-License-Identifier: MIT
"""The machine code of pcie-bar's loops: as many accesses as are counted, each of the width that is claimed."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from rtgate.rootfs import programs
from rtgate.rootfs.recipe import find

SOURCE = Path(__file__).resolve().parents[3] / "target" / "pcie" / "access.c"
OBJDUMP = {"arm64": "aarch64-linux-gnu-objdump", "x86_64": "x86_64-linux-gnu-objdump"}

_LINE = re.compile(r"^ *([0-9a-f]+):\t([0-9a-f ]+)\t([a-z0-9.]+)(?:[ \t]+(.*?))?(?:[ \t]*(?:// | # |<).*)?$")
_ARM_REGISTER = {"w": 32, "x": 64, "q": 128, "b": 8, "h": 16, "s": 32, "d": 64}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of a disassembly."""

    address: int
    code: bytes
    name: str
    operands: str


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store of an instruction: its width in bits, and the offset from its address register."""

    stores: bool
    width: int
    offset: int


@cache
def _functions(arch: str) -> dict[str, tuple[Instruction, ...]]:
    """Return the instructions of each function, of the object as programs are compiled for this architecture."""
    made = programs.compiler(arch)
    with tempfile.TemporaryDirectory() as work:
        out = Path(work) / "access.o"
        subprocess.run([made.path, *programs.COMPILE, "-c", SOURCE, "-o", out], check=True)
        text = subprocess.run([OBJDUMP[arch], "-d", "-w", out], check=True, capture_output=True, text=True).stdout
    blocks = re.findall(r"^[0-9a-f]+ <(\w+)>:\n((?: .*\n)+)", text, re.MULTILINE)
    return {name: tuple(_instructions(body, arch)) for name, body in blocks}


def _instructions(body: str, arch: str) -> Iterator[Instruction]:
    for line in body.splitlines():
        match = _LINE.match(line)
        assert match, line
        code = bytes.fromhex(match[2].replace(" ", ""))
        yield Instruction(
            int(match[1], 16), code[::-1] if arch == "arm64" else code, match[3], (match[4] or "").strip()
        )


def _loop(arch: str, function: str) -> tuple[Instruction, ...]:
    """Return the instructions of a function's only loop: from where a jump goes back to, to that jump."""
    lines = _functions(arch)[function]
    first = lines[0].address
    jumps = [
        (int(target[1], 16), one.address)
        for one in lines
        if one.name.startswith(("b.", "j", "cb", "tb")) or one.name == "b"
        if (target := re.search(r"(?:^|, *)([0-9a-f]+)$", one.operands)) and first <= int(target[1], 16) <= one.address
    ]
    assert len(jumps) == 1, f"{function} on {arch} has {len(jumps)} loops"
    [(start, end)] = jumps
    return tuple(one for one in lines if start <= one.address <= end)


def _accesses(arch: str, loop: tuple[Instruction, ...]) -> list[Access]:
    read = _arm_access if arch == "arm64" else _x86_access
    return [access for one in loop if (access := read(one))]


def _arm_access(one: Instruction) -> Access | None:
    if "[" not in one.operands:
        return None
    # Pairs (ldp, stp) and anything else that touches memory would be another access than what is counted.
    assert one.name in {"ldr", "str"}, one
    match = re.fullmatch(r"([a-z])[0-9]+, \[x[0-9]+(?:, #([0-9]+))?\](?:, #[0-9]+)?", one.operands)
    assert match, one
    return Access(one.name == "str", _ARM_REGISTER[match[1]], int(match[2] or 0))


def _x86_access(one: Instruction) -> Access | None:
    if "(" not in one.operands or one.name.startswith(("nop", "lea")):
        return None
    match = re.fullmatch(r"(?:%(\w+),)?(-?)(?:0x([0-9a-f]+))?\(%r\w+(?:,%r\w+,[1248])?\)(?:,%(\w+))?", one.operands)
    assert match, one
    register = match[1] or match[4]
    offset = int(f"{match[2]}{match[3] or '0'}", 16)
    width = 128 if register.startswith("xmm") else 32 if re.fullmatch(r"e\w+|r[0-9]+d", register) else 64
    assert one.name in ({"movdqa", "movaps"} if width == 128 else {"mov"}), one
    return Access(bool(match[1]), width, offset)


@pytest.mark.parametrize("arch", OBJDUMP)
@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("kind", ["store", "load"])
def test_a_round_of_a_loop_has_four_accesses_of_its_width_side_by_side(arch: str, width: int, kind: str) -> None:
    loop = _loop(arch, f"{kind}{width}")
    step = width // 8
    assert sorted(_accesses(arch, loop), key=lambda access: access.offset) == [
        Access(stores=kind == "store", width=width, offset=index * step) for index in range(4)
    ]
    if kind == "store":
        assert len(loop) == 7  # four stores; add, compare, jump


@pytest.mark.parametrize("arch", OBJDUMP)
def test_memset_stores_64_bits_at_a_time_and_memcpy_loads_them(arch: str) -> None:
    assert _accesses(arch, _loop(arch, "io_memset")) == [Access(stores=True, width=64, offset=0)]
    for name in ("io_memcpy_from", "io_memcpy_to"):
        load, store = _accesses(arch, _loop(arch, name))
        assert (load.stores, load.width) == (False, 64)
        assert (store.stores, store.width) == (True, 64)


@pytest.mark.parametrize("arch", OBJDUMP)
def test_the_plain_loop_stores_128_bits_too_and_calls_nothing(arch: str) -> None:
    [access] = _accesses(arch, _loop(arch, "plain128"))
    assert (access.stores, access.width) == (True, 128)
    assert not [one for one in _functions(arch)["plain128"] if one.name in {"bl", "call"}]


@pytest.mark.parametrize("arch", OBJDUMP)
def test_the_program_has_these_very_loops(arch: str) -> None:
    [sources] = [
        sources
        for recipe in find("full")
        for name, sources in recipe.programs[arch].items()
        if name.endswith("pcie-bar")
    ]
    program = programs.build(sources, arch)
    for name in ("store32", "store64", "store128", "load32", "load64", "load128", "io_memset", "io_memcpy_from"):
        assert b"".join(one.code for one in _loop(arch, name)) in program, name


def test_merged_accesses_would_be_seen() -> None:
    """The reader of the disassembly refuses what a compiler may make of plain C."""
    pair = Instruction(0, b"", "stp", "q0, q0, [x0]")
    with pytest.raises(AssertionError):
        _arm_access(pair)
    wide = Instruction(0, b"", "mov", "%rax,0x8(%rdi)")
    assert _x86_access(wide) == Access(stores=True, width=64, offset=8)
    with pytest.raises(AssertionError):
        _x86_access(Instruction(0, b"", "addl", "$0x1,(%rdi)"))
