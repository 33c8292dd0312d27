# SPDX-License-Identifier: MIT
"""The summary at the end of a gate: a table of cases, what is not good in whole sentences, the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.records.record import Record
from rtgate.report import table
from rtgate.report.answers import group_verdicts
from rtgate.report.cases import CaseReport, cases
from rtgate.report.listing import print_table
from rtgate.report.outcome import outcome
from rtgate.report.text import plain_text

_COLOURS = {
    Status.FAIL: "bold red",
    Status.ERROR: "bold magenta",
    Status.MISS: "bold yellow",
    Status.PASS: "green",
    Status.DONE: "cyan",
    Status.SKIP: "dim",
}
_RULED_OUT = frozenset({Kind.NO_WORSE, Kind.SLOWER, Kind.NOT_SUSPICIOUS})


def show(
    records: Sequence[Record],
    verdicts: Sequence[Verdict],
    exit_code: int,
    report: Path | None,
    console: Console | None = None,
) -> None:
    """Print the summary, to standard output if no console is given.

    Each case is one line that begins with its status and its name, in a terminal and in a pipe alike, so that
    `grep '^FAIL '` finds what failed.
    """
    console, reports = console or Console(), cases(records, verdicts)
    for board_table in table.tables(reports):
        _print(console, Text(board_table.heading, style="bold"))
        width = max(map(len, board_table.kernels), default=0)
        for arm, kernel in board_table.kernels.items():
            _print(console, Text(f"{arm:{width}}  {kernel}", style="dim"))
        print_table(console, _rich(board_table))
        console.print()
    _made_before(console, records)
    for case in sorted(reports, key=lambda case: case.status.rank):
        _sentences(console, case)
    _outcome(console, reports, exit_code)
    if report is not None:
        _print(console, Text(f"report: {report}"))


def _made_before(console: Console, records: Sequence[Record]) -> None:
    """Say which boots this run did not make itself."""
    virtual = [record for record in records if record.virtual_time]
    before = sum("booted" in record.machine for record in virtual)
    again = sum("repeated" in record.machine for record in virtual)
    if before or again:
        text = f"{before} of {len(virtual)} boots were made before this run"
        more = f"; {again} more {'was' if again == 1 else 'were'} made again and printed the same bytes"
        _print(console, Text(f"{text}{more if again else ''}", style="dim"))
        console.print()


def _print(console: Console, text: Text) -> None:
    """Print whole words, without rich's own colours; lines that a pipe gets stay whole."""
    console.print(text, highlight=False, soft_wrap=not console.is_terminal)


def _rich(board_table: table.Table) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    grid.add_column("status", no_wrap=True)
    grid.add_column("case", overflow="fold")
    for name in board_table.columns:
        grid.add_column(name, justify="left" if name == "figure" else "right", no_wrap=True)
    for row in board_table.rows:
        status = _status(row.status) if row.status else Text()
        case = Text(plain_text(row.case.case), style="" if row.status else "dim")
        grid.add_row(status, case, *row.cells)
    return grid


def _status(status: Status) -> Text:
    return Text(status.value, style=_COLOURS[status])


def _sentences(console: Console, case: CaseReport) -> None:
    """Print what is not PASS, and what a comparison rules out: wrapped in a terminal, on one line in a pipe."""
    verdicts = [verdict for verdict in case.causes if verdict.status is not Status.PASS or verdict.kind in _RULED_OUT]
    for verdict, count in group_verdicts(verdicts):
        where = " ".join(part for part in (case.case or "the run", case.arm, case.board) if part)
        first, _, rest = plain_text(verdict.full_sentence).partition("\n")
        first += f" (the same {count} times)" if count > 1 else ""
        head = Text.assemble(_status(verdict.status), f" {where}: ", Text(verdict.kind.value, style="bold"))
        if console.is_terminal:
            _print(console, head)
            console.print(Padding(Text(first), (0, 0, 0, 5)), highlight=False)
        else:
            _print(console, Text.assemble(head, f": {first}"))
        for line in rest.split("\n") if rest else ():
            _print(console, Text(f"     {line}", style="dim"))


def _outcome(console: Console, reports: Sequence[CaseReport], exit_code: int) -> None:
    run_outcome = outcome(reports, exit_code)
    console.print()
    word = Text(run_outcome.status.value, style=_COLOURS[run_outcome.status])
    _print(console, Text.assemble(word, f": {run_outcome.meaning} ({run_outcome.counts})"))
    if run_outcome.action:
        _print(console, Text(f"next: {run_outcome.action}"))
