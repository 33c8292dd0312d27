# SPDX-License-Identifier: MIT
from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.kernel import tuxmake
from rtgate.kernel.build import build
from rtgate.kernel.config_check import check_config
from rtgate.kernel.source import open_tree
from rtgate.kernel.toolchain import Toolchain, compiler_of
from rtgate.kernel.work import Options, prepare

from .conftest import Describe


@pytest.mark.usefixtures("toolchain")
@pytest.mark.parametrize(
    ("toolchain_", "versions", "compiler"),
    [
        (Toolchain.GCC, "fake-gcc 1.0, fake-ld 1.0", "fake-gcc 1"),
        (Toolchain.CLANG, "Fakian clang version 14.0.6, LLD 14.0.6 (compatible with GNU linkers)", "clang 14"),
    ],
)
def test_versions_name_the_compiler_as_placebos_do(toolchain_: Toolchain, versions: str, compiler: str) -> None:
    assert toolchain_.versions("arm64") == versions
    assert compiler_of(versions) == compiler


def test_a_compiler_is_named_by_its_first_number() -> None:
    name = "aarch64-linux-gnu-gcc"
    assert compiler_of(f"{name} (Debian 12.2.0-14) 12.2.0, GNU ld 2.40") == f"{name} 12"
    assert compiler_of(f"{name} (crosstool-NG 1.25.0) 12.2.1 20221205, GNU ld 2.40") == f"{name} 12"
    assert compiler_of("") == compiler_of("gcc, ld") == ""


def test_what_a_distribution_writes_around_clangs_version_is_no_part_of_it() -> None:
    assert compiler_of("Ubuntu clang version 18.1.3 (1ubuntu1), LLD 18.1.3") == "clang 18"


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
def test_a_hypervisor_takes_no_clang_and_its_configuration_does(
    describe: Describe, fake_tree: Path, tmp_path: Path
) -> None:
    description = dataclasses.replace(describe(), cells={"root": "a", "inmate": "b"})
    options = Options(toolchain=Toolchain.CLANG)
    assert check_config(description, open_tree(fake_tree), options).lost == ()
    with pytest.raises(ConfigError, match="leave --toolchain out"):
        build(description, open_tree(fake_tree), tmp_path / "output", options)
