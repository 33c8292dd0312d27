# SPDX-License-Identifier: MIT
from __future__ import annotations

from typing import Any

import pytest

from rtgate.console.faults import Fault, FaultKind
from rtgate.records.warning_sites import warning_of

OLD = "WARNING: CPU: 1 PID: 33 at kernel/sched/core.c:1234 set_task_cpu+0x1a0/0x1c0"
NEW = "WARNING: kernel/sched/core.c:1234 at set_task_cpu+0x1a0/0x1c0, CPU#1: migration/1/33"
NO_DEBUG_INFORMATION = "WARNING: at set_task_cpu+0x1a0/0x1c0, CPU#0: sh/1"
TRACE = "Call trace:\n set_task_cpu+0x1a0/0x1c0\n move_queued_task+0x1/0x2\n migration_cpu_stop+0x1/0x2"
SITE = "WARNING at kernel/sched/core.c:1234: set_task_cpu+0x1a0/0x1c0"


class Boot:
    """As much of a record as is read."""

    def __init__(self, seed: int, *faults: Fault) -> None:
        self.boot, self.faults = f"seed {seed}", faults


def told(*boots: Any, function: str = "set_task_cpu") -> str:
    return warning_of(function, boots)


def warning(line: str, reason: str = "", text: str = "") -> Fault:
    return Fault(kind=FaultKind("warning"), line=line, text=f"{line}\n{text}", reason=reason)


@pytest.mark.parametrize("line", [OLD, NEW])
def test_a_warning_is_told_with_its_place_and_its_first_boot(line: str) -> None:
    boots = (Boot(1), Boot(2, warning(line, "task 33 is running")), Boot(3, warning(line, "another")))
    assert told(*boots) == f"{SITE} (first in seed 2: task 33 is running)"


def test_a_warning_without_a_message_says_who_called() -> None:
    assert told(Boot(4, warning(OLD, text=TRACE))) == (
        f"{SITE} (first in seed 4, called by move_queued_task, migration_cpu_stop)"
    )


def test_a_warning_without_a_file_is_told_as_it_stands() -> None:
    assert told(Boot(1, warning(NO_DEBUG_INFORMATION))) == f"{NO_DEBUG_INFORMATION} (first in seed 1)"


def test_only_a_warning_of_this_function_counts() -> None:
    bug = Fault(kind=FaultKind("bug"), line="kernel BUG at kernel/sched/core.c:9", text="pc : set_task_cpu+0x1/0x2")
    assert told(Boot(1, bug, warning(OLD)), function="hrtimer_wakeup") == ""
    assert told(Boot(1, bug)) == ""
    assert told(Boot(1, warning(OLD)), function="") == ""
