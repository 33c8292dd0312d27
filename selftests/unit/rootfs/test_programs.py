# SPDX-License-Identifier: MIT
from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rtgate.arches import ARCHES
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.rootfs import elf, programs

SOURCE = """
#include <stdio.h>
#include "greeting.h"
int main(void) { puts(GREETING " " PROGRAM_VERSION " " __FILE__); return 7; }
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "greeting.h").write_text('#define GREETING "hello"\n')
    (tmp_path / "hello.c").write_text(SOURCE)
    return tmp_path / "hello.c"


@pytest.fixture
def _forget() -> Iterator[None]:
    programs.compiler.cache_clear()
    yield
    programs.compiler.cache_clear()


@pytest.mark.parametrize("arch", ARCHES)
def test_a_program_is_static_and_the_same_wherever_its_sources_lie(source: Path, tmp_path: Path, arch: str) -> None:
    made = programs.build([source], arch)
    assert elf.machine(made) == ARCHES[arch].elf
    assert elf.needs(made) == elf.Needs()
    other = tmp_path / "elsewhere"
    other.mkdir()
    for name in ("greeting.h", "hello.c"):
        shutil.copy(source.parent / name, other)
    assert programs.build([other / "hello.c"], arch) == made
    assert str(tmp_path).encode() not in made


def test_it_runs_and_says_the_version_of_its_sources(source: Path, tmp_path: Path) -> None:
    arch = "arm64" if platform.machine() in {"aarch64", "arm64"} else "x86_64"
    program = tmp_path / "program"
    program.write_bytes(programs.build([source], arch))
    program.chmod(0o755)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (7, f"hello {programs.version([source])} hello.c\n")


@pytest.mark.parametrize("name", ["greeting.h", "hello.c"])
def test_its_version_names_the_state_of_sources_and_headers(source: Path, name: str) -> None:
    before = programs.version([source])
    path = source.parent / name
    path.write_text(path.read_text() + "/* */\n")
    assert programs.version([source]) != before


def test_a_mistake_in_it_is_told_as_the_compiler_does(source: Path) -> None:
    source.write_text("int main(void) { return missing; }\n")
    with pytest.raises(ConfigError, match=r"hello\.c does not compile for arm64: hello\.c:1:\d+: error: .*missing"):
        programs.build([source], "arm64")


@pytest.mark.usefixtures("_forget")
def test_without_a_compiler_the_package_is_named(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(source.parent))
    with pytest.raises(InfrastructureError, match=r"no C compiler for arm64.*apt install gcc-aarch64-linux-gnu"):
        programs.build([source], "arm64")


@pytest.mark.usefixtures("_forget")
def test_without_a_static_c_library_the_package_is_named(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = source.parent / "aarch64-linux-gnu-gcc"
    compiler.write_text("#!/bin/sh\necho libc.a\n")  # what gcc prints of a library that it does not find
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{source.parent}:/usr/bin:/bin")
    monkeypatch.chdir(source.parent)
    with pytest.raises(InfrastructureError, match=r"no static C library.*libc6-dev-arm64-cross"):
        programs.build([source], "arm64")
