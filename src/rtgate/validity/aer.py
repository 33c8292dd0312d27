# SPDX-License-Identifier: MIT
"""Validity check: the error counters of PCI functions that should be there were read before and after."""

from __future__ import annotations

from rtgate.records.record import Record
from rtgate.validity import links
from rtgate.validity.check import Answer, Invalidates, PlanInputs, ValidityCheck, answer_for


def _judge(record: Record) -> Answer:
    functions = record.evidence.expectation.counters
    missing_names = links.unread(record.evidence.readings, functions)
    problem = f"the AER counters of {', '.join(missing_names)} were not read (CONFIG_PCIEAER?)" if missing_names else ""
    fine = ", ".join(entry.name for entry in functions)
    return answer_for(problem, f"read of {fine}" if fine else "the board's file asks for none")


def _reads(inputs: PlanInputs) -> tuple[str, ...]:
    return links.WATCHED if inputs.functions else ()


CHECK = ValidityCheck(
    name="aer",
    holds="the error counters (AER) of PCI functions that the board's file lists with `aer` were read before and after",
    invalidates=Invalidates.GOOD_NEWS,
    judge=_judge,
    reads=_reads,
    readings=links.WATCHED,
)
