# SPDX-License-Identifier: MIT
"""Validity check: the flavour that ran is the one that was asked for."""

from __future__ import annotations

from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for


def _judge(record: Record) -> Answer:
    flavour, boot_flavour = record.kernel.flavour, record.environment.flavour
    problem = ""
    if not boot_flavour:
        problem = "the running kernel's version (uname -v) was not read, so its flavour is not proven"
    elif not flavour:
        problem = "nobody said which flavour the kernel should be"
    elif flavour != boot_flavour:
        problem = (
            f"the kernel should be {flavour} and is {boot_flavour}: uname -v says {record.environment.kernel_version!r}"
        )
    return answer_for(problem, f"{boot_flavour} by uname -v")


CHECK = ValidityCheck(
    name="flavour",
    holds="`uname -v` of the running kernel proves the flavour that was asked for",
    invalidates=Invalidates.EVERYTHING,
    exceptions='a kernel that should be RT and is not is FAIL "flavour lost"',
    judge=_judge,
)
