# SPDX-License-Identifier: MIT
"""The warning of a function, as the kernel's log has it: where it stands in the source, and why it fired."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rtgate.console import traces
from rtgate.console.faults import Fault, FaultKind
from rtgate.records.record import Record

# kernel/panic.c, __warn: `WARNING: CPU: 0 PID: 1 at FILE:LINE FUNCTION+0x1/0x2`, since 6.19 `WARNING: FILE:LINE at
# FUNCTION+0x1/0x2, CPU#0: COMM/PID`.
_SITES = (
    re.compile(r"WARNING: CPU: \d+ PID: \d+ at (?P<file>\S+:\d+) (?P<function>\S+)"),
    re.compile(r"WARNING: (?P<file>\S+:\d+) at (?P<function>[^\s,]+)"),
)


def warning_of(function: str, records: Sequence[Record]) -> str:
    """Return the first warning of a function in some boots, in words; empty if no log has one."""
    for record in records:
        for fault in record.faults:
            if fault.kind is FaultKind.WARNING and traces.place(fault) == (function,):
                return f"{_site(fault)} (first in {record.boot}{_warning_text(fault)})"
    return ""


def _site(fault: Fault) -> str:
    for pattern in _SITES:
        match = pattern.search(fault.line)
        if match:
            return f"WARNING at {match['file']}: {match['function']}"
    return fault.line


def _warning_text(fault: Fault) -> str:
    """Return the warning's message, or the way to it where it has none."""
    if fault.reason:
        return f": {fault.reason}"
    callers = traces.callers(fault.text)
    return f", called by {', '.join(callers)}" if callers else ""
