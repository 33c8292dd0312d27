# SPDX-License-Identifier: MIT
"""`rtgate seeds`: the figures of the reference documents, the limits made from them, and what was measured last."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import nullcontext

from rtgate.board import boards
from rtgate.cli import command_options
from rtgate.history.database import History
from rtgate.history.url import history_url
from rtgate.judge.thresholds import LimitKind
from rtgate.report.listing import show_listing
from rtgate.workflow.seeds import DOCUMENTS, SeedLimit, last_worst, seed_limits
from rtgate.workflow.verdicts import limits

_COLUMNS = ("figure", "printed", "limit", "last measured")
DESCRIPTION = """\
List the limits that come from the reference documents: the figure that is printed there, the limit with its line, and,
with a history, the worst value of the last valid boot with the same options of tool and load.

Figures without a limit, and why: docs/reference/seed-figures.md. The margins: the comment in thresholds.yaml.

examples:
  rtgate seeds --board nuc-j3455
  rtgate seeds --document s002 --history sqlite:///history.db
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    documents = ", ".join(f"{name} {title.partition(',')[0]}" for name, title in DOCUMENTS.items())
    parser.add_argument("--board", metavar="NAME", help="only limits of this board")
    parser.add_argument("--document", metavar="ID", choices=DOCUMENTS, help=f"only of this document: {documents}")
    command_options.history(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.board is not None:
        boards.board(arguments.board)
    seeds = [
        seed
        for seed in seed_limits(limits(None))
        if arguments.board in (None, seed.limit.board) and seed.figure.startswith(arguments.document or "")
    ]
    url = history_url(arguments.history)
    with History.open(url) if url else nullcontext() as history:
        for document in dict.fromkeys(seed.document for seed in seeds):
            print(f"{document}:")
            show_listing(_COLUMNS if history else _COLUMNS[:-1], _rows(seeds, document, history))
            print()
    print(f"{len(seeds)} limits")
    return 0


def _rows(seeds: Sequence[SeedLimit], document: str, history: History | None) -> Iterator[tuple[str, ...]]:
    for seed in seeds:
        if seed.document == document:
            last = (last_worst(history, seed.limit) or "never",) if history else ()
            yield seed.figure, seed.printed, _limit(seed), *last


def _limit(seed: SeedLimit) -> str:
    """Return what is limited, where, and by how much."""
    limit = seed.limit
    measurement = f"{limit.measurement}{f' of {limit.cpu_class} CPUs' if limit.cpu_class else ''}"
    word = "at least" if limit.kind is LimitKind.MIN else "at most"
    bound = f"{word} {limit.limit}" if limit.limit else f"over {limit.over} in at most {limit.share:g}"
    profile = f", profile {limit.profile}" if limit.profile else ""
    line = f" (line {limit.location.line})" if limit.location else ""
    return f"{measurement} {bound} on {limit.board}, {limit.flavour}, {limit.case}{profile}{line}"
