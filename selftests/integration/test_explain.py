# SPDX-License-Identifier: MIT
"""A traced boot gives the same bits, and the function that makes a kernel slow is named."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, Patched, rtgate

BOARD = "virt-arm64"
CASE = "latency.cyclictest:idle"


@pytest.fixture(scope="module")
def records(kernel: Path, slow_kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the records of both kernels lie."""
    return measured(BOARD, "latency/test_cyclictest.py", arms(kernel, slow_kernel), tmp_path_factory.mktemp("records"))


def measured(board: str, suite: str, kernels: list[str], records: Path, profile: str = "smoke") -> Path:
    """Measure a suite's idle case on both kernels, and return where the board's records lie."""
    words = [f"tests/{suite}", "-k", "idle", "--board", board, "--profile", profile, "--no-judge"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *words, *kernels, "--records", records],
        cwd=ROOT,
        env=dict(os.environ),
        timeout=300,
        check=True,
    )
    return records / board


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
        assert arm["agreeing"] == arm["intervals"] == 2000
        assert abs(arm["worst"]["unaccounted_ns"]) <= 100
    assert "instructions in hrtimer_wakeup" in done.stdout


def test_a_record_of_another_kernel_is_refused(kernel: Path, records: Path) -> None:
    done = rtgate("explain", records / "candidate" / CASE, "--arm", f"candidate={kernel}")
    assert done.returncode == 2
    assert "its image is another one" in done.stderr


@pytest.mark.long("a kernel more; the slow function of another is named in make test")
def test_a_warning_is_named_and_not_what_prints_it(kernel: Path, patched: Patched, tmp_path: Path) -> None:
    patches = ROOT / "selftests" / "data" / "bad-kernels" / "warning-in-the-timer"
    warning_kernel = patched("warning", patches)
    kernels = arms(kernel, warning_kernel)
    records = measured(BOARD, "latency/test_cyclictest.py", kernels, tmp_path / "records")
    done = rtgate("explain", records / "candidate" / CASE, *kernels, "-o", tmp_path / "explained")
    assert done.returncode == 0
    found = json.loads((tmp_path / "explained").read_text())
    assert (found["culprits"][0]["function"], found["culprits"][0]["warns"]) == ("hrtimer_wakeup", True)
    site = r"WARNING at kernel/time/hrtimer\.c:[0-9]+: hrtimer_wakeup\+0x[0-9a-f/x]+"
    why = r"\(first in seed [0-9]+: wake-up [0-9]+ of [a-z]\S*\)"
    assert re.match(rf"{site} {why} costs the time: \+[0-9,]+ instructions in hrtimer_wakeup", found["sentence"])


@pytest.mark.long("a kernel more; the slow function of another is named in make test")
@pytest.mark.parametrize("board", ["virt-arm64-smp2"])
def test_the_function_that_makes_a_signal_slow_is_named(
    kernel: Path, patched: Patched, tmp_path: Path, board: str
) -> None:
    patches = ROOT / "selftests" / "data" / "comparisons" / "harmful" / "remote-wake-up-delayed"
    kernels = arms(kernel, patched("remote-wake-up-delayed", patches))
    # The profile `smoke` has cyclictest only; `mr` measures 10 s of one seed.
    records = measured(board, "signal/test_signaltest.py", kernels, tmp_path / "records", profile="mr")
    done = rtgate("explain", records / "candidate" / "signal.signaltest:idle", *kernels, "-o", tmp_path / "explained")
    assert done.returncode == 0
    found = json.loads((tmp_path / "explained").read_text())
    assert found["culprits"][0]["function"] in {"ttwu_queue", "try_to_wake_up"}  # the first may be inlined
    assert found["culprits"][0]["instructions"] > 20_000  # 200 us, that is 25 000
    for arm in (found["baseline"], found["candidate"]):
        assert arm["what"] == "round trip"
        assert arm["agreeing"] >= 0.99 * arm["intervals"] > 100
        assert abs(arm["worst"]["unaccounted_ns"]) <= 100
