# SPDX-License-Identifier: MIT
"""Shells of this machine behind lines of all kinds."""

from __future__ import annotations

import random
import shlex
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from selftests.faults import lines
from selftests.faults.lines import Line
from selftests.frames import encode

from rtgate.console.shell import Shell, Waits
from rtgate.console.transport import ProgramTransport, Transport
from rtgate.durations import Deadline
from rtgate.errors import TransportError

NONCE = "F0123abcde"
DATA = random.Random(3).randbytes(6000)


def program(*argv: str) -> Callable[[], ProgramTransport]:
    return lambda: ProgramTransport(argv)


# A pseudo-terminal answers at once; a busy machine may take its time.
QUICK = Waits(answer=0.5, quiet=0.5, dying=0.3, hang=5, upload=60, spare=10, repair=30)

BASH = ("bash", "--norc", "--noprofile", "-i")
ECHOING = "stty echo; PS1='target# ' exec sh -i"

LINES: dict[str, Callable[[], Transport]] = {
    "sh": program("sh"),
    "sh with prompt and echo": program("sh", "-c", ECHOING),
    "bash": program(*BASH),
    "one byte at a time": lambda: lines.OneByte(program("sh", "-c", ECHOING)()),
    "kernel messages": lambda: Line(program("sh")(), lines.bursts(random.Random(4), 0.0005, inside=True)),
}
if shutil.which("busybox"):
    LINES["busybox"] = program("busybox", "sh", "-i")


@contextmanager
def opened(transport: Transport, waits: Waits = QUICK) -> Iterator[Shell]:
    try:
        yield Shell(transport, threading.Event(), waits=waits)
    finally:
        with suppress(TransportError):
            transport.close()


def soon(seconds: float = 20) -> Deadline:
    return Deadline.after(seconds)


def ready(shell: Shell) -> Shell:
    """Wait until a shell on this machine has said something: one that is still starting dies of Ctrl-C."""
    deadline = soon()
    while not shell.log and not deadline.expired:
        shell.read()
    return shell


@pytest.fixture(params=LINES)
def any_shell(request: pytest.FixtureRequest) -> Iterator[Shell]:
    with opened(LINES[request.param]()) as shell:
        yield ready(shell)


@pytest.fixture
def plain_shell() -> Iterator[Shell]:
    with opened(ProgramTransport(["sh"])) as shell:
        ready(shell).find(soon())
        shell.start_plain_shell(soon())
        yield shell


@pytest.fixture
def frames(tmp_path: Path) -> str:
    """Return a command that prints frames of DATA as a plan does."""
    (tmp_path / "frames").write_text("".join(f"{line}\n" for line in encode(DATA, NONCE)))
    script = 'case $1 in resend) shift; for n; do sed -n "${n}p" F; done;; closing) tail -n 1 F;; *) cat F;; esac\n'
    (tmp_path / "print").write_text(script.replace("F", shlex.quote(str(tmp_path / "frames"))))
    return f"sh {tmp_path}/print"
