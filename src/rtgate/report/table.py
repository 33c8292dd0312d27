# SPDX-License-Identifier: MIT
"""The table of a board's cases that terminal and page show: figures and limits, of two kernels also their change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.records.bound import MEASUREMENT as BOUND
from rtgate.records.record import Record
from rtgate.report.case_figures import case_figures
from rtgate.report.cases import CaseReport, change, family, figures, microseconds
from rtgate.report.text import plain_text
from rtgate.units import Quantity, Unit

_SHOWN = {"mean": "mean", "avg": "mean", "maximum": "max", "max": "max"}
_TYPICAL_MAX = "median max"  # comparisons look at the maximum of each boot, limits at the largest of all
_LONGEST_KERNEL = 300  # letters; a commit's subject may be of any length
_MOST_OTHERS = 3  # figures of a case that has neither a mean nor a maximum


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure of a case.

    Attributes:
        name: `mean`, `max`, `median max`, `p99`, or a measurement's own name.
        judged: of the kernel that was judged, in all its boots: of maxima the largest, of others the median.
        baseline: the same of the kernel that it was compared with.
        limit: that of thresholds.yaml, which `judged` must keep; None without one.
        estimate: the change as the comparison found it; empty where it found none.
    """

    name: str
    judged: Quantity | None = None
    baseline: Quantity | None = None
    limit: Quantity | None = None
    estimate: str = ""

    @property
    def change(self) -> str:
        """The change from the baseline to the judged kernel; `-` where nobody knows."""
        if self.estimate or self.baseline is None or self.judged is None:
            return self.estimate or "-"
        return change(self.baseline, self.judged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row.

    Attributes:
        status: the case's, in its first row; None in further ones.
        cells: what stands behind the case's name.
    """

    case: CaseReport
    status: Status | None
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The cases of one board.

    Attributes:
        heading: board, flavour and the unit of the figures.
        kernels: what was measured, by arm.
        columns: the names of the cells.
    """

    heading: str
    kernels: Mapping[str, str]
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def tables(reports: Sequence[CaseReport]) -> tuple[Table, ...]:
    """Return the table of each board; what is said of a run, and of no case, is in none."""
    case_reports = [case for case in reports if case.case]
    return tuple(
        _table([case for case in case_reports if case.board == board])
        for board in sorted({c.board for c in case_reports})
    )


def _table(reports: Sequence[CaseReport]) -> Table:
    records = [record for case in reports for record in (*case.baseline, *case.records)]
    unit = "virtual us" if any(record.virtual_time for record in records) else "us"
    flavour = next((case.flavour for case in reports if case.flavour), "")
    what = "latency" if any(family(case.records) == "latency" for case in reports) else "times"  # of round trips, say
    parts = [reports[0].board or "no board", flavour, f"{what} in {unit}"]
    if any(case.baseline for case in reports):
        columns: tuple[str, ...] = ("figure", "baseline", "candidate", "change", "limit", "boots")
        rows = [row for case in reports for row in comparison_rows(case)]
    else:
        bounds = any(map(_bound, reports))
        columns = ("boots", "min", "mean", "max", "limit", *(("bound", "its limit") if bounds else ()), "lost")
        rows = [Row(case=case, status=case.status, cells=_single_row(case, bounds=bounds)) for case in reports]
    return Table(
        heading=plain_text(", ".join(part for part in parts if part)),
        kernels=kernels(records),
        columns=columns,
        rows=tuple(rows),
    )


def kernels(records: Sequence[Record]) -> dict[str, str]:
    """Return by arm which kernel was measured: release, source (ref, hash, subject), and image, which no two share."""
    by_arm: dict[str, dict[str, None]] = {}
    for record in records:
        kernel = record.kernel
        image = f"image {kernel.image_sha256[:12]}" if kernel.image_sha256 else ""
        text = ", ".join(filter(None, (record.release, kernel.source, image)))
        by_arm.setdefault(record.arm, {})[f"{plain_text(text):.{_LONGEST_KERNEL}}".replace("\n", " ")] = None
    return {arm: "; ".join(texts) for arm, texts in by_arm.items()}


def _single_row(case: CaseReport, *, bounds: bool) -> tuple[str, ...]:
    here = figures(case.records)
    numbers = [figure_cell(value) for value in (here.low, here.mean, here.high, case.max_limit)]
    if bounds:
        line = _bound(case) or Line(name="bound")
        numbers += [figure_cell(line.judged), figure_cell(line.limit)]
    return (_boots(case.records), *numbers, "-" if here.lost is None else str(here.lost))


def comparison_rows(case: CaseReport) -> list[Row]:
    """Return the rows of a case, with the columns of two kernels: one that was measured alone has `-` for the other."""
    counts = [*([_boots(case.baseline)] if case.baseline else []), _boots(case.records)]
    boots = "+".join(dict.fromkeys(counts))
    rows = []
    for number, line in enumerate(lines(case) or (Line(name="-"),)):
        figure, baseline = figure_cell(line.judged), figure_cell(line.baseline)
        # A baseline that nothing was compared with is what was judged.
        kernels = (figure, baseline) if case.arm == "baseline" else (baseline, figure)
        cells = (line.name, *kernels, line.change, figure_cell(line.limit), "" if number else boots)
        rows.append(Row(case=case, status=None if number else case.status, cells=cells))
    return rows


def lines(case: CaseReport) -> tuple[Line, ...]:
    """Return the figures that tell how a case went: mean, maximum, and what became worse first of all."""
    now, before = _quantities(case.records), _quantities(case.baseline)
    worse = next((verdict for verdict in case.causes if verdict.kind is Kind.REGRESSION), None)
    worse_name = worse.measurement if worse else ""
    names = [name for name in {**now, **before} if _short(name) in _SHOWN or name == worse_name]
    names = names or list({**now, **before})[:_MOST_OTHERS]
    several = len({_family(name) for name in names}) > 1
    case_lines = []
    for name in names:
        label = name if several else _SHOWN.get(_short(name), _short(name))
        line = Line(name=label, judged=now.get(name), baseline=before.get(name), limit=_limit(case, name))
        typical = f"{_family(name)} {_TYPICAL_MAX}" if several else _TYPICAL_MAX
        case_lines += _compared_line(line, worse, typical) if worse and name == worse_name else [line]
    if worse and worse_name not in names:
        value, baseline = (figure.quantity if figure else None for figure in (worse.value, worse.baseline))
        both = value is not None and baseline is not None
        case_lines.append(
            Line(name=worse_name, judged=value, baseline=baseline, estimate=str(worse.change or ""))
            if both
            else Line(name=worse_name, estimate=str(worse.value or ""))
        )
    bound = _bound(case)
    return (*case_lines, bound) if bound else tuple(case_lines)


def _bound(case: CaseReport) -> Line | None:
    """Return the bound of a wake-up, where boots were followed and it is known."""
    bound = next((verdict for verdict in case.verdicts if verdict.measurement == BOUND and verdict.value), None)
    if bound is None:
        return None
    value, baseline, limit = (
        figure.quantity if figure else None for figure in (bound.value, bound.baseline, bound.limit)
    )
    return Line(name="bound", judged=value, baseline=baseline, limit=limit)


def _quantities(records: Sequence[Record]) -> dict[str, Quantity]:
    return {name: figure.quantity for name, figure in case_figures(records).items()}


def _compared_line(line: Line, verdict: Verdict, typical: str) -> list[Line]:
    """Return a line with the numbers of the verdict, so that table and sentence say the same.

    Of a maximum it is called `typical`, and the largest of all boots stands beside it: that is what limits are about.
    Few boots that are far worse (spikes) have no change of all boots: of them the line says enough.
    """
    value, baseline = (figure.quantity if figure else None for figure in (verdict.value, verdict.baseline))
    if value is None or baseline is None or verdict.change is None:
        return [line]
    largest = _SHOWN.get(_short(verdict.measurement)) == "max"
    verdict_line = replace(
        line,
        name=typical if largest else line.name,
        judged=value,
        baseline=baseline,
        limit=None if largest else line.limit,
        estimate=str(verdict.change or ""),
    )
    return [verdict_line, line] if largest else [verdict_line]


def _family(name: str) -> str:
    return name.replace(" ", ".").partition(".")[0]


def _short(name: str) -> str:
    """Return a figure's name without what is measured: `p99.9` of `latency p99.9`, `max` of `roundtrip.max`."""
    family, _, figure = name.partition(" ")
    return figure or family.partition(".")[2]


def _limit(case: CaseReport, name: str) -> Quantity | None:
    return case.limit(f"{_family(name)}.max" if _SHOWN.get(_short(name)) == "max" else name)


def figure_cell(quantity: Quantity | None) -> str:
    """Return a figure as a cell of a table: times in microseconds, which the table says; `-` for none."""
    if quantity is None:
        return "-"
    if quantity.unit.dimension in {"time", "virtual time"}:
        return f"{microseconds(quantity).value:.1f}"
    return f"{quantity.value:g}" if quantity.unit is Unit.COUNT else f"{quantity.value:g} {quantity.unit}"


def _boots(records: Sequence[Record]) -> str:
    count = sum(record.state == "measured" for record in records)
    return str(count) if count == len(records) else f"{count}/{len(records)}"
