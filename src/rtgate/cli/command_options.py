# SPDX-License-Identifier: MIT
"""Options that several commands have; each is declared here, so that it is written and explained alike everywhere.

`argparse._ActionsContainer` is what a parser and a group of its options have in common; it has no public name.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rtgate import durations
from rtgate.board.boards import FLAVOURS
from rtgate.cli import shared_options
from rtgate.history.url import VARIABLE
from rtgate.kernel.build_limits import TIME_S
from rtgate.kernel.toolchain import Toolchain
from rtgate.lava.client.waiting import QUEUE_S
from rtgate.measure.profiles import DEFAULT

if TYPE_CHECKING:
    from rtgate.history.queries import BootFilter


def board(options: argparse._ActionsContainer) -> None:
    """Add the board that a command is about."""
    options.add_argument("--board", required=True, metavar="NAME", help="the board")


def flavour(options: argparse._ActionsContainer) -> None:
    """Add what a kernel is taken for that does not say what it is."""
    shared_options.FLAVOUR.add(options.add_argument)


def tuning(options: argparse._ActionsContainer) -> None:
    """Add the tuning of the board."""
    shared_options.TUNING.add(options.add_argument)


def profile(options: argparse._ActionsContainer, default: str | None = DEFAULT) -> None:
    """Add the profile; a gate has None for `default`, as how many kernels it has decides."""
    usual = default or f"{DEFAULT}; where two kernels are gated: compare"
    options.add_argument(
        "--profile", default=default, metavar="NAME", help=f"tools, lengths, repetitions (default: {usual})"
    )


def kernels(options: argparse._ActionsContainer) -> None:
    """Add kernels that are built already."""
    options.add_argument("--kernel", type=Path, metavar="DIR", help="a kernel's build directory")
    options.add_argument("--baseline", type=Path, metavar="DIR", help="the kernel to compare with, built already")


def measuring(options: argparse._ActionsContainer) -> None:
    """Add how kernels are measured; `requests.suite_options` reads it."""
    profile(options, None)
    tuning(options)
    flavour(options)
    shared_options.SEEDS.add(options.add_argument)
    options.add_argument("--boots", metavar="N", help="boots of any other board, instead of the profile's")
    shared_options.NO_BOOT_CACHE.add(options.add_argument)
    shared_options.CONSOLE.add(options.add_argument)
    shared_options.POWER_CYCLE.add(options.add_argument)


def select(options: argparse._ActionsContainer) -> None:
    """Add the expression that chooses cases."""
    options.add_argument("-k", dest="select", metavar="EXPR", help="only the cases that match, as pytest -k")


def history(options: argparse._ActionsContainer) -> None:
    """Add the database of earlier boots."""
    options.add_argument("--history", metavar="URL", help=f"sqlite:///FILE or postgresql+psycopg://... (${VARIABLE})")


def add_history_options(options: argparse._ActionsContainer) -> None:
    """Add the history, and which of its boots a command is about; `boot_filter` reads it."""
    history(options)
    board(options)
    options.add_argument("--device", metavar="ID", help="only this one of a lab's boards")
    options.add_argument("--flavour", default="preempt_rt", choices=FLAVOURS, help="default: %(default)s")
    options.add_argument("--case", metavar="CASE", help="only this case, for example latency/cyclictest:idle")


def boot_filter(arguments: argparse.Namespace) -> BootFilter:
    """Return which boots of the history the options of `add_history_options` name."""
    from rtgate.history.queries import BootFilter  # noqa: PLC0415 - SQLAlchemy takes a third of a second to load

    return BootFilter(board=arguments.board, device=arguments.device, flavour=arguments.flavour, case=arguments.case)


def thresholds(options: argparse._ActionsContainer) -> None:
    """Add limits that take the place of the usual ones."""
    shared_options.THRESHOLDS.add(partial(options.add_argument, type=Path))


def judging(options: argparse._ActionsContainer) -> None:
    """Add what records are judged by; `requests.criteria` reads it."""
    thresholds(options)
    history(options)
    options.add_argument(
        "--allow-unjudged", action="store_true", help="exit 0 although nothing was judged, or compared"
    )


def report(options: argparse._ActionsContainer) -> None:
    """Add the report's directory."""
    options.add_argument(
        "-o", "--output", type=Path, default=Path("report"), metavar="DIR", help="default: %(default)s"
    )


def server(options: argparse._ActionsContainer) -> None:
    """Add the LAVA server."""
    options.add_argument("--server", metavar="URL", help="the LAVA server, or an identity of lavacli.yaml")


def following(options: argparse._ActionsContainer) -> None:
    """Add how a job is followed to its end, and what is made of its records."""
    options.add_argument(
        "--queue-timeout",
        default=durations.format_s(QUEUE_S),
        metavar="TIME",
        help="for a free board (default: %(default)s)",
    )
    judging(options)
    options.add_argument("-v", "--verbose", action="store_true", help="print the job's whole log")
    report(options)


def building(options: argparse._ActionsContainer, *, several: bool = False) -> None:
    """Add the build, or a list of none or `several`, and what kernels are made from."""
    help_text = "an entry of kernel-configs/, or a path to a .yaml file"
    options.add_argument("build", metavar="BUILD", nargs="*" if several else None, help=help_text)
    options.add_argument("--tree", metavar="DIR", type=Path, help="kernel source (default: the pinned Debian package)")
    options.add_argument("--patches", metavar="DIR", type=Path, help="apply this patch series, instead of BUILD's own")
    options.add_argument(
        "--toolchain",
        choices=[*Toolchain],
        default=Toolchain.GCC,
        help="what compiles it: Debian's gcc for the architecture (the default), or clang with LLVM's linker",
    )
    options.add_argument("--jobs", metavar="N", type=positive, help="compilers at the same time (default: one per CPU)")
    limit = durations.format_s(TIME_S)
    options.add_argument("--build-time", default=limit, metavar="TIME", help="stop it then (default: %(default)s)")
    options.add_argument("--quiet", action="store_true", help="print the result only")


def positive(text: str) -> int:
    """Read an option that counts something. Raises argparse.ArgumentTypeError or ValueError."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number
