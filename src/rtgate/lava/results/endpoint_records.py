# SPDX-License-Identifier: MIT
"""What an endpoint leaves: its kernel is not the one that is judged, so its death is the lab's.

What it measured, and what its kernel complained of and survived, is judged like that of any board.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rtgate.board.boot import State
from rtgate.console.faults import FATAL, Fault
from rtgate.lava.results.boot_log import BootLog
from rtgate.lava.results.plain_text import phrase
from rtgate.records import record as records_file
from rtgate.records.record import Record

_CUT_SHORT = frozenset({State.FAULT, State.HANG, State.UNREADABLE})


def excuse_death(record: Record, *, broke: bool) -> None:
    """Write a record anew whose case an endpoint did not survive: as the lab's failure. Raises InfrastructureError.

    Args:
        record: of the endpoint, in its directory.
        broke: its job did not come to its end, so results that are not whole are the job's.
    """
    deaths = [fault for fault in record.faults if fault.kind in FATAL]
    if deaths:
        message = f"the endpoint's kernel died: {deaths[0].kind}: {phrase(deaths[0].line)}"
    elif broke and record.state in _CUT_SHORT:
        message = f"the endpoint broke: {record.message}"
    else:
        return
    records_file.rewrite(replace(record, state=State.LAB, message=message, faults=_survived(record.faults)), {})


def without_deaths(boot: BootLog) -> BootLog:
    """Return what LAVA saw of a boot, without what its kernel died of."""
    return replace(boot, faults=_survived(boot.faults), late=_survived(boot.late))


def _survived(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    return tuple(fault for fault in faults if fault.kind not in FATAL)
