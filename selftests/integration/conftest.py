# SPDX-License-Identifier: MIT
"""The command line as users type it, and the kernels that several tests boot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from selftests import spoken

ROOT = Path(__file__).resolve().parents[2]


def rtgate(*words: object, timeout: float = 600, **environment: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "rtgate", *map(str, words)]
    done = spoken.run(argv, ROOT, {**os.environ, **environment}, timeout)
    print(done.stdout, done.stderr, sep="\n")
    return done


def built(directory: Path, build: str, *words: object) -> Path:
    done = rtgate("build", build, "-o", directory, *words, timeout=3000)
    assert done.returncode == 0
    return directory


@pytest.fixture(scope="session")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("kernel") / "arm64", "virt-arm64-preempt_rt")


@pytest.fixture(scope="session")
def slow_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the kernel that wakes up 70 us late."""
    patches = ROOT / "kernel-configs" / "patches" / "demo-slow-wakeup"
    return built(tmp_path_factory.mktemp("kernel") / "slow", "virt-arm64-preempt_rt", "--patches", patches)


@pytest.fixture(scope="session")
def pcie_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("kernel") / "arm64-pcie", "virt-arm64-pcie")


@pytest.fixture(scope="session")
def x86_64_pcie_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("kernel") / "x86_64-pcie", "virt-x86_64-pcie")
