# SPDX-License-Identifier: MIT
"""What a board's file demands of a measurement: less is FAIL with both figures, more is a note."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rtgate.judge.verdict import Figure, Finding, Kind, Status
from rtgate.records.record import Record
from rtgate.tools import Bound
from rtgate.units import Quantity, plural


@dataclass(frozen=True, slots=True)
class _WorstValue:
    """A bound in one boot: what was measured worst, None for nothing; and where."""

    record: Record
    value: Quantity | None
    where: str


def apply(records: Sequence[Record]) -> Iterator[Finding]:
    """Yield a finding for each bound that the records carry (`tools.Bound`), over all boots."""
    failed_labels: list[Mapping[str, str]] = []
    for bound in _bounds(records):
        worst_values = [
            _worst_value(bound, record) for record in records if bound in record.evidence.expectation.bounds
        ]
        finding = _finding(bound, worst_values)
        is_missing = finding.kind is Kind.MISSING
        # Of a function that is not there nothing else can be measured; it has been told.
        if is_missing and any(labels.items() <= bound.labels.items() for labels in failed_labels):
            continue
        if finding.status is Status.FAIL:
            failed_labels.append(bound.labels)
        yield finding


def _bounds(records: Sequence[Record]) -> list[Bound]:
    bounds: list[Bound] = []
    for record in records:
        bounds += [bound for bound in record.evidence.expectation.bounds if bound not in bounds]
    return bounds


def _worst_value(bound: Bound, record: Record) -> _WorstValue:
    """Return what is worst of the measurements that have a bound's labels, whatever else they have."""
    numbers = [
        (quantity, measurement)
        for quantity, measurement in record.numbers(bound.measurement)
        if bound.labels.items() <= measurement.labels.items()
    ]
    if not numbers:
        return _WorstValue(record, None, "")
    worst, measurement = max(numbers, key=lambda number: _distance(bound, number[0]))
    return _WorstValue(record, worst, measurement.label)


def _distance(bound: Bound, quantity: Quantity) -> float:
    """Return how far a number is on the wrong side of its bound; negative on the right one."""
    difference = bound.value - quantity.value
    return abs(difference) if bound.exact else difference


def _finding(bound: Bound, worst_values: Sequence[_WorstValue]) -> Finding:
    name, limit, source = bound.measurement, bound.value, bound.source
    silent = [worst.record.boot for worst in worst_values if worst.value is None]
    entries = [(worst, worst.value) for worst in worst_values if worst.value is not None]
    word = "not" if bound.exact else "less than"
    for worst, value in entries:
        if value.value < limit or (bound.exact and value.value != limit):
            sentence = (
                f"{name} was {value.value:g} on {worst.where} in {worst.record.boot}, {word} {limit:g} ({source})"
            )
            return _make_finding(bound, Status.FAIL, Kind.LIMIT, sentence, value, worst.record.boot)
    if silent:
        sentence = f"{name} should be {limit:g} ({source}) and was not measured in {', '.join(silent)}"
        return _make_finding(bound, Status.MISS, Kind.MISSING, sentence)
    worst, value = max(entries, key=lambda entry: entry[1].value)
    if value.value > limit:
        sentence = (
            f"{name} was {value.value:g} on {worst.where}, more than {limit:g} ({source}): is the file out of date?"
        )
        return _make_finding(bound, Status.DONE, Kind.UNJUDGED, sentence, value)
    sentence = f"{name} was {value.value:g} in {plural(len(entries), 'boot')}, as it should ({source})"
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
        value=None if value is None else Figure.of(value, f"{value.value:g}"),
        limit=Figure.of(limit, f"{bound.value:g}"),
        boot=boot,
        measurement=bound.measurement,
        source=bound.source,
    )
