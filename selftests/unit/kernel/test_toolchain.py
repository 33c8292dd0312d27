# SPDX-License-Identifier: MIT
from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.kernel import jailhouse, tuxmake
from rtgate.kernel.source import open_tree
from rtgate.kernel.toolchain import Toolchain
from rtgate.kernel.work import Options, prepare
from rtgate.workflow.placebos import compiler_of

from .conftest import Describe


@pytest.mark.usefixtures("toolchain")
@pytest.mark.parametrize(
    ("toolchain_", "versions", "compiler"),
    [
        (Toolchain.GCC, "fake-gcc 1.0, fake-ld 1.0", "fake-gcc 1"),
        (Toolchain.CLANG, "clang version 14.0.6, LLD 14.0.6 (compatible with GNU linkers)", "clang 14"),
    ],
)
def test_versions_name_the_compiler_as_placebos_do(toolchain_: Toolchain, versions: str, compiler: str) -> None:
    assert toolchain_.versions("arm64") == versions
    assert compiler_of(versions) == compiler


@pytest.mark.parametrize(
    ("toolchain_", "packages"),
    [(Toolchain.GCC, "gcc-aarch64-linux-gnu gcc "), (Toolchain.CLANG, "clang lld llvm ")],
)
def test_what_is_missing_is_said_with_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, toolchain_: Toolchain, packages: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match=f"apt-get install {packages}"):
        tuxmake.require_tools("arm64", toolchain_)


@pytest.mark.usefixtures("toolchain")
def test_clang_is_another_build_in_another_directory(describe: Describe, fake_tree: Path) -> None:
    gcc, clang = (prepare(describe(), open_tree(fake_tree), Options(toolchain=one)) for one in Toolchain)
    assert gcc.inputs != clang.inputs
    assert gcc.job.build_directory != clang.job.build_directory
    assert "LLVM" not in gcc.job.variables
    assert clang.job.variables["LLVM"] == "1"


@pytest.mark.usefixtures("toolchain")
def test_a_hypervisor_takes_no_clang(
    describe: Describe, fake_tree: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(jailhouse.VARIABLE, str(tmp_path))
    description = dataclasses.replace(describe(), cells={"root": "a", "inmate": "b"})
    with pytest.raises(ConfigError, match="leave --toolchain out"):
        prepare(description, open_tree(fake_tree), Options(toolchain=Toolchain.CLANG))
