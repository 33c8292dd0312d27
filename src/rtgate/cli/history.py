# SPDX-License-Identifier: MIT
"""`rtgate history`: keep measured boots in a database, and show what is there."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from rtgate.cli import command_options
from rtgate.errors import ConfigError
from rtgate.history import queries
from rtgate.history.database import History
from rtgate.history.queries import BootFilter, Line
from rtgate.history.url import VARIABLE, require_url
from rtgate.measure.raw_output import read_verified
from rtgate.report.listing import show_listing
from rtgate.workflow import archive

DESCRIPTION = f"""\
Keep every boot that was measured, so that comparisons know the board's noise, limits can be calibrated and trends be
seen. URL is a SQLite file or a PostgreSQL database; ${VARIABLE} names it, too:

  sqlite:////var/lib/rtgate/history.db                 a file; several processes of one machine may write at once
  postgresql+psycopg://user:password@host/database     a server (needs psycopg: pip install 'rtgate[postgresql]')

examples:
  rtgate history add report/records --history sqlite:///history.db
  rtgate history add soak/ --run night-2026-11-22
  rtgate history list --board rk3568-evb1

A record that is added twice is there once. A run is what was measured together, one after the other: a gate, a night, a
job. Without --run its name is made from the directory's and the time of its oldest record. What a good kernel is like
is measured with boots of good kernels alone: `rtgate baseline promote` makes a kernel good.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    actions = parser.add_subparsers(dest="action", metavar="add|list", required=True)
    add_action = actions.add_parser("add", help="store the records below directories")
    add_action.add_argument("records", nargs="+", type=Path, metavar="DIR", help="a directory of records (--records)")
    add_action.add_argument("--run", metavar="NAME", help="names what was measured together (default: made from DIR)")
    list_action = actions.add_parser("list", help="show what is there, by run")
    for option in ("board", "device", "flavour", "case", "arm", "run"):
        list_action.add_argument(f"--{option}", metavar="NAME", help=f"only this {option}")
    list_action.add_argument("--json", action="store_true", help="print it as JSON")
    for action in (add_action, list_action):
        command_options.history(action)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    url = require_url(arguments.history)
    if arguments.action == "add":
        return _add(url, arguments)
    with History.open(url) as history:
        boot_filter = BootFilter(
            **{name: getattr(arguments, name) for name in ("board", "device", "flavour", "case", "arm")},
            runs=None if arguments.run is None else [arguments.run],
        )
        lines = queries.contents(history, boot_filter)
    if arguments.json:
        print(json.dumps([asdict(line) for line in lines], indent=1))
    elif lines:
        show_listing(_COLUMNS, map(_row, lines))
    else:
        print("the history has no such boots")
    return 0


def _add(url: str, arguments: argparse.Namespace) -> int:
    for directory in arguments.records:
        records = read_verified(directory)
        if not records:
            raise ConfigError(f"{directory} holds no records (a directory made by pytest --records, or by rtgate gate)")
        run_of = arguments.run or archive.run_name(directory, records)
        counts = archive.store_now(url, records, run_of)
        print(f"{directory}: {counts.new} records stored as run {run_of}, {counts.existing} were there already")
    return 0


_COLUMNS = ("run, stored", "board, flavour", "case", "kernel", "boots", "valid", "of good kernels")


def _row(line: Line) -> tuple[object, ...]:
    return (
        f"{line.run}\n{line.stored_at[:16].replace('T', ' ')}",
        f"{line.board} {line.device}".strip() + f"\n{line.flavour}",
        line.case,
        f"{line.arm}\n{line.kernel_release if line.kernels < 2 else f'{line.kernels} kernels'}",
        line.boots,
        line.valid,
        line.of_good_kernels,
    )
