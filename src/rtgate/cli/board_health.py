# SPDX-License-Identifier: MIT
"""`rtgate board-health`: prove a board inside a LAVA health check."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rtgate.board import boards, media
from rtgate.board.boards import Board
from rtgate.board.media import Region
from rtgate.cli import command_options
from rtgate.console.shell import Shell
from rtgate.console.transport import attached
from rtgate.errors import ConfigError, RtgateError
from rtgate.lava.in_job import signals
from rtgate.lava.job import environment
from rtgate.lava.lab import boot_media, health
from rtgate.lava.lab.health_result import HealthResult
from rtgate.lava.results.plain import plain
from rtgate.strict_yaml import dump, load, parse
from rtgate.target.live import LiveTarget

_DESCRIPTION = """\
Prove a board from inside a LAVA job: that this job switched it on, that its console line damages nothing, that its
clock runs as fast as the worker's, that what it boots from is as it was. The health checks that
`rtgate lab-check --health-check` prints call it.

Boot media are compared with `lava: media:` of the board's file, or with FILE. A region that differs and has an image
is restored from it. With --hash-media they are hashed as they are now, and printed as such a list; nothing is written.

examples:
  rtgate board-health --board rk3568-evb1 --console tcp:lab:7001 --hash-media boot0=/dev/mmcblk0boot0 \\
      loader=/dev/mmcblk0@32768+4161536 > media.yaml

exit codes: 0 all is well, 1 the board is not, 2 usage or configuration, 3 the lab failed
"""
_STDIN = Path("standard input")


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "board-health",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command_options.board(parser)
    parser.add_argument(
        "--console", metavar="C", help="instead of LAVA's: serial:DEVICE[:BAUD], tcp:HOST:PORT, command:CMD"
    )
    parser.add_argument("--media", metavar="FILE", help="what must be on the boot media, as YAML; - for standard input")
    parser.add_argument(
        "--hash-media",
        nargs="*",
        metavar="NAME=DEVICE[@OFFSET+LENGTH]",
        help="only hash these regions, or without any those that are known, and print them as YAML",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    try:
        return _proved(arguments)
    except RtgateError as error:
        if arguments.hash_media is not None:
            raise  # nobody's job
        # LAVA takes a job for good whatever its commands end with; only a failed result tells.
        print(plain(f"board-health: {error}"), flush=True)
        print(signals.result("board.health", "fail"), flush=True)
        print("<LAVA_SIGNAL_TESTRAISE infra: this board cannot be proved>", flush=True)
        return error.exit_code


def _proved(arguments: argparse.Namespace) -> int:
    board = boards.board(arguments.board)
    # In a job the regions stand in the job: a list in an old container image must not be restored from.
    in_job = arguments.console is None and arguments.hash_media is None
    regions = () if in_job and arguments.media is None else media_of(board, arguments.media)
    if arguments.hash_media is not None:
        regions = tuple(media.asked(word) for word in arguments.hash_media) or regions
        if not regions:
            raise ConfigError(f"{board.path}: {board.name} lists no `media`: name what is to be hashed")
    with _shell(arguments, board) as shell:
        if arguments.hash_media is not None:
            return _hashed(shell, board, regions)
        good = _all_good(shell, board, regions)
    if not good:
        print("<LAVA_SIGNAL_TESTRAISE infra: this board is not fit for measuring>", flush=True)
    return 0 if good else 1


def media_of(board: Board, file: str | None) -> tuple[Region, ...]:
    """Return what must be on a board's boot media: as a file has it, or as the board's own. Raises ConfigError."""
    if file is None:
        return board.lava.media if board.lava else ()
    value = parse(sys.stdin.read(), _STDIN) if file == "-" else load(Path(file))
    return media.read(value.mapping(required=("media",))["media"])


@contextmanager
def _shell(arguments: argparse.Namespace, board: Board) -> Iterator[Shell]:
    """Open the board's plain shell."""
    console = arguments.console or environment.read().console
    target = LiveTarget.attached(board, console, threading.Event())
    transport = attached(console, board.console.baud)
    shell = Shell(transport, target.stop, waits=target.waits, prompt=board.console.prompt.encode())
    try:
        target.ready(shell)
        yield shell
        shell.leave()
    finally:
        transport.close()


def _hashed(shell: Shell, board: Board, regions: tuple[Region, ...]) -> int:
    """Print regions as they are."""
    with boot_media.media(shell, board.work_directory, lambda text: print(plain(text), file=sys.stderr)) as found:
        print(dump(media.described(boot_media.hashed(found, regions))), end="", flush=True)
    return 0


def _all_good(shell: Shell, board: Board, regions: tuple[Region, ...]) -> bool:
    """Look at everything, tell, and return whether all of it is good."""
    good = True
    for one in health.proved(shell):
        good = _told(one) and good
    if not regions:
        return good
    with boot_media.media(shell, board.work_directory, lambda text: print(plain(text), flush=True)) as found:
        for one in boot_media.proved(found, regions):
            good = _told(one) and good
    return good


def _told(one: HealthResult) -> bool:
    """Tell what was found, also to LAVA, and return whether it is good."""
    print(f"{one.name}: {plain(one.sentence)}", flush=True)
    print(signals.result(f"board.{one.name}", "pass" if one.good else "fail", one.value, one.unit), flush=True)
    return one.good
