# SPDX-License-Identifier: MIT
"""Kernels of several flavours beside each other on one machine, for people: no verdict, and never a gate.

A flavour is another kernel with other tools: Cobalt's `latency` measures what cyclictest measures elsewhere. So a table
is of a suite and a load, and each line names its tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rtgate.errors import ConfigError
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.records.environment import Environment
from rtgate.records.record import Record
from rtgate.report.cases import CaseReport, Figures, figures, microseconds
from rtgate.report.latency import histograms
from rtgate.report.plots import Picture, Series, histogram_plot
from rtgate.report.table import figure_cell, kernels
from rtgate.tools.measurement import Histogram
from rtgate.units import Quantity, Unit, plural

_MACHINE = ("soc", "arch", "time", "cpus", "cpu_model", "memory_mib", "instruction_ns", "emulator")
# A flavour's own, what a run names, and what differs from boot to boot.
_EXPECTED = frozenset(
    {"board", "flavour", "kernel_release", "kernel_version", "build_id", "config_sha256"}
    | {"device", "irq_affinity", "frequency"}
)
# What such a kernel measured in other boots, or as another flavour, is not shown beside good ones.
_SPOILT = frozenset({Kind.FLAVOUR, Kind.BOOT, Kind.HANG, Kind.FAULT})
_TAIL = 0.999
COLUMNS = ("flavour", "tool", "boots", "samples", "min", "mean", "p99.9", "max", "kernel")
"""What `FlavourLine.cells` are."""
TEXTS = frozenset({"flavour", "tool", "kernel"})
"""Columns of text; the others are numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavourLine:
    """What one kernel did under one load.

    Attributes:
        figures: least, mean and largest latency over all boots; empty where there is a doubt.
        tail: the bucket of the histogram that 999 of 1000 samples do not exceed; None beyond its range.
        samples: latencies of all boots and CPUs.
        doubt: why the measurement has no figures here: it was invalid, the lab failed, or the kernel died or was of
            another flavour. Empty for a good one.
    """

    case: CaseReport
    figures: Figures
    tail: Quantity | None
    samples: int
    doubt: str

    @property
    def kernel(self) -> str:
        """Release, source and image of the kernel."""
        return "; ".join(kernels(self.case.records).values())

    @property
    def cells(self) -> tuple[str, ...]:
        """The line as people read it."""
        low, mean, high = map(figure_cell, (self.figures.low, self.figures.mean, self.figures.high))
        samples = "-" if self.doubt else f"{self.samples:,}"
        boots = str(len(self.case.records))
        return (self.case.flavour, self.case.tool, boots, samples, low, mean, self._tail_text, high, self.kernel)

    @property
    def _tail_text(self) -> str:
        """The tail with the digits that it has: most tools count whole microseconds."""
        if self.tail is None:
            return "-"
        return f"{microseconds(self.tail).value:.{1 if self.tail.unit.scale < Unit.US.scale else 0}f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavourTable:
    """All flavours under one load of one suite.

    Attributes:
        title: suite and load.
        lines: the least mean first.
        picture: the histograms of all lines without a doubt; None where there is none.
    """

    title: str
    lines: tuple[FlavourLine, ...]
    picture: Picture | None

    @property
    def unit(self) -> str:
        """The unit of its figures."""
        return "virtual us" if self.lines[0].case.records[0].virtual_time else "us"


def has_latency(case: CaseReport) -> bool:
    """Return whether a case has a histogram of latencies."""
    return bool(histograms(case.records))


def flavour_tables(cases: Iterable[CaseReport]) -> tuple[FlavourTable, ...]:
    """Return a table for each suite and load with a latency.

    Raises:
        ConfigError: no case has a histogram of latencies, they were measured on different machines, or there are two
            kernels of one flavour.
    """
    reports = [case for case in cases if has_latency(case)]
    if not reports:
        raise ConfigError("no case has a histogram of latencies: measure cyclictest, or Xenomai's latency")
    _require_one_machine([record for case in reports for record in case.records])
    reports.sort(key=lambda case: (case.suite, case.load))
    return tuple(_table(list(members)) for _, members in groupby(reports, lambda case: (case.suite, case.load)))


def differences(tables: Iterable[FlavourTable]) -> Mapping[str, Mapping[str, str]]:
    """Return what else differs between flavours: by field of the environment the value of each of them.

    What a flavour decides itself is left out: its release and its configuration.
    """
    records = [record for table in tables for line in table.lines for record in line.case.records]
    fields: dict[str, Mapping[str, str]] = {}
    for name in Environment().as_mapping():
        values = {record.kernel.flavour: str(getattr(record.environment, name)) for record in records}
        if name not in _EXPECTED and len(set(values.values())) > 1:
            fields[name] = values
    return fields


def as_document(tables: Iterable[FlavourTable]) -> dict[str, object]:
    """Return all lines for scripts, latencies in microseconds of the board's clock."""
    return {table.title: [_line_document(line) for line in table.lines] for table in tables}


def _line_document(line: FlavourLine) -> dict[str, object]:
    tail = microseconds(line.tail) if line.tail else None
    quantities = {"min": line.figures.low, "mean": line.figures.mean, "p99.9": tail, "max": line.figures.high}
    return {
        "flavour": line.case.flavour,
        "kernel": line.kernel,
        "board": line.case.board,
        "case": line.case.case,
        "boots": len(line.case.records),
        "samples": line.samples,
        "virtual_time": line.case.records[0].virtual_time,
        **{name: value.value if value else None for name, value in quantities.items()},
        "doubt": line.doubt,
    }


def _require_one_machine(records: Sequence[Record]) -> None:
    first = records[0]
    for record in records[1:]:
        for name in _MACHINE:
            here, there = (str(getattr(side.environment, name)) for side in (first, record))
            if here != there:
                raise ConfigError(
                    f"{name} is {here or 'unknown'} on {first.board} and {there or 'unknown'} on {record.board}: "
                    "flavours are compared on one machine"
                )


def _require_one_kernel_each(cases: Sequence[CaseReport]) -> None:
    firsts: dict[tuple[str, str], CaseReport] = {}
    for case in cases:
        first = firsts.setdefault((case.flavour, case.tool), case)
        if first is not case:
            raise ConfigError(
                f"{case.case}: two kernels have the flavour {case.flavour}: name one of each; "
                "`rtgate gate` compares two of one flavour"
            )


def _table(cases: Sequence[CaseReport]) -> FlavourTable:
    _require_one_kernel_each(cases)
    title = f"{cases[0].suite}, {cases[0].load}"
    lines = sorted(map(_line, cases), key=lambda line: line.figures.mean.value if line.figures.mean else float("inf"))
    series = [_series(line) for line in lines if not line.doubt]
    return FlavourTable(title=title, lines=tuple(lines), picture=histogram_plot(title, series, ()) if series else None)


def _line(case: CaseReport) -> FlavourLine:
    doubt = next((verdict.sentence for verdict in case.verdicts if _spoils(verdict)), "")
    if doubt:
        return FlavourLine(case=case, figures=Figures(), tail=None, samples=0, doubt=doubt)
    histogram = _merge(case)
    return FlavourLine(
        case=case,
        figures=figures(case.records),
        tail=histogram.quantile(_TAIL),
        samples=histogram.total,
        doubt="",
    )


def _spoils(verdict: Verdict) -> bool:
    return verdict.status in {Status.ERROR, Status.MISS} or (verdict.status is Status.FAIL and verdict.kind in _SPOILT)


def _series(line: FlavourLine) -> Series:
    case, latencies = line.case, line.figures
    label = f"{case.flavour}, {case.tool}, {plural(len(case.records), 'boot')}"
    return Series(label=label, histogram=_merge(case), low=latencies.low, mean=latencies.mean, high=latencies.high)


def _merge(case: CaseReport) -> Histogram:
    """Return the samples of all boots and CPUs. Raises ConfigError: their histograms have different ranges."""
    try:
        return Histogram.merge(histogram for _, _, histogram in histograms(case.records))
    except ValueError as error:
        raise ConfigError(f"{case.case} on {case.board}: {error}") from error
