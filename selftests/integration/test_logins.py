# SPDX-License-Identifier: MIT
"""Consoles that ask for a login, with the real programs that ask: Debian's `login`, busybox's, and a getty."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from rtgate.board.boards import board
from rtgate.board.serial_console import Login
from rtgate.console.login import log_in
from rtgate.console.shell import Shell, Waits
from rtgate.console.transport import ProgramTransport
from rtgate.durations import Deadline
from rtgate.errors import InfrastructureError
from rtgate.target.live import LiveTarget
from rtgate.target.outcome import State
from rtgate.target.plan import Plan

PASSWORD = "rockchip"
PROGRAMS = {
    "login": ["login"],
    "busybox login": ["busybox", "login"],
    "getty": ["busybox", "getty", "-L", "0", "-", "vt100"],
}
BOOT = """
trap : INT
echo "## Flattened Device Tree blob"
sleep 4
echo "Linux version 6.12.117 (rtgate@build)"
sleep 4
printf 'rk3568 login: '
echo "[   31.2] eth0: Link is Up"
stty -echo
while :; do
	read name
	printf 'Password: '
	[ "$name:$noise" = root: ] && noise=made && echo "[   35.0] random: crng init done"
	read password
	echo
	[ "$name:$password" = root:rockchip ] && break
	sleep 1
	printf 'Login incorrect\nrk3568 login: '
done
stty echo
PS1='root@rk3568:~# ' exec sh -i
"""
"""A board that is silent for long, twice, and whose kernel prints behind its questions: simulated."""


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Callable[..., Shell]]:
    """Return what opens a console with a program that asks for a login, on a machine with the only user root."""
    hashed = subprocess.run(["openssl", "passwd", "-6", PASSWORD], capture_output=True, text=True, check=True)
    files = {
        "passwd": "root:x:0:0:root:/tmp:/bin/sh\n",
        "shadow": f"root:{hashed.stdout.strip()}:19000:0:99999:7:::\n",
        "group": "root:x:0:\n",
    }
    binds: list[str] = []
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        binds += ["--ro-bind", str(tmp_path / name), f"/etc/{name}"]
    transports: list[ProgramTransport] = []

    def opened(program: str) -> Shell:
        argv = ["bwrap", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", *binds, "--die-with-parent"]
        transports.append(ProgramTransport([*argv, *PROGRAMS[program]]))
        return Shell(transports[-1], threading.Event(), waits=Waits(answer=1.0, quiet=5.0), prompt=b"# ")

    yield opened
    for transport in transports:
        transport.close()


def shell_of(script: str) -> Shell:
    """Return a shell on what a script plays, whose prompt is that of a board of rtgate's."""
    return Shell(ProgramTransport(["sh", "-c", script]), threading.Event(), prompt=b"target# ")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_shell_of_root_comes_up_behind_a_login(console: Callable[..., Shell], program: str) -> None:
    shell = console(program)
    log_in(shell, "root", PASSWORD)
    shell.find(Deadline.after(20))
    shell.start_plain_shell(Deadline.after(20))
    code, output = shell.sure("id -u", Deadline.after(20))
    assert (code, output.strip()) == (0, b"0")
    assert PASSWORD.encode() not in shell.log


def test_who_has_begun_to_log_in_is_waited_for(console: Callable[..., Shell]) -> None:
    """Somebody has typed a name before, so the first question is for the password."""
    shell = console("busybox login")
    shell.until(rb"login: ", Deadline.after(20))
    shell.transport.write(b"somebody\n")
    shell.until(rb"assword: ", Deadline.after(20))
    log_in(shell, "root", PASSWORD)
    shell.find(Deadline.after(20))


def test_a_shell_that_asks_nothing_is_left_alone() -> None:
    transport = ProgramTransport(["env", "PS1=# ", "sh", "-i"])
    shell = Shell(transport, threading.Event(), prompt=b"# ")
    log_in(shell, "root", PASSWORD)
    shell.find(Deadline.after(20))
    assert PASSWORD.encode() not in shell.log
    transport.close()


def test_a_wrong_password_is_told_with_who_must_act(console: Callable[..., Shell]) -> None:
    with pytest.raises(InfrastructureError, match="does not log in 'root': `login` and `password` of `console` in the"):
        log_in(console("getty"), "root", "wrong")


def test_a_new_password_is_not_made_up() -> None:
    shell = shell_of("printf 'Current password: '; read answer; sleep 60")
    with pytest.raises(InfrastructureError, match="wants a new password for its user"):
        log_in(shell, "root", PASSWORD)
    shell.transport.close()


@pytest.mark.parametrize("boots", [False, True])
def test_a_board_that_is_silent_for_long_is_logged_in(*, boots: bool) -> None:
    """Attached while it boots, and after a power cycle."""
    shell = shell_of(BOOT)
    known = board("rk3568-evb1")
    asks = replace(known, console=replace(known.console, login=Login(user="root", password=PASSWORD)))
    waits = Waits(attach=5.0, quiet=1.0)
    with ExitStack() as stack:
        stack.callback(shell.transport.close)
        target = LiveTarget(
            board=asks,
            open=lambda _, __: shell.transport,
            stop=threading.Event(),
            boots=boots,
            machine={},
            waits=waits if boots else replace(waits, attach=30.0),
        )
        target.ready(shell)
        assert shell.sure("id -u", Deadline.after(20))[0] == 0
        assert PASSWORD.encode() not in shell.log


def test_without_a_login_in_the_boards_file_the_error_says_where_it_belongs() -> None:
    shell = shell_of(BOOT)
    target = LiveTarget(
        board=board("rk3568-evb1"),
        open=lambda _, __: shell.transport,
        stop=threading.Event(),
        boots=False,
        machine={},
        waits=Waits(attach=20.0),
    )
    plan = SimpleNamespace(nonce="", deadline_s=1)
    outcome = target.run(cast("Plan", plan))
    shell.transport.close()
    assert outcome.state is State.LAB
    assert "put `login` and `password` into `console` of" in outcome.message
