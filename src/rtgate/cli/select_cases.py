# SPDX-License-Identifier: MIT
"""`rtgate select-cases`: from the verdicts of a virtual-time gate to the cases that a lab's board measures."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from rtgate.board import boards
from rtgate.board.boot import ArmName
from rtgate.cli import command_options
from rtgate.errors import ConfigError
from rtgate.judge.compare.triage import Choice, fatal_verdicts
from rtgate.judge.verdict import Status, Verdict
from rtgate.lava.job import cases as cases_file
from rtgate.report.text import plain_text
from rtgate.units import plural
from rtgate.workflow.budget import DEFAULT, minutes
from rtgate.workflow.case_selection import Selection, Wish, select_cases
from rtgate.workflow.verdict_file import read_verdicts

DESCRIPTION = """\
The second stage of a gate. REPORT is what `rtgate gate` left of both kernels on a virtual-time board; this says what a
board in a lab has to measure: what that gate flagged, what it left open, what is always measured, and what it could not
exercise, in this order and as far as the budget goes. What it found no worse waits for the night.

A kernel that dies on the virtual board fails here (exit code 1). Any other failure there only queues boards, unless
--virtual-fail block says that it blocks: virtual time sees code paths, not caches and buses.

examples:
  rtgate gate --board virt-arm64 --tree ~/linux --base v6.12 --candidate mine -o report
  rtgate select-cases report --board rk3568-evb1 --profile mr --budget 45min -o cases.json
  rtgate submit --board rk3568-evb1 --profile mr --kernel build/mine --baseline build/base --cases cases.json --wait
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("report", type=Path, metavar="REPORT", help="directory of the virtual-time gate's report")
    parser.add_argument("--board", required=True, metavar="NAME", help="the board in the lab")
    command_options.profile(parser)
    command_options.tuning(parser)
    parser.add_argument("--suite", default="", metavar="S[,S]", help="only these suites (default: all)")
    parser.add_argument(
        "--budget", default=DEFAULT, metavar="TIME", help="of the board: 45 min, 2 h (default: %(default)s)"
    )
    parser.add_argument("--pairs", type=int, default=3, metavar="N", help="boots of each kernel (default: %(default)s)")
    parser.add_argument("--minimum", action="append", metavar="CASE", help="always measure it (default: the profile's)")
    parser.add_argument("--virtual-fail", choices=("queue", "block"), default="queue", help="default: %(default)s")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the cases, for rtgate submit --cases")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    board = boards.board(arguments.board)
    if board.virtual:
        raise ConfigError(f"{board.name} is a virtual board: name the lab's board whose time is to be spent")
    if arguments.pairs < 1:
        raise ConfigError(f"--pairs {arguments.pairs}: expected at least 1")
    verdicts, _ = read_verdicts(arguments.report / "verdict.json", arguments.report / "records")
    wish = Wish(
        board=board,
        flavour=_flavour(verdicts),
        profile=arguments.profile,
        tuning=arguments.tuning,
        suites=tuple(name for name in arguments.suite.split(",") if name),
        pairs=arguments.pairs,
        budget=minutes(arguments.budget),
        minimum=tuple(arguments.minimum) if arguments.minimum else None,
    )
    selection = select_cases(verdicts, wish)
    choices = selection.choices
    console = Console()
    _show(console, choices)
    summary = f"{board.name}: {len(selection.cases)} of {len(choices)} cases, {wish.pairs} pairs of boots"
    summary += f", {selection.minutes:.0f} of {wish.budget:.0f} board-minutes"
    summary += f"; rtgate submit --boots {wish.pairs} --cases FILE"
    console.print(summary, highlight=False, markup=False, soft_wrap=True)
    _show_excluded(console, selection)
    if arguments.output:
        cases_file.write(selection.cases, arguments.output)
    failures = (
        [verdict for verdict in verdicts if verdict.status is Status.FAIL] if arguments.virtual_fail == "block" else []
    )
    blockers = fatal_verdicts(verdicts) or failures
    for verdict in blockers:
        console.print(
            f"FAIL {verdict.case}: {plain_text(verdict.full_sentence)}", highlight=False, markup=False, soft_wrap=True
        )
    # What is left out although it should be seen is nothing that a script may pass over.
    return 1 if blockers else 5 if selection.short or selection.unanswered else 0


def _flavour(verdicts: Sequence[Verdict]) -> str:
    """Return the candidate's flavour; empty where the report does not say it."""
    flavours = {verdict.flavour for verdict in verdicts if verdict.arm == ArmName.CANDIDATE} - {""}
    return flavours.pop() if len(flavours) == 1 else ""


def _show_excluded(console: Console, selection: Selection) -> None:
    """Print what cannot be measured there: by its name where it should be, else by the reason."""
    lines = [
        f"{choice.case} ({choice.reason.value}) cannot be measured there: {selection.excluded[choice.case]}"
        for choice in selection.unanswered
    ]
    names = {choice.case for choice in selection.unanswered}
    others = Counter(reason for name, reason in selection.excluded.items() if name not in names)
    lines += [f"{plural(count, 'case')} left out: {reason}" for reason, count in others.most_common()]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _show(console: Console, choices: Sequence[Choice]) -> None:
    """Print a line for each case: what is left out stands in brackets."""
    widest = max((len(choice.case) for choice in choices), default=0)
    for choice in choices:
        minutes = f"{choice.minutes:.1f}" if choice.within else f"({choice.minutes:.1f})"
        cause = plain_text(choice.because).partition("\n")[0]
        line = f"{choice.case:<{widest}}  {minutes:>7} min  {choice.reason.value}{': ' * bool(cause)}{cause}"
        console.print(line, highlight=False, markup=False, soft_wrap=not console.is_terminal)
