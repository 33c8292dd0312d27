# SPDX-License-Identifier: MIT
"""The console of a person, who may be a pipe; QEMU is a program that writes down what it was told."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rtgate.cli import console

if TYPE_CHECKING:
    from selftests.unit.cli.conftest import Lab

# As QEMU it ends by Ctrl-A X and by SIGTERM, and takes no notice of the end of its input.
_QEMU = """\
#!{python}
import os, pathlib, signal, sys, time
if "--version" in sys.argv:
    print("QEMU emulator version 0.0 (fake)")
    sys.exit()
deaf = os.environ.get("DEAF") == "1"
if deaf:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path("pid").write_text(str(os.getpid()))
print("booted", flush=True)
got = b""
while not got.endswith(b"\\x01x") or deaf:
    more = os.read(0, 100)
    if not more:
        time.sleep(600)
    got += more
    pathlib.Path("got").write_bytes(got)
    if b"poweroff" in got:
        sys.exit(7)
"""
_SRC = str(Path(__file__).resolve().parents[3] / "src")


@pytest.fixture
def here(lab: Lab, tmp_path: Path) -> Path:
    """A directory with a kernel, and the QEMU above."""
    program = tmp_path / "bin" / "qemu-system-aarch64"
    program.write_text(_QEMU.format(python=sys.executable))
    return tmp_path


@contextmanager
def _console(stdin: int, *, stdout: int = subprocess.PIPE, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-m", "rtgate", "console", "--board", "virt-arm64", "--kernel", "kernel"]
    environ = {**os.environ, **environment, "PYTHONPATH": _SRC}
    with subprocess.Popen(argv, stdin=stdin, stdout=stdout, env=environ, start_new_session=True) as child:
        try:
            yield child
        finally:
            child.kill()


def _gone(here: Path) -> bool:
    try:
        os.kill(int((here / "pid").read_text()), 0)
    except ProcessLookupError:
        return True
    return False


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _got(here: Path) -> bytes:
    return (here / "got").read_bytes() if (here / "got").exists() else b""


def test_without_input_it_ends(here: Path) -> None:
    with _console(subprocess.DEVNULL) as child:
        assert child.wait(timeout=60) == 0
    assert _gone(here)


def test_the_end_of_a_pipe_ends_it(here: Path) -> None:
    with _console(subprocess.PIPE) as child:
        assert child.stdin is not None
        os.write(child.stdin.fileno(), b"uname -a\n")
        _until(lambda: _got(here) == b"uname -a\n")
        assert child.poll() is None
        child.stdin.close()
        assert child.wait(timeout=60) == 0
    assert _got(here) == b"uname -a\n\x01x"
    assert _gone(here)


def test_a_board_that_is_powered_off_ends_it(here: Path) -> None:
    with _console(subprocess.PIPE) as child:
        assert child.stdin is not None
        os.write(child.stdin.fileno(), b"poweroff -f\n")
        assert child.wait(timeout=60) == 7


@pytest.mark.long("waits 5 s for a machine that takes no notice")
def test_a_machine_that_takes_no_notice_is_ended(here: Path) -> None:
    with _console(subprocess.DEVNULL, DEAF="1") as child:
        assert child.wait(timeout=60) == 0
    assert _gone(here)


@contextmanager
def _terminal() -> Iterator[tuple[int, int]]:
    keyboard, screen = pty.openpty()
    try:
        yield keyboard, screen
    finally:
        os.close(screen)
        with suppress(OSError):
            os.close(keyboard)


def _raw(terminal: int) -> bool:
    return not termios.tcgetattr(terminal)[3] & (termios.ICANON | termios.ECHO | termios.ISIG)


def test_a_terminal_hands_on_every_key_and_is_put_back(here: Path) -> None:
    with _terminal() as (keyboard, screen), _console(screen, stdout=screen) as child:
        before = termios.tcgetattr(screen)
        _until(lambda: _raw(screen))
        assert termios.tcgetattr(screen)[1] == before[1]
        os.write(keyboard, b"\x03\x1a\r")
        _until(lambda: _got(here) == b"\x03\x1a\r")
        os.write(keyboard, b"\x01x")
        assert child.wait(timeout=60) == 0
        assert termios.tcgetattr(screen) == before
        assert select.select([keyboard], [], [], 5)[0]
        assert os.read(keyboard, 100) == b"booted\r\n"


def test_a_terminal_that_is_closed_ends_it(here: Path) -> None:
    with _terminal() as (keyboard, screen), _console(screen) as child:
        _until(lambda: _raw(screen))
        os.close(keyboard)
        assert child.wait(timeout=60) == 0
    assert _gone(here)


@pytest.mark.parametrize(("step", "number"), [("tcgetattr", 1), ("tcgetattr", 2), ("tcsetattr", 1)])
def test_a_terminal_may_be_closed_while_it_is_changed(monkeypatch: pytest.MonkeyPatch, step: str, number: int) -> None:
    keyboard, screen = pty.openpty()
    real = getattr(termios, step)
    calls: list[object] = []

    def closing(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == number:
            os.close(keyboard)
        return real(*arguments)

    monkeypatch.setattr(termios, step, closing)
    try:
        with console._raw(screen):
            assert console._read(screen) == b""
    finally:
        os.close(screen)
    assert len(calls) >= number


def test_a_terminal_is_put_back_after_a_signal(here: Path) -> None:
    with _terminal() as (_, screen), _console(screen) as child:
        before = termios.tcgetattr(screen)
        _until(lambda: _raw(screen) and (here / "pid").exists())
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=60) == 130
        assert termios.tcgetattr(screen) == before
    assert _gone(here)
