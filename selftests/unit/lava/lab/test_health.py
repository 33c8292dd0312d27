# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from selftests.conftest import Golden
from selftests.faults import lines
from selftests.faults.lines import Line
from selftests.unit.lava.job.test_definition import BOARDS, files_for

from rtgate.board import boards
from rtgate.console.shell import Shell, Waits
from rtgate.console.transport import ProgramTransport
from rtgate.durations import Deadline
from rtgate.lava.job.definition import Transport
from rtgate.lava.lab import health


@pytest.mark.parametrize("board", BOARDS)
def test_each_board_s_health_check_is_as_reviewed(board: str, golden: Golden) -> None:
    text = health.definition(boards.board(board), files_for(board, "known-good").files)
    golden(f"lava/health-checks/{board}.yaml", text)


def test_a_health_check_boots_twice_because_one_boot_proves_no_power_switch() -> None:
    for transport in Transport:
        files = files_for("rk3568-evb1", "known-good").files
        job = yaml.safe_load(health.definition(boards.board("rk3568-evb1"), files, transport=transport))
        assert [next(iter(action)) for action in job["actions"]] == ["deploy", "boot", "test"] * 2


def test_a_server_that_can_lets_go_of_the_console_while_it_is_proved() -> None:
    """It is installed once and outlives the server's release; only a strict check of LAVA 2023.01 minds the key."""
    board, files = boards.board("rk3568-evb1"), files_for("rk3568-evb1", "known-good").files

    def test_of(**options: Any) -> dict[str, Any]:
        return cast("dict[str, Any]", yaml.safe_load(health.definition(board, files, **options))["actions"][2]["test"])

    assert test_of()["disconnect_connection"] is True
    assert "disconnect_connection" not in test_of(server=(2023, 1))
    assert "disconnect_connection" not in test_of(transport=Transport.BOARD)


@pytest.mark.parametrize(("up", "result"), [("12.34", "pass"), ("901.5", "fail")])
def test_without_a_container_what_is_bad_ends_the_job_as_failed(tmp_path: Path, up: str, result: str) -> None:
    files = files_for("rk3568-evb1", "known-good").files
    board = boards.board("rk3568-evb1")
    job = yaml.safe_load(health.definition(board, files, transport=Transport.BOARD))
    steps = job["actions"][2]["test"]["definitions"][0]["repository"]["run"]["steps"]
    for name in ("lava-test-case", "lava-test-raise"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} $*\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    (tmp_path / "uptime").write_text(f"{up} 10.00\n")
    script = "\n".join(steps).replace("/proc/uptime", f"{tmp_path}/uptime")
    done = subprocess.run(["sh", "-ec", script], env={"PATH": path}, capture_output=True, text=True, check=True)
    raised = ["lava-test-raise infra: this board is not fit for measuring"] if result == "fail" else []
    told = f"lava-test-case board.power --result {result} --measurement {up} --units s"
    assert done.stdout.splitlines() == [told, *raised]


def test_a_probe_needs_no_board() -> None:
    definition, nonce = health.probe("rk3568-evb1", "lab/rtgate:9")
    job = yaml.safe_load(definition)
    assert [next(iter(action)) for action in job["actions"]] == ["test"]
    assert job["metadata"]["rtgate.nonce"] == nonce
    assert job["actions"][0]["test"]["docker"]["image"] == "lab/rtgate:9"
    assert health.probe("rk3568-evb1")[1] != nonce


@pytest.fixture
def shell() -> Iterator[Shell]:
    """Return a shell of this machine on a pseudo-terminal."""
    transport = ProgramTransport(["sh"])
    made = Shell(transport, threading.Event(), waits=Waits(answer=1.0, quiet=1.0))
    made.find(Deadline.after(10))
    made.start_plain_shell(Deadline.after(10))
    yield made
    transport.close()


def test_this_machine_is_proved(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_CLOCK_S", 2.0)
    found = {one.name: one for one in health.prove(shell)}
    assert set(found) == {"power", "line", "clock"}
    assert found["line"].good, found["line"].sentence
    assert found["line"].value == 0
    assert abs(found["clock"].value) < 20_000  # 2 s and hundredths of a second
    assert found["power"].value > 0
    assert found["power"].good is (found["power"].value < 900)


class SlowTransport(ProgramTransport):
    """A line of about 10 kB/s, as 115200 baud have; what does not fit stays where it is printed."""

    def read(self) -> bytes:
        time.sleep(0.05)
        return super().read()


def test_a_slow_line_is_given_the_time_that_its_lines_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """2000 lines take 11 s at 115200 baud, and who waits 3 s for an answer gave up after 9 s; here 2 s and 0.6 s."""
    monkeypatch.setattr("rtgate.console.transport._CHUNK", 500)
    monkeypatch.setattr(health, "LINES", 300)
    transport = SlowTransport(["sh"])
    try:
        shell = Shell(transport, threading.Event(), waits=Waits(answer=0.2))
        shell.find(Deadline.after(10))
        shell.start_plain_shell(Deadline.after(10))
        found = list(islice(health.prove(shell), 2))[-1]
    finally:
        transport.close()
    assert (found.name, found.value) == ("line", 0), found.sentence
    assert found.good


def test_a_command_that_arrives_damaged_is_typed_again(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LINES", 3)
    line = Line(shell.transport, outward=lines.first("while", 1))
    monkeypatch.setattr(shell, "transport", line)
    found = list(islice(health.prove(shell), 2))[-1]
    assert (found.name, found.value) == ("line", 0), found.sentence
    assert shell.again == 1


def test_the_kernel_prints_nothing_while_the_line_is_proved(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printk = tmp_path / "printk"
    printk.write_text("7 4 1 7\n")
    monkeypatch.setattr(health, "_PRINTK", str(printk))
    monkeypatch.setattr(health, "_LINE", f"$(cat {printk})")
    monkeypatch.setattr(health, "LINES", 3)
    assert [one.name for one in islice(health.prove(shell), 2)] == ["power", "line"]
    assert b"0:1:0" in bytes(shell.log)
    assert printk.read_text() == "7 4 1 7\n"


def test_a_clock_that_runs_twice_as_fast_is_seen() -> None:
    found = health.clock((0.0, 10.0), (20.0, 50.0))
    assert not found.good
    assert found.value == 1_000_000
    assert found.sentence == "the board's clock counted 40.00 s in 20.00 s"


@pytest.mark.parametrize(("passed", "good"), [(20.0, True), (20.03, True), (19.97, True), (20.1, False), (0.0, False)])
def test_a_clock_s_tolerance(passed: float, good: bool) -> None:
    assert health.clock((0.0, 1.0), (20.0, 1.0 + passed)).good is good


@pytest.mark.parametrize(
    ("late", "good"),
    [((0.05, 0.05, 0.05), True), ((0.2, 0.4, 0.6), False)],
    ids=["a worker that asks late", "a clock that is wrong"],
)
def test_clocks_that_differ_are_compared_for_longer(
    late: tuple[float, ...], monkeypatch: pytest.MonkeyPatch, *, good: bool
) -> None:
    shown = iter([(0.0, 100.0), *((20.0 * turn, 100.0 + 20.0 * turn + late[turn - 1]) for turn in (1, 2, 3))])
    monkeypatch.setattr(health, "_uptime", lambda _: next(shown))
    monkeypatch.setattr("rtgate.lava.lab.health.time.sleep", lambda _: None)
    assert health.compare_clocks(cast("Shell", None)).good is good


LINE = b"%d:the quick brown fox jumps over the lazy dog 0123456789:%d\r\n"


def test_damaged_lines_are_counted() -> None:
    whole = b"".join(LINE % (number, number) for number in range(health.LINES))
    assert health.intact(whole) == health.LINES
    assert health.intact(whole.replace(b"7:the quick", b"7:the quack", 1)) == health.LINES - 1
    assert health.intact(whole.replace(b"lazy dog", b"lazy  dog")) == 0
    assert health.intact(b"") == 0
    # A line that came twice is one line, and what kernel messages break is broken.
    assert health.intact(LINE % (1, 1) + LINE % (1, 1)) == 1
    assert health.intact(b"[  1.0] oops " + LINE % (1, 1)) == 0
    assert health.intact(LINE % (1, 2)) == 0
