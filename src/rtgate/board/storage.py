# SPDX-License-Identifier: MIT
"""Storage that a board's file declares free to overwrite: which NVMe disk, what of it, and how it is used."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from rtgate.units import mib

if TYPE_CHECKING:
    from rtgate.strict_yaml import Value

FILE = "test"  # the name of the test file, or of the link to the raw device, in the storage's directory
MARK = "rtgate scratch"  # what storage begins with that rtgate has taken
RESERVED = 1 << 20  # bytes at the start of a raw device that no tool writes to: the mark is there
ENGINES = ("libaio", "psync")
SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq")
_MIB = 1 << 20


class FileSystem(Enum):
    """What is made on the storage before each measurement."""

    EXT4 = "ext4"
    F2FS = "f2fs"
    NONE = "none"  # the raw device


class Overwrite(Enum):
    """What of the disk is free to overwrite."""

    DISK = "disk"
    PARTITION = "partition"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The storage that measurements may overwrite.

    Attributes:
        serial: of the disk, as `/sys/block/nvme0n1/device/serial` has it.
        model: of the disk; empty for any.
        overwrite: what of the disk is free.
        name: the partition's name in the GPT, or the file's path; empty for a whole disk.
        file_system: made anew before each measurement; NONE for a file, whose file system is already there.
        engine: fio's I/O engine: `libaio`, or `psync`, which is slower and called so.
        size_mib: of the test file; 0 for that of the tool.
        scheduler: the kernel's I/O scheduler of the disk; empty to leave the one that it has.
    """

    serial: str
    model: str
    overwrite: Overwrite
    name: str
    file_system: FileSystem
    engine: str = "libaio"
    size_mib: int = 0
    scheduler: str = ""

    @property
    def is_raw(self) -> bool:
        """Whether tools write to the device itself, with no file system on it."""
        return self.overwrite is not Overwrite.FILE and self.file_system is FileSystem.NONE

    def path(self, directory: str) -> str:
        """Return the file or the link to a device that a tool writes to.

        Args:
            directory: the board's work directory; file systems are mounted below it.
        """
        return self.name if self.overwrite is Overwrite.FILE else f"{directory}/nvme/{FILE}"

    def size(self, usual: int) -> int:
        """Return the size of the test file in bytes; `usual` is that of the tool."""
        return self.size_mib * _MIB or usual


def read(value: Value) -> Storage:
    """Read the key `nvme` of a board's file. Raises ConfigError."""
    optional = ("model", "filesystem", "engine", "size", "scheduler")
    data = value.mapping(required=("serial", "overwrite"), optional=optional)
    overwrite, name = _overwrite(data["overwrite"])
    if overwrite is Overwrite.FILE and "filesystem" in data:
        data["filesystem"].fail("a file lies in a file system that is there already: leave out filesystem")
    if overwrite is not Overwrite.FILE and "filesystem" not in data:
        choices = ", ".join(system.value for system in FileSystem)
        value.fail(f"missing key 'filesystem', which is made on the {overwrite.value} (allowed: {choices})")
    return Storage(
        serial=_identity_text(data["serial"]),
        model=_identity_text(data["model"]) if "model" in data else "",
        overwrite=overwrite,
        name=name,
        file_system=FileSystem(data.text("filesystem", "none", [system.value for system in FileSystem])),
        engine=data.text("engine", ENGINES[0], ENGINES),
        size_mib=_size(data["size"]) if "size" in data else 0,
        scheduler=data.text("scheduler", "", SCHEDULERS),
    )


def _overwrite(value: Value) -> tuple[Overwrite, str]:
    data = value.mapping(optional=[part.value for part in Overwrite])
    if len(list(data)) != 1:
        value.fail("say what is free to overwrite: disk: true, partition: NAME, or file: PATH")
    kind = Overwrite(next(iter(data)))
    declaration = data[kind.value]
    if kind is Overwrite.DISK:
        if not declaration.flag():
            declaration.fail("a disk that is not free to overwrite is not named here (allowed: true)")
        return kind, ""
    pattern, example = _NAMES[kind]
    if not re.fullmatch(pattern, declaration.text()):
        declaration.fail(f"{declaration.text()!r} is not a name of a {kind.value} (allowed: {example})")
    return kind, declaration.text()


# fio takes a colon in a file's name for the start of another one. A GPT has 36 characters for a name.
_NAMES = {
    Overwrite.PARTITION: (r"[A-Za-z0-9_.-]{1,36}", "up to 36 letters, digits, '_', '-', '.': its name in the GPT"),
    Overwrite.FILE: (r"(?:/(?!\.)[A-Za-z0-9_.-]{1,100}){2,10}", "an absolute path of letters, digits, '_', '-', '.'"),
}


def _identity_text(value: Value) -> str:
    """Return what a disk says of itself: printable ASCII (NVMe base specification, Identify Controller)."""
    text = value.text()
    if not re.fullmatch(r"[!-~](?:[ -~]{0,38}[!-~])?", text):
        value.fail(f"{text!r} is nothing that a disk says (allowed: up to 40 printable ASCII characters)")
    return text


def _size(value: Value) -> int:
    size = value.parse(mib)
    if not 16 <= size <= 1 << 20:
        value.fail(f"{value.text()!r} is not a size of a test file (allowed: 16 MiB to 1024 GiB)")
    return size
