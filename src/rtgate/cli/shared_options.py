# SPDX-License-Identifier: MIT
"""Options that commands share with the suites: pytest and argparse take them alike, and each is written once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rtgate.board.boards import FLAVOURS
from rtgate.board.boot import ArmName
from rtgate.errors import ConfigError


class Option:
    """One option: its name, and keywords that `argparse` and pytest know."""

    def __init__(self, name: str, **keywords: Any) -> None:
        self._name, self._keywords = name, keywords

    def add(self, add_option: Callable[..., object]) -> None:
        """Add it by `ArgumentParser.add_argument` or by pytest's `OptionGroup.addoption`."""
        add_option(self._name, **self._keywords)


FLAVOUR = Option(
    "--flavour",
    metavar="FLAVOUR",
    choices=FLAVOURS,
    help=f"what a kernel without build.json should be (default: preempt_rt; allowed: {', '.join(FLAVOURS)})",
)
TUNING = Option("--tuning", metavar="NAME", default="default", help="a tuning of the board (default: %(default)s)")
SEEDS = Option("--seeds", metavar="A-B", help="boots of a virtual-time board, instead of the profile's")
NO_BOOT_CACHE = Option(
    "--no-boot-cache",
    action="store_true",
    help="make every virtual-time boot, also the cached ones: they must be reproduced exactly",
)
CONSOLE = Option(
    "--console",
    metavar="C",
    help="virtual (default on virtual boards), host, serial:DEVICE:BAUD, tcp:HOST:PORT, command:CMD; "
    "in a LAVA job: lava",
)
POWER_CYCLE = Option(
    "--power-cycle", metavar="CMD", help="shell command that turns an attached board off and on after a death"
)
THRESHOLDS = Option("--thresholds", metavar="FILE", help="limits, instead of those of the site and of rtgate")
CASE = Option("--case", action="append", default=[], metavar="CASE", help="only this case, SUITE/TOOL:LOAD; repeatable")


def kernels_by_arm(words: Iterable[str]) -> dict[str, Path]:
    """Return the build directories that `--arm NAME=DIR` names. Raises ConfigError: another arm, or one twice."""
    directories: dict[str, Path] = {}
    for word in words:
        name, _, directory = word.partition("=")
        if name not in {*ArmName} or not directory or name in directories:
            raise ConfigError(f"--arm {word}: expected baseline=DIR or candidate=DIR, each once")
        directories[name] = Path(directory)
    return directories
