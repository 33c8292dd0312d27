# SPDX-License-Identifier: MIT
"""Kernel faults: what a kernel prints when something is wrong with it.

The texts are those of the kernel's own sources (named beside each row), read in 6.12; the older wording is in the
pattern where it differs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class FaultKind(Enum):
    """What happened. The value is the name used in `thresholds.yaml` and reports."""

    PANIC = "panic"
    OOPS = "oops"
    BUG = "bug"
    WARNING = "warning"
    KASAN = "kasan"
    KFENCE = "kfence"
    LOCKDEP = "lockdep"
    ATOMIC = "atomic-sleep"
    RCU_STALL = "rcu-stall"
    HUNG_TASK = "hung-task"
    SOFT_LOCKUP = "soft-lockup"
    HARD_LOCKUP = "hard-lockup"
    THROTTLING = "rt-throttling"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its kind, the line that names it, and the lines that belong to it."""

    kind: FaultKind
    line: str
    text: str


# Order matters: the first pattern that matches a line names it.
_STARTS: tuple[tuple[FaultKind, str], ...] = (
    (FaultKind.PANIC, r"Kernel panic - not syncing"),  # kernel/panic.c
    (FaultKind.KASAN, r"BUG: KASAN:"),  # mm/kasan/report.c
    (FaultKind.KFENCE, r"BUG: KFENCE:"),  # mm/kfence/report.c
    (FaultKind.SOFT_LOCKUP, r"BUG: soft lockup"),  # kernel/watchdog.c
    (FaultKind.HARD_LOCKUP, r"[Ww]atchdog(?:: | )(?:detected|Watchdog detected) hard LOCKUP"),  # kernel/watchdog.c
    (
        FaultKind.ATOMIC,
        r"BUG: (?:scheduling while atomic|sleeping function called from invalid context)",
    ),  # kernel/sched
    (FaultKind.LOCKDEP, r"WARNING: (?:possible (?:circular|recursive|irq)|inconsistent lock state|suspicious RCU)"),
    (FaultKind.LOCKDEP, r"WARNING: (?:bad (?:unlock balance|contention)|held lock freed|lock held when returning)"),
    (FaultKind.LOCKDEP, r"WARNING: (?:\S+-safe -> \S+-unsafe lock order|Nested lock was not)|\d still has locks held!"),
    (FaultKind.LOCKDEP, r"\[ BUG: Invalid wait context \]"),  # kernel/locking/lockdep.c
    (FaultKind.OOPS, r"Internal error: |Unable to handle kernel|Oops: "),  # arch/*/kernel, arch/arm64/mm
    (FaultKind.OOPS, r"BUG: unable to handle|BUG: kernel NULL pointer dereference"),  # arch/x86/mm/fault.c
    (FaultKind.OOPS, r"general protection fault[,:]"),  # arch/x86/kernel/traps.c; without them it is a program's
    (FaultKind.BUG, r"kernel BUG at |\bBUG: "),  # lib/bug.c and others
    (FaultKind.RCU_STALL, r"rcu: INFO: \w+ (?:self-)?detected (?:expedited )?stall"),  # kernel/rcu/tree_stall.h
    (FaultKind.HUNG_TASK, r"INFO: task .{1,80} blocked for more than \d+ seconds"),  # kernel/hung_task.c
    (
        FaultKind.THROTTLING,
        r"sched: (?:RT|DL) (?:throttling activated|replenish lagged)",
    ),  # kernel/sched/rt.c, deadline.c
    (FaultKind.WARNING, r"WARNING: CPU: \d+ PID: \d+"),  # kernel/panic.c, __warn
)
_START = tuple((kind, re.compile(pattern)) for kind, pattern in _STARTS)
_END = re.compile(r"---\[ end (?:trace|Kernel panic)|Rebooting in")
_STAMP = re.compile(r"^(?:<\d+>)?\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? ")
_LONGEST = 60  # lines of one fault; a trace is shorter, and a log that never ends must not be swallowed whole
FATAL = frozenset({FaultKind.PANIC, FaultKind.OOPS, FaultKind.BUG})


def scan(log: str) -> tuple[Fault, ...]:
    """Return the faults in a console log or kernel log, in order.

    Lines that follow a fault belong to it until its end mark or the next fault of another kind; an oops that ends in a
    panic is reported as both.
    """
    faults: list[Fault] = []
    lines = log.replace("\r", "").split("\n")
    number = 0
    while number < len(lines):
        kind = _kind(lines[number])
        if kind is None:
            number += 1
            continue
        end = _end(lines, number, kind)
        text = "\n".join(lines[number:end])
        faults.append(Fault(kind, _STAMP.sub("", lines[number].strip()), text))
        number = end
    return tuple(faults)


def _kind(line: str) -> FaultKind | None:
    return next((kind for kind, pattern in _START if pattern.search(line)), None)


def _end(lines: list[str], start: int, kind: FaultKind) -> int:
    for number in range(start + 1, min(len(lines), start + _LONGEST)):
        if _END.search(lines[number]):
            return number + 1
        other = _kind(lines[number])
        if other not in {None, kind}:
            return number
        if not _STAMP.match(lines[number]) and lines[start][:1] == "[":
            return number
    return min(len(lines), start + _LONGEST)
