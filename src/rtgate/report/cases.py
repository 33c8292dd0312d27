# SPDX-License-Identifier: MIT
"""What reports are about: one case on one arm, its boots, its verdicts, and the figures over all boots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rtgate.judge.verdict import Kind, Status, Verdict, is_open
from rtgate.records.longer_sections import CALL
from rtgate.records.longer_sections import MEASUREMENT as SECTION
from rtgate.records.record import Record
from rtgate.tools.case_name import CaseName
from rtgate.units import Quantity, Unit, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Latency over some boots and all their CPUs, in microseconds of the board; None where nothing was measured.

    Attributes:
        mean: the average of all wake-ups.
        worst: the boot that had `high`.
        lost: lost wake-ups.
    """

    low: Quantity | None = None
    mean: Quantity | None = None
    high: Quantity | None = None
    worst: Record | None = None
    lost: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseReport:
    """One case on one arm.

    Attributes:
        arm: the arm that was judged.
        baseline: boots of the same case on the arm that it was compared with; they have no verdicts of their own.
    """

    board: str
    flavour: str
    arm: str
    case: str
    records: tuple[Record, ...] = ()
    baseline: tuple[Record, ...] = ()
    verdicts: tuple[Verdict, ...] = ()

    @property
    def place(self) -> tuple[str, str, str]:
        """What tells it from the others of a report."""
        return self.board, self.case, self.arm

    @property
    def suite(self) -> str:
        """The part of the case's name before the slash."""
        return self._name.suite if self._name else ""

    @property
    def tool(self) -> str:
        """The measuring program."""
        return self._name.tool if self._name else ""

    @property
    def load(self) -> str:
        """What ran beside the tool."""
        return self._name.load if self._name else ""

    @property
    def _name(self) -> CaseName | None:
        """The case's name; None for what is about no case, as a lab that failed."""
        return CaseName.parse(self.case) if self.case else None

    @property
    def other_arm(self) -> str:
        """The arm that it was compared with; empty without one."""
        return ", ".join(sorted({record.arm for record in self.baseline}))

    @property
    def causes(self) -> tuple[Verdict, ...]:
        """The verdicts, worst first; regressions are one: a change that moves a mean moves most quantiles with it.

        But for one of critical sections, whose sentence names the place.
        """
        verdicts = sorted(self.verdicts or (self._silent(),), key=lambda verdict: verdict.status.rank)
        moves = [v for v in verdicts if v.kind is Kind.REGRESSION and v.measurement not in {SECTION, CALL}]
        first, *rest = moves or verdicts[:1]
        if not rest:
            return tuple(verdicts)
        also = ", ".join(_regression_text(verdict, first.measurement.partition(" ")[0]) for verdict in rest)
        summary = replace(first, sentence=f"{first.sentence}; also {also}")
        place = verdicts.index(first)
        return (
            *verdicts[:place],
            summary,
            *(verdict for verdict in verdicts[place:] if not any(verdict is move for move in moves)),
        )

    @property
    def headline(self) -> Verdict:
        """The verdict that stands for the case: its worst, but a PASS hides none that did not decide, or was waived."""
        causes = self.causes
        lead = causes[0]
        if lead.status is not Status.PASS:
            return lead
        # A guarantee that was kept does not make up for figures that nobody judged.
        alone = all(verdict.kind is Kind.GUARANTEE for verdict in causes if verdict.status is Status.PASS)
        open_verdicts = (
            verdict
            for verdict in causes
            if is_open(verdict)
            or verdict.kind is Kind.WAIVED
            or (alone and verdict.status in {Status.DONE, Status.SKIP})
        )
        return next(open_verdicts, lead)

    @property
    def status(self) -> Status:
        """The status of the headline."""
        return self.headline.status

    def _silent(self) -> Verdict:
        return Verdict(
            status=Status.MISS,
            kind=Kind.MISSING,
            sentence=f"the case has {plural(len(self.records), 'record')} and no verdict: nobody judged it",
            board=self.board,
            arm=self.arm,
            flavour=self.flavour,
            case=self.case,
        )

    @property
    def max_limit(self) -> Quantity | None:
        """The limit of the largest value that the tool measured: of a latency, a round trip, a response."""
        return self.limit(f"{family(self.records)}.max")

    def limit(self, measurement: str) -> Quantity | None:
        """Return the limit of a measurement in a file: not a share of it, and not the tolerance of a comparison.

        Of several, as of classes of CPUs, the one that decided: of the worst verdict, then the tightest.
        """
        limits = [
            (verdict.status.rank, verdict.limit.quantity)
            for verdict in self.verdicts
            if verdict.measurement == measurement and verdict.kind is not Kind.REGRESSION
            if verdict.limit and verdict.limit.quantity and verdict.limit.quantity.unit is not Unit.RATIO
        ]
        _, limit = min(limits, key=lambda entry: (entry[0], entry[1].value), default=(0, None))
        return limit


def cases(records: Sequence[Record], verdicts: Sequence[Verdict]) -> tuple[CaseReport, ...]:
    """Return every case that was measured or judged, in the order of boards, cases and arms."""
    case_verdicts: dict[tuple[str, str, str], list[Verdict]] = {}
    case_records: dict[tuple[str, str], list[Record]] = {}
    for verdict in verdicts:
        case_verdicts.setdefault((verdict.board, verdict.case, verdict.arm), []).append(verdict)
    for record in records:
        case_records.setdefault((record.board, record.case), []).append(record)
    judged_cases = {(board, case) for board, case, _ in case_verdicts}
    silent = {
        (*place, record.arm) for place, own in case_records.items() if place not in judged_cases for record in own
    }
    places = case_verdicts.keys() | silent
    reports = []
    for board, case, arm in sorted(places):
        here = case_records.get((board, case), [])
        mine = tuple(record for record in here if record.arm == arm)
        own = tuple(case_verdicts.get((board, case, arm), ()))
        baseline = tuple(record for record in here if (board, case, record.arm) not in places)
        flavour = own[0].flavour if own else mine[0].kernel.flavour
        reports.append(
            CaseReport(board=board, flavour=flavour, arm=arm, case=case, records=mine, baseline=baseline, verdicts=own)
        )
    return tuple(reports)


def change(baseline: Quantity, quantity: Quantity) -> str:
    """Return how much a figure changed, as a share of the baseline; as a number where that is zero: of times in us."""
    if baseline.unit.dimension in {"time", "virtual time"}:
        baseline = microseconds(baseline)
    difference = quantity.to(baseline.unit).value - baseline.value
    return f"{difference / abs(baseline.value):+.1%}" if baseline.value else f"{round(difference, 1):+g}"


def _regression_text(verdict: Verdict, family: str) -> str:
    """Return a further regression in short: its figure without what is measured, and by how much it changed."""
    if verdict.value and not verdict.limit:  # the ratio of a lab's board
        return f"{verdict.measurement} {verdict.value}"
    name = verdict.measurement.removeprefix(f"{family} ")
    if not verdict.change:
        return f"{name} in single boots"
    name = "median maximum" if name == "maximum" else name  # tables have the largest of all boots
    return f"{name} {verdict.change}"


def microseconds(quantity: Quantity) -> Quantity:
    """Return a time in the microseconds of its own clock."""
    return quantity.to(Unit.VIRTUAL_US if quantity.unit.virtual else Unit.US)


def _is_time(quantity: Quantity) -> bool:
    return quantity.unit.dimension in {Unit.US.dimension, Unit.VIRTUAL_US.dimension}


def family(records: Sequence[Record]) -> str:
    """Return which times the tool measures, as measurements are named: `latency`, or `roundtrip` of signals."""
    measurements = [measurement for record in records for measurement in record.measurements]
    names = [
        measurement.name.removesuffix(".max")
        for measurement in measurements
        if measurement.name.endswith(".max") and measurement.quantity and _is_time(measurement.quantity)
    ]
    return "latency" if "latency" in names or not names else names[0]


def figures(records: Sequence[Record], cpu: str | None = None) -> Figures:
    """Return the latency figures over boots, of one CPU or of all."""
    name = family(records)
    lows = _values(records, f"{name}.min", cpu)
    highs = _values(records, f"{name}.max", cpu)
    losses = _values(records, "wakeups.lost", cpu)
    high, worst = max(highs, key=lambda entry: entry[0].value, default=(None, None))
    return Figures(
        low=min((value for value, _ in lows), key=lambda value: value.value, default=None),
        mean=_mean(records, name, cpu),
        high=high,
        worst=worst,
        lost=int(sum(value.value for value, _ in losses)) if losses else None,
    )


def _values(records: Sequence[Record], name: str, cpu: str | None) -> list[tuple[Quantity, Record]]:
    return [
        (quantity if quantity.unit is Unit.COUNT else microseconds(quantity), record)
        for record in records
        for quantity, measurement in record.numbers(name)
        if cpu in {None, measurement.labels.get("cpu")}
    ]


def _mean(records: Sequence[Record], name: str, cpu: str | None) -> Quantity | None:
    """Return the average of all wake-ups: a boot that woke up more often weighs more."""
    means, weights = _values(records, f"{name}.avg", cpu), _values(records, "wakeups", cpu)
    if not means:
        return None
    shares = [weight.value for weight, _ in weights] if len(weights) == len(means) else [1.0] * len(means)
    total = sum(shares) or 1.0
    value = sum(mean.value * share for (mean, _), share in zip(means, shares, strict=True)) / total
    return Quantity(value, means[0][0].unit)


def cpus(records: Sequence[Record]) -> tuple[str, ...]:
    """Return the CPUs that latencies were measured on, in the order of their numbers."""
    names = {
        measurement.labels["cpu"]
        for record in records
        for measurement in record.measurements
        if "cpu" in measurement.labels
    }
    return tuple(sorted(names, key=lambda cpu: (len(cpu), cpu)))
