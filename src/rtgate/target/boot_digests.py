# SPDX-License-Identifier: MIT
"""What QEMU is handed, by digest: the record says what booted, and not what somebody asked for."""

from __future__ import annotations

import functools
import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path

from rtgate.errors import ChangedError, InfrastructureError
from rtgate.kernel import artefacts


def sha256(path: Path) -> str:
    """Return a file's SHA-256; it is read once in each state of its inode.

    That is enough for a file that nobody rewrites, as a run's own copy of a kernel, and for QEMU, which is replaced and
    not written in place. A size and times prove nothing of a file that anybody may write.

    Raises:
        InfrastructureError: it cannot be read.
    """
    try:
        status = path.stat()
        return _of(str(path), (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    except OSError as error:
        raise InfrastructureError(f"{path} cannot be read: {error.strerror}") from error


@functools.lru_cache(maxsize=64)
def _of(path: str, _stamp: tuple[int, ...]) -> str:
    return artefacts.sha256(Path(path))


def program(binary: str) -> str:
    """Return the SHA-256 of the QEMU that a name stands for; empty if there is none. Raises as `sha256`."""
    path = shutil.which(binary)
    return sha256(Path(path).resolve()) if path else ""


def device_tree(argv: Sequence[str]) -> dict[str, str]:
    """Return the digest of the device tree that QEMU's command line names, if it names one. Raises as `sha256`."""
    path = dict(itertools.pairwise(argv)).get("-dtb")
    return {"dtb_sha256": sha256(Path(path))} if path else {}


def check_unchanged(what: str, path: object, original: str, digest: str) -> None:
    """Check that a boot got what the run began with; nothing is expected where nobody knows.

    Raises:
        ChangedError: it got something else.
    """
    if original and digest != original:
        raise ChangedError(
            f"{what} changed while it was measured: {path} had SHA-256 {original[:12]} when the run began, and has "
            f"{digest[:12]} now: find out who writes there, and measure again"
        )
