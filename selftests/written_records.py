# SPDX-License-Identifier: MIT
"""Writing made-up records of cyclictest as measuring does: beside raw output that says what they say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rtgate.measure.raw_output import Reading
from rtgate.records import record as records_file
from rtgate.records.record import Record
from rtgate.tools import Setting
from rtgate.tools.cyclictest import JSON, Cyclictest
from rtgate.tools.measurement import Measurement
from rtgate.units import Unit

_MORE = {"tool.out": b"# /dev/cpu_dma_latency set to 0us\n", "dmesg": b"[    0.000000] Linux version 6.12.107\n"}


def write(record: Record, records: Path, console: bytes = b"") -> Path:
    """Write a record of cyclictest, its figures as its histograms have them, and return its directory."""
    if not record.has_results:
        return records_file.write(record, _MORE, console, records)
    by_cpu: dict[str, list[Measurement]] = {}
    for one in record.measurements:
        by_cpu.setdefault(one.labels["cpu"], []).append(one)
    unit, limit = next((one.histogram.unit, one.histogram.limit) for one in record.measurements if one.histogram)
    files = {**_MORE, "tool.rc": b"0\n", JSON: _document(by_cpu, nanoseconds=unit is Unit.VIRTUAL_NS)}
    reading = Reading(
        tool=Cyclictest(range_us=limit, virtual_range_us=limit // 1000 if unit is Unit.VIRTUAL_NS else 0),
        load=record.case.partition(":")[2],
        setting=Setting(
            cpus=len(by_cpu),
            duration_s=_expected_wakeups(next(iter(by_cpu.values()))) / 1000,
            virtual_time=record.virtual_time,
        ),
        cpu_classes={},
    )
    made = replace(record, measurements=reading.measurements(files), reading=reading.as_json())
    return records_file.write(made, files, console, records)


def _document(by_cpu: Mapping[str, Sequence[Measurement]], *, nanoseconds: bool) -> bytes:
    threads = {str(number): _thread(int(cpu), own) for number, (cpu, own) in enumerate(sorted(by_cpu.items()))}
    return json.dumps({"file_version": 1, "resolution_in_ns": int(nanoseconds), "thread": threads}).encode()


def _thread(cpu: int, measurements: Sequence[Measurement]) -> dict[str, Any]:
    (histogram,) = (one.histogram for one in measurements if one.histogram)
    named = {one.name: one.quantity.value for one in measurements if one.quantity}
    values = [value for value, count in histogram.counts.items() if count]
    top = max(values) if not histogram.overflow else max(int(named["latency.max"]), histogram.limit)
    mean = sum(value * count for value, count in histogram.counts.items()) / max(1, sum(histogram.counts.values()))
    return {
        "histogram": {str(value): count for value, count in sorted(histogram.counts.items())},
        "cycles": histogram.total,
        "min": min(values),
        "max": top,
        "avg": mean,
        "cpu": cpu,
    }


def _expected_wakeups(measurements: Sequence[Measurement]) -> int:
    return sum(int(one.quantity.value) for one in measurements if one.name.startswith("wakeups") and one.quantity)
