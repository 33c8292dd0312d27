# SPDX-License-Identifier: MIT
"""The threads of a record that measured, by the policy and priority that the tool gives them."""

from __future__ import annotations

from rtgate.records.evidence import Thread
from rtgate.records.record import Record


def measuring_threads(record: Record, moment: str = "") -> tuple[Thread, ...]:
    """Return the threads with the policy and priority of a measuring thread, at one moment or at all moments."""
    groups = {(group.policy, group.priority) for group in record.evidence.expectation.threads}
    return tuple(
        thread
        for thread in record.evidence.threads
        if (thread.policy, thread.priority) in groups and moment in {"", thread.moment}
    )
