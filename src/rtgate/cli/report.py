# SPDX-License-Identifier: MIT
"""`rtgate report`: make the report of stored and judged records."""

from __future__ import annotations

import argparse
from pathlib import Path

from rtgate.errors import ConfigError
from rtgate.measure.raw_output import read_verified
from rtgate.report import html
from rtgate.workflow.conclusion import Ending, unjudged, write_report
from rtgate.workflow.verdict_file import read_verdicts

_DESCRIPTION = """\
Make the report of records that were measured and judged: an Allure results directory, from it one HTML file, and
junit.xml.

Nothing is judged here: the verdicts are those of RECORDS/verdict.json. The exit code says whether the report was
made, not whether the kernel is good."""

_EPILOG = """\
examples:
  rtgate report records                    report/index.html
  rtgate report records -o out --no-html   out/allure-results only; needs no Allure command"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of `rtgate`."""
    parser = subparsers.add_parser(
        "report",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("records", type=Path, metavar="RECORDS", help="directory of records")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("report"),
        metavar="DIR",
        help="where the report goes (default: report)",
    )
    parser.add_argument(
        "--verdict", type=Path, metavar="FILE", help="the verdicts (default: RECORDS/verdict.json, or beside)"
    )
    parser.add_argument(
        "--history", type=Path, metavar="FILE", help="runs to show trends of (default: DIR/history.jsonl)"
    )
    parser.add_argument("--no-html", action="store_true", help="write the Allure results only")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Carry the command out; return the exit code.

    Raises:
        ConfigError: there are no records, or they were not judged.
        ChangedError: a record was changed since it was written.
        InfrastructureError: the report cannot be written, or the Allure command is missing.
    """
    if not args.records.is_dir():
        raise ConfigError(f"{args.records}: no such directory of records")
    verdicts, code = read_verdicts(args.verdict or _verdict_of(args.records), args.records)
    records = read_verified(args.records)
    verdicts += unjudged(records, verdicts)

    def page() -> Path:
        results: Path = args.output / "allure-results"
        return results if args.no_html else html.generate(results, args.output, args.history)

    # Where nothing was judged, a code of 0 says that somebody allowed it.
    write_report(args.output, records, verdicts, page, Ending(whole=True, allow_unjudged=code == 0, over=True))
    return 0


def _verdict_of(records: Path) -> Path:
    """Return where the verdicts of records are: among them, or beside them, where `rtgate gate` leaves them."""
    beside = records.parent / "verdict.json"
    among = records / "verdict.json"
    return beside if beside.exists() and not among.exists() else among
