# SPDX-License-Identifier: MIT
"""`rtgate compare-flavours`: kernels of several flavours beside each other, as tables and plots."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from rtgate import files
from rtgate.errors import ConfigError
from rtgate.report import page
from rtgate.report.cases import CaseReport, cases
from rtgate.report.flavours import COLUMNS, TEXTS, FlavourTable, as_document, differences, flavour_tables, has_latency
from rtgate.report.listing import show_listing
from rtgate.report.notices import say
from rtgate.report.text import plain_text
from rtgate.workflow.judging import Criteria, JudgingRequest, judge_cases

DESCRIPTION = """\
Put kernels of several flavours beside each other that were measured on one machine under the same loads: an ordinary
kernel, PREEMPT_RT, Xenomai. The table has the latencies of each, and the page a plot of all histograms.

Nothing is judged by limits, and nothing is gated. Records are held against their raw output all the same, and a
measurement that is invalid has no figures here. The exit code is 0, or 3 where no figure is left.

examples:
  rtgate measure --board virt-arm64 --kernel build/generic -o generic
  rtgate measure --board virt-arm64 --kernel build/rt -o rt
  rtgate compare-flavours generic/records rt/records
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "records", type=Path, nargs="+", metavar="RECORDS", help="a directory of records of each kernel"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, and write no page")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("flavours.html"), metavar="FILE", help="default: %(default)s"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command. Raises ConfigError, InfrastructureError."""
    tables = flavour_tables(chain.from_iterable(map(_cases, arguments.records)))
    has_figures = any(not line.doubt for table in tables for line in table.lines)
    if arguments.json:
        print(json.dumps(as_document(tables), indent=1))
    else:
        _show(tables)
        files.write_user_file(arguments.output, page.flavours(tables))
        say(f"page: {arguments.output}")
    return 0 if has_figures else 3


def _cases(records: Path) -> Sequence[CaseReport]:
    """Return the cases of a run, with what is wrong with their measurements. Raises ConfigError."""
    if not records.is_dir():
        raise ConfigError(f"{records}: no such directory of records: name what `rtgate measure` or `gate` has written")
    judging = judge_cases(JudgingRequest(records=records, criteria=Criteria()))
    reports = cases([record for subject in judging.subjects for record in subject.records], judging.verdicts)
    if not any(map(has_latency, reports)):  # a flavour that measured nothing must not be missing in silence
        raise ConfigError(f"{records}: no case has a histogram of latencies")
    return reports


def _show(tables: Sequence[FlavourTable]) -> None:
    for table in tables:
        print(f"{plain_text(table.title)}, in {table.unit}")
        show_listing(COLUMNS, (line.cells for line in table.lines), right=set(COLUMNS) - TEXTS)
        for line in table.lines:
            if line.doubt:
                print(plain_text(f"{line.case.flavour}: no figures, as {line.doubt}"))
        print()
    if different := differences(tables):
        print(f"besides the kernel differ: {', '.join(different)}")
