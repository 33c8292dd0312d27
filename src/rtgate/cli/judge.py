# SPDX-License-Identifier: MIT
"""`rtgate judge`: stored records become verdicts, by any limits."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from rtgate.board.tuning import DEFAULT
from rtgate.cli import command_options, requests, shared_options
from rtgate.errors import ConfigError
from rtgate.workflow import suites
from rtgate.workflow.conclusion import judge_stored
from rtgate.workflow.judging import JudgingRequest, boards

PROFILE = "the cases of this profile (default: those of the records)"
DESCRIPTION = """\
Judge stored records, as often as wanted and without a board: hold them against their raw output, apply limits, compare
both kernels. The verdicts go to verdict.json, the summary to the terminal. Nothing is measured, no record is changed,
and nothing is added to the history. `rtgate report RECORDS` makes the page. The page of a gate shows the gate's
verdicts: these need --verdict and a directory of their own there.

Every case is judged that has records or was planned: one of which nothing came is MISS. With --profile these are the
cases of a profile, whether anybody planned them or not. A --case of which there is nothing is a mistake: exit code 2.

examples:
  rtgate judge report/records --thresholds mine.yaml      would other limits have let it pass?
  rtgate judge records --case latency/cyclictest:idle     one case only
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("records", type=Path, metavar="RECORDS", help="directory of records")
    parser.add_argument("--board", default="", metavar="NAME", help="only this one of the boards")
    shared_options.CASE.add(parser.add_argument)
    parser.add_argument("--profile", metavar="NAME", help=PROFILE)
    command_options.tuning(parser)
    command_options.judging(parser)
    parser.add_argument(
        "--verdict", type=Path, metavar="FILE", help="where verdicts go (default: RECORDS/verdict.json)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command. Raises ConfigError, InfrastructureError."""
    records: Path = arguments.records
    if not records.is_dir():
        raise ConfigError(f"{records}: no such directory of records: name what `rtgate measure` or `gate` has written")
    if arguments.tuning != DEFAULT.name and not arguments.profile:
        raise ConfigError("--tuning chooses the cases of a profile: add --profile, or leave it out")
    board_cases = _expected_cases(arguments) if arguments.profile else {}
    request = JudgingRequest(
        records=records,
        criteria=requests.criteria(arguments),
        board=arguments.board,
        cases=board_cases,
        only=tuple(arguments.case) or tuple({case for cases in board_cases.values() for case in cases}),
    )
    return judge_stored(request, arguments.verdict or records / "verdict.json")


def _expected_cases(arguments: argparse.Namespace) -> Mapping[str, tuple[str, ...]]:
    """Return the cases that the profile measures on each board."""
    names = (arguments.board,) if arguments.board else boards(arguments.records)
    return {
        board: tuple(case.name for case in suites.cases([], arguments.profile, arguments.tuning, board=board))
        for board in names
    }
