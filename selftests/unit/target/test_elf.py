# SPDX-License-Identifier: MIT
from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtgate.target import elf

ElfProgram = Callable[[str, tuple[str, ...]], bytes]


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
