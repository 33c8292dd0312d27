# SPDX-License-Identifier: MIT
"""Locks between processes of this machine; the kernel releases them when a process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rtgate.errors import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def waiting_lock(path: Path) -> Iterator[None]:
    """Hold a lock; wait for whoever has it. For work that ends by itself, such as unpacking."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def exclusive_lock(path: Path, what: str) -> Iterator[None]:
    """Hold a lock, or say who has it.

    Raises:
        InfrastructureError: another process has it; two builds in one directory would destroy each other.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise InfrastructureError(f"{what} is in use by another rtgate (process {holder}): wait for it") from None
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield
