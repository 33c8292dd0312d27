# SPDX-License-Identifier: MIT
"""`rtgate board-health` on a shell of this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rtgate.board import boards
from rtgate.cli.main import main
from rtgate.lava.lab import health


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the command for this machine as a board."""
    (tmp_path / "boards").mkdir()
    monkeypatch.setattr(health, "_CLOCK_S", 0.5)
    monkeypatch.setattr(health, "_CLOCK_PPM", 1e6)
    monkeypatch.setattr(health, "_BOOT_S", 1e9)
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path))
    board = boards.board("lab-virt-arm64").path.read_text()
    (tmp_path / "boards/here.yaml").write_text(f"{board}work_directory: {tmp_path}/run\n")
    return ["board-health", "--board", "here"]


def test_a_good_board_is_good_in_a_job_and_outside(
    here: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*here, "--console", "command:sh"]) == 0
    outside = capsys.readouterr().out
    monkeypatch.setenv("LAVA_CONNECTION_COMMAND", "sh")
    assert main(here) == 0
    for said in (outside, capsys.readouterr().out):
        for name in ("power", "line", "clock"):
            assert f"<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=board.{name} RESULT=pass UNITS=" in said
        assert "TESTRAISE" not in said


def test_a_board_that_was_not_switched_off_fails_for_lava(
    here: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(health, "_BOOT_S", 0.0)
    assert main([*here, "--console", "command:sh"]) == 1
    said = capsys.readouterr().out
    assert "board.power RESULT=fail" in said
    assert "board.clock RESULT=pass" in said  # what follows is looked at all the same
    assert said.splitlines()[-1] == "<LAVA_SIGNAL_TESTRAISE infra: this board is not fit for measuring>"


def test_a_board_that_cannot_be_reached_fails_for_lava(here: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*here, "--console", f"serial:{os.devnull}"]) == 3
    said = capsys.readouterr().out
    assert "board.health RESULT=fail" in said
    assert said.splitlines()[-1] == "<LAVA_SIGNAL_TESTRAISE infra: this board cannot be proved>"
