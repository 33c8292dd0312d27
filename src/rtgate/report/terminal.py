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
from rtgate.report.cases import CaseReport, Figures, cases, figures, microseconds
from rtgate.report.text import plain
from rtgate.units import Quantity

_COLOURS = {
    Status.FAIL: "bold red",
    Status.ERROR: "bold magenta",
    Status.MISS: "bold yellow",
    Status.PASS: "green",
    Status.DONE: "cyan",
    Status.SKIP: "dim",
}
_WIDEST = 10_000
_OUTCOMES = {
    0: ("PASS", "every limit was kept"),
    1: ("FAIL", "the kernel failed"),
    2: ("ERROR", "wrong usage or configuration"),
    3: ("MISS", "the lab failed, or something was not measured"),
    4: ("ERROR", "a measurement was invalid, or output could not be read"),
    5: ("DONE", "inconclusive, or nothing was judged"),
    130: ("MISS", "interrupted"),
}


def show(
    records: Sequence[Record], verdicts: Sequence[Verdict], exit_code: int, console: Console, report: Path | None
) -> None:
    """Print the summary.

    Each case is one line that begins with its status and its name, in a terminal and in a pipe alike, so that
    `grep '^FAIL '` finds what failed.
    """
    found = cases(records, verdicts)
    for board in sorted({case.board for case in found}):
        here = [case for case in found if case.board == board]
        _print(console, _heading(here))
        _print_table(console, _table(here))
        console.print()
    _made_before(console, records)
    for case in sorted(found, key=lambda case: case.status.rank):
        _sentences(console, case)
    _outcome(console, found, exit_code)
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


def _print_table(console: Console, table: Table) -> None:
    """Print a table; a pipe has no width of its own, so there no line is ever folded."""
    whole = console.measure(table, options=console.options.update(max_width=_WIDEST)).maximum
    width = console.width if console.is_terminal else whole
    for segments in console.render_lines(table, console.options.update(width=width), pad=False):
        line = Text.assemble(*((segment.text, segment.style or "") for segment in segments))
        line.rstrip()
        _print(console, line)


def _print(console: Console, text: Text) -> None:
    """Print whole words, without rich's own colours; lines that a pipe gets stay whole."""
    console.print(text, highlight=False, soft_wrap=not console.is_terminal)


def _heading(found: Sequence[CaseReport]) -> Text:
    """Return board, flavour, kernels and the unit of the figures."""
    records = [record for case in found for record in (*case.baseline, *case.records)]
    arms = {record.arm: record.environment.kernel_release or record.kernel.release for record in records}
    kernels = ", ".join(f"{arm} {release}".strip() if len(arms) > 1 else release for arm, release in arms.items())
    unit = "virtual us" if any(record.virtual_time for record in records) else "us"
    flavour = next((case.flavour for case in found if case.flavour), "")
    parts = [found[0].board or "no board", flavour, kernels, f"latency in {unit}"]
    return Text(plain(", ".join(part for part in parts if part)), style="bold")


def _table(found: Sequence[CaseReport]) -> Table:
    arms = any(case.baseline for case in found) or len({case.arm for case in found}) > 1
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("status", no_wrap=True)
    table.add_column("case", overflow="fold")
    if arms:
        table.add_column("arm", no_wrap=True)
    for name in ("boots", "min", "avg", "max", "limit", "lost"):
        table.add_column(name, justify="right", no_wrap=True)
    for case in found:
        arm = [case.arm] if arms else []
        limit = case.limit("latency.max")
        numbers = _numbers(case.records, limit)
        table.add_row(_status(case.status), Text(plain(case.case)), *arm, *numbers)
        if case.baseline:
            table.add_row("", Text(plain(case.case), style="dim"), case.other_arm, *_numbers(case.baseline, None))
    return table


def _status(status: Status) -> Text:
    return Text(status.value, style=_COLOURS[status])


def _numbers(records: Sequence[Record], limit: Quantity | None) -> tuple[str, ...]:
    found: Figures = figures(records)
    values = (found.low, found.mean, found.high, microseconds(limit) if limit else None)
    lost = "-" if found.lost is None else str(found.lost)
    measured = sum(record.measured for record in records)
    boots = str(measured) if measured == len(records) else f"{measured}/{len(records)}"
    return (boots, *(f"{value.value:.1f}" if value else "-" for value in values), lost)


def _sentences(console: Console, case: CaseReport) -> None:
    """Print what is not PASS, and what a comparison rules out: wrapped in a terminal, on one line in a pipe."""
    for verdict in sorted(case.verdicts or (case.headline,), key=lambda verdict: verdict.status.rank):
        if verdict.status is Status.PASS and verdict.kind not in {Kind.NO_WORSE, Kind.SLOWER, Kind.NOT_SUSPICIOUS}:
            continue
        where = " ".join(part for part in (case.case, case.arm, case.board) if part)
        first, _, rest = plain(verdict.sentence).partition("\n")
        head = Text.assemble(_status(verdict.status), f" {where}: ", Text(verdict.kind.value, style="bold"))
        if console.is_terminal:
            _print(console, head)
            console.print(Padding(Text(first), (0, 0, 0, 5)), highlight=False)
        else:
            _print(console, Text.assemble(head, f": {first}"))
        for line in rest.split("\n") if rest else ():
            _print(console, Text(f"     {line}", style="dim"))


def _outcome(console: Console, found: Sequence[CaseReport], exit_code: int) -> None:
    word, meaning = _meaning(found, exit_code)
    counts = [f"{sum(case.status is status for case in found)} {status.value}" for status in Status]
    told = ", ".join(count for count in counts if not count.startswith("0 ")) or "no case"
    console.print()
    line = Text.assemble(Text(word, style=_COLOURS[Status(word)]), f": {meaning} ({told}; exit code {exit_code})")
    _print(console, line)


def _meaning(found: Sequence[CaseReport], exit_code: int) -> tuple[str, str]:
    """Return what the run came to, as a status and in words."""
    verdicts = [verdict for case in found for verdict in case.verdicts]
    kinds = {verdict.kind for verdict in verdicts}
    if exit_code == 0 and not any(case.status is Status.PASS for case in found):
        return "DONE", "measured, nothing was judged, as asked"
    if exit_code == 0 and Kind.SLOWER in kinds:
        return "PASS", "every limit was kept; the kernel is slower for certain, by less than what blocks"
    if exit_code == 0 and Kind.NO_WORSE in kinds:
        return "PASS", "every limit was kept, and the kernel is no worse than the baseline"
    if exit_code == 1 and {verdict.kind for verdict in verdicts if verdict.status is Status.FAIL} == {Kind.REGRESSION}:
        return "FAIL", "the kernel became worse than the baseline; it keeps every limit"
    open_ends = {
        Kind.INCONCLUSIVE: "inconclusive: the samples do not decide",
        Kind.NOT_EXERCISED: "what differs between the kernels did not run here: boards must say",
        Kind.NOT_COMPARED: "the limits are kept; whether the kernel became worse is not known",
    }
    if exit_code == 5 and kinds & set(open_ends):
        return "DONE", next(meaning for kind, meaning in open_ends.items() if kind in kinds)
    return _OUTCOMES.get(exit_code, ("ERROR", "rtgate itself failed"))
