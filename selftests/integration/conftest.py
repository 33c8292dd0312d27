# SPDX-License-Identifier: MIT
"""The command line as users type it, and the kernels that several tests boot.

The short tests build three times from scratch: `virt-arm64-preempt_rt`, `virt-arm64-pcie`, and one copy of the source
that all patches pass through.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import pytest
from selftests import debian_qemu, spoken

from rtgate import site
from rtgate.board import boards
from rtgate.files import waiting_lock
from rtgate.kernel.patches import load_series
from rtgate.rootfs import images
from rtgate.target.qemu import Machine, process, version

ROOT = Path(__file__).resolve().parents[2]


def rtgate(*words: object, timeout: float = 600, **environment: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "rtgate", *map(str, words)]
    done = spoken.run(argv, ROOT, {**os.environ, **environment}, timeout)
    print(done.stdout, done.stderr, sep="\n")
    return done


CACHE = site.cache()
"""Also while a test has a cache of its own: the copy of a source is found by its path."""


class Patched(Protocol):
    """What builds a kernel with a patch series: the default one, or `kernel`."""

    def __call__(self, name: str, directory: Path, kernel: Path | None = None) -> Path: ...


def build_kernel(directory: Path, build: str, *words: object, **environment: str) -> Path:
    done = rtgate("build", build, "-o", directory, *words, timeout=3000, RTGATE_CACHE=str(CACHE), **environment)
    assert done.returncode == 0
    return directory


def verdicts_of(report: Path) -> list[dict[str, Any]]:
    """Return the verdicts of a report."""
    verdicts: list[dict[str, Any]] = json.loads((report / "verdict.json").read_text())["verdicts"]
    return verdicts


def records_of(directory: Path) -> list[dict[str, Any]]:
    """Return the records below a directory, in the order of cases and boots."""
    return [json.loads(path.read_text()) for path in sorted(directory.rglob("record.json"))]


def site_of_builds(directory: Path, builds: Mapping[str, str], fragments: Mapping[str, str]) -> Path:
    """Write a site directory with builds and fragments, texts by name, and return it."""
    configs = directory / "kernel-configs"
    (configs / "fragments").mkdir(parents=True)
    for name, text in builds.items():
        (configs / f"{name}.yaml").write_text(text)
    for name, text in fragments.items():
        (configs / "fragments" / f"{name}.config").write_text(text)
    return directory


@pytest.fixture
def qemu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Put the QEMU of a suite of Debian before this machine's own, which is that of no suite."""
    if request.param:
        programs = debian_qemu.programs(request.param, CACHE / "self-tests" / "qemu")
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    version.cache_clear()
    yield request.param
    version.cache_clear()


@pytest.fixture(scope="session")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_kernel(tmp_path_factory.mktemp("kernel") / "arm64", "virt-arm64-preempt_rt")


@pytest.fixture(scope="session")
def patched(kernel: Path) -> Patched:
    """Return what builds a patch series in one copy of the source: each compiles a file or two.

    Copy and kernels stay in the cache; a kernel's name there says all that went into it.
    """
    default = kernel
    work = CACHE / "self-tests"

    def build_patched(name: str, directory: Path, kernel: Path | None = None) -> Path:
        unpatched = json.loads(((kernel or default) / "build.json").read_text())
        digest = hashlib.sha256(f"{unpatched['inputs']} {load_series(directory).sha256}".encode()).hexdigest()[:12]
        output, series = work / f"{name}-{digest}", work / "series"
        with waiting_lock(work / "lock", "kernels of the self-tests", patience_s=3000):
            if not (output / "build.json").exists():
                for old in work.glob(f"{name}-*"):
                    shutil.rmtree(old)
                shutil.rmtree(series, ignore_errors=True)
                shutil.copytree(directory, series)
                build_kernel(output, unpatched["name"], "--patches", series)
        return output

    return build_patched


@pytest.fixture(scope="session")
def slow_kernel(patched: Patched) -> Path:
    """Build the kernel that wakes up 70 us late."""
    return patched("slow", ROOT / "kernel-configs" / "patches" / "demo-slow-wakeup")


@pytest.fixture(scope="session")
def pcie_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_kernel(tmp_path_factory.mktemp("kernel") / "arm64-pcie", "virt-arm64-pcie")


@pytest.fixture(scope="session")
def irq_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_kernel(tmp_path_factory.mktemp("kernel") / "arm64-irq", "virt-arm64-irq")


@pytest.fixture(scope="session")
def bar_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_kernel(tmp_path_factory.mktemp("kernel") / "arm64-bar", "virt-arm64-bar")


@pytest.fixture(scope="session")
def x86_64_bar_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_kernel(tmp_path_factory.mktemp("kernel") / "x86_64-bar", "virt-x86_64-bar")


@pytest.fixture(scope="session")
def x86_64_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_kernel(tmp_path_factory.mktemp("kernel") / "x86_64", "virt-x86_64-preempt_rt")


@pytest.fixture(scope="session")
def x86_64_pcie_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_kernel(tmp_path_factory.mktemp("kernel") / "x86_64-pcie", "virt-x86_64-pcie")


def boot_plan(
    kernel: Path,
    directory: Path,
    plan: str,
    *devices: str,
    root: Path | None = None,
    files: Mapping[str, bytes] = MappingProxyType({}),
    seed: int | None = None,
    meanwhile: Callable[[Path], object] | None = None,
) -> str:
    """Boot virt-arm64, carry out a shell script, and return what the console showed.

    Args:
        directory: for initrd, console and monitor (`qmp`).
        root: the archive of its root file system (default: core's).
        seed: of a boot on virtual time; None for host time.
        meanwhile: is called with the directory while it runs.
    """
    board = boards.board("virt-arm64")
    first = root or images.image("core", board.arch).archive
    segment = images.overlay({"rtgate/plan": plan.encode(), **files})
    (directory / "initrd").write_bytes(first.read_bytes() + segment)
    machine = Machine(
        board=board,
        image=kernel / "Image",
        initrd=directory / "initrd",
        serial=f"file:{directory / 'console'}",
        seed=seed,
        virtual_time=seed is not None,
        monitor=directory / "qmp" if meanwhile else None,
        devices=devices,
    )
    with process(machine.argv(), directory / "qemu.log") as child:
        if meanwhile:
            meanwhile(directory)
        assert child.wait(180) == 0, (directory / "qemu.log").read_text()
    log = (directory / "console").read_text(encoding="utf-8", errors="replace").replace("\r", "")
    print(log[-6000:])
    return log
