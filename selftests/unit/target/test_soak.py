# SPDX-License-Identifier: MIT
"""The soak's script where nothing has to run for long; `selftests/faults` has whole soaks in every shell."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.board import boards
from rtgate.console.frames import cksum
from rtgate.target.plan import Plan, script
from rtgate.target.soak import LOG_GOES_ON, LOG_LOST, Phase, Soak, status
from rtgate.tools.loads import load

IDLE = load("idle", boards.board("virt-arm64"))
NONCE = "S01234567"
BOOT = "3f0e5d0a-0000-4000-8000-000000000001"


def soak(directory: str = "/run/rtgate", **changes: object) -> Soak:
    plan = Plan(
        case="latency/cyclictest:idle",
        argv=("cyclictest",),
        load=IDLE,
        seed=1,
        duration_s=2,
        work_directory=directory,
    )
    return Soak(**{"nonce": NONCE, "plan": plan, "first": 1, "last": 3, **changes})  # type: ignore[arg-type]


def sealed(text: str) -> bytes:
    return f"{text} {cksum(f'{text}{chr(10)}'.encode())}\r\n".encode()


def test_a_status_is_read() -> None:
    found = status(NONCE, b"noise\r\n" + sealed(f"{NONCE} pausing 7 3 601 00006 {BOOT} ") + b"# ")
    assert found is not None
    assert (Phase.PAUSING, 7, 3, 601, 6) == (found.phase, found.number, found.age_s, found.took_s, found.waiting)
    assert (BOOT, "") == (found.boot_id, found.why)


def test_why_it_ended_is_read() -> None:
    found = status(NONCE, sealed(f"{NONCE} ended 7 3 601 00000 - the target's disk is full (no results)"))
    assert found is not None
    assert ("", "the target's disk is full (no results)") == (found.boot_id, found.why)


@given(st.integers(0, 60), st.integers(1, 255))
def test_a_damaged_status_is_none(place: int, change: int) -> None:
    line = bytearray(sealed(f"{NONCE} pausing 7 3 601 00006 {BOOT} "))
    line[place] ^= change
    assert status(NONCE, bytes(line)) is None


def test_of_another_soak_it_is_none() -> None:
    assert status("S76543210", sealed(f"{NONCE} pausing 7 3 601 00006 {BOOT} ")) is None
    assert status(NONCE, sealed(f"{NONCE} dreaming 7 3 601 00006 {BOOT} ")) is None


@pytest.mark.parametrize("changes", [{"nonce": "S1"}, {"first": 0}, {"first": 4}, {"last": 100_000}])
def test_what_no_script_can_count_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="no soak is called"):
        soak("/run/rtgate", **changes)


def test_a_chunk_is_the_plan_under_a_nonce_of_its_own() -> None:
    one = soak()
    assert "S0123456700007" == one.chunk_nonce(7)
    text = script(one.chunk)
    assert one.plan_script.endswith(text)
    log = "sh /run/rtgate/S01234567.soak.sh log"
    ordinary = text.replace(log, "dmesg").replace(one.chunk.nonce, one.plan.nonce)
    assert script(one.plan) == ordinary


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox sh", "mksh"])
def test_every_shell_reads_it(shell: str, tmp_path: Path) -> None:
    words = shell.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    (tmp_path / "soak.sh").write_text(soak("/tmp/it's here").script)
    subprocess.run([*words, "-n", tmp_path / "soak.sh"], check=True)


def test_shellcheck_finds_nothing(tmp_path: Path) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    (tmp_path / "soak.sh").write_text(soak().script)
    subprocess.run(["shellcheck", "-s", "sh", tmp_path / "soak.sh"], check=True)


class Log:
    """A kernel log, and what a soak's script makes of it."""

    def __init__(self, directory: Path) -> None:
        self.log, self.script = directory / "kernel", directory / f"{NONCE}.soak.sh"
        (directory / f"{NONCE}.soak").mkdir()
        (directory / "bin").mkdir()
        dmesg = directory / "bin" / "dmesg"
        dmesg.write_text(f"#!/bin/sh\ncat {self.log}\n")
        dmesg.chmod(0o755)
        self.path = f"{directory}/bin:{os.environ['PATH']}"
        self.script.write_text(soak(str(directory)).script)

    def new(self, *lines: str) -> list[str]:
        self.log.write_text("".join(f"{line}\n" for line in lines))
        done = subprocess.run(
            ["sh", self.script, "log"], env={"PATH": self.path}, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()


A, B, C = "[    0.000000] Booting Linux", "<4>[   12.500000] a [ b", "[   13.000000] * c"


def test_of_the_kernel_log_a_chunk_has_what_is_new(tmp_path: Path) -> None:
    log = Log(tmp_path)
    assert [A, B] == log.new(A, B)
    assert [LOG_GOES_ON] == log.new(A, B)
    assert [LOG_GOES_ON, C] == log.new(A, B, C)
    # The kernel's buffer is full, and begins later.
    assert [LOG_GOES_ON, A] == log.new(C, A)
    assert [LOG_LOST, B, C] == log.new(B, C)


def test_without_times_every_chunk_has_the_whole_log(tmp_path: Path) -> None:
    log = Log(tmp_path)
    assert ["trace", "end"] == log.new("trace", "end")
    # Its last line says nothing: the same words may have been said again.
    assert ["trace", "end", "trace", "end"] == log.new("trace", "end", "trace", "end")


def test_a_log_that_cannot_be_read_is_noted(tmp_path: Path) -> None:
    log = Log(tmp_path)
    (tmp_path / "bin" / "dmesg").write_text("#!/bin/sh\nexit 1\n")
    assert [] == log.new()
    assert (tmp_path / f"{NONCE}.soak" / "no-log").exists()
