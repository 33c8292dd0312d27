# SPDX-License-Identifier: MIT
"""Critical sections of boots, kept so that no boot is followed twice for the same two kernels.

Following changes nothing, so what is found follows from the boot, the plugin and this program, which is known by its
source. A boot is known by what it was made of and by what it measured.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import os
import time
import zlib
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from rtgate import files, site
from rtgate.errors import InfrastructureError
from rtgate.explain import plugin
from rtgate.explain.sections import BootSections
from rtgate.records.codec import decode
from rtgate.records.record import Record
from rtgate.target.boot_cache import VARIABLE

_PROGRAM = ("explain/*.py", "kernel/*.py", "records/bound.py", "tools/wakeup_bound.py")
"""The modules that find sections and name them, as patterns in the package."""
_LONGEST_S = 30 * 86_400
_MADE_OF = ("qemu", "qemu_sha256", "rootfs", "command", "image_sha256", "initrd_sha256", "plan")


class SectionCache:
    """The sections of boots that are kept in a directory."""

    def __init__(self, directory: Path) -> None:
        """Use what a directory keeps; it need not exist."""
        self._directory = directory
        self._program = program_identity()

    @classmethod
    def open(cls) -> SectionCache | None:
        """Return that of this user, without what is too old; None with `RTGATE_KEEP_BOOTS=no`."""
        if os.environ.get(VARIABLE) == "no":
            return None
        directory = site.cache() / "sections"
        for path in directory.glob("*.gz"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _LONGEST_S:
                    path.unlink()
        return cls(directory)

    def find(self, boot: Record, names: frozenset[str]) -> BootSections | None:
        """Return the sections of a boot, with calls of these functions; None if they are not kept, or damaged."""
        with suppress(OSError, EOFError, zlib.error, ValueError):
            return decode(json.loads(gzip.decompress(self._path(boot, names).read_bytes())), BootSections)
        return None

    def keep(self, boot: Record, names: frozenset[str], sections: BootSections) -> None:
        """Keep what was found; a disk that does not take it costs another boot, no more."""
        with suppress(OSError, InfrastructureError):
            self._directory.mkdir(parents=True, exist_ok=True)
            with files.scratch(self._directory, "staged-") as directory:
                (directory / "kept").write_bytes(gzip.compress(json.dumps(asdict(sections)).encode()))
                (directory / "kept").replace(self._path(boot, names))

    def _path(self, boot: Record, names: frozenset[str]) -> Path:
        machine = {name: boot.machine.get(name) for name in _MADE_OF}
        measurements = [measurement.as_json() for measurement in boot.measurements]
        identity = plugin.identity(str(boot.machine.get("qemu", "")))
        inputs = [self._program, identity, sorted(names), boot.board, boot.case, boot.seed, list(boot.argv)]
        digest = hashlib.sha256(json.dumps([*inputs, machine, measurements]).encode()).hexdigest()
        return self._directory / f"{digest}.gz"


@functools.cache
def program_identity() -> str:
    """Return what tells the modules that find sections from those of another rtgate; of this process, as it began."""
    return source_hash(Path(__file__).parents[1])


def source_hash(package: Path) -> str:
    """Return a hash of what finds sections in a copy of rtgate's package."""
    state = hashlib.sha256()
    for path in sorted(path for pattern in _PROGRAM for path in package.glob(pattern)):
        state.update(f"{path.relative_to(package)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return state.hexdigest()


program_identity()  # now: later the files may be those of another rtgate, and what this process runs is not
