# SPDX-License-Identifier: MIT
"""A third architecture, whole: RISC-V kernels are built, booted, repeated and judged; what is not for it says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from selftests.integration.conftest import ROOT, build_kernel, records_of, rtgate, verdicts_of

from rtgate.errors import ConfigError

BOARD, BUILD = "virt-riscv64", "virt-riscv64-preempt_rt"
CASE = "latency.cyclictest:idle"

pytestmark = pytest.mark.long("two kernels of another architecture, a minute with a full compiler cache")


@pytest.fixture(scope="module")
def riscv_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_kernel(tmp_path_factory.mktemp("kernel") / "riscv64", BUILD)


@pytest.fixture(scope="module")
def good_report(riscv_kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    report = tmp_path_factory.mktemp("report") / "good"
    done = rtgate("gate", "--board", BOARD, "--kernel", riscv_kernel, "-k", "idle", "-o", report)
    assert done.returncode == 0
    return report


def test_a_good_kernel_passes_its_limits_and_names_its_firmware(good_report: Path) -> None:
    verdicts = verdicts_of(good_report)
    assert {verdict["status"] for verdict in verdicts} == {"PASS"}
    environments = [record["environment"] for record in records_of(good_report / "records")]
    assert {(one["arch"], one["flavour"], one["clocksource"]) for one in environments} == {
        ("riscv64", "preempt_rt", "riscv_clocksource")
    }
    assert all(one["firmware"].startswith("OpenSBI v") for one in environments)


@pytest.mark.parametrize("load", ["idle", "hackbench", "stress-ng"])
def test_a_boot_repeats_itself_to_the_byte(riscv_kernel: Path, load: str) -> None:
    words = ["--kernel", riscv_kernel, "--seeds", "1-2", "--times", "2", "--profile", "smoke"]
    words += ["--case", f"latency/cyclictest:{load}"]
    done = rtgate("repeat", "--board", BOARD, *words)
    assert done.returncode == 0
    assert "2 different histograms over 2 seeds" in done.stdout


def test_a_slow_kernel_fails_by_its_limits_and_by_its_baseline(riscv_kernel: Path, tmp_path: Path) -> None:
    slow = build_kernel(tmp_path / "slow", BUILD, "--patches", ROOT / "kernel-configs" / "patches" / "demo-slow-wakeup")
    words = ("--kernel", slow, "--baseline", riscv_kernel, "-k", "idle", "-o", tmp_path / "report")
    done = rtgate("gate", "--board", BOARD, *words, timeout=1800)
    assert done.returncode == 1
    verdicts = verdicts_of(tmp_path / "report")
    assert {verdict["kind"] for verdict in verdicts if verdict["status"] == "FAIL"} == {
        "limit",
        "tail limit",
        "regression",
    }


def test_what_reads_instructions_says_that_it_is_not_for_this_architecture(
    riscv_kernel: Path, good_report: Path
) -> None:
    arm = f"candidate={riscv_kernel}"
    explained = rtgate("explain", good_report / "records" / BOARD / "candidate" / CASE, "--arm", arm)
    sections = rtgate("sections", "--board", BOARD, "--kernel", riscv_kernel)
    for done, reason in ((explained, "is for EM_RISCV"), (sections, "is not a virtual board of arm64 or x86_64")):
        assert done.returncode == ConfigError.exit_code
        assert reason in done.stderr
