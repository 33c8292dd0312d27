# SPDX-License-Identifier: MIT
from __future__ import annotations

import ctypes
import shutil
import subprocess
from os import RTLD_LAZY
from pathlib import Path

import pytest

from rtgate.errors import InfrastructureError
from rtgate.explain import plugin
from rtgate.target.library_cache import compile_library

COMPILER = shutil.which("cc") or shutil.which("gcc")
QEMU = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RTGATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_the_plugin_is_made_once_and_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = plugin.library(QEMU)
    assert list(cache.iterdir()) == [made]
    monkeypatch.setenv("PATH", "/nowhere")
    assert plugin.library(QEMU) == made


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_a_cache_that_cannot_be_written_is_the_lab_s(cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(InfrastructureError, match=f"{cache} cannot be written: "):
        plugin.library(QEMU)


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_a_part_that_changed_makes_another_library(cache: Path, tmp_path: Path) -> None:
    source, part = tmp_path / "one.c", tmp_path / "two.h"
    source.write_text('#include "two.h"\nint one(void) { return TWO; }\n')
    part.write_text("#define TWO 2\n")
    first = compile_library(source, [], "a test", [part])
    assert compile_library(source, [], "a test", [part]) == first
    part.write_text("#define TWO 3\n")
    assert compile_library(source, [], "a test", [part]) != first
    assert len(list(cache.iterdir())) == 2


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("interface", sorted({*plugin.INTERFACES.values()} - {0}))
def test_it_compiles_without_a_warning(interface: int, tmp_path: Path) -> None:
    sources = map(str, Path(plugin.__file__).parent.glob("*.c"))
    words = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", f"{tmp_path}/x.so", *sources, "-ldl"]
    done = subprocess.run(
        [str(COMPILER), f"-DQEMU_PLUGIN={interface}", *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize(
    ("emulator", "interface"),
    [
        ("QEMU emulator version 6.0.0", 1),
        (QEMU, 1),
        ("QEMU emulator version 8.2.2 (Debian 1:8.2.2+ds-0ubuntu1)", 1),
        ("QEMU emulator version 9.1.0", 3),
        ("QEMU emulator version 10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)", 4),
        ("QEMU emulator version 10.2.1", 5),
        ("QEMU emulator version 11.0.0", 6),
        ("QEMU emulator version 11.1.3 (Debian 1:11.1.3+ds-1)", 7),
        ("QEMU emulator version 12.0.0", 7),
    ],
)
def test_each_qemu_gets_the_interface_that_it_takes(emulator: str, interface: int) -> None:
    library = ctypes.CDLL(str(plugin.library(emulator)), mode=RTLD_LAZY)
    assert ctypes.c_int.in_dll(library, "qemu_plugin_version").value == interface
    assert Path(library._name).name == plugin.identity(emulator)


@pytest.mark.parametrize("emulator", ["QEMU emulator version 9.0.2", "QEMU emulator version 5.2.0", "a script"])
def test_a_qemu_without_a_known_interface_is_refused(emulator: str, cache: Path) -> None:
    with pytest.raises(InfrastructureError, match=f"{emulator} cannot trace here: use the QEMU of Debian 12"):
        plugin.library(emulator)
    assert plugin.identity(emulator)
    assert not cache.exists()


def test_without_a_compiler_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InfrastructureError, match="apt install gcc"):
        plugin.library(QEMU)


def test_a_compiler_that_fails_is_quoted(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cc").write_text("#!/bin/sh\necho no such luck >&2\nexit 1\n")
    (tmp_path / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match="no such luck"):
        plugin.library(QEMU)
    assert list(cache.iterdir()) == []
