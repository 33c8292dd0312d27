# SPDX-License-Identifier: MIT
"""A kernel is gated with a tool and a load that only a site directory has: those of the contributors' page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from selftests.integration.conftest import ROOT, records_of, rtgate, verdicts_of
from selftests.unit.recipes import carry_out

PAGE = ROOT / "docs" / "how-to" / "contribute" / "bring-your-own-tool.md"


def test_a_site_s_tool_gates_a_kernel(kernel: Path, tmp_path: Path) -> None:
    carry_out(PAGE.read_text(encoding="utf-8"), tmp_path, dict(os.environ))
    site, report = tmp_path / "my-lab", tmp_path / "report"
    words = ("gate", "--board", "virt-arm64", "--kernel", kernel, "--profile", "naps", "-o", report)
    assert rtgate("--site", site, *words).returncode == 0
    found = verdicts_of(report)
    assert {(one["case"], one["status"]) for one in found} == {
        ("latency/naps:idle", "PASS"),
        ("latency/naps:chatter", "PASS"),
    }
    records = records_of(report / "records")
    # 100 sleeps of 10 ms take a second at least, and longer beside a load.
    times = {record["case"]: record["measurements"][0]["value"] for record in records}
    assert 1_000_000 <= times["latency/naps:idle"] < times["latency/naps:chatter"]
    refused = _replayed_without_the_site(report)
    assert refused.returncode == 4
    assert "cannot be judged here: unknown tool 'naps'" in refused.stdout + refused.stderr
    limits = site / "thresholds.yaml"
    limits.write_text(limits.read_text().replace("2.5 virtual s", "1 virtual us"))
    assert rtgate("--site", site, *words).returncode == 1


def _replayed_without_the_site(report: Path) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if name != "RTGATE_SITE"}
    command = [sys.executable, "-m", "pytest", "-c", "tests/pytest.ini", "-q", "-p", "no:cacheprovider", "tests"]
    return subprocess.run(
        [*command, "--replay", report / "records", "--verdict", report / "again.json"],
        cwd=ROOT,
        env=known,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
