# SPDX-License-Identifier: MIT
"""Locks between processes of this machine; the kernel releases them when a process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rtgate.errors import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TextIO


@contextmanager
def waiting_lock(path: Path, what: str = "", notice: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Hold a lock; wait for whoever has it. For work that ends by itself, such as unpacking or building.

    Args:
        path: the lock's file; made if it is not there.
        what: what the holder does, as `builds in DIR`.
        notice: told at once who is waited for.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            notice(f"waiting for another rtgate (process {_holder(file)}) that {what}")
            fcntl.flock(file, fcntl.LOCK_EX)
        _sign(file)
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
            told = f"{what} is in use by another rtgate (process {_holder(file)}): wait for it"
            raise InfrastructureError(told) from None
        _sign(file)
        yield


def _holder(file: TextIO) -> str:
    file.seek(0)
    return file.read().strip() or "unknown"


def _sign(file: TextIO) -> None:
    file.seek(0)
    file.truncate()
    file.write(str(os.getpid()))
    file.flush()
