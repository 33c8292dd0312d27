# SPDX-License-Identifier: MIT
"""Tools that keep a CPU busy and need two of them, on a virtual board with two, at the least length."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from selftests.integration.conftest import records_of, verdicts_of

ROOT = Path(__file__).resolve().parents[2]
PROFILE = """
least:
  description: whether it runs at all
  duration: 2 s
  seeds: 1
  boots: 1
  only: [queuelat, rt-migrate-test]
"""


@pytest.mark.parametrize(
    ("suite", "tool", "counted"), [("latency", "queuelat", "loops"), ("scheduling", "rt-migrate-test", "rounds")]
)
def test_a_busy_tool_is_measured_and_valid(kernel: Path, tmp_path: Path, suite: str, tool: str, counted: str) -> None:
    (tmp_path / "profiles.yaml").write_text(PROFILE)
    words = ["--board", "virt-arm64-smp2", "--kernel", kernel, "--profile", "least", "--records", tmp_path / "records"]
    command = [sys.executable, "-m", "pytest", "-q", f"tests/{suite}", "--case", f"{suite}/{tool}:idle", *words]
    done = subprocess.run(
        list(map(str, command)),
        cwd=ROOT,
        env={**os.environ, "RTGATE_SITE": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    print(done.stdout, done.stderr, sep="\n")
    assert done.returncode == 0
    (record,) = records_of(tmp_path / "records")
    assert record["state"] == "measured"
    values = [one["value"] for one in record["measurements"] if one["name"] == counted]
    assert values
    assert min(values) > 0
    verdicts = verdicts_of(tmp_path / "records")
    assert {one["status"] for one in verdicts} <= {"DONE", "PASS"}
