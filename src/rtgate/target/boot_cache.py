# SPDX-License-Identifier: MIT
"""Consoles of virtual-time boots, kept so that no boot has to be made twice.

All that a virtual-time boot prints follows from QEMU, its arguments, the kernel's image and the initramfs with plan and
seed in it. So what a measured boot printed is kept under a digest of all of these, and who asks for the same boot gets
the same bytes: the baseline of a hundred merge requests is booted once.

That virtual time repeats is also what must be proven again and again:

* of twelve seeds of a case one is made all the same, every day another one, and must be reproduced exactly;
* a run takes nothing that was kept after it began, and nothing twice: of two equal boots one is made;
* after the first boot that differs a run takes nothing any more.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import os
import re
import shutil
import tempfile
import threading
import time
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rtgate import site
from rtgate.target import boot_digests

VARIABLE = "RTGATE_KEEP_BOOTS"
AGAIN_EVERY = 12
_FORMAT = "1"
_DAY_S = 86_400
_LONGEST_S = 30 * _DAY_S
_LARGEST_BYTES = 2 << 30
_PARTS = ("share/qemu", "share/seabios", "share/qemu-efi-aarch64", "lib/qemu", "lib/*/qemu")  # beside QEMU's bin/


@dataclass(frozen=True, slots=True)
class CachedBoot:
    """A boot that was made before.

    Attributes:
        booted: when, in UTC.
        seconds: what it took this host then, by step.
    """

    console: bytes
    booted: str
    seconds: Mapping[str, float]


class BootCache:
    """The consoles that are kept in a directory, as one run uses them: it remembers what it has taken."""

    def __init__(self, directory: Path, began: float, *, again: bool = False) -> None:
        """Use what a directory keeps.

        Args:
            directory: need not exist.
            began: when the run began, in seconds since the epoch: it takes nothing younger.
            again: make every boot, and compare it with what is kept.
        """
        self._directory = directory
        self._began = began
        self._again = again
        self._taken: set[str] = set()
        self._made: set[str] = set()  # by this run: the clock that files are dated by may step back
        self._differed = threading.Event()
        self._lock = threading.Lock()

    @classmethod
    def open(cls, *, again: bool) -> BootCache | None:
        """Return those of this user, without what is too old or too much; None with `RTGATE_KEEP_BOOTS=no`."""
        if os.environ.get(VARIABLE) == "no":
            return None
        directory = site.cache() / "boots"
        _tidy(directory)
        return cls(directory, time.time(), again=again)

    def find(self, digest: str) -> CachedBoot | None:
        """Return the boot of a digest; None if it was not made before this run, or cannot be read."""
        path = self._path(digest)
        with suppress(OSError, EOFError, zlib.error, ValueError, KeyError):
            if digest in self._made or path.stat().st_mtime >= self._began:
                return None
            head, _, console = gzip.decompress(path.read_bytes()).partition(b"\n")
            facts = json.loads(head)
            return CachedBoot(console, str(facts["booted"]), {step: float(s) for step, s in facts["seconds"].items()})
        return None

    def keep(self, digest: str, console: bytes, seconds: Mapping[str, float]) -> None:
        """Keep what a boot printed; a disk that does not take it costs another boot, no more."""
        self._made.add(digest)
        boot_time = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        head = json.dumps({"booted": boot_time, "seconds": dict(seconds)}).encode()
        with suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._directory)
            try:
                with os.fdopen(handle, "wb") as stream:
                    stream.write(gzip.compress(head + b"\n" + console))
                Path(name).replace(self._path(digest))
            finally:
                Path(name).unlink(missing_ok=True)

    def differs(self, digest: str) -> None:
        """Remove what did not repeat; from now on this run makes every boot."""
        self._differed.set()
        with suppress(OSError):
            self._path(digest).unlink(missing_ok=True)

    def is_due(self, digest: str, case: str, seed: int) -> bool:
        """Return whether a boot is made although it is known."""
        with self._lock:
            twice = digest in self._taken
            self._taken.add(digest)
        today = (int(self._began // _DAY_S) + seed + zlib.crc32(case.encode())) % AGAIN_EVERY == 0
        return today or twice or self._again or self._differed.is_set()

    def _path(self, digest: str) -> Path:
        return self._directory / f"{digest}.gz"


def digest(program: str, command: str, extra: bytes, files: Iterable[Path]) -> str:
    """Return what names a boot: the digest of everything from which its console follows.

    Args:
        program: QEMU's name.
        command: its command line, without names of temporary files.
        extra: what the initramfs gets for this boot: the plan.
        files: what else the guest gets: the kernel's image, the initramfs of all boots.

    Raises:
        InfrastructureError: a file cannot be read.
    """
    binary = shutil.which(program)
    paths = [word for word in re.split(r"[\s,=:]", command) if word.startswith("/") and Path(word).is_file()]
    whole = [*([binary] if binary else []), *map(str, files), *paths]
    parts = [_FORMAT, command, hashlib.sha256(extra).hexdigest(), *_parts(binary or "")]
    parts += [boot_digests.sha256(Path(path)) for path in whole]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def difference(old_console: bytes, now: bytes) -> str:
    """Return where two consoles differ first, as people can look for it; empty if they do not."""
    if old_console == now:
        return ""
    before, after = old_console.split(b"\n"), now.split(b"\n")
    number = next(
        (i for i, (old_line, new_line) in enumerate(zip(before, after, strict=False)) if old_line != new_line), None
    )
    if number is None:
        return f"it has {len(after)} lines, and had {len(before)}"
    excerpts = (line[:80].decode("utf-8", errors="replace").strip() for line in (before[number], after[number]))
    return "line {} of the console was {!r} and is {!r}".format(number + 1, *excerpts)


def _state(path: str | Path) -> tuple[int, int]:
    status = Path(path).stat()
    return status.st_size, status.st_mtime_ns


@functools.cache
def _parts(program: str) -> tuple[str, ...]:
    """Return QEMU's own modules and the firmware that it may give a guest, each with what changes when it does."""
    beside = Path(program).parent.parent
    paths = [path for part in _PARTS for path in sorted(beside.glob(f"{part}/*")) if path.is_file()]
    return tuple(f"{path} {_state(path)}" for path in paths)


def _tidy(directory: Path) -> None:
    """Remove what is too old, and the oldest of what is too much."""
    with suppress(OSError):
        entries = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in directory.glob("*"))
        surplus = sum(size for _, size, _ in entries) - _LARGEST_BYTES
        for mtime, size, path in entries:
            if surplus <= 0 and time.time() - mtime < _LONGEST_S:
                return
            path.unlink(missing_ok=True)
            surplus -= size
