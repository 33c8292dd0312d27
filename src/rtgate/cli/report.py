# SPDX-License-Identifier: MIT
"""`rtgate report`: make the report of stored and judged records, and show it to a browser."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping
from pathlib import Path

from rtgate.console.line import address
from rtgate.errors import ConfigError
from rtgate.judge.verdict import exit_code
from rtgate.measure.raw_output import read_verified
from rtgate.records.seal import sealed_records
from rtgate.report import html
from rtgate.report.notices import say, silence
from rtgate.report.server import server
from rtgate.workflow.conclusion import Ending, missing_verdicts, write_report
from rtgate.workflow.exports import FORMATS, Export, JudgedRun
from rtgate.workflow.report_directory import PAGE, lock, require_report_directory
from rtgate.workflow.verdict_file import read_verdicts, require_judged

DESCRIPTION = """\
Make the report of records that were measured and judged: an Allure results directory, from it one HTML file, its first
screen as a small page for mails (summary.html), and junit.xml. With --export, write these files instead, for those who
collect results.

Nothing is judged here: the verdicts are those of the gate that measured RECORDS, and without a gate those of
`rtgate judge RECORDS`. The exit code says whether the report was made, not whether the kernel is good.

The pages open as files. With --serve a browser on another machine can see them, too: until Ctrl-C, and without RECORDS
as they are in DIR.

examples:
  rtgate report records                    report/index.html
  rtgate report records -o out --no-html   without index.html; needs no Allure command
  rtgate report records --export kcidb=run.json --origin mylab
                                           a file that kcidb-submit reads
  rtgate report records --export squad=run --export markdown=run.md
                                           run/BOARD/tests.json, metrics.json, metadata.json; a note
  rtgate report --serve -o out             http://127.0.0.1:8000/ (from afar: ssh -L 8000:localhost:8000 HOST)"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("records", nargs="?", type=Path, metavar="RECORDS", help="directory of records")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="where the report goes (default: report)",
    )
    parser.add_argument(
        "--verdict",
        type=Path,
        metavar="FILE",
        help="the verdicts (default: verdict.json beside RECORDS, as a gate leaves it; else RECORDS/verdict.json)",
    )
    parser.add_argument(
        "--trend", type=Path, metavar="FILE", help="runs to show trends of (default: DIR/history.jsonl)"
    )
    parser.add_argument("--no-html", action="store_true", help="do not make index.html")
    parser.add_argument("--serve", action="store_true", help="then serve the pages until Ctrl-C")
    parser.add_argument(
        "--listen",
        metavar="[HOST:]PORT",
        help="where --serve listens; whoever reaches HOST reads the report (default: 127.0.0.1:8000)",
    )
    parser.add_argument(
        "--export",
        type=_export,
        action="append",
        default=[],
        metavar="FORMAT=PATH",
        help=f"write a format instead of the report: {', '.join(FORMATS)} (squad: a directory); may be repeated",
    )
    parser.add_argument("--origin", default="", metavar="NAME", help="the CI system's name at KCIDB; kcidb needs it")


def run(args: argparse.Namespace) -> int:
    """Carry the command out; return the exit code.

    Raises:
        ConfigError: there are no records, they were not judged, or options contradict each other; the directory of the
            report is another run's or somebody else's; or the address of --serve cannot be had.
        ChangedError: a record was changed since it was written, or the records are not those that were judged.
        InfrastructureError: the report cannot be written, or the Allure command is missing.
    """
    _check_options(args)
    listen = address(args.listen or "8000")
    output: Path = args.output or Path("report")
    if args.records is not None:
        _make(args, output)
    return _serve(output, listen) if args.serve else 0


def _make(args: argparse.Namespace, output: Path) -> None:
    if not args.records.is_dir():
        raise ConfigError(f"{args.records}: no such directory of records")
    verdict = args.verdict or _verdict_of(args.records)
    verdicts, code = read_verdicts(verdict, args.records)
    require_judged(verdict, args.records)
    records = read_verified(args.records)
    # Where nothing was judged, a code of 0 says that somebody allowed it.
    allow_unjudged = code == 0
    missing = missing_verdicts(records, verdicts)
    verdicts += missing
    # A command that was refused or stopped has a code that its verdicts do not come to.
    code = exit_code(verdicts, allow_unjudged=allow_unjudged) if missing else code
    for export in args.export:
        export.write(JudgedRun(records=records, verdicts=verdicts, code=code, origin=args.origin))
        say(f"{export.format}: {export.path}")
    if args.export:
        return

    def page() -> Path | None:
        return None if args.no_html else html.generate(output / "allure-results", output, args.trend)

    _require_same_run(output, {"records": args.records, "verdict.json": verdict})
    with lock(output):
        # An older page has the older verdict, and a server or a reader takes it first.
        (output / PAGE).unlink(missing_ok=True)
        write_report(output, records, verdicts, page, Ending(whole=True, allow_unjudged=allow_unjudged, over=True))


def _require_same_run(output: Path, sources: Mapping[str, Path]) -> None:
    """Refuse a directory that has another run's verdicts or records: its page would contradict them."""
    require_report_directory(output)
    for name, source in sources.items():
        path = output / name
        if path.exists() and not path.samefile(source):
            raise ConfigError(f"{path} is not {source}: name another directory for this report with -o")


def _serve(directory: Path, listen: tuple[str, int]) -> int:
    with server(directory, *listen) as http_server:
        host, port = str(http_server.server_address[0]), http_server.server_port
        print(f"http://{f'[{host}]' if ':' in host else host}:{port}/ (Ctrl-C ends it)", flush=True)
        with silence(), contextlib.suppress(KeyboardInterrupt):
            http_server.serve_forever()
    return 0


def _check_options(args: argparse.Namespace) -> None:
    """Refuse options that would say nothing. Raises ConfigError."""
    if args.records is None and not args.serve:
        raise ConfigError("no records: name their directory, or show a report that there is with --serve")
    if args.records is None and (args.verdict or args.trend or args.no_html):
        raise ConfigError("--verdict, --trend and --no-html make a report: name its RECORDS, or leave them out")
    if args.trend and args.no_html:
        raise ConfigError("--trend is shown in index.html: leave out --no-html, or --trend")
    if args.listen and not args.serve:
        raise ConfigError("--listen is for --serve: add it, or leave out --listen")
    if args.export and (args.output or args.trend or args.no_html or args.serve):
        raise ConfigError("--export writes no report: leave out -o, --trend, --no-html and --serve")
    if args.origin and not any(export.format == "kcidb" for export in args.export):
        raise ConfigError("--origin is KCIDB's: add --export kcidb=FILE, or leave it out")


def _export(text: str) -> Export:
    """Read an export. Raises argparse.ArgumentTypeError."""
    try:
        return Export.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _verdict_of(records: Path) -> Path:
    """Return where the verdicts of records are: those of a gate are beside them, whatever was judged since.

    Verdicts that lie beside these records may be about other ones that do so, too.
    """
    beside, among = records.absolute().parent / "verdict.json", records / "verdict.json"
    if not beside.exists() or sealed_records(beside) not in {None, records.resolve()}:
        return among
    if among.exists():
        say(f"the report shows {beside}; --verdict {among} shows what was judged since")
    return beside
