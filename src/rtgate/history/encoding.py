# SPDX-License-Identifier: MIT
"""How a record lies in the history: compressed, its measurements apart from the rest, its environment beside others'.

Histograms are lists of values and of counts here, which are read several times faster than the record's own form.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from rtgate.errors import ConfigError
from rtgate.judge.compare.summaries import summary_direction
from rtgate.records import record as records_file
from rtgate.records.environment import COMPARED
from rtgate.records.record import Record
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.units import Quantity, Unit

_LEVEL = 6
_REFUSED = re.compile("[\x00\ud800-\udfff]")
# A comparison asks for these a hundred thousand times, which an enumeration is slow at.
_unit, _way = functools.cache(Unit), functools.cache(Better)


def storable(text: str) -> str:
    """Return text without what a database refuses: NUL (PostgreSQL) and halves of characters (either).

    A kernel that dies may leave them on its console. What else is not fit to be shown is the business of who shows it.
    """
    return _REFUSED.sub("\ufffd", text)


def key(record: Record) -> str:
    """Return what names a record by its content, so that the same one is known again wherever it lies.

    What nobody knows of its kernel is left out: a record that was written before rtgate asked for it keeps its name.
    """
    data = records_file.as_json(record)
    return _digest({**data, "kernel": _without_empty(data["kernel"])})


def flavour(record: Record) -> str:
    """Return the flavour that a kernel was built as; of one that nobody knows that which it ran as."""
    return storable(record.kernel.flavour or record.environment.flavour)


def place(record: Record) -> dict[str, str]:
    """Return the columns by which what boots said of a case is looked up (`schema.PLACE`)."""
    return {
        "board": storable(record.board),
        "device": storable(record.environment.device),
        "flavour": flavour(record),
        "case_name": storable(record.case),
        "environment": environment_digest(record),
    }


def utc(time: datetime) -> str:
    """Return a time as the history has it, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def environment_id(record: Record) -> str:
    """Return what names an environment by all its fields."""
    return _digest(_without_empty(record.environment.as_mapping()))


def comparable(record: Record) -> str:
    """Return what names everything that must be equal before two boots may be compared.

    That is the board with all of its environment except what a comparison compares, the case, and the plan: the tool's
    command line, what it had to do, its load. A field that says nothing counts as one that is not there, so that a
    later rtgate, which asks for more, still knows what it measured before.
    """
    return _digest(
        {
            "board": record.board,
            "case": record.case,
            "environment": _fixed(record),
            "argv": list(record.argv),
            "duration_s": record.evidence.expectation.duration_s,
            "load_processes": record.evidence.load_processes,
        }
    )


def environment_digest(record: Record) -> str:
    """Return what names the part of an environment that must be equal, whatever the case."""
    return _digest(_fixed(record))


def _fixed(record: Record) -> dict[str, str]:
    environment = _without_empty(record.environment.as_mapping())
    return {name: text for name, text in environment.items() if name not in COMPARED}


def pack(record: Record) -> tuple[bytes, bytes, str]:
    """Return a record's measurements, the rest of it, and its environment, as they are stored."""
    rest = records_file.as_json(record)
    del rest["measurements"], rest["environment"]
    environment = json.dumps(_without_empty(record.environment.as_mapping()), sort_keys=True)
    return _compress([_flat(measurement) for measurement in record.measurements]), _compress(rest), environment


def unpack(measurements: bytes, rest: bytes, environment: str, origin: str) -> Record:
    """Return the record of `pack`. Raises ConfigError, naming `origin`: what is stored is damaged."""
    restored_measurements = unpacked_measurements(measurements, origin)
    try:
        data = {
            **json.loads(zlib.decompress(rest)),
            "environment": _check_environment(json.loads(environment)),
            "measurements": [],
        }
    except (zlib.error, ValueError, TypeError) as error:
        raise ConfigError(f"{origin}: damaged: {error}") from error
    return replace(records_file.from_json(data, origin), measurements=restored_measurements)


def unpacked_measurements(measurements: bytes, origin: str) -> tuple[Measurement, ...]:
    """Return the measurements of `pack` alone. Raises as `unpack`."""
    return _unpack_measurements(measurements, origin, _full)


def summarised_measurements(measurements: bytes, origin: str) -> tuple[Measurement, ...]:
    """Return the histograms, and those of the numbers that summaries look at.

    Raises as `unpack`; what is left out is not checked.
    """
    return _unpack_measurements(measurements, origin, _measurement_for_summary)


def _unpack_measurements(
    measurements: bytes, origin: str, full: Callable[[Any], Measurement | None]
) -> tuple[Measurement, ...]:
    try:
        entries = [full(entry) for entry in json.loads(zlib.decompress(measurements))]
        return tuple(entry for entry in entries if entry is not None)
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{origin}: damaged measurements: {error}") from error


def _flat(measurement: Measurement) -> dict[str, Any]:
    data = measurement.as_json()
    histogram = measurement.histogram
    if histogram is not None:
        counts = histogram.counts
        data["histogram"] = [list(counts), list(counts.values()), histogram.overflow, histogram.limit]
    return data


def _measurement_for_summary(data: dict[str, Any]) -> Measurement | None:
    is_summarised = "histogram" in data or summary_direction(data["name"], _way(data["better"]), _unit(data["unit"]))
    return _full(data) if is_summarised else None


def _full(data: dict[str, Any]) -> Measurement:
    unit = _unit(data["unit"])
    histogram = None
    if "histogram" in data:
        values, counts, overflow, limit = data["histogram"]
        bins = dict(zip(values, counts, strict=True))
        histogram = Histogram(unit=unit, counts=bins, overflow=overflow, limit=limit)
    quantity = Quantity(data["value"], unit) if "value" in data else None
    return Measurement(
        name=data["name"],
        better=_way(data["better"]),
        labels=data["labels"],
        quantity=quantity,
        histogram=histogram,
    )


def _without_empty(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in environment.items() if text}


def _check_environment(environment: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(environment, dict):
        raise TypeError("the environment is not a mapping")
    return environment


def _compress(data: object) -> bytes:
    return zlib.compress(json.dumps(data, separators=(",", ":")).encode(), _LEVEL)


def _digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
