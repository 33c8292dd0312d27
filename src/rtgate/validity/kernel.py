# SPDX-License-Identifier: MIT
"""Validity check: the kernel that ran is the one that is judged, by all that both tell of themselves."""

from __future__ import annotations

from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for


def _judge(record: Record) -> Answer:
    kernel, found = record.kernel, record.environment
    ran = found.kernel_release
    told = (
        ("", kernel.release, ran),
        ("version ", kernel.version, found.kernel_version),
        ("build id ", kernel.build_id[:12], found.build_id[:12]),
        ("configuration ", kernel.config_sha256[:12], found.config_sha256[:12]),
    )
    problem = "; ".join(
        f"the kernel to measure is {what}{named}, and {what}{there} was running"
        for what, named, there in told
        if named and there and named != there
    )
    return answer_for(problem, ran or "its release is not known")


CHECK = ValidityCheck(
    name="kernel",
    holds="the kernel that ran is the one that was named, by release, version (`uname -v`) and configuration. On live "
    "boards also by GNU build id (`/sys/kernel/notes`). Each counts where both are known",
    invalidates=Invalidates.EVERYTHING,
    judge=_judge,
)
