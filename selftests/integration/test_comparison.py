# SPDX-License-Identifier: MIT
"""Two kernels through the whole gate: harmless ones pass or sleep, harmful ones fail and are explained."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rtgate import site

from .conftest import ROOT, rtgate

CHANGED = ("boot-nops-100", "unused-text", "wake-up-3-percent-longer", "interrupts-off-50us")


@pytest.fixture(scope="module")
def kernels() -> Path:
    """Build the changed kernels in one copy of the source, which stays in the cache: each compiles a file or two."""
    work = site.cache() / "comparisons"
    words = [sys.executable, "bench/comparisons.py", "build", *CHANGED, "--work", str(work)]
    subprocess.run(words, cwd=ROOT, timeout=1500, check=True)
    return work / "kernels"


def gate(baseline: Path, candidate: Path, output: Path, *words: str) -> tuple[int, list[dict[str, Any]], str]:
    select = ("--seeds", "1-8", "-k", "test_cyclictest.py and idle", "--no-extend")
    arms = ("--baseline", baseline, "--kernel", candidate)
    done = rtgate("gate", "--board", "virt-arm64", *arms, "-o", output, *select, *words)
    return done.returncode, json.loads((output / "verdict.json").read_text())["verdicts"], done.stdout


def kinds(verdicts: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(one["status"], one["kind"]) for one in verdicts}


def test_a_harmless_change_that_ran_is_no_worse(kernel: Path, kernels: Path, tmp_path: Path) -> None:
    code, verdicts, told = gate(kernel, kernels / "boot-nops-100", tmp_path / "out", "--no-explain")
    assert code == 0
    assert ("DONE", "no worse") in kinds(verdicts)  # nobody looked whether it ran
    assert "no worse than the baseline" in told


def test_a_change_that_did_not_run_is_for_boards(kernel: Path, kernels: Path, tmp_path: Path) -> None:
    code, verdicts, told = gate(kernel, kernels / "unused-text", tmp_path / "out")
    assert code == 5
    assert ("SKIP", "not exercised") in kinds(verdicts)
    assert ("PASS", "no worse") not in kinds(verdicts)
    assert "boards needed" in told


def test_a_body_that_is_three_percent_longer_is_found_and_explained(
    kernel: Path, kernels: Path, tmp_path: Path
) -> None:
    code, verdicts, told = gate(kernel, kernels / "wake-up-3-percent-longer", tmp_path / "out")
    assert code == 1
    body = next(one for one in verdicts if one["measurement"] == "latency p50")
    assert (body["status"], body["kind"]) == ("FAIL", "regression")
    assert "instructions in try_to_wake_up" in body["sentence"]
    assert "the kernel became worse than the baseline; it keeps every limit" in told


def test_rare_interrupts_off_show_in_the_maximum_alone(kernel: Path, kernels: Path, tmp_path: Path) -> None:
    code, verdicts, _ = gate(kernel, kernels / "interrupts-off-50us", tmp_path / "out", "--no-explain")
    assert code == 1
    assert {one["measurement"] for one in verdicts if one["kind"] == "regression"} == {"latency maximum"}


def test_other_seeds_are_no_comparison(kernel: Path, kernels: Path, tmp_path: Path) -> None:
    records, suites = tmp_path / "records", [sys.executable, "-m", "pytest"]
    for arm, directory, seeds in (("baseline", kernel, "1"), ("candidate", kernels / "boot-nops-100", "2")):
        words = ["tests/latency/test_cyclictest.py", "-k", "idle", "--board", "virt-arm64", "--profile", "smoke"]
        subprocess.run(
            [*suites, *words, f"--arm={arm}={directory}", "--seeds", seeds, "--no-judge", "--records", str(records)],
            cwd=ROOT,
            timeout=300,
            check=True,
        )
    replay = ["tests/latency/test_cyclictest.py", "-k", "idle", "--replay", str(records)]
    done = subprocess.run([*suites, *replay], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "cannot be compared: seeds: '1' against '2'" in done.stdout
