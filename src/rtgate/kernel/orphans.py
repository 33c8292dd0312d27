# SPDX-License-Identifier: MIT
"""Trees in the cache whose origin is gone.

A tree with its builds is 1 to 2 GiB, and one is kept for each repository and each patch series, so that the next build
is incremental. When the repository or the series no longer exists there is no next build: the tree is removed before a
new one is made.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from rtgate.errors import InfrastructureError
from rtgate.files import exclusive_lock, write_text

_ORIGINS = ".origins"
_LOCKS = (".build.lock", ".lock")  # in the order in which a build takes them
_BESIDE = (".json", ".index", _ORIGINS)  # what is kept beside a tree


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
    for other in tree.parent.glob(f"*{_ORIGINS}"):
        _remove_orphan(other, notice)
    write_text(note, json.dumps([str(origin) for origin in origins]))


def _remove_orphan(note: Path, notice: Callable[[str], None]) -> None:
    """Remove a tree if an origin of it is gone; one that is in use stays."""
    with suppress(OSError, ValueError, InfrastructureError), ExitStack() as held:
        gone = [origin for origin in map(Path, json.loads(note.read_text(encoding="utf-8"))) if not origin.exists()]
        if not gone:
            return
        for suffix in _LOCKS:
            held.enter_context(exclusive_lock(note.with_suffix(suffix), str(note)))
        notice(f"removing {note.with_suffix('')} from the cache: {gone[0]} is gone")
        shutil.rmtree(note.with_suffix(""), ignore_errors=True)
        for suffix in _BESIDE:
            note.with_suffix(suffix).unlink(missing_ok=True)
