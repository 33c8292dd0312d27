# SPDX-License-Identifier: MIT
"""LAVA's signals: what a test prints so that LAVA stores a result.

LAVA 2023.01 splits a signal at white space and `=`: an id with `=` in it loses the result, and the job still passes. A
measurement that is not a number ends the job. So ids and numbers are made safe here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rtgate.judge.figures import figure_status
from rtgate.judge.thresholds import Threshold
from rtgate.judge.verdict import Status, Verdict, exit_code, worst
from rtgate.lava.results.classify import INFRA
from rtgate.lava.results.plain_text import plain_line
from rtgate.records.record import Record
from rtgate.tools.measurement import Measurement

_LONGEST = 120  # characters of an id; LAVA stores 100 to 200, depending on where
_MOST = 200  # measurements of one record: nobody reads more in a table
_LARGEST = 1e19  # LAVA stores 30 digits, 10 of them behind the point
_RESULTS = {Status.PASS: "pass", Status.FAIL: "fail"}  # of a figure


def case_id(*words: str) -> str:
    """Return an id that LAVA stores as it is: letters, digits, `_`, `.` and `-`."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", ".".join(word for word in words if word))[:_LONGEST].strip("_.-") or "_"


def record_signals(record: Record, limits: Sequence[Threshold], verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Return the signals of one record: its case, and its measurements with their units.

    Args:
        record: the record.
        limits: those of its case.
        verdicts: what it was judged by them.
    """
    name = case_id(record.case.replace("/", ".").replace(":", "."))
    yield result(name, case_result(verdicts))
    numbers = [
        (measurement, measurement.quantity) for measurement in record.measurements if measurement.quantity is not None
    ]
    for measurement, number in numbers[:_MOST]:
        if abs(number.value) < _LARGEST:
            word = _RESULTS.get(figure_status(measurement, record, limits, verdicts), "unknown")
            yield result(case_id(name, *_name_parts(measurement)), word, number.value, number.unit.value)


def case_result(verdicts: Sequence[Verdict]) -> str:
    """Return LAVA's word for a case: `pass` only where rtgate would end with 0, `fail` only for the kernel's fault."""
    if worst(verdicts) is Status.FAIL:
        return "fail"
    if {verdict.status for verdict in verdicts} == {Status.SKIP}:
        return "skip"
    return "unknown" if exit_code(verdicts) else "pass"


def _name_parts(measurement: Measurement) -> list[str]:
    return [measurement.name, *(f"{key}{value}" for key, value in sorted(measurement.labels.items()))]


def result(name: str, word: str, value: float | None = None, unit: str = "") -> str:
    """Return the signal of one result: pass, fail, skip or unknown; `value` is in `unit`."""
    number = "" if value is None else f"{value:.10f}".rstrip("0").rstrip(".")
    measurement = f" UNITS={case_id(unit)} MEASUREMENT={number}" if number and unit else ""
    return f"<LAVA_SIGNAL_TESTCASE TEST_CASE_ID={case_id(name)} RESULT={word}{measurement}>"


def lab_failure(sentence: str) -> str:
    """Return the signal that ends the job, of which `lava.results.classify` says then that the lab failed it."""
    return f"<LAVA_SIGNAL_TESTRAISE {INFRA} {sentence}>"


def reference(name: str, url: str) -> str:
    """Return the signal that says where something is. A URL with characters that end a signal is left out."""
    link = url if re.fullmatch(r"[!-=?-~]{1,1000}", url) else "about:blank"
    return f"<LAVA_SIGNAL_TESTREFERENCE {case_id(name)} pass {plain_line(link)}>"
