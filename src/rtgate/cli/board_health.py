# SPDX-License-Identifier: MIT
"""`rtgate board-health`: prove a board inside a LAVA health check."""

from __future__ import annotations

import argparse
import threading
from typing import Any

from rtgate import boards
from rtgate.console.shell import Shell
from rtgate.console.transport import attached
from rtgate.errors import RtgateError
from rtgate.lava import environment, health, signals
from rtgate.lava.plain import plain
from rtgate.target.live import LiveTarget

_DESCRIPTION = """\
Prove a board from inside a LAVA job: that this job switched it on, that its console line damages nothing, that its
clock runs as fast as the worker's. The health checks that `rtgate lab-check --health-check` prints call it.

exit codes: 0 all is well, 1 the board is not, 3 the lab failed
"""


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "board-health",
        help="prove a board inside a LAVA health check",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--board", required=True, metavar="NAME", help="the board")
    parser.add_argument(
        "--console", metavar="C", help="instead of LAVA's: serial:DEVICE[:BAUD], tcp:HOST:PORT, command:CMD"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    try:
        return _proved(arguments)
    except RtgateError as error:
        # LAVA takes a job for good whatever its commands end with; only a failed result tells.
        print(plain(f"board-health: {error}"), flush=True)
        print(signals.result("board.health", "fail"), flush=True)
        print("<LAVA_SIGNAL_TESTRAISE infra: this board cannot be proved>", flush=True)
        return error.exit_code


def _proved(arguments: argparse.Namespace) -> int:
    board = boards.board(arguments.board)
    console = arguments.console or environment.read().console
    target = LiveTarget.attached(board, console, threading.Event())
    transport = attached(console, board.console.baud)
    shell = Shell(transport, target.stop, waits=target.waits, prompt=board.console.prompt.encode())
    good = True
    try:
        target.ready(shell)
        for one in health.proved(shell):
            good = good and one.good
            print(f"{one.name}: {one.sentence}", flush=True)
            print(signals.result(f"board.{one.name}", "pass" if one.good else "fail", one.value, one.unit), flush=True)
        shell.leave()
    finally:
        transport.close()
    if not good:
        print("<LAVA_SIGNAL_TESTRAISE infra: this board is not fit for measuring>", flush=True)
    return 0 if good else 1
