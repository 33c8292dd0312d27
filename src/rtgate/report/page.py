# SPDX-License-Identifier: MIT
"""The HTML that rtgate itself writes: the first screen, the summary, the trend, flavours, and a case's description.

All text is escaped.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rtgate.judge.verdict import Kind, Status, is_open
from rtgate.records.record import Record
from rtgate.report.answers import lead, sections
from rtgate.report.cases import CaseReport, cpus, figures
from rtgate.report.categories import message
from rtgate.report.flavours import COLUMNS, TEXTS, FlavourTable, differences
from rtgate.report.latency import maxima
from rtgate.report.outcome import outcome
from rtgate.report.plots import Picture
from rtgate.report.table import figure_cell, tables
from rtgate.report.text import plain_text

TREND = "<!-- rtgate: trend -->"
"""Where the trend goes on the first screen: it is known only when the page is made."""

Place = tuple[str, str, str]
"""`CaseReport.place`."""

_MOST_ANSWERS = 6  # of one heading; all stand in the list of tests
_MOST_CASES = 40  # in tables: nobody reads further
_MOST_PLOTS = 6
_MOST_BYTES = 700 * 1024  # of a summary's pictures: mail servers refuse what is much larger than a megabyte
_SHORT = 260  # letters of a sentence that is shown whole; of a longer one its first statement
_MOST_TEXT = 600  # what a kernel prints may be of any length
_OPEN_KINDS = frozenset({Kind.BUILD.value, Kind.MERGE.value})  # nothing else says where to look
_LEGEND = "A case has the status of its worst answer. A limit is that of thresholds.yaml."
_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def first_screen(
    reports: Sequence[CaseReport],
    exit_code: int,
    plots: Mapping[Place, Picture],
    link: Callable[[CaseReport], str],
) -> str:
    """Return the first screen: the verdict, the table and the plots, and what the verdicts say.

    Args:
        reports: all cases.
        exit_code: of the run.
        plots: the histogram of each case that has one, by its place.
        link: the address of a case in the page.
    """
    images = [(case, _image(plot.svg, "svg+xml")) for case, plot in _plotted_cases(reports, plots)]
    return _TEMPLATES.get_template("first_screen.html").render(
        **_content(reports, exit_code),
        plots=images,
        maxima=[(title, _image(svg, "svg+xml")) for title, svg in maxima(reports)],
        link=link,
        parts=_parts,
    )


def summary(reports: Sequence[CaseReport], exit_code: int, plots: Mapping[Place, Picture]) -> str:
    """Return the first screen as a page of its own, for a mail: without scripts, with PNG, below 1 MB.

    For the arguments see `first_screen`.
    """
    images: list[tuple[CaseReport, str]] = []
    for case, plot in _plotted_cases(reports, plots):
        image = _image(plot.png, "png")
        if sum(len(picture) for _, picture in images) + len(image) <= _MOST_BYTES:
            images.append((case, image))
    return _TEMPLATES.get_template("summary.html").render(**_content(reports, exit_code), plots=images, parts=_parts)


def _plotted_cases(reports: Sequence[CaseReport], plots: Mapping[Place, Picture]) -> list[tuple[CaseReport, Picture]]:
    """Return the worst cases that have a plot of the kernel that was judged."""
    measured_cases = [case for case in worst_first(reports) if any(record.has_results for record in case.records)]
    return [(case, plots[case.place]) for case in measured_cases if case.place in plots][:_MOST_PLOTS]


def worst_first(reports: Sequence[CaseReport]) -> list[CaseReport]:
    """Return cases in the order in which somebody must look at them: what did not decide before what passed."""
    return sorted(reports, key=lambda case: (_urgency(case), not any(verdict.cause for verdict in case.causes)))


def _urgency(case: CaseReport) -> int:
    undecided = case.status is Status.DONE or is_open(case.headline)
    rank = case.status.rank
    return min(rank, Status.PASS.rank) if undecided else rank + (rank >= Status.PASS.rank)


def _content(reports: Sequence[CaseReport], exit_code: int) -> dict[str, object]:
    places = {case.place for case in worst_first(reports)[:_MOST_CASES]}
    rest = len(reports) - len(places)
    board_tables = tables([case for case in reports if case.place in places])
    alike = all(table.kernels == board_tables[0].kernels for table in board_tables)
    return {
        "outcome": outcome(reports, exit_code),
        "legend": _LEGEND if board_tables else "",
        "kernels": board_tables[0].kernels if board_tables and alike else {},
        "tables": board_tables,
        "hidden": f"{rest} further cases, none of them worse than these, are not shown here." if rest else "",
        "sections": sections(worst_first(reports)),
        "most": _MOST_ANSWERS,
        "open_kinds": _OPEN_KINDS,
    }


def _parts(sentence: str) -> tuple[str, str]:
    """Return what is shown of a sentence at once, and what is behind it: whole if it is short."""
    line, _, more_lines = sentence.partition("\n")
    first, rest = (line, "") if len(line) <= _SHORT else lead(line)
    if len(first) > _MOST_TEXT:
        first, rest = f"{first[:_MOST_TEXT]} ...", sentence
    return first, "\n".join(filter(None, (rest, more_lines)))


def _image(picture: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{b64encode(picture).decode()}"


def trend(plots: Mapping[str, bytes], runs: int, changes: Sequence[str]) -> str:
    """Return the trend of each case, folded: SVG, by case. `changes` are the levels that moved, in words."""
    images = [(name, _image(svg, "svg+xml")) for name, svg in plots.items()]
    return _TEMPLATES.get_template("trend.html").render(plots=images, runs=runs, changes=changes)


def flavours(tables: Sequence[FlavourTable]) -> str:
    """Return flavours beside each other as a page of its own, for a mail: without scripts, with PNG."""
    boards = sorted({line.case.board for table in tables for line in table.lines})
    return _TEMPLATES.get_template("flavours.html").render(
        title=f"Flavours on {plain_text(', '.join(boards))}",
        tables=[(table, _image(table.picture.png, "png") if table.picture else "") for table in tables],
        columns=COLUMNS,
        texts=TEXTS,
        differences=differences(tables),
        plain=plain_text,
    )


def description(case: CaseReport, plot: Picture | None) -> str:
    """Return a case's headline where Allure does not show it, its figures as a table, and the histogram."""
    return _TEMPLATES.get_template("case.html").render(
        headline=message(case.headline),
        shown_above=case.status in {Status.FAIL, Status.ERROR, Status.MISS},
        rows=_rows(case) if plot else [],
        image=_image(plot.svg, "svg+xml") if plot else "",
        limit=case.max_limit,
        unit="virtual us" if any(record.virtual_time for record in (*case.records, *case.baseline)) else "us",
    )


def _rows(case: CaseReport) -> list[tuple[str, ...]]:
    rows = [_row(case.arm, case.records, None)]
    several = cpus(case.records)
    rows += [_row(f"{case.arm}, CPU {cpu}", case.records, cpu) for cpu in several if len(several) > 1]
    if case.baseline:
        rows.append(_row(case.other_arm, case.baseline, None))
    return rows


def _row(label: str, records: Sequence[Record], cpu: str | None) -> tuple[str, ...]:
    latencies = figures(records, cpu)
    numbers = [figure_cell(value) for value in (latencies.low, latencies.mean, latencies.high)]
    worst = latencies.worst.boot if latencies.worst else "-"
    losses = "-" if latencies.lost is None else str(latencies.lost)
    return tuple(plain_text(cell) for cell in (label, str(len(records)), *numbers, worst, losses))
