# SPDX-License-Identifier: MIT
"""The HTML that rtgate itself writes: the first screen, the trend, and a case's description; all text is escaped."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rtgate.judge.verdict import Status, Verdict
from rtgate.records.record import Record
from rtgate.report.cases import CaseReport, cpus, figures
from rtgate.report.categories import message
from rtgate.report.outcome import outcome
from rtgate.report.table import tables
from rtgate.report.text import plain

TREND = "<!-- rtgate: trend -->"
"""Where the trend goes on the first screen: it is known only when the page is made."""

_MOST_CAUSES = 6  # on the first screen; all stand in the list of tests
_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def first_screen(
    found: Sequence[CaseReport],
    exit_code: int,
    plots: Mapping[str, bytes],
    link: Callable[[CaseReport], str],
) -> str:
    """Return the first screen: the verdict, the table and the plots.

    Args:
        found: all cases.
        exit_code: of the run.
        plots: the histogram of each case that has one, as SVG, by `link`.
        link: the address of a case in the page.
    """
    causes = [
        (case, verdict)
        for case in sorted(found, key=lambda case: case.status.rank)
        for verdict in case.causes
        if verdict.status is not Status.PASS
    ]
    return _TEMPLATES.get_template("first_screen.html").render(
        outcome=outcome(found, exit_code),
        causes=causes[:_MOST_CAUSES],
        more=len(causes) - len(causes[:_MOST_CAUSES]),
        several=len({case.board for case in found}) > 1,
        tables=tables(found),
        plots=[(case, _image(plots[link(case)])) for case in found if link(case) in plots],
        link=link,
        sentence=_first_line,
    )


def _first_line(verdict: Verdict) -> str:
    return plain(verdict.sentence).partition("\n")[0]


def _image(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{b64encode(svg).decode()}"


def trend(plots: Mapping[str, bytes], runs: int) -> str:
    """Return the trend of each case, folded; `plots` are SVG, by case."""
    shown = [(name, _image(svg)) for name, svg in plots.items()]
    return _TEMPLATES.get_template("trend.html").render(plots=shown, runs=runs)


def description(case: CaseReport, plot: bytes | None) -> str:
    """Return a case's headline where Allure does not show it, its figures as a table, and the histogram."""
    rows = [_row(case.arm, case.records, None)]
    several = cpus(case.records)
    rows += [_row(f"{case.arm}, CPU {cpu}", case.records, cpu) for cpu in several if len(several) > 1]
    if case.baseline:
        rows.append(_row(case.other_arm, case.baseline, None))
    return _TEMPLATES.get_template("case.html").render(
        headline=message(case.headline),
        shown_above=case.status in {Status.FAIL, Status.ERROR, Status.MISS},
        rows=rows if plot else [],
        image=_image(plot) if plot else "",
        limit=case.limit("latency.max"),
        unit="virtual us" if any(record.virtual_time for record in (*case.records, *case.baseline)) else "us",
    )


def _row(label: str, records: Sequence[Record], cpu: str | None) -> tuple[str, ...]:
    found = figures(records, cpu)
    numbers = [f"{value.value:.1f}" if value else "-" for value in (found.low, found.mean, found.high)]
    worst = found.worst.boot if found.worst else "-"
    lost = "-" if found.lost is None else str(found.lost)
    return tuple(plain(cell) for cell in (label, str(len(records)), *numbers, worst, lost))
