# SPDX-License-Identifier: MIT
from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtgate.arches import ARCHES
from rtgate.rootfs import elf

ElfProgram = Callable[[str, tuple[str, ...]], bytes]
Symbol = tuple[str, str, str, int, bool, bool]
ElfSymbols = Callable[[bytes, Sequence[Symbol]], bytes]
PROCESSORS = {machine: arch.elf for arch in ARCHES.values() for machine in arch.machines}


def test_the_interpreter_and_the_libraries_are_found(elf_program: ElfProgram) -> None:
    data = elf_program("/lib/ld-linux-aarch64.so.1", ("libm.so.6", "libc.so.6"))
    assert elf.needs(data) == elf.Needs("/lib/ld-linux-aarch64.so.1", ("libm.so.6", "libc.so.6"))


def test_a_static_program_needs_nothing(elf_program: ElfProgram) -> None:
    assert elf.needs(elf_program("", ())) == elf.Needs()


def test_the_running_interpreter_is_understood() -> None:
    found = elf.needs(Path(sys.executable).read_bytes())
    assert found.interpreter.startswith("/lib")
    assert "libc.so.6" in found.libraries


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01"])
def test_other_files_are_refused(data: bytes) -> None:
    assert not elf.is_elf(data)
    with pytest.raises(ValueError, match="not a 64-bit"):
        elf.needs(data)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the fixture is a function without state
@given(data=st.data())
def test_a_damaged_file_gives_an_answer_or_a_value_error(data: st.DataObject, elf_program: ElfProgram) -> None:
    good = bytearray(elf_program("/lib/ld.so", ("libc.so.6",)))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(6, len(good) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(good[: data.draw(st.integers(6, len(good)))])
    try:
        elf.needs(cut)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - both outcomes are right


class TestSymbols:
    def test_what_a_program_takes_from_its_libraries(self, elf_program: ElfProgram, elf_symbols: ElfSymbols) -> None:
        symbols = (
            ("open", "V_1", "liba.so.1", 2, False, False),
            ("shut", "", "", 2, False, False),
            ("table", "V_2", "libb.so.1", 1, False, True),
            ("number", "", "", 1, False, False),
            ("own", "", "", 2, True, False),
        )
        data = elf_symbols(elf_program("", ("liba.so.1", "libb.so.1")), symbols)
        assert elf.imports(data) == (
            elf.Import("open", "V_1", "liba.so.1", is_function=True),
            elf.Import("shut", "", "", is_function=True),
            elf.Import("table", "V_2", "libb.so.1", is_function=False),
            elf.Import("number", "", "", is_function=False),
        )
        assert elf.exports(data) == {"own", "table"}

    def test_a_file_without_sections_is_refused(self, elf_program: ElfProgram) -> None:
        for read in (elf.imports, elf.exports):
            with pytest.raises(ValueError, match="without a table of sections"):
                read(elf_program("", ()))

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the fixtures are functions without state
    @given(data=st.data())
    def test_damage_gives_an_answer_or_a_value_error(
        self, data: st.DataObject, elf_program: ElfProgram, elf_symbols: ElfSymbols
    ) -> None:
        symbols = (("a", "V_1", "liba.so.1", 2, False, False), ("b", "V_2", "libb.so.1", 1, False, True))
        good = bytearray(elf_symbols(elf_program("", ("liba.so.1",)), symbols))
        for _ in range(data.draw(st.integers(1, 4))):
            good[data.draw(st.integers(6, len(good) - 1))] = data.draw(st.integers(0, 255))
        for read in (elf.imports, elf.exports):
            try:
                read(bytes(good))
            except ValueError as error:
                assert str(error)  # noqa: PT017 - both outcomes are right


class TestStandIn:
    FUNCTIONS = (("plain", ""), ("once", "V_1"), ("once", "V_2"), ("other", "V_2"))

    def test_the_same_functions_give_the_same_bytes(self) -> None:
        for processor in PROCESSORS.values():
            made = elf.stand_in(processor, "libx.so", self.FUNCTIONS)
            assert made == elf.stand_in(processor, "libx.so", tuple(reversed(self.FUNCTIONS)))
            assert elf.machine(made) == processor
            assert elf.needs(made) == elf.Needs()

    def test_an_unknown_processor_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no stand-in for the ELF processor 8"):
            elf.stand_in(8, "libx.so", ())

    def test_what_riscv64_runs_as_binutils_reads_it(self, tmp_path: Path) -> None:
        objdump = f"{ARCHES['riscv64'].gnu}-objdump"
        if shutil.which(objdump) is None:
            pytest.skip(f"no {objdump}")
        names = [f"function{number}" for number in range(500)]
        library = elf.stand_in(ARCHES["riscv64"].elf, "libx.so", [(name, "") for name in names])
        (tmp_path / "code").write_bytes(library)
        end = library.rindex(b"\x73\0\0\0\0\0\0\0") - 20  # the last ecall, and behind it what is no instruction
        place = (f"--start-address={end - 16 * len(names)}", f"--stop-address={end + 24}")
        words = [objdump, "-D", "-w", "-b", "binary", "-m", "riscv:rv64", *place, str(tmp_path / "code")]
        text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        lines = re.findall(r"^ *([0-9a-f]+):\t[0-9a-f]+ +\t(\w+)\t?([^\s#<]*)", text, re.MULTILINE)
        messages = set()
        for number in range(len(names)):
            (at, auipc, high), (_, add, low), (_, load, length), jump = lines[4 * number : 4 * number + 4]
            assert (auipc, high[:3], add, load, jump[1:]) == ("auipc", "a1,", add, "li", ("j", f"0x{end:x}"))
            assert (add, low[:6]) in {("add", "a1,a1,"), ("addi", "a1,a1,"), ("mv", "a1,a1")}
            start = int(at, 16) + (int(high[3:], 16) << 12) + int(low[6:] or 0)
            messages.add(library[start : start + int(length.removeprefix("a2,"))].decode())
        assert messages == {f"{name}: the library of this function is not in this image\n" for name in names}
        body = [line[1:] for line in lines[4 * len(names) :]]
        assert body == [
            ("li", "a0,2"),
            ("li", "a7,64"),
            ("ecall", ""),
            ("li", "a0,127"),
            ("li", "a7,94"),
            ("ecall", ""),
        ]

    @pytest.mark.skipif(platform.machine() not in PROCESSORS, reason="this processor is not one of our targets'")
    def test_a_call_ends_the_program_and_says_why(self, tmp_path: Path) -> None:
        functions = (*self.FUNCTIONS, *((f"function{number}", "V_3") for number in range(500)))
        library = tmp_path / "libx.so"
        library.write_bytes(elf.stand_in(PROCESSORS[platform.machine()], "libx.so", functions))
        for name in ("plain", "other", "function0", "function499"):
            call = f"import ctypes, sys; ctypes.CDLL(sys.argv[1]).{name}(); print('after')"
            done = subprocess.run([sys.executable, "-c", call, library], capture_output=True, text=True, check=False)
            assert done.returncode == elf.ABSENT_STATUS
            assert done.stdout == ""
            assert done.stderr == f"{name}: the library of this function is not in this image\n"

    @pytest.mark.skipif(platform.machine() not in PROCESSORS, reason="this processor is not one of our targets'")
    def test_the_dynamic_linker_finds_each_version(self, tmp_path: Path) -> None:
        library = tmp_path / "libx.so"
        library.write_bytes(elf.stand_in(PROCESSORS[platform.machine()], "libx.so", self.FUNCTIONS))
        look = (
            "import ctypes, sys\n"
            "handle, libc = ctypes.CDLL(sys.argv[1])._handle, ctypes.CDLL(None)\n"
            "libc.dlvsym.restype = ctypes.c_void_p\n"
            "for name, version in (w.split('@') for w in sys.argv[2:]):\n"
            "    found = libc.dlvsym(ctypes.c_void_p(handle), name.encode(), version.encode())\n"
            "    print(f'{name}@{version}', bool(found))\n"
        )
        wanted = ("once@V_1", "once@V_2", "other@V_2", "other@V_1")
        argv = [sys.executable, "-c", look, str(library), *wanted]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        assert done.stdout.split("\n")[:4] == ["once@V_1 True", "once@V_2 True", "other@V_2 True", "other@V_1 False"]
