# SPDX-License-Identifier: MIT
"""What tells one kernel fault from another: where it happened, which locks it is about, and when it was said.

A call trace begins with what prints it (`dump_stack` and its callers), then what noticed the fault (`__might_resched`,
lockdep), then what every driver goes through on its way there (locks, `schedule`, allocation): the same for different
faults. What comes after these is the place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from rtgate.console.faults import OF_TIME, STAMP, Fault, FaultKind

_DEPTH = 3  # functions that name a place: one alone may be a helper that is not listed here

# As in 6.12: lib/dump_stack.c, arch/*/kernel, kernel/sched/core.c, kernel/panic.c, kernel/locking, kernel/softirq.c,
# kernel/time, lib/smp_processor_id.c, lib/list_debug.c, lib/nmi_backtrace.c, mm/slub.c, mm/page_alloc.c, mm/kasan.
_HELPING = (
    r"unwind_backtrace|_*dump_(?:backtrace|stack)\w*|show_(?:stack|regs|trace)\w*|print_\w+|sched_show_task",
    r"_*might_(?:sleep|resched|fault)\w*|_*cant_(?:sleep|migrate)\w*|__schedule_bug|__switch_to|_*schedule",
    r"schedule_(?:timeout|preempt_disabled|rtlock|hrtimeout)\w*|preempt_schedule\w*",
    r"_*warn\w*|report_bug|handle_bug|panic|vpanic",
    r"(?:asm_)?exc_invalid_op|do_invalid_op|invalid_op|el1_brk64|el1h_64_sync(?:_handler)?",
    # lockdep
    r"_*lock_(?:acquire|release|is_held)\w*|lockdep_\w+|check_(?:noncircular|prev\w*|deadlock|irq_usage)",
    r"validate_chain|mark_(?:lock|usage|held_locks)\w*|valid_state|check_(?:usage|wait_context)\w*|debug_\w+",
    # locks
    r"_*rt_spin_\w+|_*rt_(?:read|write)_\w+|_*rtlock_\w+|_*rt_mutex_\w+|_*rwbase_\w+|task_blocks_on_rt_mutex",
    r"_raw_(?:spin|read|write)_\w+|do_raw_\w+|spin_(?:bug|dump)|_*(?:ww_)?mutex_(?:un|try)?lock\w*",
    r"_*down(?:_(?:read|write|killable|interruptible|timeout|trylock|common)\w*)?|_*wait_for_com\w+",
    r"_*local_bh_(?:dis|en)able_ip|(?:m|f|u)sleep\w*|usleep_range\w*",
    # allocation
    r"_*k[cmvz]*alloc\w*|_*kmem_cache_(?:alloc|free)\w*|_*kv?free\w*|_*slab_(?:alloc|free)\w*|_*do_kmalloc\w*",
    r"new_slab\w*|allocate_slab|_*alloc_(?:frozen_)?pages\w*|get_page_from_freelist|rmqueue\w*|_*free_pages\w*",
    # those that check for others
    r"check_preemption_disabled|__this_cpu_preempt_check|refcount_warn_\w+|__list_(?:add|del_entry)_\w+",
    r"_*kasan_\w+|_*asan_\w+|kfence_\w+|bad_page|rcu_dump_cpu_stacks|nmi_\w*backtrace\w*|nmi_panic",
)
_HELPERS = re.compile("|".join(_HELPING))
_SYMBOL = r"([A-Za-z_][\w.$]*)\+0x[0-9a-f]+/0x[0-9a-f]+"
_FRAME = re.compile(rf"\s*(?:\[<[0-9a-f]+>\]\s*)?{_SYMBOL}")
_COUNTER = re.compile(r"(?:\bpc : |RIP: [0-9a-f]{4}:)(?:\[<[0-9a-f]+>\] )?([\w.$]+)\+0x")
_CALLER = re.compile(rf"\bcaller is {_SYMBOL}")  # lib/smp_processor_id.c
_TRACE = re.compile(r"Call [Tt]race:")
_NAMED = re.compile(r"\b(?:at|in) (?:\S+:\d+ )?([A-Za-z_][\w.$]*)\+0x[0-9a-f]+")
_FILE = re.compile(r"\bat (\S+):\d+")

# The lock that a task wants and the one that it holds: the line after one of these (kernel/locking/lockdep.c).
_ABOUT = re.compile(
    r"(?:trying to (?:acquire|lock)|already holding(?: lock)?|takes|changed the state of lock|took another.{0,40})"
    r"(?: lock)?:\s*$"
)
_LOCK = re.compile(rf"\((?P<name>\S.{{0,200}}?)\)\{{[^{{}}]{{2,20}}\}}(?:-\{{\d+:\d+\}})?(?:, at: {_SYMBOL})?")

# The stack of what is stalled is the place, wherever it stands: the trace is that of the timer which noticed.
_STALLS = OF_TIME - {FaultKind.THROTTLING}
# Their line says all that there is.
_WHOLE = frozenset({FaultKind.THROTTLING, FaultKind.AER, FaultKind.PCIE_LINK})
# How many errors there were, of a line of `rtgate.validity.links`: in all, and of each type. One that has no name is
# called by its bit, as in `dev_cor_errs_bit[5]`.
_ERRORS = re.compile(r"^[0-9]+ | \([\w\[\]]+ [0-9]+(?:, [\w\[\]]+ [0-9]+)*\)$")
# Their line names the file in which they are; that of a sleeping function names the helper's.
_FILED = frozenset({FaultKind.WARNING, FaultKind.BUG})


def place(fault: Fault) -> tuple[str, ...]:
    """Return the words that name where a fault happened: locks, functions, or a file; none if it does not say."""
    kind, line, text = fault.kind, fault.line, fault.text
    if kind in _WHOLE:
        return (_ERRORS.sub("", line),) if kind is FaultKind.AER else (line,)
    if kind is FaultKind.LOCKDEP:
        return (*_locks(text), *_frames(text))
    before = text if kind in _STALLS else _TRACE.split(text, maxsplit=1)[0]
    for pattern, where in ((_COUNTER, before), (_NAMED, line), (_CALLER, before)):
        for match in pattern.finditer(where):
            name = _strip_suffix(match[1])
            if not _HELPERS.fullmatch(name):
                return (name,)
    file = None if _NAMED.search(line) or kind not in _FILED else _FILE.search(line)
    return _frames(text) or ((file[1],) if file else ())


def counts(fault: Fault) -> dict[str, int]:
    """Return how many errors a fault stands for, by their type: what its counters rose by; of no other fault any."""
    if fault.kind is not FaultKind.AER:
        return {}
    by_type = {name: int(number) for name, number in re.findall(r"[(,] ?([\w\[\]]+) ([0-9]+)(?=[,)])", fault.line)}
    total = re.match("[0-9]+", fault.line)
    return by_type or ({"errors": int(total[0])} if total else {})


def said_at(fault: Fault) -> float | None:
    """Return when a kernel said a fault, in its seconds, from the stamp in front of it; None without one."""
    first = fault.text.partition("\n")[0]
    stamps = STAMP.findall(first, 0, max(first.rfind(fault.line), 0))
    return float(stamps[-1]) if stamps else None


def _strip_suffix(name: str) -> str:
    """Return a function's name without what a compiler appends, as `.cold` and `.isra.0`."""
    return name.partition(".")[0]


def _frames(text: str) -> tuple[str, ...]:
    """Return the first functions of the first call trace that are no helpers; entries with `?` are guesses."""
    parts = _TRACE.split(text, maxsplit=2)
    names = [name for name in _functions(parts[1]) if not _HELPERS.fullmatch(name)] if len(parts) > 1 else []
    return tuple(names[:_DEPTH])


def _functions(trace: str) -> Iterator[str]:
    for line in trace.split("\n"):
        match = _FRAME.match(STAMP.sub("", line))
        if match:
            yield _strip_suffix(match[1])


def callers(text: str) -> tuple[str, ...]:
    """Return the functions that led to the one in which a fault is, the innermost first."""
    return _frames(text)[1:]


def _locks(text: str) -> tuple[str, ...]:
    """Return the locks that a report of lockdep is about, with the functions that take them."""
    locks = []
    for about, lock in pairwise(text.split("\n")):
        match = _LOCK.search(lock) if _ABOUT.search(about) else None
        if match:
            locks.append(f"{match['name']} at {_strip_suffix(match[2] or 'unknown')}")
    return tuple(locks)
