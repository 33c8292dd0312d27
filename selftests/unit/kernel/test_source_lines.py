# SPDX-License-Identifier: MIT
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.kernel.alignment import ChangedCode, with_lines
from rtgate.kernel.source_lines import source_lines
from rtgate.kernel.vmlinux import Vmlinux

from .linked import COMPILERS, linked

ADDR2LINE = {"arm64": "aarch64-linux-gnu-addr2line", "x86_64": "addr2line"}
SOURCE = """
int counter;
static inline int more(int x) {
    return x + counter;
}
int f(int x) {
    if (x > 5)
        counter = 7;
    return more(x);
}
"""


def starts(path: Path) -> dict[str, int]:
    return {symbol.name: symbol.address for symbol in Vmlinux(path).symbols if symbol.function}


@pytest.mark.parametrize("arch", COMPILERS)
@pytest.mark.parametrize("version", [4, 5])
def test_each_instruction_has_its_line_where_there_is_debug_information(
    arch: str, version: int, tmp_path: Path
) -> None:
    path = linked(arch, tmp_path, "one", f"-gdwarf-{version}", a=SOURCE, b="int g(void)\n{\n return 3;\n}")
    at = starts(path)
    (size,) = (symbol.size for symbol in Vmlinux(path).symbols if symbol.name == "f")
    addresses = [*range(at["f"], at["f"] + size), at["g"]]
    lines = source_lines(path, [*addresses, 0x1000])
    command = [ADDR2LINE[arch], "-e", str(path), *map(hex, addresses)]
    known = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert lines == {
        address: place.removeprefix(f"{tmp_path}/one/") for address, place in zip(addresses, known, strict=True)
    }
    assert {"a.c:8", "a.c:4"} <= set(lines.values())  # also what was inlined


def test_a_file_of_a_build_directory_is_named_from_the_top_of_the_source_on(tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "build").mkdir()
    (tmp_path / "kernel" / "f.c").write_text(SOURCE)
    link = ["-nostdlib", "-static", "-no-pie", "-Wl,-e,0", "-g", "-o", "vmlinux"]
    subprocess.run(["gcc", "-ffreestanding", *link, "../kernel/f.c"], cwd=tmp_path / "build", check=True)
    path = tmp_path / "build" / "vmlinux"
    address = starts(path)["f"]
    assert source_lines(path, [address]) == {address: "kernel/f.c:6"}


def test_without_debug_information_nothing_is_known_and_names_stay(tmp_path: Path) -> None:
    path = linked("x86_64", tmp_path, "one", a=SOURCE)
    assert source_lines(path, starts(path).values()) == {}
    code = (ChangedCode(function="f", places={1: "f+0x1", 2: "f+0x2"}),)
    assert with_lines(code, {}) == code
    assert with_lines(code, {2: "a.c:6"})[0].places == {1: "f+0x1", 2: "f+0x2 in a.c:6"}


def test_damaged_debug_information_is_named(tmp_path: Path) -> None:
    path = linked("x86_64", tmp_path, "one", "-g", a=SOURCE)
    address = starts(path)["f"]
    damaged = bytearray(path.read_bytes())
    for section in (".debug_line", ".debug_info"):
        listed = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
        line = next(line for line in listed.splitlines() if f" {section} " in line).split(section)[1].split()
        start, size = int(line[2], 16), int(line[3], 16)
        damaged[start : start + size] = b"\xff" * size
    path.write_bytes(damaged)
    with pytest.raises(ConfigError, match="debug information is damaged"):
        source_lines(path, [address])
    with pytest.raises(ConfigError, match="cannot be read"):
        source_lines(tmp_path / "nothing", [address])
