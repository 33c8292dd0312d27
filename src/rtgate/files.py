# SPDX-License-Identifier: MIT
"""Files: read if regular and of a sane size, written in one step, locked; checksums; directories of a process; room.

A FIFO has no end until somebody writes to it, and a link to `/dev/zero` has none at all. The kernel releases a lock
when its process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from rtgate.durations import Deadline
from rtgate.errors import ConfigError, DeadlineError, InfrastructureError

MIB = 1 << 20
YAML_LIMIT = MIB  # the largest file of rtgate's own has 60 kB
# A record with 8 CPUs and 10 000 filled buckets on each has 2 MB; a soak's chunks are records of their own.
JSON_LIMIT = 64 * MIB
RAW_LIMIT = 256 * MIB  # a tool's output, a console of days
# The CRC of `cksum` is zlib's with all bits the other way round.
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LOCK_S = 4 * 3600.0  # longer than a cold build of a distribution's kernel on two cores


def remove_tree(path: Path) -> None:
    """Remove a directory with all in it, also where it takes its owner's rights away. Raises OSError if that fails.

    By programs: they take a tree that is deeper than a path may be long, or than Python may call itself.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    subprocess.run(["chmod", "-R", "u+rwX", "--", path], capture_output=True, check=False)  # what fails, rm says
    done = subprocess.run(["rm", "-rf", "--", path], capture_output=True, text=True, check=False)
    if done.returncode or os.path.lexists(path):
        raise OSError(done.stderr.strip()[:300] or f"{path} is still there")


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
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(_irregular(path))
        data = _read(descriptor, status.st_size, limit + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise ConfigError(f"{path}: larger than {limit // MIB} MiB: no file of this kind is; remove or replace it")
    return data


def require_regular(path: Path) -> None:
    """Check what another program is going to read. A link to a regular file is one. Raises ConfigError."""
    if not path.is_file():
        raise ConfigError(_irregular(path))


def _read(descriptor: int, size: int, most: int) -> bytes:
    """Return what is left of a file, at most so much. To ask at once for what a file may hold costs its memory."""
    parts: list[bytes] = []
    while part := os.read(descriptor, min(size + 1, most)):
        parts.append(part)
        most -= len(part)
        size = 1 << 16  # it grows, or does not say what it holds, as below /proc
    return b"".join(parts)


def read_text(path: Path, limit: int) -> str:
    """Return what a file holds as text. Raises as `read_bytes`, and UnicodeDecodeError: it is not UTF-8."""
    return read_bytes(path, limit).decode("utf-8")


def _irregular(path: Path) -> str:
    return f"{path}: cannot be read: not a regular file: put a file there, or remove it"


def damage(error: Exception) -> str:
    """Say what is wrong with JSON that a program of ours wrote, from what reading it raised."""
    if isinstance(error, KeyError) and error.args:
        return f"field `{error.args[0]}` is missing"
    return f"{error}" or type(error).__name__


def write_text(path: Path, text: str, *, private: bool = False) -> None:
    """Write a file in one step: who reads it meanwhile finds the former one, and so does who is killed meanwhile.

    Args:
        path: the file.
        text: what it holds afterwards.
        private: nobody but its owner may read it.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.writing")
    try:
        if private:
            draft.unlink(missing_ok=True)
            draft.touch(mode=0o600, exist_ok=False)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def writing(path: Path, remedy: str = "") -> Iterator[None]:
    """Say what cannot be written within the block, and what to do.

    Raises:
        InfrastructureError: the disk is full, for one.
    """
    try:
        yield
    except OSError as error:
        advice = f": {remedy}" if remedy else ""
        raise InfrastructureError(f"{path} cannot be written: {error.strerror or error}{advice}") from error


def write_user_file(path: Path, text: str) -> None:
    """Write a file that somebody named, which may be a device. Raises InfrastructureError: it cannot be written."""
    with writing(path):
        path.write_text(text, encoding="utf-8")


def copy(path: Path, to: Path) -> None:
    """Copy what a file holds in one step, as `write_text` writes. Raises OSError."""
    draft = to.with_name(f".{to.name}.{os.getpid()}.writing")
    try:
        shutil.copyfile(path, draft)
        draft.replace(to)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def require_free_space(directory: Path, needed_mib: int = 64) -> None:
    """Check that a directory's disk has room before an hour of measuring starts. Raises InfrastructureError."""
    place = directory
    while not place.exists():
        place = place.parent
    status = os.statvfs(place)
    free = status.f_bavail * status.f_frsize // (1 << 20)
    if free < needed_mib:
        text = f"{place} has {free} MiB left, records need {needed_mib} MiB: make room or choose another directory"
        raise InfrastructureError(text)


@contextmanager
def waiting_lock(
    path: Path, what: str, notice: Callable[[str], None] = lambda _: None, *, patience_s: float = LOCK_S
) -> Iterator[None]:
    """Hold a lock; wait for whoever has it. For work that ends by itself, such as unpacking or building.

    Args:
        path: the lock's file; made if it is not there.
        what: what the holder does, as `builds in DIR`.
        notice: told at once who is waited for.
        patience_s: how long to wait.

    Raises:
        DeadlineError: the other process has not ended by then.
        InfrastructureError: the file cannot be made.
    """
    with _lock_file(path) as file:
        if not _try_lock(file):
            notice(f"waiting for another rtgate (process {_holder(file)}) that {what}")
            deadline = Deadline.after(patience_s)
            while not _try_lock(file):
                if deadline.expired:
                    raise DeadlineError(
                        f"another rtgate (process {_holder(file)}) that {what} has held {path} for {patience_s:.0f} s: "
                        "end that process, and try again"
                    )
                time.sleep(deadline.sooner(0.1))
        _sign(file)
        yield


@contextmanager
def exclusive_lock(path: Path, what: str) -> Iterator[None]:
    """Hold a lock, or say who has it.

    Raises:
        InfrastructureError: another process has it, as two builds in one directory would destroy each other; or the
            file cannot be made.
    """
    with _lock_file(path) as file:
        if not _try_lock(file):
            raise InfrastructureError(f"{what} is in use by another rtgate (process {_holder(file)}): wait for it")
        _sign(file)
        yield


def _lock_file(path: Path) -> TextIO:
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+")


def _try_lock(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: TextIO) -> str:
    file.seek(0)
    return file.read().strip() or "unknown"


def _sign(file: TextIO) -> None:
    file.seek(0)
    file.truncate()
    file.write(str(os.getpid()))
    file.flush()


@contextmanager
def scratch(parent: Path, prefix: str) -> Iterator[Path]:
    """Yield a new directory, and remove it; first remove those of this prefix that a killed process has left.

    A process holds a lock on its own, so those that nobody holds are left over.

    Args:
        parent: what the directory is in; made if it is not there.
        prefix: what its name begins with.

    Raises:
        InfrastructureError: there is no room, or `parent` cannot be written.
    """
    try:
        parent.mkdir(parents=True, exist_ok=True)
        tidy(parent, prefix)
        place, lock = _made(parent, prefix)
    except OSError as error:
        raise InfrastructureError(f"cannot write {parent}: {error.strerror}") from error
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
                lock = os.open(place, _DIRECTORY)
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
            lock = os.open(place, _DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(place)
            finally:
                os.close(lock)


def short_hash(text: str) -> str:
    """Return a hash short enough for a file name."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def cksum(data: bytes) -> int:
    """Return the checksum of the `cksum` utility (POSIX.1-2017, XCU: CRC-32 of the data followed by its length)."""
    length = len(data).to_bytes((len(data).bit_length() + 7) // 8, "little")
    crc = zlib.crc32((data + length).translate(_REVERSED), 0xFFFFFFFF)
    return int(f"{crc:032b}"[::-1], 2)
