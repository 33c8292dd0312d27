# SPDX-License-Identifier: MIT
"""Files that somebody else wrote: only regular ones, and only of a sane size, are read.

A FIFO has no end until somebody writes to it, and a link to `/dev/zero` has none at all.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rtgate.errors import ConfigError

MIB = 1 << 20
YAML_LIMIT = MIB  # the largest file of rtgate's own has 60 kB
# A record with 8 CPUs and 10 000 filled buckets on each has 2 MB; a soak's chunks are records of their own.
JSON_LIMIT = 64 * MIB
RAW_LIMIT = 256 * MIB  # a tool's output, a console of days


def read_bytes(path: Path, limit: int) -> bytes:
    """Return what a file holds. A link to a regular file is followed.

    Args:
        path: the file.
        limit: how large it may be, in bytes.

    Raises:
        ConfigError: it is not a regular file, or it is larger.
        OSError: it is not there, or may not be read.
    """
    # O_NONBLOCK: opening a FIFO waits for a writer. Regular files ignore it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(f"{path}: cannot be read: not a regular file: put a file there, or remove it")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            data = stream.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise ConfigError(f"{path}: larger than {limit // MIB} MiB: no file of this kind is; remove or replace it")
    return data


def read_text(path: Path, limit: int) -> str:
    """Return what a file holds as text. Raises as `read_bytes`, and UnicodeDecodeError: it is not UTF-8."""
    return read_bytes(path, limit).decode("utf-8")


def damage(error: Exception) -> str:
    """Say what is wrong with JSON that a program of ours wrote, from what reading it raised."""
    if isinstance(error, KeyError) and error.args:
        return f"field `{error.args[0]}` is missing"
    return f"{error}" or type(error).__name__
