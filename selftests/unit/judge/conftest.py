# SPDX-License-Identifier: MIT
"""Records and limits to judge: valid ones, of which a test spoils what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from selftests.unit.report.conftest import Boot, make

from rtgate.board.boot import ArmName, State
from rtgate.console.faults import Fault
from rtgate.errors import Location
from rtgate.judge.thresholds import LimitKind, Threshold
from rtgate.records.bound import Bound, Delay
from rtgate.records.record import Record
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.units import Quantity, Unit

BOARD, FLAVOUR, CASE = "virt-arm64", "preempt_rt", "latency/cyclictest:idle"
PLACE = Location(Path("thresholds.yaml"), 7, 9)
# As of an idle virt-arm64, in instructions; 12 421 in all.
BOUND = Bound(
    seed=4,
    postponed=Delay(3844, "cpu_do_idle"),
    switching=Delay(2816, "schedule"),
    entry=26,
    way=1248,
    interrupts=4487,
    interrupt_count=2,
    measured=5682,
)


@cache
def _made(case: str) -> Record:
    return make(Boot(case=case, samples=2000))


def record(
    counts: Mapping[int, int] | None = None,
    *,
    seed: int = 1,
    overflow: int = 0,
    maximum: float | None = None,
    case: str = CASE,
    arm: str = "candidate",
    state: str = "measured",
    message: str = "",
    faults: tuple[Fault, ...] = (),
) -> Record:
    """Return a valid record of one CPU, on virtual time, with a histogram in virtual ns up to 200 virtual us."""
    made = replace(_made(case), seed=seed, arm=ArmName(arm), state=State(state), message=message, faults=faults)
    if state != "measured":
        return replace(made, measurements=())
    found = {30_000: 2000} if counts is None else dict(counts)
    high = max(found, default=0) if maximum is None else maximum
    histogram = Histogram(unit=Unit.VIRTUAL_NS, counts=found, overflow=overflow, limit=200_000)
    values = {"latency.max": high, "wakeups": float(histogram.total)}
    measurements = tuple(
        replace(one, histogram=histogram)
        if one.name == "latency"
        else replace(one, quantity=Quantity(values[one.name], one.unit))
        if one.name in values
        else one
        for one in made.measurements
    )
    return replace(made, measurements=measurements)


def without(name: str, measured: Record) -> Record:
    """Return the record without one of its measurements."""
    return replace(measured, measurements=tuple(one for one in measured.measurements if one.name != name))


def evidence(measured: Record, **changes: object) -> Record:
    """Return the record with other evidence."""
    return replace(measured, evidence=replace(measured.evidence, **changes))  # type: ignore[arg-type]


def asking(measured: Record, **changes: object) -> Record:
    """Return the record of a tool that had something else to do."""
    return evidence(measured, expectation=replace(measured.evidence.expectation, **changes))  # type: ignore[arg-type]


def number(name: str, value: float, unit: Unit, cpu: int = 0) -> Measurement:
    """Return a number on one CPU."""
    return Measurement(name=name, better=Better.LOWER, quantity=Quantity(value, unit), labels={"cpu": str(cpu)})


def maximum(limit: str = "100 virtual us", measurement: str = "latency.max") -> Threshold:
    """Return a limit on a maximum."""
    return _limit(LimitKind.MAX, measurement=measurement, limit=Quantity.parse(limit))


def share(limit: float = 0.01, over: str = "50 virtual us", confidence: float = 0.99) -> Threshold:
    """Return a limit on the share of samples over a level."""
    return _limit(LimitKind.SHARE, measurement="latency", over=Quantity.parse(over), share=limit, confidence=confidence)


def fault_policy(kind: str, *, fails: bool) -> Threshold:
    """Return what is to be done about a kind of kernel fault."""
    return _limit(LimitKind.FAULT, fault=kind, fails=fails)


def _limit(kind: LimitKind, **fields: object) -> Threshold:
    return Threshold(
        board=BOARD,
        flavour=FLAVOUR,
        case=CASE,
        kind=kind,
        source="calibration",
        location=PLACE,
        **fields,  # type: ignore[arg-type]
    )
