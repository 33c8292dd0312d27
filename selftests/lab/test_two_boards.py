# SPDX-License-Identifier: MIT
"""Two boards in one job of a real LAVA server: the endpoint first, then the root complex, and both are judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from selftests.lab.lab import ROOT, Lab

from rtgate.board import boards
from rtgate.cli.main import main
from rtgate.records import record as records_file

pytestmark = pytest.mark.long("two boards boot and measure one after the other: minutes")

ROOT_COMPLEX, ENDPOINT = "lab-virt-x86_64", "lab-virt-arm64"
CASES = {f"latency/cyclictest:{load}" for load in ("idle", "hackbench", "stress-ng")}
SET_UP = "test -d /proc/self\necho the endpoint is set up >/dev/kmsg\n"
LIMIT_S = 900.0


@pytest.fixture(scope="module")
def kernels(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for name in (ROOT_COMPLEX, ENDPOINT):
        made[name] = tmp_path_factory.mktemp("kernel") / name
        assert main(["build", boards.board(name).build, "-o", str(made[name])]) == 0
    return made


def submit(lab: Lab, kernels: dict[str, Path], directory: Path, set_up: str, *options: str) -> tuple[int, str]:
    """Submit a job, wait for its end, and return the exit code and what was said."""
    (directory / "set-up.sh").write_text(set_up)
    argv = [sys.executable, "-m", "rtgate", "submit", "--wait", "--board", ROOT_COMPLEX, "--suite", "latency"]
    argv += ["--kernel", str(kernels[ROOT_COMPLEX]), "--profile", "smoke", "-o", "report", *options]
    argv += ["--endpoint", ENDPOINT, "--endpoint-kernel", str(kernels[ENDPOINT]), "--endpoint-set-up", "set-up.sh"]
    environment = {**os.environ, **lab.environment, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        argv, cwd=directory, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    print(done.stdout, done.stderr)
    return done.returncode, done.stderr


def log(directory: Path, number: int) -> list[tuple[str, str]]:
    """Return the lines of a job's log, each with its time."""
    text = (directory / "report" / "lava" / f"job-{number}.log").read_text()
    return [(str(line["dt"]), str(line["msg"])) for line in yaml.load(text, Loader=yaml.CSafeLoader)]


def moment(lines: list[tuple[str, str]], text: str) -> str:
    return next(time for time, message in lines if text in message)


def test_both_sides_measure_one_after_the_other_and_are_judged_together(
    lab: Lab, kernels: dict[str, Path], tmp_path: Path
) -> None:
    code, said = submit(lab, kernels, tmp_path, SET_UP)
    assert code in {0, 5}, said
    verdicts = json.loads((tmp_path / "report" / "verdict.json").read_text())["verdicts"]
    assert {(one["board"], one["case"]) for one in verdicts} == {
        (board, case) for board in (ROOT_COMPLEX, ENDPOINT) for case in CASES
    }
    assert not {one["status"] for one in verdicts} & {"FAIL", "ERROR", "MISS"}
    found = [(one.board, one.case) for one in records_file.read_all(tmp_path / "report" / "records")]
    assert sorted(found) == sorted([(board, case) for board in (ENDPOINT, ROOT_COMPLEX) for case in CASES])
    first = int(said.partition("/scheduler/job/")[2].split()[0])
    own, other = log(tmp_path, first), log(tmp_path, first + 1)
    set_up = moment(other, "the endpoint is set up")
    assert set_up < moment(own, "Linux version")
    measured = moment(other, "rtgate: every case was carried out")
    assert moment(own, "<LAVA_WAIT_COMPLETE") >= measured > moment(own, "Linux version")
    assert moment(own, "cyclictest:idle: measured") > measured


def test_a_set_up_that_fails_is_the_labs_and_holds_no_board(lab: Lab, kernels: dict[str, Path], tmp_path: Path) -> None:
    code, said = submit(lab, kernels, tmp_path, "true\nfalse\n", "--retries", "0")
    assert code == 3, said
    verdicts = json.loads((tmp_path / "report" / "verdict.json").read_text())["verdicts"]
    assert {one["status"] for one in verdicts} == {"MISS"}
    assert any("the endpoint could not be set up" in one["sentence"] for one in verdicts)
