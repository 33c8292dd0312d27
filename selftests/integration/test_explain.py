# SPDX-License-Identifier: MIT
"""A traced boot gives the same bits, and the function that makes a kernel slow is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, rtgate

BOARD = "virt-arm64"
CASE = "latency.cyclictest:idle"


@pytest.fixture(scope="module")
def records(kernel: Path, slow_kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the records of both kernels lie."""
    made = tmp_path_factory.mktemp("records")
    words = ["tests/latency/test_cyclictest.py", "-k", "cyclictest and idle", "--board", BOARD, "--profile", "smoke"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *words, *arms(kernel, slow_kernel), "--no-judge", "--records", made],
        cwd=ROOT,
        env=dict(os.environ),
        timeout=300,
        check=True,
    )
    return made / BOARD


def arms(baseline: Path, candidate: Path) -> list[str]:
    return [f"--arm=baseline={baseline}", f"--arm=candidate={candidate}"]


def test_the_slow_function_is_named_and_the_trace_disturbs_nothing(
    kernel: Path, slow_kernel: Path, records: Path, tmp_path: Path
) -> None:
    # It ends with exit code 4 if a traced boot does not repeat its record bit by bit.
    words = (records / "candidate" / CASE, *arms(kernel, slow_kernel), "-o", tmp_path / "explained")
    done = rtgate("explain", *words)
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


def test_a_record_of_another_kernel_is_refused(kernel: Path, records: Path) -> None:
    done = rtgate("explain", records / "candidate" / CASE, "--arm", f"candidate={kernel}")
    assert done.returncode == 2
    assert "its image is another one" in done.stderr
