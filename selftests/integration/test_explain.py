# SPDX-License-Identifier: MIT
"""A traced boot gives the same bits, and the function that makes a kernel slow is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, built, rtgate

BOARD = "virt-arm64"
CASE = "latency.cyclictest:idle"


@pytest.fixture(scope="module")
def slow_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    patches = ROOT / "kernel-configs" / "patches" / "demo-slow-wakeup"
    return built(tmp_path_factory.mktemp("kernel") / "slow", "virt-arm64-preempt_rt", "--patches", patches)


def test_the_slow_function_is_named_and_the_trace_disturbs_nothing(
    kernel: Path, slow_kernel: Path, tmp_path: Path
) -> None:
    arms = [f"--arm=baseline={kernel}", f"--arm=candidate={slow_kernel}"]
    words = ["tests/latency/test_cyclictest.py", "-k", "cyclictest and idle", "--board", BOARD, "--profile", "smoke"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *words, *arms, "--no-judge", "--records", tmp_path / "records"],
        cwd=ROOT,
        env=dict(os.environ),
        timeout=300,
        check=True,
    )
    # It ends with exit code 4 if a traced boot does not repeat its record bit by bit.
    done = rtgate("explain", tmp_path / "records" / BOARD / "candidate" / CASE, *arms, "-o", tmp_path / "explained")
    assert done.returncode == 0
    found = json.loads((tmp_path / "explained").read_text())
    assert found["view"] == "worst"
    assert found["culprits"][0]["function"] == "hrtimer_wakeup"
    assert found["culprits"][0]["instructions"] > 8000  # 70 us are 8750
    assert set(found["changes"]["changed"]) <= {"hrtimer_wakeup", "__hrtimer_run_queues"}
    assert found["exercised"]["executed"]["hrtimer_wakeup"] > 0
    for arm in (found["baseline"], found["candidate"]):
        assert arm["agreeing"] == arm["wakeups"] == 2000
        assert abs(arm["worst"]["unaccounted_ns"]) <= 100
    assert "instructions in hrtimer_wakeup" in done.stdout


def test_a_record_of_another_kernel_is_refused(kernel: Path, slow_kernel: Path, tmp_path: Path) -> None:
    words = ["tests/latency/test_cyclictest.py", "-k", "cyclictest and idle", "--board", BOARD, "--profile", "smoke"]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *words,
            "--kernel",
            kernel,
            "--no-judge",
            "--seeds",
            "1",
            "--records",
            tmp_path,
        ],
        cwd=ROOT,
        env=dict(os.environ),
        timeout=300,
        check=True,
    )
    done = rtgate("explain", tmp_path / BOARD / "candidate" / CASE, "--arm", f"candidate={slow_kernel}")
    assert done.returncode == 2
    assert "its image is another one" in done.stderr
