# SPDX-License-Identifier: MIT
"""What the programs of `bench/` do when what they measure goes wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bench import bench, history, reviews
from bench.kernel_repository import KernelRepository


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pytest and rtgate end at once, with an exit code that nobody expects."""
    program = tmp_path / "rtgate"
    program.write_text("#!/bin/sh\nexit 4\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


@pytest.mark.usefixtures("broken")
def test_what_ends_at_once_is_no_good_time(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError, match="exit status 4"):
        bench._every_suite(tmp_path)
    with pytest.raises(subprocess.CalledProcessError, match="exit status 4"):
        bench._gate([])


@pytest.mark.usefixtures("broken")
def test_a_review_that_ends_at_once_is_no_good_time(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="ended with exit code 4"):
        reviews._review(KernelRepository(tmp_path), "change", tmp_path)


@pytest.fixture
def small_lab(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Have one board with two cases, each with four boots a night."""
    monkeypatch.setattr(history, "BOARDS", 1)
    monkeypatch.setattr(history, "CASES", 2)
    return monkeypatch


def test_a_short_history_is_measured(small_lab: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    small_lab.setattr(sys, "argv", ["history", "--records", "40", "--repeat", "1"])
    history.main()
    assert "(6 to 8 pairs of each)" in capsys.readouterr().out  # of ten; boots that are not valid have none


def test_nothing_is_measured_of_a_history_without_pairs(small_lab: pytest.MonkeyPatch) -> None:
    small_lab.setattr(sys, "argv", ["history", "--records", "2", "--repeat", "1"])
    with pytest.raises(SystemExit, match="so few records"):
        history.main()
