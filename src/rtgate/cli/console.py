# SPDX-License-Identifier: MIT
"""`rtgate console`: a shell on a virtual board for a person."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from rtgate import boards
from rtgate.errors import ConfigError
from rtgate.kernel import artefacts
from rtgate.target import rootfs
from rtgate.target.qemu import Machine, version

_DESCRIPTION = """\
Boot a kernel on a virtual board in host time and connect this terminal to its serial console. The shell is root's;
cyclictest, hackbench and the other tools are there. Ctrl-A X ends the board, `poweroff -f` too. What is typed here is
not repeatable, and latencies are the host's: `rtgate gate` measures.

example:
  rtgate console --board virt-arm64 --kernel build/virt-arm64-preempt_rt
"""


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "console",
        help="a shell on a virtual board",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--board", required=True, help="a virtual board")
    parser.add_argument("--kernel", type=Path, metavar="DIR", help="a kernel's build directory (default: build/BUILD)")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    board = boards.board(arguments.board)
    if board.qemu is None:
        raise ConfigError(f"{board.name} is no virtual board")
    directory = arguments.kernel or Path("build") / board.build
    if not directory.is_dir():
        raise ConfigError(
            f"no kernel in {directory}: make one with `rtgate build {board.build}`, or name one: --kernel DIR"
        )
    version(board.qemu.binary)
    machine = Machine(
        board=board,
        image=artefacts.load(directory).image,
        initrd=rootfs.image(board.rootfs, board.arch).path,
        serial="mon:stdio",
        devices=tuple(board.qemu.devices),
    )
    print("Ctrl-A X ends the board", file=sys.stderr)
    return subprocess.run(machine.argv(), check=False).returncode
