# SPDX-License-Identifier: MIT
"""Cores of this machine: each virtual-time boot gets one for itself.

QEMU's main loop and its CPU thread hand over to each other at every timer of the guest. On one core that is a change
of threads; across two it is a wake-up of a sleeping core, which took half of the time of an idle boot (measured on a
virtual machine of 2 cores: 10 virtual seconds in 2.3 s instead of 4.1 s). Nor does a thread that is woken take the core
at once: it would find the other one's lock taken, and give the core back. Under SCHED_BATCH it does not (Linux,
kernel/sched/fair.c: only normal tasks preempt when they wake): an idle boot of 10 s changed threads 43 000 times, and
250 000 times without (getrusage(2); a virtual machine of 2 cores). Locks on files tell all processes of this user which
cores are taken.
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rtgate import site


@contextmanager
def take_core() -> Iterator[int | None]:
    """Take a core that no other boot of this user has; None when all are taken."""
    directory = site.cache() / "cores"
    directory.mkdir(parents=True, exist_ok=True)
    for core in sorted(os.sched_getaffinity(0)):
        lock = _try_lock(directory / str(core))
        if lock is not None:
            try:
                yield core
            finally:
                os.close(lock)
            return
    yield None


def _try_lock(path: Path) -> int | None:
    """Return the open lock, or None if another boot holds it; the kernel lets go of it with the process."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def bind_command(argv: list[str], core: int | None) -> list[str]:
    """Return a command that runs on one core only, its threads in turn; on any, as ever, without one."""
    return argv if core is None else [*_in_turn(), "taskset", "--cpu-list", str(core), *argv]


@functools.cache
def _in_turn() -> tuple[str, ...]:
    """Return what starts a command under SCHED_BATCH; nothing where that is refused, or a policy was chosen already."""
    words = ("chrt", "--batch", "0")
    if os.sched_getscheduler(0) != os.SCHED_OTHER or shutil.which(words[0]) is None:
        return ()
    try:
        subprocess.run([*words, "true"], capture_output=True, check=True, timeout=30)
    except subprocess.SubprocessError:
        return ()
    return words
