# SPDX-License-Identifier: MIT
"""What a board's file demands of a measurement: less is FAIL with both figures, more is a note."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rtgate.judge.limits import Finding
from rtgate.judge.verdict import Figure, Kind, Status
from rtgate.records.record import Record
from rtgate.tools import Bound
from rtgate.tools.measurement import Measurement
from rtgate.units import Quantity, plural


@dataclass(frozen=True, slots=True)
class _WorstValue:
    """A bound in one boot: what was measured worst, None for nothing; and where."""

    record: Record
    value: Quantity | None
    where: str


def apply(records: Sequence[Record]) -> Iterator[Finding]:
    """Yield a finding for each bound that the records carry (`tools.Bound`), over all boots."""
    told: list[Mapping[str, str]] = []
    for bound in _bounds(records):
        held = [_worst_value(bound, record) for record in records if bound in record.evidence.expectation.bounds]
        finding = _finding(bound, held)
        missing = finding.kind is Kind.MISSING
        # Of a function that is not there nothing else can be measured; it has been told.
        if missing and any(labels.items() <= bound.labels.items() for labels in told):
            continue
        if finding.status is Status.FAIL:
            told.append(bound.labels)
        yield finding


def _bounds(records: Sequence[Record]) -> list[Bound]:
    found: list[Bound] = []
    for record in records:
        found += [bound for bound in record.evidence.expectation.bounds if bound not in found]
    return found


def _worst_value(bound: Bound, record: Record) -> _WorstValue:
    """Return what is worst of the measurements that have a bound's labels, whatever else they have."""
    fitting = [
        one
        for one in record.measurements
        if one.name == bound.measurement and one.quantity is not None and bound.labels.items() <= one.labels.items()
    ]
    if not fitting:
        return _WorstValue(record, None, "")
    worst = max(fitting, key=lambda one: _distance(bound, one))
    assert worst.quantity is not None
    return _WorstValue(record, worst.quantity, worst.label)


def _distance(bound: Bound, one: Measurement) -> float:
    """Return how far a measurement is on the wrong side of its bound; negative on the right one."""
    assert one.quantity is not None
    difference = bound.value - one.quantity.value
    return abs(difference) if bound.exact else difference


def _finding(bound: Bound, held: Sequence[_WorstValue]) -> Finding:
    name, wanted, source = bound.measurement, bound.value, bound.source
    silent = [one.record.boot for one in held if one.value is None]
    seen = [(one, one.value) for one in held if one.value is not None]
    word = "not" if bound.exact else "less than"
    for one, value in seen:
        if value.value < wanted or (bound.exact and value.value != wanted):
            sentence = f"{name} was {value.value:g} on {one.where} in {one.record.boot}, {word} {wanted:g} ({source})"
            return _make_finding(bound, Status.FAIL, Kind.LIMIT, sentence, value, one.record.boot)
    if silent:
        sentence = f"{name} should be {wanted:g} ({source}) and was not measured in {', '.join(silent)}"
        return _make_finding(bound, Status.MISS, Kind.MISSING, sentence)
    one, value = max(seen, key=lambda entry: entry[1].value)
    if value.value > wanted:
        sentence = (
            f"{name} was {value.value:g} on {one.where}, more than {wanted:g} ({source}): is the file out of date?"
        )
        return _make_finding(bound, Status.DONE, Kind.UNJUDGED, sentence, value)
    sentence = f"{name} was {value.value:g} in {plural(len(seen), 'boot')}, as it should ({source})"
    return _make_finding(bound, Status.PASS, Kind.LIMIT, sentence, value)


def _make_finding(
    bound: Bound, status: Status, kind: Kind, sentence: str, value: Quantity | None = None, boot: str = ""
) -> Finding:
    # A board's file has the bound as a number of what is measured.
    limit = None if value is None else Quantity(bound.value, value.unit)
    return Finding(
        status=status,
        kind=kind,
        sentence=sentence,
        value=None if value is None else Figure(value, f"{value.value:g}"),
        limit=Figure(limit, f"{bound.value:g}"),
        boot=boot,
        measurement=bound.measurement,
        source=bound.source,
    )
