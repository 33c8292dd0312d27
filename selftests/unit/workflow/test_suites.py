# SPDX-License-Identifier: MIT
from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rtgate import site
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.workflow import suites


def test_a_machine_that_is_too_busy_to_list_cases_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(argv: Sequence[str], **_: Any) -> None:
        raise subprocess.TimeoutExpired(argv, 120)

    monkeypatch.setattr(subprocess, "run", slow)
    with pytest.raises(InfrastructureError, match=r"within 120 s: this machine is too busy, try again"):
        suites.cases(("latency",), "quick", "default")


def test_cases_are_those_of_a_board() -> None:
    """The profile `compare` has signals on two CPUs, wake-ups and priority inheritance on one."""
    found = {board: suites.cases((), "compare", "default", board=board) for board in ("virt-arm64", "virt-arm64-smp2")}
    assert {case.name for case in found["virt-arm64-smp2"]} == {"signal/signaltest:idle"}
    wakeups = {f"latency/cyclictest:{load}" for load in ("idle", "hackbench", "stress-ng")}
    assert {case.name for case in found["virt-arm64"]} == {*wakeups, "scheduling/pip_stress:idle"}


def test_a_directory_in_which_rtgate_is_called_brings_no_module_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a pipeline it holds the merge request's files, and one of them may be called `pytest.py`."""
    (tmp_path / "pytest.py").write_text("raise SystemExit('hostile')\n")
    monkeypatch.chdir(tmp_path)
    assert suites.cases(("latency",), "quick", "default")


def test_a_package_that_is_installed_has_no_say_in_a_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest loads plugins of all packages that are there, and one of them may order or repeat tests."""
    (tmp_path / "shuffle.py").write_text("raise SystemExit('loaded')\n")
    package = tmp_path / "shuffle-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: shuffle\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[pytest11]\nshuffle = shuffle\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert suites.cases(("latency",), "quick", "default")


def test_suites_that_only_measure_load_nothing_that_judges() -> None:
    """A gate starts them in a process of their own, each time it measures."""
    heavy = {"rtgate.workflow.judging", "matplotlib", "numpy", "scipy", "sqlalchemy"}
    program = f"import sys, rtgate.plugin; print(*sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_what_lies_beside_a_policy_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy is exported below /tmp, and pytest looks for conftest.py in every directory above a suite."""
    (tmp_path / "conftest.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    suite = tmp_path / "exported" / ".rtgate" / "tests" / "mine"
    suite.mkdir(parents=True)
    shutil.copy(site.shipped_directory() / "tests" / "latency" / "test_cyclictest.py", suite)
    monkeypatch.setenv("RTGATE_TREE", str(tmp_path / "exported"))
    with pytest.raises(ConfigError, match="9 deselected"):  # no profile measures it
        suites.cases(("mine",), "quick", "default")
    assert not (tmp_path / "ran").exists()
