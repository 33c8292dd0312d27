# SPDX-License-Identifier: MIT
"""Consoles that ask for a login, with the real programs that ask: Debian's `login`, busybox's, and a getty."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rtgate.console.login import log_in
from rtgate.console.shell import Shell, Waits
from rtgate.console.transport import ProgramTransport
from rtgate.durations import Deadline
from rtgate.errors import InfrastructureError

PASSWORD = "rockchip"
PROGRAMS = {
    "login": ["login"],
    "busybox login": ["busybox", "login"],
    "getty": ["busybox", "getty", "-L", "-n", "-l", shutil.which("login") or "login", "0", "-", "vt100"],
}


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
    shell = console("getty")
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
