# SPDX-License-Identifier: MIT
"""`rtgate seeds`: the figures of the reference documents, the limits made from them, and what was measured last."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rtgate.board import boards
from rtgate.history.database import History
from rtgate.judge.thresholds import LimitKind
from rtgate.report.text import plain
from rtgate.workflow.seeds import DOCUMENTS, SeedLimit, last_measured, seed_limits
from rtgate.workflow.verdicts import limits

_DESCRIPTION = """\
List the limits that come from the reference documents: the figure that is printed there, the limit with its line, and,
with --history, the worst value of the last valid boot with the same options of tool and load.

Figures without a limit, and why: docs/reference/seed-figures.md. The margins: the comment in thresholds.yaml.

examples:
  rtgate seeds --board nuc-j3455
  rtgate seeds --document s002 --history sqlite:///history.db
"""


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "seeds",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = ", ".join(f"{name} {title.partition(',')[0]}" for name, title in DOCUMENTS.items())
    parser.add_argument("--board", metavar="NAME", help="only limits of this board")
    parser.add_argument("--document", metavar="ID", choices=DOCUMENTS, help=f"only of this document: {known}")
    parser.add_argument("--history", metavar="URL", help="where what was measured last is looked up")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.board is not None:
        boards.board(arguments.board)
    found = [
        seed
        for seed in seed_limits(limits(None))
        if arguments.board in (None, seed.limit.board) and seed.figure.startswith(arguments.document or "")
    ]
    with History.open(arguments.history) if arguments.history else nullcontext() as history:
        for document in dict.fromkeys(seed.document for seed in found):
            table = Table("figure", "printed", "limit", *(("last measured",) if history else ()), title=document)
            for seed in (seed for seed in found if seed.document == document):
                last = (last_measured(history, seed.limit) or "never",) if history else ()
                table.add_row(*(Text(plain(cell)) for cell in (seed.figure, seed.printed, _limit(seed), *last)))
            Console(width=None if sys.stdout.isatty() else 200).print(table)
    print(f"{len(found)} limits")
    return 0


def _limit(seed: SeedLimit) -> str:
    """Return what is limited, where, and by how much."""
    limit = seed.limit
    measured = f"{limit.measurement}{f' of {limit.cpu_class} CPUs' if limit.cpu_class else ''}"
    word = "at least" if limit.kind is LimitKind.MIN else "at most"
    allowed = f"{word} {limit.limit}" if limit.limit else f"over {limit.over} in at most {limit.share:g}"
    profile = f", profile {limit.profile}" if limit.profile else ""
    line = f" (line {limit.location.line})" if limit.location else ""
    return f"{measured} {allowed} on {limit.board}, {limit.flavour}, {limit.case}{profile}{line}"
