# SPDX-License-Identifier: MIT
from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.arches import ARCHES
from rtgate.errors import ConfigError
from rtgate.kernel.vmlinux import Vmlinux, plain_name

from .linked import kernel, linked

SOURCE = """
int counter = 5;
static const char text[] = "some text";
__attribute__((noinline)) static int twice(int x) { return __builtin_expect(x, 1) ? 2 * x + counter : 7; }
int main_part(int x) { return twice(x) + text[x]; }
"""


@pytest.mark.parametrize("arch", ["arm64", "x86_64"])
def test_code_and_data_have_names(arch: str, tmp_path: Path) -> None:
    found = kernel(arch, tmp_path, "one", a=SOURCE)
    assert found.arch == arch
    address = found.address_of("main_part")
    assert address is not None
    assert found.function_at(address) == found.function_at(address + 4) == "main_part"
    assert found.function_at(0xFFFF000000000000) == "0xffff000000000000"
    counter = next(symbol for symbol in found.symbols if symbol.name == "counter")
    assert found.bytes_at(counter.address, 4) == b"\5\0\0\0"
    assert found.resolve(counter.address + 3) == (counter, 3)
    assert found.resolve(counter.address + 4) != (counter, 4)
    static = next(symbol for symbol in found.symbols if plain_name(symbol.name) == "twice")
    assert (static.file, static.local) == ("a.c", True)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("schedule", "schedule"),
        ("f.isra.0", "f"),
        ("f.constprop.0.isra.0", "f"),
        ("f.part.0.cold", "f"),
        ("__func__.12", "__func__"),
        ("v1.name", "v1.name"),
    ],
)
def test_what_the_compiler_added_to_a_name_is_left_out(name: str, plain: str) -> None:
    assert plain_name(name) == plain


def test_a_missing_or_stripped_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        Vmlinux(tmp_path / "vmlinux")
    (tmp_path / "text").write_text("no kernel")
    with pytest.raises(ConfigError, match="not a kernel's ELF file"):
        Vmlinux(tmp_path / "text")


def test_an_architecture_whose_instructions_nobody_reads_is_named(tmp_path: Path) -> None:
    path = linked("x86_64", tmp_path, "one", a=SOURCE)
    other = bytearray(path.read_bytes())
    other[18:20] = ARCHES["riscv64"].elf.to_bytes(2, "little")  # e_machine
    path.write_bytes(other)
    with pytest.raises(ConfigError, match=r"is for EM_RISCV: .* are read for arm64 and x86_64 only"):
        Vmlinux(path)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused(data: st.DataObject, tmp_path: Path) -> None:
    """The table of sections, which stands at the end of the file, is damaged as often as all the rest."""
    good = (
        (tmp_path / "good" / "vmlinux")
        if (tmp_path / "good").exists()
        else linked("x86_64", tmp_path, "good", a=SOURCE)
    )
    damaged = bytearray(good.read_bytes())
    (table,) = struct.unpack_from("<Q", damaged, 0x28)
    places = st.integers(table, len(damaged) - 1) | st.integers(0, len(damaged) - 1)
    values = st.sampled_from((0, 0x7F, 0x80, 0xFF)) | st.integers(0, 255)
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(places)] = data.draw(values)
    path = tmp_path / "damaged"
    path.write_bytes(damaged[: data.draw(st.just(len(damaged)) | st.integers(0, len(damaged)))])
    try:
        Vmlinux(path)
    except ConfigError:
        return
