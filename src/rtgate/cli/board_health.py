# SPDX-License-Identifier: MIT
"""`rtgate board-health`: prove a board inside a LAVA health check."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rtgate.board import boards
from rtgate.board.boards import Board
from rtgate.cli import command_options
from rtgate.console.shell import Shell
from rtgate.console.transport import open_transport
from rtgate.errors import RtgateError
from rtgate.lava.in_job import signals
from rtgate.lava.job import environment
from rtgate.lava.lab import health
from rtgate.lava.lab.health import HealthResult
from rtgate.lava.results.plain_text import plain_line
from rtgate.target.live import LiveTarget

DESCRIPTION = """\
Prove a board from inside a LAVA job: that this job switched it on, that its console line damages nothing, that its
clock runs as fast as the worker's. The health checks that `rtgate lab-check --health-check` prints call it.

example:
  rtgate board-health --board rk3568-evb1 --console tcp:lab:7001

exit codes: 0 all is well, 1 the board is not, 2 usage or configuration, 3 the lab failed
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    command_options.board(parser)
    parser.add_argument(
        "--console", metavar="C", help="instead of LAVA's: serial:DEVICE[:BAUD], tcp:HOST:PORT, command:CMD"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    try:
        return _check_health(arguments)
    except RtgateError as error:
        # LAVA takes a job for good whatever its commands end with; only a failed result tells.
        print(plain_line(f"board-health: {error}"), flush=True)
        print(signals.result("board.health", "fail"), flush=True)
        print(signals.lab_failure("this board cannot be proved"), flush=True)
        return error.exit_code


def _check_health(arguments: argparse.Namespace) -> int:
    board = boards.board(arguments.board)
    with _shell(arguments, board) as shell:
        good = _check_all(shell)
    if not good:
        print(signals.lab_failure("this board is not fit for measuring"), flush=True)
    return 0 if good else 1


@contextmanager
def _shell(arguments: argparse.Namespace, board: Board) -> Iterator[Shell]:
    """Open the board's plain shell."""
    console = arguments.console or environment.read().console
    target = LiveTarget.of_console(board, console, threading.Event())
    transport = open_transport(console, board.console.baud)
    shell = Shell(transport, target.stop, waits=target.waits, prompt=board.console.prompt.encode())
    try:
        target.ready(shell)
        yield shell
        shell.leave()
    finally:
        transport.close()


def _check_all(shell: Shell) -> bool:
    """Look at everything, tell, and return whether all of it is good."""
    good = [_report_finding(finding) for finding in health.prove(shell)]
    return all(good)


def _report_finding(finding: HealthResult) -> bool:
    """Tell what was found, also to LAVA, and return whether it is good."""
    print(f"{finding.name}: {plain_line(finding.sentence)}", flush=True)
    print(
        signals.result(f"board.{finding.name}", "pass" if finding.good else "fail", finding.value, finding.unit),
        flush=True,
    )
    return finding.good
