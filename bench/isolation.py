# SPDX-License-Identifier: MIT
"""Isolated CPUs for real: each tuning that isolates, on the virtual boards with two CPUs, and what was read back of it.

Kernels of the boards' own builds lack what the tunings ask for, and must be SKIP before anything boots; those of the
builds that the tunings name must isolate, and the measurement be valid. Exit code 1 if anything is otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench import ROOT
from rtgate.board import boards
from rtgate.measure.case import Case
from rtgate.measure.case_record import measure
from rtgate.records.record import Record
from rtgate.tools.cyclictest import Cyclictest
from rtgate.validity.check import CheckResult
from rtgate.validity.registry import checks
from rtgate.workflow.arms import ArmRequest, make_arms
from rtgate.workflow.kernels import build_kernel

BOARDS = ("virt-arm64-smp2", "virt-x86_64-smp2")
LOADS = ("idle", "hackbench")
PRIORITY = 99  # of the measuring threads


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case: its kernel, its record, and what is wrong with it; empty for nothing."""

    kernel: str
    record: Record
    wrong: str


def main() -> int:
    """Measure everything and show it."""
    found = [one for board in BOARDS for one in _on(board)]
    _show(found)
    for one in found:
        if one.wrong:
            print(f"{one.record.board}, {one.kernel}, {one.record.case}: {one.wrong}")
    return 1 if any(one.wrong for one in found) else 0


def _on(board: str) -> Iterator[CaseResult]:
    facts = boards.board(board)
    for tuning in (one for one in facts.tunings.values() if one.build):
        for build in (facts.build, tuning.build):
            (arm,) = make_arms(_request(board, build, tuning.name))
            for load in LOADS if build == tuning.build else LOADS[:1]:
                case = Case(suite="latency", tool=Cyclictest(), load=load, tuning=tuning.name)
                record, _ = measure(case, arm, 1)
                yield CaseResult(build, record, _wrong(record, skipped=build != tuning.build))


def _request(board: str, build: str, tuning: str = "default") -> ArmRequest:
    kernel = build_kernel(build, None, ROOT / "build" / build).directory
    return ArmRequest(board=board, kernels={"candidate": kernel}, profile="quick", tuning=tuning)


def _wrong(record: Record, *, skipped: bool) -> str:
    if skipped:
        right = record.state == "skipped" and record.machine.get("ran") == "nothing"
        return "" if right else f"{record.state}, and it should be skipped before it boots: {record.message}"
    if record.state != "measured":
        return f"{record.state}: {record.message}"
    return "; ".join(
        f"{check.name}: {check.sentence}" for check in checks(record, {}) if check.result is CheckResult.FAILED
    )


def _show(found: list[CaseResult]) -> None:
    table = Table(title="cyclictest on isolated CPUs, virtual time, 10 s")
    for heading in ("board", "kernel", "case", "came", "threads on CPUs", "max", "read back"):
        table.add_column(heading, overflow="fold")
    for one in found:
        record = one.record
        processors = {str(thread.processor) for thread in record.evidence.threads if thread.priority == PRIORITY}
        longest = [found.quantity for found in record.measurements if found.name == "latency.max" and found.quantity]
        told = [check.sentence for check in checks(record, {}) if check.name == "isolation"]
        table.add_row(
            *(record.board, one.kernel, record.case, "wrong" if one.wrong else record.state),
            *(", ".join(sorted(processors)), str(longest[0]) if longest else "", *told),
        )
    Console(width=200).print(table)
    for reason in dict.fromkeys(one.record.message for one in found if one.record.state == "skipped"):
        print(f"SKIP: {reason}")


if __name__ == "__main__":
    sys.exit(main())
