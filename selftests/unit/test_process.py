# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rtgate import process
from rtgate.errors import InfrastructureError
from rtgate.kernel.merge import git
from rtgate.process import die_with_parent

needs_setpriv = pytest.mark.skipif(shutil.which("setpriv") is None, reason="util-linux is not installed")


@needs_setpriv
def test_the_command_is_kept_behind_the_guard() -> None:
    assert die_with_parent(["qemu", "-x", "a b"]) == ["setpriv", "--pdeathsig", "KILL", "--", "qemu", "-x", "a b"]
    assert die_with_parent(("make",), "TERM") == ["setpriv", "--pdeathsig", "TERM", "--", "make"]


def test_without_setpriv_the_command_runs_unguarded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert die_with_parent(("qemu", "-x")) == ["qemu", "-x"]


def test_a_program_that_takes_too_long_is_ended() -> None:
    with pytest.raises(InfrastructureError, match=r"sleep 60 took longer than .*, and was ended"):
        process.attempt(["sleep", "60"], timeout_s=0.1)


def test_what_a_program_started_ends_with_it(tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! >{tmp_path}/child; wait"
    with pytest.raises(InfrastructureError, match="took longer than"):
        process.attempt(["sh", "-c", script], timeout_s=1)
    end = time.monotonic() + 10
    while runs(int((tmp_path / "child").read_text())) and time.monotonic() < end:
        time.sleep(0.02)
    assert not runs(int((tmp_path / "child").read_text()))


PARENT = """
import subprocess, sys, time
from rtgate.process import die_with_parent
child = subprocess.Popen(die_with_parent(["sleep", "60"]))
time.sleep(0.2)  # setpriv must have asked for the signal before we die
print(child.pid, flush=True)
time.sleep(60)
"""


@needs_setpriv
def test_a_guarded_child_does_not_outlive_us() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    end = time.monotonic() + 10
    while runs(child) and time.monotonic() < end:
        time.sleep(0.02)
    assert not runs(child)


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


def test_a_command_of_git_is_named_without_its_settings() -> None:
    with pytest.raises(InfrastructureError, match=r"^git -C /nothing status failed with status 128: fatal: cannot"):
        process.output([*git(Path("/nothing")), "status"])


def test_a_hook_s_repository_is_not_that_of_a_program_that_rtgate_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("theirs", "ours"):
        subprocess.run(["git", "init", "--quiet", tmp_path / name], check=True)
    for name in ("GIT_DIR", "GIT_COMMON_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "theirs/.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "theirs/.git/index"))
    monkeypatch.setenv("GIT_SSL_CAINFO", "/certificates")
    ours = str(tmp_path / "ours/.git")
    words = ["-C", str(tmp_path / "ours"), "rev-parse", "--absolute-git-dir"]
    assert process.output(["git", *words]).strip() == ours
    assert process.output_bytes(["git", *words]).strip() == ours.encode()
    assert process.output(["sh", "-c", 'echo "$GIT_SSL_CAINFO"']).strip() == "/certificates"
    assert process.output(["sh", "-c", 'echo "$GIT_DIR"'], environment={"GIT_DIR": "own"}).strip() == "own"


def test_what_git_counts_to_a_repository_is_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    names = set(subprocess.check_output(["git", "rev-parse", "--local-env-vars"], text=True).split())
    settings = {"GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT"}  # a proxy, for example
    for name in names:
        monkeypatch.setenv(name, "x")
    assert "GIT_DIR" in names
    assert process.inherited_environment().keys() & names == settings
