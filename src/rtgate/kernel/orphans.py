# SPDX-License-Identifier: MIT
"""Trees in the cache whose origin is gone.

A tree with its builds is 1 to 2 GiB, and one is kept for each repository and each patch series, so that the next build
is incremental. When the repository or the series no longer exists there is no next build: the tree is removed before a
new one is made. Not at once, as what is not there may only be out of sight: another container shares the cache, a disk
is not mounted, another branch is checked out.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from rtgate.errors import InfrastructureError
from rtgate.files import exclusive_lock, write_text

UNUSED_S = 6 * 3600
_ORIGINS = ".origins"
_LOCKS = (".build.lock", ".lock")  # in the order in which a build takes them
_PROOFS = (".json", ".index")  # that a tree is what it should be


def note_origins(tree: Path, *origins: Path, notice: Callable[[str], None] = lambda _: None) -> None:
    """Note what a tree is made from; before the first note, remove the trees beside it whose origin is gone.

    Args:
        tree: a directory in the cache, which the caller has locked.
        origins: the repository, the directory with patches.
        notice: told what is removed.

    Raises:
        InfrastructureError: the note cannot be written.
    """
    note = tree.with_suffix(_ORIGINS)
    if note.is_file():
        return
    for neighbour in tree.parent.glob(f"*{_ORIGINS}"):
        if time.time() - _last_use(neighbour) > UNUSED_S and _gone(neighbour):
            _remove(neighbour, notice)
    try:
        write_text(note, json.dumps([str(origin.absolute()) for origin in origins]))
    except OSError as error:
        raise InfrastructureError(f"{note} cannot be written: {error.strerror}") from error


def _last_use(note: Path) -> float:
    """Return when a tree was last built or changed: both sign its locks."""
    times = [0.0]
    for suffix in (*_LOCKS, _ORIGINS):
        with suppress(OSError):
            times.append(note.with_suffix(suffix).stat().st_mtime)
    return max(times)


def _gone(note: Path) -> Path | None:
    """Return an origin of a tree that is not there; None if all are, or nobody knows."""
    try:
        origins = [Path(text) for text in json.loads(note.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return None
    return next((origin for origin in origins if origin.is_absolute() and not origin.exists()), None)


def _remove(note: Path, notice: Callable[[str], None]) -> None:
    """Remove a tree, unless it is in use or its origin is back; last the note, so that a rest is removed next time."""
    tree = note.with_suffix("")
    with suppress(OSError, InfrastructureError), ExitStack() as locks:
        for suffix in _LOCKS:
            locks.enter_context(exclusive_lock(note.with_suffix(suffix), str(tree)))
        origin = _gone(note)
        if origin is None:
            return
        notice(f"removing {tree} from the cache: {origin} is gone")
        for suffix in _PROOFS:
            note.with_suffix(suffix).unlink(missing_ok=True)
        shutil.rmtree(tree)
        note.unlink()
