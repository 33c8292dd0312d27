# SPDX-License-Identifier: MIT
"""`rtgate submit` on a real LAVA server: kernels that break, a lab that breaks, a server that restarts, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from selftests import cpio_reader
from selftests.lab.lab import PROGRAM, ROOT, Lab

from rtgate.board import boards
from rtgate.cli.main import main
from rtgate.rootfs import cpio, images

BOARD = "lab-virt-arm64"
DEVICE = f"{BOARD}-01"
CASES = {f"latency/cyclictest:{load}" for load in ("idle", "hackbench", "stress-ng")}
LIMIT_S = 420.0


@pytest.fixture(scope="module")
def kernel(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("kernel")
    assert main(["build", boards.board(BOARD).build, "-o", str(directory)]) == 0
    return directory


@dataclass
class Run:
    """A submission under way."""

    child: subprocess.Popen[str]
    output: Path
    said: Path

    def saw(self, text: str) -> None:
        """Wait until it has said something."""
        limit = time.monotonic() + LIMIT_S
        while text not in self.said.read_text():
            assert self.child.poll() is None, self.said.read_text()
            assert time.monotonic() < limit, f"{text!r} did not come: {self.said.read_text()}"
            time.sleep(0.2)

    def code(self) -> int:
        """Wait for its end and return its exit code; pytest shows what it said where a test fails."""
        code = self.child.wait(timeout=LIMIT_S)
        print(self.said.read_text())
        verdict = self.output / "verdict.json"
        print(verdict.read_text() if verdict.exists() else "no verdict.json")
        return code

    def verdicts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.output / "verdict.json").read_text())["verdicts"]
        return found

    @property
    def number(self) -> int:
        return int(self.said.read_text().partition("/scheduler/job/")[2].split()[0])


@pytest.fixture
def submit(lab: Lab, kernel: Path, tmp_path: Path) -> Iterator[Callable[..., Run]]:
    begun = []

    def start(*options: str, **variables: str) -> Run:
        argv = [sys.executable, "-m", "rtgate", "submit", "--wait", "--board", BOARD, "--kernel", str(kernel)]
        argv += ["--suite", "latency", "--profile", "smoke", "-o", str(tmp_path / "report"), *options]
        environment = {**os.environ, **lab.environment, "PYTHONPATH": str(ROOT / "src"), **variables}
        said = tmp_path / "said"
        with said.open("w") as stream:
            child = subprocess.Popen(argv, cwd=tmp_path, env=environment, stderr=stream, text=True)
        begun.append(child)
        return Run(child, tmp_path / "report", said)

    yield start
    for child in begun:
        if child.poll() is None:
            child.terminate()
            child.wait(timeout=60)


@pytest.fixture(scope="module")
def brisk(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return a site, and an image that has it, in which the board counts as hung after seconds instead of minutes."""
    assert lab.token_file.exists()
    boards_of_site = tmp_path_factory.mktemp("site") / "boards"
    boards_of_site.mkdir()
    text, usual = (ROOT / "boards" / f"{BOARD}.yaml").read_text(), 'prompt: "target# "}'
    assert usual in text
    (boards_of_site / f"{BOARD}.yaml").write_text(text.replace(usual, 'prompt: "target# ", silence: 15 s}'))
    variables = {"RTGATE_SITE": str(boards_of_site.parent), "RTGATE_IMAGE": "rtgate:brisk"}
    subprocess.run([PROGRAM, "image"], env={**os.environ, **variables}, check=True, timeout=300)
    return {"RTGATE_SITE": variables["RTGATE_SITE"]}


@pytest.fixture
def short_boots(tmp_path: Path) -> dict[str, str]:
    """Return a site whose jobs wait a minute for a kernel's shell instead of three; it comes within 20 s."""
    jobs = tmp_path / "site" / "lava-jobs"
    jobs.mkdir(parents=True)
    text, usual = (ROOT / "lava-jobs" / "uboot-ramdisk.yaml").read_text(), "auto-login-action: {minutes: 3}"
    assert usual in text
    (jobs / "uboot-ramdisk.yaml").write_text(text.replace(usual, "auto-login-action: {minutes: 1}"))
    return {"RTGATE_SITE": str(jobs.parent)}


def ramdisk(path: Path, name: str, script: str) -> Path:
    """Write the board's ramdisk with one of its programs replaced by a script; LAVA reads its first archive only."""
    archive = images.image(boards.board(BOARD).rootfs, boards.board(BOARD).arch).archive.read_bytes()
    entries = {entry.name: entry for entry in cpio_reader.unpack(archive)}
    (place,) = (one for one, entry in entries.items() if one.rpartition("/")[2] == name and stat.S_ISREG(entry.mode))
    entries[place] = cpio.file(place, f"#!/bin/sh\n{script}\n".encode(), 0o755)
    path.write_bytes(cpio.compress(cpio.pack(entries.values())))
    return path


def test_from_kernel_to_verdict(lab: Lab, submit: Callable[..., Run]) -> None:
    run = submit()
    assert run.code() in {0, 5}
    assert {verdict["case"] for verdict in run.verdicts()} == CASES
    assert {verdict["status"] for verdict in run.verdicts()} <= {"PASS", "DONE"}
    assert (run.output / "index.html").is_file()
    numbers = {name: one for name, one in lab.results(run.number).items() if one["measurement"] is not None}
    assert any("latency.max" in name and one["unit"] == "us" for name, one in numbers.items()), numbers.keys()


@pytest.mark.long("a server restarts in mid-job, 85 s; the way from kernel to verdict is in make test")
def test_a_server_that_restarts_in_mid_job(lab: Lab, submit: Callable[..., Run]) -> None:
    run = submit()
    run.saw("lava-docker-test")
    lab.service("restart", "lava-server")
    # A server that starts takes the host's cores from the emulated board: what that measured meanwhile may be invalid,
    # or the lab's fault, but each case has a boot, and no kernel is blamed.
    assert run.code() in {0, 3, 4, 5}
    assert {verdict["case"] for verdict in run.verdicts()} == CASES
    failed = [verdict for verdict in run.verdicts() if verdict["status"] not in {"PASS", "DONE"}]
    assert {(verdict["status"], verdict["kind"]) for verdict in failed} <= {("ERROR", "validity"), ("MISS", "lab")}
    assert {verdict["case"] for verdict in failed} < CASES  # not all: what ran while the server was up is good
    assert sum(job["id"] >= run.number for job in lab.ask("jobs/?ordering=-id&limit=10")["results"]) == 1


def test_a_kernel_that_panics_at_boot(submit: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "empty.cpio.gz").write_bytes(cpio.compress(cpio.pack([cpio.file("nothing", b"x", 0o644)])))
    run = submit("--ramdisk", str(tmp_path / "empty.cpio.gz"))
    assert run.code() == 1
    assert {(one["status"], one["kind"]) for one in run.verdicts()} == {("FAIL", "boot")}
    assert all("Kernel panic - not syncing: VFS" in one["sentence"] for one in run.verdicts())


@pytest.mark.long("a silent boot is waited for, twice: 8 minutes")
def test_a_kernel_that_says_nothing_is_blamed_by_boots_that_come_after_it(
    submit: Callable[..., Run], kernel: Path, tmp_path: Path, short_boots: dict[str, str]
) -> None:
    subprocess.run([PROGRAM, "health-check", BOARD, str(kernel)], check=True, timeout=300)
    hung = ramdisk(tmp_path / "hung.cpio.gz", "init", "while :; do /bin/sleep 1000; done")
    run = submit("--ramdisk", str(hung), **short_boots)
    assert run.child.wait(timeout=1500) == 1
    said = {(one["status"], one["kind"]) for one in run.verdicts()}
    assert said == {("FAIL", "boot")}
    told = run.said.read_text()
    assert "trying a known-good kernel (the lab's health check)" in told
    # On a busy machine the kernel may be slow at first, or the known-good one hang as well: then it is tried again.
    jobs = told.count("/scheduler/job/")
    assert jobs >= 3
    assert len(list((run.output / "lava").glob("*.log"))) == jobs


@pytest.mark.long("an image with another board is used, a minute; the image's own board is in make test")
def test_a_board_that_the_container_does_not_have(submit: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "site" / "boards").mkdir(parents=True)
    text = (ROOT / "boards" / f"{BOARD}.yaml").read_text()
    (tmp_path / "site" / "boards" / "ours.yaml").write_text(text)
    run = submit("--board", "ours", "--profile", "quick", RTGATE_SITE=str(tmp_path / "site"))
    assert run.code() == 5
    assert {(one["case"], one["status"]) for one in run.verdicts()} == {(case, "DONE") for case in CASES}


@pytest.mark.long("a hang is waited for and an image is built, two minutes; a panic is in make test")
def test_a_target_that_stops_answering_during_a_test(
    submit: Callable[..., Run], brisk: dict[str, str], tmp_path: Path
) -> None:
    stopped = ramdisk(tmp_path / "stopped.cpio.gz", "cyclictest", "kill -STOP -1; sleep 100000")
    run = submit("--ramdisk", str(stopped), "--image", "rtgate:brisk", **brisk)
    assert run.code() == 1
    # The case in which it hung is the kernel's failure; those that nobody could measure after it are missed.
    assert sorted(one["status"] for one in run.verdicts()) == ["FAIL", "MISS", "MISS"]
    hung = [one for one in run.verdicts() if one["status"] == "FAIL"]
    assert {one["kind"] for one in hung} == {"hang"}


@pytest.mark.long("two jobs that fail and a board that must become healthy; unit tests have a failing power switch")
def test_a_power_switch_that_fails(lab: Lab, submit: Callable[..., Run]) -> None:
    lab.service("stop", f"board-{DEVICE}")
    try:
        run = submit("--retries", "1")
        assert run.code() == 3
    finally:
        lab.service("start", f"board-{DEVICE}")
        healthy(lab)
    assert "the lab failed, trying again (1 of 1)" in run.said.read_text()
    assert {one["status"] for one in run.verdicts()} == {"MISS"}


def test_ctrl_c(lab: Lab, submit: Callable[..., Run]) -> None:
    run = submit()
    run.saw("uboot-action")
    run.child.send_signal(signal.SIGINT)
    assert run.code() == 130
    assert lab.wait(run.number, 60)["health"] == "Canceled"


def healthy(lab: Lab) -> None:
    """After a lab's fault LAVA wants a health check; here there is none."""
    manage = ("runuser", "-u", "lavaserver", "--", "lava-server", "manage")
    lab.inside(*manage, "devices", "update", "--health", "GOOD", DEVICE)
