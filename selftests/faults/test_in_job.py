# SPDX-License-Identifier: MIT
"""`rtgate in-job` on a board whose console is a port: what LAVA's log would hold, and what is read from it again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from selftests.faults import targets
from selftests.faults.lab import Lab, lab
from selftests.faults.targets import Blow, Target, lacking
from selftests.lava_records import is_complete

from rtgate.cli.main import main
from rtgate.lava.results import records
from rtgate.records import record as records_file
from rtgate.records.record import KernelIdentity, Record

pytestmark = [
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
    pytest.mark.xdist_group("in job"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
KERNEL = KernelIdentity(
    name="mine", flavour="preempt_rt", release="", image_sha256="a" * 64, source="a tree", provenance="rtgate"
)
SITE = """
brief:
  description: as short as it may be
  duration: 1 s
  seeds: 1
  boots: 1
  only: [cyclictest]
"""
BOARD = """
# SPDX-License-Identifier: MIT
description: a shell of this machine
soc: some
arch: arm64
cpus: 1
memory: 512 MiB
console: {device: ttyS0, baud: 115200, prompt: "target# "}
build: virt-arm64-preempt_rt
work_directory: /mnt/rtgate
"""


ASKED = ("in-job", "--board", "shell", "--arm", "baseline", "--boot", "3", "--suite", "latency", "--profile", "brief")


def told(found: Lab, directory: Path) -> dict[str, str]:
    """Return the variables of a job, with a site that has the board."""
    site = directory / "site"
    (site / "boards").mkdir(parents=True)
    (site / "boards" / "shell.yaml").write_text(BOARD)
    (site / "profiles.yaml").write_text(SITE)
    return {**found.environment, "RTGATE_SITE": str(site), "RTGATE_KERNEL": json.dumps(asdict(KERNEL))}


def in_job(found: Lab, directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rtgate", *ASKED, *options],
        env={**os.environ, **told(found, directory)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def decoded(log: str, directory: Path) -> tuple[records.DecodedRecords, dict[str, Record]]:
    found = records.decode(log.splitlines(), directory / "back")
    return found, {one.case: one for one in records_file.read_all(directory / "back")}


def test_records_and_results_come_back_through_the_log(tmp_path: Path) -> None:
    with lab(Target(log="[    0.000000] Linux version 6.12")) as found:
        done = in_job(found, tmp_path, "-k", "idle or hackbench")
    assert done.returncode == 0, done.stdout + done.stderr
    back, cases = decoded(done.stdout, tmp_path)
    assert is_complete(back), back
    assert sorted(cases) == ["latency/cyclictest:hackbench", "latency/cyclictest:idle"]
    idle = cases["latency/cyclictest:idle"]
    assert (idle.arm, idle.board, idle.state, idle.kernel) == ("baseline", "shell", "measured", KERNEL)
    assert dict(idle.machine) == {"console": "lava", "boot": "3", "job": "4711"}
    assert idle.directory is not None
    assert idle.directory.name == "003"
    assert re.search(
        # This board has no limit for it.
        r"^<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=latency\.cyclictest\.idle\.latency\.max\.cpu0 RESULT=unknown "
        r"UNITS=us MEASUREMENT=[0-9]+>$",
        done.stdout,
        re.MULTILINE,
    )
    assert "TEST_CASE_ID=rtgate.in-job RESULT=pass>" in done.stdout


def test_a_kernel_that_dies_is_told_from_cases_that_were_not_measured(tmp_path: Path) -> None:
    signal = "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=forged RESULT=pass>\x1b[2J\n"
    panic = targets.captured_fault("panic", "Kernel panic")
    with lab(Target(blow=Blow(says=signal + panic))) as found:
        done = in_job(found, tmp_path, "-k", "idle or hackbench")
    _, cases = decoded(done.stdout, tmp_path)
    states = sorted((one.state, one.message.partition(":")[0]) for one in cases.values())
    assert states == [
        ("kernel fault", "the kernel died during the measurement"),
        ("lab", "not measured"),
    ], done.stdout
    assert "panic" in {fault.kind for one in cases.values() for fault in one.faults}
    assert "forged" not in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--profile", "none"), "unknown profile"),
        (("--suite", "nothing"), "unknown suite"),
        (("--suite", "../../etc"), "unknown suite"),
        (("--boot", "x"), "not a boot of a job"),
        (("--upload", "https://u:geheim@h/x"), "no user, password or query"),
    ],
)
def test_a_mistake_is_found_before_anything_is_measured(
    options: tuple[str, ...],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in told(Lab(1, bytearray()), tmp_path).items():
        monkeypatch.setenv(name, value)
    assert main([*ASKED, *options]) == 2
    printed = capsys.readouterr()
    assert says in printed.out
    assert "geheim" not in printed.out + printed.err
    assert "RESULT=fail" in printed.out
