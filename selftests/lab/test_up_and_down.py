# SPDX-License-Identifier: MIT
"""A lab of its own, beside whatever lab is up: it comes up, dies, comes up again, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selftests.lab.lab import PROGRAM, Lab, why_not

PORT = 29000
Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.long("a lab is made and removed, twice"),
]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def run(state: Path) -> Iterator[Run]:
    environment = {**os.environ, "RTGATE_LAB_STATE": str(state), "RTGATE_LAB_PORT": str(PORT)}

    def program(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [PROGRAM, *words], env=environment, capture_output=True, text=True, timeout=1500, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    yield program
    program("down")


def first_process(state: Path) -> int:
    holder = (state / "pid").read_text().split()[0]
    return int(subprocess.run(["pgrep", "-P", holder], capture_output=True, text=True, check=True).stdout.split()[0])


def lab(state: Path) -> Lab:
    return Lab(url=f"http://127.0.0.1:{PORT}", token_file=state / "token")


def processes_of(state: Path) -> list[str]:
    """Return processes that have the lab's directory among their mounts."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if str(state) in (directory / "mountinfo").read_text():
                found.append((directory / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def test_a_lab_comes_up_dies_and_goes(run: Run, state: Path) -> None:
    assert "is not up" in run("status", code=1).stdout
    done = run("up")
    up = done.stdout + done.stderr
    for kind in ("lab-virt-arm64", "lab-virt-x86_64"):  # installed where the clone has a kernel, else what to do
        assert f"health check of {kind}: installed" in up or f"no health check for {kind}: a kernel that hangs" in up
    assert (state.stat().st_mode & 0o777, (state / "token").stat().st_mode & 0o777) == (0o700, 0o600)
    secret = (state / "token").read_text().strip()
    assert lab(state).ask("system/whoami/")["user"] == "lab"
    said = run("status").stdout
    assert "DOWN" not in said
    assert secret not in said + run("exec", "ps", "axww").stdout

    # Once more is harmless.
    before = first_process(state)
    again = run("up")
    assert secret not in again.stdout + again.stderr
    assert (before, secret) == (first_process(state), (state / "token").read_text().strip())

    # A part of it that dies comes back; a part that was stopped does not, and status says so.
    run("exec", "pkill", "-KILL", "dockerd")
    run("up")
    run("stop", "hub-lab-virt-arm64-01")
    assert "stopped" in run("status", code=1).stdout
    run("up")
    run("status")

    # A lab that died half-way is another one afterwards.
    os.kill(before, signal.SIGKILL)
    run("status", code=1)
    assert state.exists()
    run("up")
    assert lab(state).ask("system/whoami/")["user"] == "lab"
    assert [device["health"] for device in lab(state).ask("devices/")["results"]] == ["Good", "Good"]

    run("down")
    assert not state.exists()
    assert not processes_of(state)
    assert str(state) not in Path("/proc/self/mountinfo").read_text()
    assert not list(Path("/sys/fs/cgroup").glob(f"**/rtgate-lab-{PORT}"))
    for port in (PORT, PORT + 1, PORT + 11, PORT + 12, PORT + 21, PORT + 22):
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0, port
    run("down")


def test_a_port_in_use_is_said_before_anything_is_started(run: Run, state: Path) -> None:
    with socket.create_server(("127.0.0.1", PORT + 12)):
        assert f"port {PORT + 12} of 127.0.0.1 is in use" in run("up", code=3).stderr
    assert not processes_of(state)
