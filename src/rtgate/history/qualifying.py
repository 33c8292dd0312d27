# SPDX-License-Identifier: MIT
"""Which devices are qualified to judge: kept in the history, asked by comparisons."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from rtgate.history import encoding, schema
from rtgate.history.baselines import revocations_of
from rtgate.history.database import History
from rtgate.history.pairing import pairs
from rtgate.history.queries import Boot, measured_like, newest_row, records
from rtgate.history.schema import qualifications
from rtgate.judge.compare.paired import priors
from rtgate.judge.compare.summaries import levels, summaries
from rtgate.judge.learn.qualification import CaseStanding, standing
from rtgate.records.record import Record


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether a comparison of a case on a device may be judged, and why (not)."""

    qualified: bool
    reason: str


def standing_of(history: History, like: Record) -> Standing:
    """Return whether comparisons of a record's case on its device may be judged; those that may not are DONE.

    Virtual time repeats bit by bit, so it needs no qualification. Raises InfrastructureError.
    """
    if like.virtual_time:
        return Standing(qualified=True, reason="virtual time repeats bit by bit")
    device = f"{like.board} {like.environment.device}".strip()
    place = encoding.place(like)
    row = newest_row(history, qualifications, place)
    if row is None:
        return Standing(qualified=False, reason=f"{_never(history, like.case, device, place)}: rtgate qualify")
    objections = revocations_of(history, json.loads(row.kernels))
    if objections:
        reason = f"{device} was qualified on {row.stored_at} with a kernel that is not good: {objections[0].sentence}"
        return Standing(qualified=False, reason=f"{reason}: rtgate qualify")
    return Standing(qualified=row.qualified, reason=f"{row.stored_at}: {row.why or 'qualified'}")


def _never(history: History, case: str, device: str, place: Mapping[str, str]) -> str:
    """Return that nobody qualified a device in this environment, and whether somebody did in another one."""
    elsewhere = {name: value for name, value in place.items() if name != "environment"}
    other = newest_row(history, qualifications, elsewhere)
    if other is None:
        return f"{device} was never qualified for {case}"
    return f"{device} was {'' if other.qualified else 'not '}qualified on {other.stored_at} in another environment"


def keep(history: History, boots: Sequence[Boot], like: Record, case_standing: CaseStanding, now: datetime) -> None:
    """Store what boots said of a case on the device of one of their records. Raises InfrastructureError."""
    row = {
        "qualified": case_standing.qualified,
        "why": "; ".join(case_standing.problems),
        "figures": json.dumps([asdict(noise) for noise in case_standing.noise]),
        "kernels": json.dumps(sorted({boot.kernel for boot in boots if boot.usable})),
    }
    _store(history, like, now, row)


def keep_unqualified(history: History, like: Record, why: str, now: datetime) -> None:
    """Store that none of a device's boots was good: it is not qualified in any environment.

    Of such boots nobody knows the whole environment; `like` is one of them. Raises InfrastructureError.
    """
    unknown = {"environment": schema.ANY_ENVIRONMENT, "figures": "[]", "kernels": "[]"}
    _store(history, like, now, {**unknown, "qualified": False, "why": why})


def _store(history: History, like: Record, now: datetime, row: Mapping[str, Any]) -> None:
    place = {**encoding.place(like), "stored_at": encoding.utc(now)}
    with history.writing() as connection:
        connection.execute(qualifications.insert(), {**place, **row})


def examine(history: History, boots: Sequence[Boot]) -> tuple[Record, CaseStanding] | None:
    """Return what boots of one case say of it, with one of their records.

    Those that measured are of one comparable environment; the others count as not valid. None if none is valid. Raises
    ConfigError, InfrastructureError.
    """
    good = sorted((boot for boot in boots if boot.usable), key=lambda boot: (boot.stored_at, boot.run, boot.number))
    if not good:
        return None
    (like,) = records(history, good[-1:])
    boot_records = measured_like(history, good, like)
    case_levels = levels(boot_records)
    boot_summaries = {boot.id: summaries(record, case_levels) for boot, record in zip(good, boot_records, strict=True)}
    metrics = {metric for summary in boot_summaries.values() for metric in summary}
    series = {
        metric: [summary[metric] for summary in boot_summaries.values() if metric in summary]
        for metric in sorted(metrics)
    }
    case_priors = priors([(boot_summaries[first.id], boot_summaries[second.id]) for first, second in pairs(good)])
    return like, standing(like.case, len(boots), series, case_priors)
