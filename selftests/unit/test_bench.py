# SPDX-License-Identifier: MIT
"""What the programs of `bench/` do when what they measure goes wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bench import bench, comparisons, history, reviews
from bench.kernel_repository import KernelRepository

from rtgate.workflow.harmless_boots import Boot


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


@pytest.mark.parametrize(("words", "seeds"), [(["--seeds", "12"], 12), (["--seeds", "3"], 3), ([], 36)])
def test_no_other_boots_are_made_than_those_of_the_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], seeds: int
) -> None:
    boots: list[Boot] = []
    every = comparisons._jobs(comparisons.BUILD, [comparisons.UNPATCHED], range(1, comparisons.LAST + 1))
    monkeypatch.setattr(
        comparisons, "_measure", lambda arguments, *_: boots.extend(comparisons._requested_boots(arguments, every)) or 0
    )
    (tmp_path / "kernels" / "unpatched").mkdir(parents=True)
    assert comparisons.main(["measure", "--work", str(tmp_path), *words]) == 0
    assert {boot.seed for boot in boots} == set(range(1, seeds + 1))
