# SPDX-License-Identifier: MIT
"""A judged run as KCIDB's report data: checkouts, builds, tests.

The format is schema 5.3 (`kcidb_io/schema/v05_03.py` of kcidb-io 141). A case is a test, and so is each of its figures:
there, a test has one number. rtgate's statuses are KCIDB's own, so none is translated.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.records.record import Record
from rtgate.report.case_figures import DIMENSIONLESS, to_figure_unit, valid_figures
from rtgate.report.cases import CaseReport, cases
from rtgate.report.kcidb_kernels import LONGEST_EXCERPT, Identifiers, checkout_and_build, failed_build
from rtgate.report.log_excerpt import log_excerpt
from rtgate.report.run_digest import run_digest
from rtgate.report.text import plain_text
from rtgate.units import Quantity

ORIGIN = re.compile("[a-z0-9_]+")
"""What a CI system may be called (`origin` in the schema)."""
_VERSION = {"major": 5, "minor": 3}
_ROOT = "rtgate"  # of the paths of tests, which all CI systems share
_NO_COMPONENT = re.compile("[^a-zA-Z0-9_-]+")
# "Should only be considered ... with a FAIL, ERROR, PASS, or DONE status only", says the schema of a number.
_EXECUTED = frozenset({Status.FAIL, Status.ERROR, Status.PASS, Status.DONE})
_NO_KERNEL = frozenset({Kind.BUILD, Kind.MERGE})


def document(records: Sequence[Record], verdicts: Sequence[Verdict], origin: str) -> str:
    """Return the JSON document of a run, as the CI system that KCIDB knows as `origin` submits it."""
    names = Identifiers(origin, run_digest(records, verdicts))
    kernels = [checkout_and_build(record, names) for record in _identified(records)]
    obstacles = [verdict for verdict in verdicts if verdict.kind in _NO_KERNEL]
    kernels += [failed_build(obstacles, names)] if obstacles else []
    tests: list[dict[str, Any]] = []
    for case in cases(records, [verdict for verdict in verdicts if verdict.kind not in _NO_KERNEL]):
        boots = [record for record in (*case.records, *records) if (record.board, record.arm) == (case.board, case.arm)]
        # A kernel that nobody built here is known by what it says of itself, which one that did not boot does not.
        boot = next((record for record in boots if record.kernel_id), boots[0] if boots else None)
        kernels.append(checkout_and_build(boot, names) if boot else failed_build(obstacles, names))
        tests += _tests(case, kernels[-1][1]["id"], names)
    parts = {
        "checkouts": list({checkout["id"]: checkout for checkout, _ in kernels}.values()),
        "builds": list({build["id"]: build for _, build in kernels}.values()),
        "tests": tests,
    }
    return json.dumps({"version": _VERSION, **{name: every for name, every in parts.items() if every}}, indent=1) + "\n"


def _identified(records: Sequence[Record]) -> list[Record]:
    """Return the records that say which kernel they are of; of a kernel without any all, as one that did not boot."""
    kernels = {(record.board, record.arm) for record in records if record.kernel_id}
    return [record for record in records if record.kernel_id or (record.board, record.arm) not in kernels]


def _tests(case: CaseReport, build: str, names: Identifiers) -> Iterator[dict[str, Any]]:
    """Yield the test of a case, and one of each figure below it."""
    path = ".".join(_component(part) for part in (_ROOT, *re.split("[/:]", case.case)) if part)
    common = {
        "id": names.of_run(case.board, case.arm, case.case),
        "origin": names.origin,
        "build_id": build,
        "path": path,
        "environment": {"comment": plain_text(case.board), "misc": {"platform": plain_text(case.board)}}
        if case.board
        else {},
    }
    yield {**common, **_case_entry(case, names)}
    for name, verdict, quantity in _figures(case):
        status = verdict.status if verdict else Status.DONE
        yield {
            **common,
            "id": names.of_run(case.board, case.arm, case.case, name),
            "path": f"{path}.{_component(name)}",
            "status": status.value,
            **({"comment": plain_text(verdict.sentence)} if verdict else {}),
            **(_number(quantity) if status in _EXECUTED else {}),
            "misc": {"figure": plain_text(name), **(_verdict_entry(verdict) if verdict else {})},
        }


def _case_entry(case: CaseReport, names: Identifiers) -> dict[str, Any]:
    head = case.headline
    entry: dict[str, Any] = {"status": case.status.value, "comment": plain_text(head.sentence)}
    misc = {"kind": head.kind.value, **({"arm": case.arm} if case.arm else {})}
    if case.baseline:
        misc["baseline_build_id"] = checkout_and_build(case.baseline[0], names)[1]["id"]
    if case.records:
        first = case.records[0]
        fields = {name: plain_text(value) for name, value in first.environment.as_mapping().items() if value}
        entry["environment"] = {
            "comment": plain_text(case.board),
            "misc": {"platform": plain_text(case.board), **fields},
        }
        entry["duration"] = sum(record.seconds.get("total", 0.0) for record in case.records)
        misc |= {
            "profile": plain_text(first.profile),
            "boots": plain_text(", ".join(record.boot for record in case.records)),
        }
    excerpt = log_excerpt(case.records)[:LONGEST_EXCERPT]
    return {**entry, **({"log_excerpt": excerpt} if excerpt else {}), "misc": misc}


def _figures(case: CaseReport) -> Iterator[tuple[str, Verdict | None, Quantity | None]]:
    """Yield each figure of a case with the verdict on it, None for none: judged ones first."""
    verdicts: dict[str, list[Verdict]] = {}
    for verdict in case.verdicts:
        if verdict.measurement:
            verdicts.setdefault(verdict.measurement, []).append(verdict)
    quantities = {name: figure.quantity for name, figure in valid_figures(case).items()}
    for name, own in verdicts.items():
        head = replace(case, verdicts=tuple(own)).headline
        # One figure has one meaning in every run: a verdict on a maximum may name the median of all boots' maxima.
        yield name, head, quantities.get(name) or (head.value.quantity if head.value else None)
    for name, quantity in quantities.items():
        # A limit is on the tool's own word for the largest sample.
        if name not in verdicts and name.replace(" maximum", ".max") not in verdicts:
            yield name, None, quantity


def _verdict_entry(verdict: Verdict) -> dict[str, str]:
    figures = {name: str(getattr(verdict, name) or "") for name in ("limit", "baseline", "change")}
    fields = {"kind": verdict.kind.value, **figures, "boot": verdict.boot, "source": verdict.source}
    return {name: plain_text(value) for name, value in fields.items() if value}


def _number(quantity: Quantity | None) -> dict[str, Any]:
    if quantity is None or not math.isfinite(quantity.value):
        return {}
    figure = to_figure_unit(quantity)
    unit = {} if figure.unit in DIMENSIONLESS else {"unit": figure.unit.value}
    return {"number": {"value": figure.value, **unit}}


def _component(text: str) -> str:
    """Return a part of a path: letters, digits, `_` and `-`."""
    return _NO_COMPONENT.sub("_", text) or "_"
