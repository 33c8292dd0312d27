# SPDX-License-Identifier: MIT
"""Validity check: each measuring thread ran on the CPUs that the tuning gives it, and on its own if it is bound."""

from __future__ import annotations

from collections.abc import Sequence

from rtgate.board.boot import TimeBase
from rtgate.records.evidence import Thread
from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for
from rtgate.validity.measuring_threads import measuring_threads


def _judge(record: Record) -> Answer:
    allowed = set(record.evidence.expectation.cpus)
    ours = measuring_threads(record)
    astray = sorted({thread.processor for thread in ours if thread.processor not in allowed})
    text = ", ".join(map(str, sorted(allowed)))
    problem = ""
    if allowed and astray:
        problem = f"measuring threads ran on CPU {', '.join(map(str, astray))}, not only on {text}"
    fine = f"on CPU {text}" if allowed else "on all CPUs"
    return answer_for(problem or _crowded_cpus(record, ours), fine)


def _crowded_cpus(record: Record, ours: Sequence[Thread]) -> str:
    """Return which CPUs bound threads shared that should each have had their own; only looks that saw all count."""
    expected = record.evidence.expectation
    wanted, whole = expected.processors, sum(group.count for group in expected.threads)
    looks = {moment: [one.processor for one in ours if one.moment == moment] for moment in ("middle", "late")}
    seen = {moment: processors for moment, processors in looks.items() if len(processors) >= whole}
    if record.environment.time == TimeBase.HOST and "late" in seen:
        seen.pop("middle", None)  # where a machine whose host is busy may still be binding them
    for moment, processors in seen.items():
        if len(set(processors)) < wanted:
            where = ", ".join(map(str, sorted(set(processors))))
            return f"{whole} threads, bound to {wanted} CPUs, were all on CPU {where} ({moment} in the run)"
    return ""


CHECK = ValidityCheck(
    name="affinity",
    holds="the measuring threads ran on the CPUs that the tuning gives them. Where a tool binds each to a "
    "CPU (cyclictest, signaltest, the tools with pairs, oslat) each had its own, whenever all were seen",
    invalidates=Invalidates.EVERYTHING,
    judge=_judge,
)
