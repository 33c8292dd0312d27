# SPDX-License-Identifier: MIT
"""What of a case's logs says why it ended as it did."""

from __future__ import annotations

from collections.abc import Sequence

from rtgate import files
from rtgate.board.boot import State
from rtgate.records.record import Record
from rtgate.report.text import last_lines, plain_text


def log_excerpt(records: Sequence[Record]) -> str:
    """Return the kernel's faults, then the last words of boots that did not end well; empty for neither."""
    parts = []
    for record in records:
        parts += [f"{record.boot}: {fault.kind}\n{plain_text(fault.text)}" for fault in record.faults]
        console = record.directory / "console.log" if record.directory else None
        if record.state not in {State.MEASURED, State.LAB} and console is not None and console.is_file():
            end = last_lines(files.read_bytes(console, files.RAW_LIMIT))
            parts += [f"{record.boot}: last lines of the console\n{end}"] if end else []
    return "\n\n".join(parts)
