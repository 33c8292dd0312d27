# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rtgate.errors import InfrastructureError
from rtgate.target import qemu
from rtgate.target.qemu import lockstep_library

COMPILER = shutil.which("cc") or shutil.which("gcc")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RTGATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def compiler(directory: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.mkdir(exist_ok=True)
    (directory / "cc").write_text(f"#!/bin/sh\n{text}\n")
    (directory / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_the_library_is_made_once_and_can_be_loaded(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lockstep_library()
    assert made.parent == cache
    done = subprocess.run(["true"], env={**os.environ, "LD_PRELOAD": str(made)}, capture_output=True, check=True)
    assert done.stderr == b""
    compiler(tmp_path / "bin", "exit 1", monkeypatch)
    assert lockstep_library() == made
    assert list(cache.iterdir()) == [made]


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_it_compiles_without_a_warning(tmp_path: Path) -> None:
    source = Path(qemu.__file__).with_name("icount_lockstep.c")
    argv = [
        str(COMPILER),
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        "-o",
        f"{tmp_path}/x.so",
        str(source),
    ]
    done = subprocess.run([*argv, "-ldl", "-lpthread"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_compiler_that_fails_leaves_nothing(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path / "bin", "echo 'no space left' >&2; exit 1", monkeypatch)
    with pytest.raises(InfrastructureError, match=r"icount_lockstep\.c does not compile: .* no space left"):
        lockstep_library()
    assert list(cache.iterdir()) == []


def test_without_a_compiler_its_package_is_named(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match="needs a C compiler: on Debian, apt install gcc"):
        lockstep_library()
