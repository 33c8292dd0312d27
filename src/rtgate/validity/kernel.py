# SPDX-License-Identifier: MIT
"""Validity check: the kernel that ran is the one that is judged, by all that both tell of themselves."""

from __future__ import annotations

from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for


def _judge(record: Record) -> Answer:
    kernel, environment = record.kernel, record.environment
    release = environment.kernel_release
    facts = (
        ("", kernel.release, release),
        ("version ", kernel.version, environment.kernel_version),
        ("build id ", kernel.build_id[:12], environment.build_id[:12]),
        ("configuration ", kernel.config_sha256[:12], environment.config_sha256[:12]),
    )
    problem = "; ".join(
        f"the kernel to measure is {what}{text}, and {what}{there} was running"
        for what, text, there in facts
        if text and there and text != there
    )
    return answer_for(problem, release or "its release is not known")


CHECK = ValidityCheck(
    name="kernel",
    holds="the kernel that ran is the one that was named, by release, version (`uname -v`) and configuration. On live "
    "boards also by GNU build id (`/sys/kernel/notes`). Each counts where both are known",
    invalidates=Invalidates.EVERYTHING,
    judge=_judge,
)
