# SPDX-License-Identifier: MIT
"""Applying one limit to the records of one case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rtgate.judge import distributions
from rtgate.judge.compare.summaries import minutes
from rtgate.judge.learn import planning
from rtgate.judge.thresholds import LimitKind, Threshold
from rtgate.judge.verdict import Figure, Finding, Kind, Status
from rtgate.records.record import Record
from rtgate.tools.measurement import Histogram, Measurement
from rtgate.units import Quantity, Unit, plural


def format_quantity(quantity: Quantity, instruction_ns: str) -> str:
    """Return a quantity as people read it; virtual time in microseconds and instructions."""
    if not quantity.unit.virtual:
        return str(quantity)
    text = f"{quantity.to(Unit.VIRTUAL_US).value:.1f} virtual us"
    if not instruction_ns:
        return text
    return f"{text} ({quantity.to(Unit.VIRTUAL_NS).value / float(instruction_ns):.0f} instructions)"


def figure(quantity: Quantity, instruction_ns: str = "") -> Figure:
    """Return a quantity for a verdict, with the text that people read (see `format_quantity`)."""
    return Figure.of(quantity, format_quantity(quantity, instruction_ns))


def apply(threshold: Threshold, records: Sequence[Record]) -> Finding:
    """Apply a limit to the records of one case, one per boot. Their validity is judged elsewhere."""
    return replace(_apply(threshold, records), measurement=threshold.measurement, source=threshold.origin)


def _apply(threshold: Threshold, records: Sequence[Record]) -> Finding:
    of_all_cpus = [
        (record, measurement)
        for record in records
        for measurement in record.measurements
        if measurement.name == threshold.measurement
    ]
    measurements = [
        (record, measurement)
        for record, measurement in of_all_cpus
        if threshold.cpu_class in {"", measurement.labels.get("class")}
    ]
    silent = [record.boot for record in records if not any(record is owner for owner, _ in measurements)]
    level = threshold.limit or threshold.over
    assert level is not None
    matches = [
        (record, measurement)
        for record, measurement in measurements
        if measurement.unit.dimension == level.unit.dimension
    ]
    finding = _share(threshold, matches) if threshold.kind is LimitKind.SHARE else _number(threshold, matches)
    if finding is not None and finding.status is Status.FAIL:
        return finding
    if len(matches) < len(measurements):
        return Finding(
            status=Status.DONE,
            kind=Kind.NOT_APPLIED,
            sentence=f"{threshold.measurement} was not measured in {level.unit.dimension}, "
            f"to which the limit of {level} applies: it is shown, not judged",
        )
    if silent or finding is None:
        where = f" on a CPU of class {threshold.cpu_class}" if of_all_cpus and threshold.cpu_class else ""
        return Finding(
            status=Status.MISS,
            kind=Kind.MISSING,
            sentence=f"{threshold.measurement} has a limit of {level} "
            f"and was not measured{where} in {', '.join(silent) or 'any boot'}",
            limit=Figure.of(level, str(level)),
        )
    return finding


Found = list[tuple[Record, Measurement]]

# What people read of a limit that was kept: the value that came nearest to it.
_KEPT = {LimitKind.MIN: "was at least", LimitKind.EXACT: "was"}


def _number(threshold: Threshold, measurements: Found) -> Finding | None:
    limit = threshold.limit
    assert limit is not None
    values = [
        (record, measurement, measurement.quantity.to(limit.unit))
        for record, measurement in measurements
        if measurement.quantity is not None
    ]
    if not values:
        return None
    sign = -1 if threshold.kind is LimitKind.MIN else 1
    if threshold.kind is LimitKind.EXACT:
        record, measurement, value = max(values, key=lambda entry: abs(entry[2].value - limit.value))
        is_broken, word = value.value != limit.value, "must be"
    else:
        record, measurement, value = max(values, key=lambda entry: sign * entry[2].value)
        is_broken = sign * value.value > sign * limit.value
        word = "over the limit of" if sign == 1 else "under the limit of"
    text = figure(value, record.environment.instruction_ns)
    where = f" on {measurement.label}" if measurement.label else ""
    limit_figure = figure(limit, record.environment.instruction_ns)
    if is_broken:
        sentence = (
            f"{threshold.measurement} was {text}{where} in {record.boot}, {word} {limit_figure} ({threshold.origin})"
        )
    else:
        number = plural(len({id(owner) for owner, _, _ in values}), "boot")
        statement = f"{threshold.measurement} {_KEPT.get(threshold.kind, 'reached')} {text}{where} in {number}"
        sentence = f"{statement}, within {limit_figure} ({threshold.origin})"
    return Finding(
        status=Status.FAIL if is_broken else Status.PASS,
        kind=Kind.LIMIT,
        sentence=sentence,
        value=text,
        limit=limit_figure,
        boot=record.boot,
    )


def _share(threshold: Threshold, measurements: Found) -> Finding | None:
    """Judge a share by the Clopper-Pearson interval of all boots' samples together.

    FAIL when even the lower bound is over the limit, PASS when even the upper bound is under it, otherwise the
    samples do not decide (Clopper and Pearson, Biometrika 26, 1934).
    """
    level = threshold.over
    histograms = [measurement.histogram for _, measurement in measurements if measurement.histogram is not None]
    length = sum({id(record): minutes(record) for record, _ in measurements}.values())
    if level is None or not any(histogram.total for histogram in histograms):
        return None
    try:
        whole = Histogram.merge(histograms)
        over = whole.over(level)
    except ValueError as error:
        return Finding(status=Status.ERROR, kind=Kind.VALIDITY, sentence=f"{threshold.measurement}: {error}")
    low, high = distributions.share_bounds(over, whole.total, threshold.confidence)
    value = f"{over} of {whole.total} over {level}"
    sentence = f"{threshold.measurement}: {value} ({over / whole.total:.3g}), "
    if low > threshold.share:
        status, kind = Status.FAIL, Kind.SHARE
        sentence += f"more than the limit of {threshold.share:g} of the samples, even at the lower bound {low:.3g}"
    elif high <= threshold.share:
        status, kind = Status.PASS, Kind.SHARE
        sentence += f"at most {high:.3g}, within the limit of {threshold.share:g} of the samples,"
    else:
        status, kind = Status.DONE, Kind.INCONCLUSIVE
        sentence += (
            f"somewhere between {low:.3g} and {high:.3g}: not enough to decide about the limit of {threshold.share:g}; "
            + planning.lacking(planning.ShareLimit(threshold.share, threshold.confidence), whole.total, length)
        )
    sentence += f" at {threshold.confidence:.0%} confidence ({threshold.origin})"
    return Finding(
        status=status,
        kind=kind,
        sentence=sentence,
        value=Figure.of(Quantity(over / whole.total, Unit.RATIO), value),
        limit=Figure.of(Quantity(threshold.share, Unit.RATIO), f"share {threshold.share:g}"),
    )
