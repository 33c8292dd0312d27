# SPDX-License-Identifier: MIT
"""Validity check: each measuring thread ran on the CPUs that the tuning gives it, and on its own if it is bound."""

from __future__ import annotations

from collections.abc import Sequence

from rtgate.board.boot import TimeBase
from rtgate.records.evidence import Thread
from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for


def _judge(record: Record) -> Answer:
    cpus = set(record.evidence.expectation.cpus)
    ours = record.evidence.measuring_threads()
    astray = sorted({thread.processor for thread in ours if thread.processor not in cpus})
    text = ", ".join(map(str, sorted(cpus)))
    problem = ""
    if cpus and astray:
        problem = f"measuring threads ran on CPU {', '.join(map(str, astray))}, not only on {text}"
    fine = f"on CPU {text}" if cpus else "on all CPUs"
    return answer_for(problem or _crowded_cpus(record, ours), fine)


def _crowded_cpus(record: Record, ours: Sequence[Thread]) -> str:
    """Return which CPUs bound threads shared that should each have had their own; only looks that saw all count."""
    expectation = record.evidence.expectation
    cpu_count, whole = expectation.processors, sum(group.count for group in expectation.threads)
    looks = {moment: [thread.processor for thread in ours if thread.moment == moment] for moment in ("middle", "late")}
    complete_looks = {moment: processors for moment, processors in looks.items() if len(processors) >= whole}
    if record.environment.time == TimeBase.HOST and "late" in complete_looks:
        complete_looks.pop("middle", None)  # where a machine whose host is busy may still be binding them
    for moment, processors in complete_looks.items():
        if len(set(processors)) < cpu_count:
            where = ", ".join(map(str, sorted(set(processors))))
            return f"{whole} threads, bound to {cpu_count} CPUs, were all on CPU {where} ({moment} in the run)"
    return ""


CHECK = ValidityCheck(
    name="affinity",
    holds="the measuring threads ran on the CPUs that the tuning gives them. Where a tool binds each to a "
    "CPU (cyclictest, signaltest, the tools with pairs, oslat) each had its own, whenever all were seen",
    invalidates=Invalidates.EVERYTHING,
    judge=_judge,
)
