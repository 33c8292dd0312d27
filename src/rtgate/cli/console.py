# SPDX-License-Identifier: MIT
"""`rtgate console`: a shell on a virtual board for a person."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import select
import subprocess
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from pathlib import Path

from rtgate.board import boards
from rtgate.errors import ConfigError
from rtgate.kernel import artefacts
from rtgate.process import die_with_parent
from rtgate.report.notices import step_printer
from rtgate.rootfs import images
from rtgate.target.qemu import Machine, version

DESCRIPTION = """\
Boot a kernel on a virtual board in host time and connect this terminal to its serial console. The shell is root's;
cyclictest, hackbench and the other tools are there. Ctrl-A X ends the board, and so do `poweroff -f` and the end of
standard input. What is typed here is not repeatable, and latencies are the host's: `rtgate gate` measures.

example:
  rtgate console --board virt-arm64 --kernel build/virt-arm64-preempt_rt
"""
_QUIT = b"\x01x"  # Ctrl-A X, for QEMU's multiplexer
_PATIENCE_S = 2.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--board", required=True, help="a virtual board")
    parser.add_argument("--kernel", type=Path, metavar="DIR", help="a kernel's build directory (default: build/BUILD)")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    board = boards.board(arguments.board)
    if board.qemu is None:
        raise ConfigError(f"{board.name} is not a virtual board")
    directory = arguments.kernel or Path("build") / board.build
    if not directory.is_dir():
        raise ConfigError(
            f"no kernel in {directory}: make one with `rtgate build {board.build}`, or name one: --kernel DIR"
        )
    version(board.qemu.binary)
    with step_printer() as say:
        initrd = images.image(board.rootfs, board.arch, progress=say).path
    machine = Machine(
        board=board,
        image=artefacts.load(directory).image,
        initrd=initrd,
        serial="mon:stdio",
        devices=tuple(board.qemu.devices),
    )
    print("Ctrl-A X ends the board", file=sys.stderr)
    with _blocking(), _raw(sys.stdin.fileno()):
        return _run_qemu(machine.argv(), sys.stdin.fileno())


def _run_qemu(argv: Sequence[str], source: int) -> int:
    """Run QEMU, fed from a file descriptor until either of them ends; return QEMU's exit code, 0 if it was ended.

    QEMU itself takes no notice of the end of its input.
    """
    with (
        subprocess.Popen(die_with_parent(argv), stdin=subprocess.PIPE) as child,
        _exit_descriptor(child) as exit_descriptor,
    ):
        assert child.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it ended while something was typed
            while exit_descriptor not in select.select([source, exit_descriptor], [], [])[0]:
                data = _read(source)
                if not data:
                    return 0
                os.write(child.stdin.fileno(), data)
        return child.wait()


@contextlib.contextmanager
def _exit_descriptor(child: subprocess.Popen[bytes]) -> Iterator[int]:
    """Yield a file descriptor that can be read when QEMU has ended, and have it end with the block."""
    descriptor = os.pidfd_open(child.pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
        _quit(child)


def _quit(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    descriptor = child.stdin.fileno()
    if select.select([], [descriptor], [], 0)[1]:  # full, if QEMU reads no more
        with contextlib.suppress(BrokenPipeError):
            os.write(descriptor, _QUIT)
    for end in (child.terminate, child.kill):
        try:
            child.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            end()


def _read(source: int) -> bytes:
    """Return what was typed, empty at its end; a terminal that was closed is an error to read."""
    try:
        return os.read(source, 4096)
    except OSError:
        return b""


@contextlib.contextmanager
def _blocking() -> Iterator[None]:
    """Leave standard output as it was: QEMU has it not block, and whoever shares the terminal would see that."""
    before = fcntl.fcntl(1, fcntl.F_GETFL)
    try:
        yield
    finally:
        fcntl.fcntl(1, fcntl.F_SETFL, before)


@contextlib.contextmanager
def _raw(source: int) -> Iterator[None]:
    """Hand on every key of a terminal as it is typed, and put the terminal back as it was. Anything else is left."""
    try:
        before = termios.tcgetattr(source)
    except termios.error:  # no terminal, or one that was closed
        yield
        return
    # A terminal may be closed at any moment; whoever reads it is told.
    with contextlib.suppress(termios.error):
        tty.setraw(source)
        raw = termios.tcgetattr(source)
        raw[1] = before[1]  # a new line of the board's must still begin on the left
        termios.tcsetattr(source, termios.TCSADRAIN, raw)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(source, termios.TCSADRAIN, before)
