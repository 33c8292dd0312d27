# SPDX-License-Identifier: MIT
"""Kernel faults: what a kernel prints when something is wrong with it.

The texts are those of the kernel's own sources (named beside each row), read in 6.12; where older or newer kernels word
it differently, the pattern has both and the row says which.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    """What happened. The value is the name used in `thresholds.yaml` and reports.

    No line tells of `aer` and `pcie-link`: they come from counters and links before and after a measurement, because a
    kernel's log also has what happened while the board booted.
    """

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
    AER = "aer"
    PCIE_LINK = "pcie-link"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its kind, the line that names it, and the lines that belong to it.

    Attributes:
        reason: what the kernel said before the line, as WARN() does; empty for WARN_ON(), which says nothing.
    """

    kind: FaultKind
    line: str
    text: str
    reason: str = ""


# Order matters: the first pattern that matches a line names it.
_STARTS: tuple[tuple[FaultKind, str], ...] = (
    (FaultKind.PANIC, r"Kernel panic - not syncing"),  # kernel/panic.c
    (FaultKind.KASAN, r"BUG: KASAN:"),  # mm/kasan/report.c
    (FaultKind.KFENCE, r"BUG: KFENCE:"),  # mm/kfence/report.c
    (FaultKind.SOFT_LOCKUP, r"BUG: soft lockup"),  # kernel/watchdog.c
    # kernel/watchdog.c; newer ones say `CPU1: ` before it, those before 6.5 `NMI watchdog: `
    (FaultKind.HARD_LOCKUP, r"[Ww]atchdog(?:: | )(?:detected|Watchdog detected) hard LOCKUP"),
    # kernel/sched/core.c
    (FaultKind.ATOMIC, r"BUG: (?:scheduling while atomic|sleeping function called from invalid context)"),
    (FaultKind.ATOMIC, r"BUG: scheduling in a non-blocking section"),
    # kernel/locking/lockdep.c, kernel/rcu/update.c for `suspicious RCU usage`
    (FaultKind.LOCKDEP, r"WARNING: (?:possible (?:circular|recursive|irq)|inconsistent lock state|suspicious RCU)"),
    (FaultKind.LOCKDEP, r"WARNING: (?:bad (?:unlock balance|contention)|held lock freed|lock held when returning)"),
    (FaultKind.LOCKDEP, r"WARNING: (?:\S+-safe -> \S+-unsafe lock order|Nested lock was not|chain_key collision)"),
    (FaultKind.LOCKDEP, r"\d still has locks held!|INFO: trying to register non-static key"),
    (FaultKind.LOCKDEP, r"WARNING: circular locking deadlock"),  # kernel/locking/rtmutex-debug.c, before 5.13
    (
        FaultKind.LOCKDEP,
        r"\[ BUG: Invalid wait context \]|BUG: (?:MAX_[A-Z_]{4,40} too low|looking up invalid subclass)",
    ),
    (FaultKind.OOPS, r"Internal error: |Unable to handle kernel|Oops: "),  # arch/*/kernel, arch/arm64/mm
    (FaultKind.OOPS, r"Oops - |(?:Oops|Kernel BUG) \[#\d+\]"),  # arch/riscv/kernel/traps.c
    (FaultKind.OOPS, r"BUG: unable to handle|BUG: kernel NULL pointer dereference"),  # arch/x86/mm/fault.c
    # arch/x86/kernel/dumpstack.c: `invalid opcode: 0000 [#1]`; `Oops: ` stands before it since 6.10
    (FaultKind.OOPS, r"general protection fault[,:]|[a-z)]: [0-9a-f]{4} \[#\d+\]"),
    (FaultKind.BUG, r"[Kk]ernel BUG at |\bBUG: "),  # lib/bug.c and others
    (FaultKind.BUG, r"\bBUG \S{1,80} \((?:Not tainted|Tainted: )[^)]{0,80}\): "),  # mm/slub.c, slab_bug
    (FaultKind.BUG, r"UBSAN: [\w-]{1,60} in \S"),  # lib/ubsan.c
    (FaultKind.WARNING, r"irq \d{1,5}: nobody cared"),  # kernel/irq/spurious.c: the interrupt is switched off
    # kernel/rcu/tree_stall.h and tree_exp.h with `rcu: ` before it, kernel/rcu/tasks.h without
    (FaultKind.RCU_STALL, r"INFO: rcu\w{0,40} (?:self-)?detected (?:expedited )?stall"),
    # kernel/hung_task.c; `in I/O wait` since 7.1
    (FaultKind.HUNG_TASK, r"INFO: task .{1,80} blocked (?:in I/O wait )?for more than \d+ seconds"),
    # kernel/sched/rt.c, deadline.c
    (FaultKind.THROTTLING, r"sched: (?:RT throttling activated|DL replenish lagged)"),
    (FaultKind.WARNING, r"WARNING: CPU: \d+ PID: \d+"),  # kernel/panic.c, __warn, before 6.19
    # kernel/panic.c, __warn, since 6.19: `WARNING: FILE:LINE at FUNCTION [MODULE], CPU#N: COMM/PID`
    (FaultKind.WARNING, r"WARNING: (?:\S{1,200}:\d{1,9} )?at \S{1,200}(?: \[[^\]]{1,120}\])?, CPU#\d"),
)
_START = tuple((kind, re.compile(pattern)) for kind, pattern in _STARTS)
_CUT = "------------[ cut here ]------------"  # include/asm-generic/bug.h: before a warning, its message and its line
_REASON = 4  # lines of a message, at most
_END = re.compile(r"---\[ end (?:trace|Kernel panic)|Rebooting in")
STAMP = re.compile(r"(?:<\d+>)?\[ *(\d+\.\d{6})\](?:\[ *[TC]\d+\])? ")  # the time in seconds, and who said it
# An empty line may have lost its last space; `dmesg` of util-linux indents further lines of one message.
_GOES_ON = re.compile(r"(?:<\d+>)?\[ *\d+\.\d{6}\]| {10}")
_NEWLINE = re.compile(r"\r+\n|\n\r+|\r+")
_LONGEST = 60  # lines of one fault; a trace is shorter, and a log that never ends must not be swallowed whole

# One of these may have several lines that start it, as `Unable to handle kernel` and `Internal error` of one oops.
_MANY_LINES = frozenset({FaultKind.PANIC, FaultKind.OOPS})

# After these the kernel, or what called it, is no more. `kernel BUG at` is followed by an oops; every other `BUG: `
# is a complaint of a kernel that goes on.
FATAL = frozenset({FaultKind.PANIC, FaultKind.OOPS})
# What a kernel also says whose host stopped it for a while: it finds that much time has passed at once.
OF_TIME = frozenset(
    {
        FaultKind.RCU_STALL,
        FaultKind.HUNG_TASK,
        FaultKind.SOFT_LOCKUP,
        FaultKind.HARD_LOCKUP,
        FaultKind.THROTTLING,
    }
)

BOOT_LOADERS = (
    (r"^U-Boot (?:SPL |TPL )?20\d\d\.\d\d", ".*"),
    (r"^barebox 20\d\d\.\d\d", ".*"),
    (r"^iPXE \d", ".*"),
    (r"\bGNU GRUB {1,3}version", r" \S+"),
    (r"\bUEFI firmware \(version", " .*"),
    (r"^SeaBIOS \(version", " .*"),
)
"""How boot loaders begin the line that tells their version, and the rest of that version."""
# What the first lines of a boot say. The kernel's: init/version-timestamp.c, arch/arm64/kernel/setup.c.
_BANNER = re.compile(
    "|".join((r"(?:^|\] )Linux version \d+\.\d+|Booting Linux on physical CPU", *(start for start, _ in BOOT_LOADERS))),
    re.MULTILINE,
)
_ORDERLY = re.compile(r"reboot: (?:Restarting system|Power down|System halted)")  # kernel/reboot.c


def scan(log: str) -> tuple[Fault, ...]:
    """Return the faults in a console log or kernel log, in order.

    Lines that follow a fault belong to it until its end mark or the next fault of another kind; an oops that ends in a
    panic is reported as both.
    """
    faults: list[Fault] = []
    lines = _NEWLINE.sub("\n", log).split("\n")
    number = 0
    while number < len(lines):
        fault = _find_fault(lines[number])
        if fault is None:
            number += 1
            continue
        kind, start = fault
        end = _end(lines, number, kind)
        text = "\n".join(lines[number:end])
        faults.append(Fault(kind, _message(lines[number], start), text, _reason(lines, number)))
        number = end
    return tuple(faults)


def banner(log: str) -> str:
    """Return the line of a console log that shows a machine starting, empty without one."""
    return _line(_BANNER, log)


def orderly_end(log: str) -> str:
    """Return the line of a console log that shows that a program had the machine stopped, empty without one."""
    return _line(_ORDERLY, log)


def _line(pattern: re.Pattern[str], log: str) -> str:
    text = _NEWLINE.sub("\n", log)
    match = pattern.search(text)
    if match is None:
        return ""
    start, end = text.rfind("\n", 0, match.end()) + 1, text.find("\n", match.end())
    return _message(text[start : end if end >= 0 else None], match.end() - start)


def _find_fault(line: str) -> tuple[FaultKind, int] | None:
    """Return the kind of fault that a line names, and where in the line."""
    for kind, pattern in _START:
        match = pattern.search(line)
        if match:
            return kind, match.start()
    return None


def _message(line: str, start: int) -> str:
    """Return a line from the message on in which `start` lies: without its time, and what a program printed before."""
    stamps = [match.end() for match in STAMP.finditer(line, 0, max(start, 0) + 1)]
    return line[stamps[-1] if stamps else 0 :].strip()


def _reason(lines: list[str], start: int) -> str:
    """Return what stands between the last `cut here` and a fault's line; empty without one."""
    for number in range(start - 1, max(-1, start - 2 - _REASON), -1):
        if _CUT in lines[number]:
            return " ".join(filter(None, (STAMP.sub("", line, 1).strip() for line in lines[number + 1 : start])))
    return ""


def _end(lines: list[str], start: int, kind: FaultKind) -> int:
    stamped = STAMP.search(lines[start]) is not None
    for number in range(start + 1, min(len(lines), start + _LONGEST)):
        if _END.search(lines[number]):
            return number + 1
        next_fault = _find_fault(lines[number])
        if next_fault is not None and (next_fault[0] is not kind or kind not in _MANY_LINES):
            return number
        if stamped and not _GOES_ON.match(lines[number]):
            return number
    return min(len(lines), start + _LONGEST)
