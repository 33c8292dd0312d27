# SPDX-License-Identifier: MIT
"""Options that commands share with the suites: pytest and argparse take them alike, and each is written once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rtgate.board.boards import FLAVOURS


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option.

    Attributes:
        metavar: names its value; empty for one that has none and is given or not.
        choices: the values that it may have; empty for any.
        repeatable: whether each value that is given counts.
    """

    name: str
    help: str
    metavar: str = ""
    default: str | None = None
    choices: tuple[str, ...] = ()
    repeatable: bool = False

    def add(self, add_option: Callable[..., object]) -> None:
        """Add it by `ArgumentParser.add_argument` or by pytest's `OptionGroup.addoption`."""
        if not self.metavar:
            add_option(self.name, action="store_true", help=self.help)
        elif self.repeatable:
            add_option(self.name, action="append", default=[], metavar=self.metavar, help=self.help)
        else:
            choices = self.choices or None
            add_option(self.name, metavar=self.metavar, default=self.default, choices=choices, help=self.help)


FLAVOUR = Option(
    name="--flavour",
    metavar="FLAVOUR",
    choices=FLAVOURS,
    help=f"what a kernel without build.json should be (default: preempt_rt; allowed: {', '.join(FLAVOURS)})",
)
TUNING = Option(name="--tuning", metavar="NAME", default="default", help="a tuning of the board (default: %(default)s)")
SEEDS = Option(name="--seeds", metavar="A-B", help="boots of a virtual-time board, instead of the profile's")
NO_BOOT_CACHE = Option(
    name="--no-boot-cache", help="make every virtual-time boot, also the cached ones: they must be reproduced exactly"
)
CONSOLE = Option(
    name="--console",
    metavar="C",
    help="virtual (default on virtual boards), host, serial:DEVICE:BAUD, tcp:HOST:PORT, command:CMD; "
    "in a LAVA job: lava",
)
POWER_CYCLE = Option(
    name="--power-cycle", metavar="CMD", help="shell command that turns an attached board off and on after a death"
)
THRESHOLDS = Option(name="--thresholds", metavar="FILE", help="limits, instead of those of the site and of rtgate")
CASE = Option(name="--case", metavar="CASE", repeatable=True, help="only this case, SUITE/TOOL:LOAD; repeatable")
