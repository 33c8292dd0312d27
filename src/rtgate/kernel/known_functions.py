# SPDX-License-Identifier: MIT
"""Functions that rtgate knows by their names: by another name one is no longer the same to it."""

from __future__ import annotations

import re

from rtgate.kernel.interrupt_handlers import IN_INTERRUPTS, IN_THREADS, VECTORS
from rtgate.kernel.preemption import HELPERS, lock_text
from rtgate.kernel.preemption_places import FUNCTION
from rtgate.kernel.raw_locks import LOCKS
from rtgate.kernel.vmlinux import Symbol, Vmlinux, plain_name

KNOWN = frozenset(
    {
        *(FUNCTION, *HELPERS, *IN_INTERRUPTS, *IN_THREADS),
        # What marks the events of a trace (`explain/finders.py`, `explain/wakeup_stages.py`).
        *("hrtimer_interrupt", "hrtimer_wakeup", "wake_up_process", "__schedule", "__switch_to"),
        *("__arm64_sys_tgkill", "__x64_sys_tgkill", "xnintr_core_clock_handler", "timerfd_handler"),
        *("cpu_switch_to", "__switch_to_asm", "rt_spin_lock"),
    }
)
_KNOWN_ALIKE = re.compile(
    rf"{LOCKS.pattern}|{VECTORS.pattern}|__warn\w*|warn_slowpath\w*|\w*printk\w*|_*dev_\w+|dump_stack\w*|panic"
    "|trace_.*|__x86_\\w+|__stack_chk_fail|refcount_warn\\w*"
)


def is_known(kernel: Vmlinux, symbol: Symbol) -> bool:
    """Return whether a function means something by its name, or as one of the locks."""
    name = plain_name(symbol.name)
    return name in KNOWN or bool(_KNOWN_ALIKE.fullmatch(name)) or symbol.address in lock_text(kernel)
