# SPDX-License-Identifier: MIT
"""Adding records to the history. One that is there already stays as it is, so adding twice changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from rtgate.errors import ConfigError
from rtgate.history import encoding, schema
from rtgate.history.database import History, insert_new
from rtgate.records.codec import decimal
from rtgate.records.record import Record
from rtgate.validity.check import CheckResult
from rtgate.validity.registry import checks

# Records of one transaction: others wait while it lasts, some 20 ms.
_BATCH = 100
_LARGEST = 2**31 - 1  # of PostgreSQL's INTEGER
_RUN = re.compile(r"[\w.:+/@-]{1,120}")


@dataclass(frozen=True, slots=True)
class StoreResult:
    """How many records were new, and how many were there already."""

    new: int = 0
    existing: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where records come from.

    Attributes:
        run: names what was measured together: a gate, a night, a job. Boots of one run are neighbours in time.
        now: when they are stored.
        not_applicable: by board: reasons, by validity check, why the board declares a check not applicable.
    """

    run: str
    now: datetime
    not_applicable: Mapping[str, Mapping[str, str]]


def store(url: str, records: Iterable[Record], origin: Origin) -> StoreResult:
    """Add records to the history of a URL, which is made if it is not there.

    Raises:
        ConfigError, InfrastructureError: as `History.open`; or the run has no proper name.
    """
    with History.open(url, create=True) as history:
        return add(history, records, origin)


def add(history: History, records: Iterable[Record], origin: Origin) -> StoreResult:
    """Add records to an open history. Raises as `store`."""
    if not _RUN.fullmatch(origin.run):
        raise ConfigError(
            f"{origin.run!r} is not a name for a run (allowed: letters, digits, . : + / @ _ -, at most 120)"
        )
    total = StoreResult()
    for batch in _batches(records):
        rows = {row["key"]: row for row in (_row(record, origin) for record in batch)}
        environments = {row["environment"]: row.pop("environment_row") for row in rows.values()}
        with history.writing() as connection:
            # In one order for all writers, so that no two wait for each other.
            insert_new(connection, schema.environments, [environments[name] for name in sorted(environments)])
            new = insert_new(connection, schema.boots, [rows[name] for name in sorted(rows)])
        total = StoreResult(total.new + new, total.existing + len(batch) - new)
    return total


def _batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    rest = iter(records)
    while batch := list(islice(rest, _BATCH)):
        yield batch


def _row(record: Record, origin: Origin) -> dict[str, Any]:
    wrong = _wrong(record, origin.not_applicable.get(record.board, {}))
    measurements, rest, fields = encoding.pack(record)
    environment = encoding.environment_id(record)
    row = {
        "key": encoding.key(record),
        "board": record.board,
        "device": record.environment.device,
        "flavour": encoding.flavour(record),
        "case_name": record.case,
        "tuning": record.environment.tuning,
        "profile": record.profile,
        "arm": record.arm,
        "run": origin.run,
        "number": _number(record),
        "kernel": record.kernel_id,
        "kernel_name": record.kernel.name,
        "kernel_release": record.release,
        "kernel_image": record.kernel.image_sha256,
        "kernel_source": record.kernel.source,
        "kernel_commit": record.kernel.commit,
        "environment": environment,
        "environment_row": {"id": environment, "digest": encoding.environment_digest(record), "fields": fields},
        "comparable": encoding.comparable(record),
        "boot_id": record.boot_id,
        "seed": _integer(record.seed),
        "stored_at": encoding.utc(origin.now),
        "state": record.state,
        "valid": not wrong,
        "why_invalid": wrong,
        "faults": len(record.faults),
        "minutes": None if record.evidence.elapsed_s is None else record.evidence.elapsed_s / 60,
        "measurements": measurements,
        "rest": rest,
    }
    return {name: encoding.storable(value) if isinstance(value, str) else value for name, value in row.items()}


def _wrong(record: Record, not_applicable: Mapping[str, str]) -> str:
    """Return why a record's figures are not to be learnt from; empty when they are."""
    if not record.has_results:
        return f"{record.state}: {record.message}" if record.message else record.state
    failed_checks = [check for check in checks(record, not_applicable) if check.result is CheckResult.FAILED]
    return "; ".join(f"{check.name}: {check.sentence}" for check in failed_checks)


def _number(record: Record) -> int:
    """Return which boot of its run it was: its pair, or that of the job, the soak, the seeds, or the directory."""
    directory = record.directory.name if record.directory is not None else ""
    numbers = (
        record.pair,
        record.chunk.number if record.chunk is not None else None,
        decimal(record.machine.get("boot", "")),
        record.seed,
        decimal(directory),
    )
    return next((number for number in map(_integer, numbers) if number is not None), 0)


def _integer(number: int | None) -> int | None:
    """Return a number that a column takes; None for another, which no boot has."""
    return number if number is not None and 0 <= number <= _LARGEST else None
