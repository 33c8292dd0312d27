# SPDX-License-Identifier: MIT
"""A tuning that a kernel cannot follow is known before anything boots; bench/isolation.py boots those that can."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from selftests.integration.conftest import ROOT, records_of, verdicts_of


def test_a_kernel_that_cannot_isolate_is_skipped_before_it_boots(kernel: Path, tmp_path: Path) -> None:
    words = ["--board", "virt-arm64-smp2", "--kernel", kernel, "--tuning", "isolated", "--profile", "smoke"]
    case = ["--case", "latency/cyclictest:idle+isolated", "--records", tmp_path / "records"]
    command = [sys.executable, "-m", "pytest", "-q", "tests/latency", *words, *case]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    print(done.stdout, done.stderr, sep="\n")
    assert done.returncode == 0
    found = records_of(tmp_path / "records")
    assert {record["state"] for record in found} == {"skipped"}
    assert {record["machine"]["ran"] for record in found} == {"nothing"}
    (reason,) = {record["message"] for record in found}
    assert "CONFIG_NO_HZ_FULL, which nohz_full needs" in reason
    assert reason.endswith("the build virt-arm64-isolation has them")
    verdicts = verdicts_of(tmp_path / "records")
    assert {one["status"] for one in verdicts} == {"SKIP"}
