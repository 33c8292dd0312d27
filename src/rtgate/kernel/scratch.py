# SPDX-License-Identifier: MIT
"""Directories of one process, which holds a lock on each: what nobody holds is left by one that was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch(parent: Path, prefix: str) -> Iterator[Path]:
    """Yield a new directory in `parent`, and remove it; first remove those of this prefix that nobody holds.

    Raises:
        OSError: there is no room, or `parent` cannot be written.
    """
    parent.mkdir(parents=True, exist_ok=True)
    tidy(parent, prefix)
    place, lock = _made(parent, prefix)
    try:
        yield place
    finally:
        _remove(place)
        os.close(lock)


def _remove(place: Path) -> None:
    """Remove a directory, also if Ctrl-C comes meanwhile."""
    try:
        shutil.rmtree(place, ignore_errors=True)
    except KeyboardInterrupt:
        shutil.rmtree(place, ignore_errors=True)
        raise


def _made(parent: Path, prefix: str) -> tuple[Path, int]:
    while True:
        place = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            with contextlib.suppress(FileNotFoundError):
                lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
                fcntl.flock(lock, fcntl.LOCK_SH)
                if place.exists():  # else somebody tidied before it was locked
                    return place, lock
                os.close(lock)
        except KeyboardInterrupt:
            _remove(place)
            raise


def tidy(parent: Path, prefix: str) -> None:
    """Remove the directories of this prefix in `parent` that nobody holds."""
    for place in parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):  # held, or another tidies as well
            lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(place)
            finally:
                os.close(lock)
