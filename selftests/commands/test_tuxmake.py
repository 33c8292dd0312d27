# SPDX-License-Identifier: MIT
from __future__ import annotations

import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.unit.kernel.conftest import cache, fake_tree, toolchain

from rtgate.errors import Interrupted
from rtgate.kernel import tuxmake
from rtgate.kernel.toolchain import Toolchain

__all__ = ["cache", "fake_tree", "toolchain"]
pytestmark = pytest.mark.usefixtures("toolchain")


@pytest.fixture
def job(fake_tree: Path, tmp_path: Path) -> tuxmake.Job:
    (tmp_path / "requested.config").write_text("CONFIG_EXPERT=y\n")
    return tuxmake.Job(
        tree=fake_tree,
        build_directory=tmp_path / "build",
        log_directory=tmp_path / "log",
        arch="arm64",
        bases=("tinyconfig",),
        fragment=tmp_path / "requested.config",
        jobs=2,
        ccache_directory=tmp_path / "ccache",
    )


def test_configuration_and_kernel(job: tuxmake.Job, tmp_path: Path) -> None:
    lines: list[str] = []
    assert tuxmake.run(job, ("config", "kernel"), tmp_path / "log.txt", lines.append)
    assert "CONFIG_EXPERT=y\n" in (job.build_directory / ".config").read_text()
    assert (job.build_directory / "arch/arm64/boot/Image").is_file()
    assert (tmp_path / "log.txt").read_text() == "".join(lines)
    assert tuxmake.ccache_counts(job) == (0, 2)


def test_clang_compiles_all_of_it(job: tuxmake.Job, tmp_path: Path) -> None:
    clang = replace(job, toolchain=Toolchain.CLANG, variables=Toolchain.CLANG.variables)
    assert tuxmake.run(clang, ("config", "kernel"), tmp_path / "log.txt")
    commands = [line for line in (tmp_path / "log.txt").read_text().split("\n") if line.startswith("make ")]
    assert commands
    assert all("'HOSTCC=ccache clang' 'CC=ccache clang' LLVM=1" in line for line in commands)


def test_ccache_counts(job: tuxmake.Job) -> None:
    assert tuxmake.ccache_counts(job) == (0, 0)
    job.log_directory.mkdir()
    job.ccache_log.write_text("# a.c\ndirect_cache_hit\npreprocessed_cache_hit\ncache_miss\npreprocessed_cache_miss\n")
    assert tuxmake.ccache_counts(job) == (2, 1)


def test_the_callers_environment_decides_nothing(
    job: tuxmake.Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"ARCH": "x86", "MAKEFLAGS": "-n", "KBUILD_BUILD_HOST": "me", "O": "elsewhere", "CROSS_COMPILE": "nope-"}
    wrong["GIT_DIR"] = "nope-"  # setlocalversion would ask it
    with (job.tree / "Makefile").open("a") as makefile:
        makefile.write("$(info GIT_DIR=$(GIT_DIR))\n")
    for name, value in wrong.items():
        monkeypatch.setenv(name, value)
    assert tuxmake.run(job, ("config", "kernel"), tmp_path / "log.txt")
    assert (job.build_directory / "vmlinux").is_file()
    log = (tmp_path / "log.txt").read_text()
    assert "KBUILD_BUILD_HOST=rtgate" in log
    assert "nope-" not in log


def test_failure(job: tuxmake.Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAIL", "link")
    assert not tuxmake.run(job, ("config", "kernel"), tmp_path / "log.txt")
    assert "undefined reference" in (tmp_path / "log.txt").read_text()


def processes_in(directory: Path) -> list[str]:
    """Return the command lines of processes whose working directory is below `directory`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(directory):
                found.append((process / "cmdline").read_bytes().decode().replace("\0", " "))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_builds_leave_no_process(
    job: tuxmake.Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("FAKE_FAIL", "slow")
    before = signal.getsignal(signal.SIGTERM)

    def watch(line: str) -> None:
        if "slowly" in line:
            assert processes_in(tmp_path)
            signal.raise_signal(number)

    with pytest.raises(Interrupted):
        tuxmake.run(job, ("config", "kernel"), tmp_path / "log.txt", watch)
    assert processes_in(tmp_path) == []
    assert signal.getsignal(signal.SIGTERM) is before


def test_builds_run_in_threads_too(job: tuxmake.Job, tmp_path: Path) -> None:
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(tuxmake.run(job, ("config",), tmp_path / "log.txt")))
    thread.start()
    thread.join()
    assert results == [True]


def test_what_decides_a_build(job: tuxmake.Job) -> None:
    recipe = tuxmake.recipe(replace(job, variables={"LD": "ld.lld"}, environment={"DTC_FLAGS": "-@"}))
    assert (recipe["KBUILD_BUILD_USER"], recipe["LD"], recipe["DTC_FLAGS"]) == ("rtgate", "ld.lld", "-@")


@pytest.mark.parametrize(
    ("base", "options", "hidden"),
    [
        ("tinyconfig", ("EXPERT",), {"RUSTC", "PAHOLE"}),
        ("tinyconfig", ("RUST",), {"PAHOLE"}),
        ("tinyconfig", ("DEBUG_INFO_BTF", "RUST"), set()),
        ("vendor_defconfig", ("EXPERT",), set()),
    ],
)
def test_tools_that_no_option_needs_are_hidden(base: str, options: tuple[str, ...], hidden: set[str]) -> None:
    assert set(tuxmake.hidden_tools(base, options)) == hidden


def test_make_gets_the_variables(job: tuxmake.Job, tmp_path: Path) -> None:
    makefile = job.tree / "Makefile"
    makefile.write_text("$(shell echo $(MAKECMDGOALS) $(RUSTC) >>$(O)/said)\n" + makefile.read_text())
    assert tuxmake.run(replace(job, variables={"RUSTC": "/nonexistent"}), ("config",), tmp_path / "log.txt")
    assert "tinyconfig /nonexistent" in (job.build_directory / "said").read_text().splitlines()
