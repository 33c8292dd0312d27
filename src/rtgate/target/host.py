# SPDX-License-Identifier: MIT
"""How long a machine that we started waited for this host's processors.

On host time a busy host looks like a kernel that hangs. The host's kernel keeps account: `/proc/PID/task/TID/schedstat`
holds nanoseconds run, nanoseconds waited on a run queue, and time slices (Documentation/scheduler/sched-stats.rst).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from rtgate.board.boot import TimeBase
from rtgate.console.faults import FATAL, FaultKind
from rtgate.errors import NoWakeupsError, ParseError
from rtgate.target.frozen import is_frozen
from rtgate.target.outcome import Outcome, State

BUSY = 0.4
"""The share of the time from which on silence is the host's fault.

On an otherwise idle machine with two cores a board with two CPUs waited 0.28 at most (cyclictest under stress-ng).
"""


# What a kernel looks like that does not get to run.
_TOO_LATE = (State.NO_BOOT, State.HANG, State.UNREADABLE)
# x86: a processor ran a breakpoint that the kernel had replaced already. Kernels put them over code that they change
# and wait for every processor before they forget them; QEMU 7.2 with a thread per processor was seen to run the old
# block all the same.
_STALE = "Oops: int3"
_ANOTHER = re.compile(r"\[#(?!1\])\d+\]")  # the kernel counts its oopses


def excuse(state: State, outcome: Outcome) -> str:
    """Return why this host or its QEMU is to blame for what came of a boot, and not the kernel; empty if it is not.

    Only a board that is a process on this host waits for it, and no wait makes a kernel panic. Other boards go on while
    this host is stopped, which spoils what we waited for and not what they measured.
    """
    if outcome.host_wait is None and not outcome.host_stopped:
        return ""
    fatal = [fault for fault in outcome.faults if fault.kind in FATAL]
    # It is the first that went wrong, and nothing but the panic that it ends in followed.
    alone = all(fault.kind is FaultKind.PANIC for fault in fatal[1:]) and not any(
        _ANOTHER.search(fault.text) for fault in fatal
    )
    if fatal and _STALE in fatal[0].line and alone:
        return "QEMU ran a breakpoint that the kernel had replaced already"
    late = (*_TOO_LATE, State.MEASURED) if outcome.host_wait is not None else _TOO_LATE
    if state in late and not fatal and outcome.host_stopped:
        return f"{outcome.host_stopped}, which is not the kernel's fault; measure again"
    if state in _TOO_LATE and not fatal and outcome.host_wait is not None and outcome.host_wait >= BUSY:
        reason = f"it waited {outcome.host_wait:.0%} of the time for a processor"
        return f"this host was too busy to run the board ({reason})"
    return ""


def unread(outcome: Outcome, error: ParseError, time: TimeBase) -> tuple[State, str]:
    """Return what unreadable output of a tool means, and a sentence."""
    if time == TimeBase.HOST and isinstance(error, NoWakeupsError):
        return State.LAB, f"host too busy: {error}; measure again on a host with less to do"
    if not outcome.files.get("tool.deadline", b"").strip():
        return State.UNREADABLE, str(error)
    return _explain_timeout(outcome, str(error), time)


def _explain_timeout(outcome: Outcome, message: str, time: TimeBase) -> tuple[State, str]:
    """Return what a tool means that never ended by itself, and a sentence."""
    if time == TimeBase.HOST and outcome.host_wait is None:
        # In a lab nobody sees how long an emulated board waited for a processor of its host.
        return State.LAB, f"{message}; the target lives, and on host time nobody can tell the kernel from a busy host"
    # A tool that never ends, and cannot say why, was left waiting by the kernel.
    return State.HANG, message


def excuse_timeout(outcome: Outcome, time: TimeBase) -> str:
    """Return why this host may be the reason that a tool never ended and said nothing, which it reads as a failure.

    Empty where the failure stands: on virtual time, on hardware, on a host that is known not to have been busy, and
    if the tool told of it.
    """
    note = outcome.files.get("tool.deadline", b"").decode("utf-8", errors="replace").strip()
    if (
        not note
        or time != TimeBase.HOST
        or any(outcome.files.get(name, b"").strip() for name in ("tool.out", "tool.err"))
    ):
        return ""
    state, message = _explain_timeout(outcome, f"the tool was stopped {note}: it did not end by itself", time)
    if state is State.LAB:
        return message
    busy = excuse(state, outcome)
    return f"{busy}: {message}" if busy else ""


def why_stopped(pid: int, *, silent: bool = False) -> str:
    """Return how a process that gives no sign of life was kept from running; empty if it was not.

    Args:
        pid: the process.
        silent: it used no processor time and did not answer, as in a frozen container, which has no state of its own.
            A QEMU whose guest hangs idle uses none either, but its monitor answers.
    """
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""  # it has just ended
    if state in "Tt":
        return f"state {state}"
    if is_frozen(pid):
        return "frozen by a control group"
    return "no processor time used, no answer" if silent else ""


def waited_s(pid: int) -> float | None:
    """Return how long that thread of a process has waited which waited longest; None where nobody knows.

    Nobody does once the process is gone, nor where the kernel keeps no account (CONFIG_SCHED_INFO).
    """
    waits = (_waited_s(account) for account in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return max((seconds for seconds in waits if seconds is not None), default=None)


def _waited_s(account: Path) -> float | None:
    try:
        run_ns, wait_ns, _ = account.read_text(encoding="ascii").split()
        # A zombie's account goes on to exist; a thread that never ran tells nothing.
        return int(wait_ns) / 1e9 if int(run_ns) else None
    except (OSError, ValueError):
        return None  # it has just ended


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used, 0 when it is gone (fields 14, 15 of `/proc/PID/stat`, proc(5))."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
