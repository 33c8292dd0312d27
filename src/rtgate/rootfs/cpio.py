# SPDX-License-Identifier: MIT
"""Archives in the format `newc`, the one that the Linux kernel unpacks as its first root filesystem.

Written here because device nodes cannot be made on disk without root, and because the same content must give
the same bytes: entries are sorted, owned by root, numbered from 1 and dated 1970.
"""

from __future__ import annotations

import stat
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAGIC = b"070701"
_TRAILER = "TRAILER!!!"
_MAX_SIZE = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, directory, symbolic link or device node; `mode` holds its type and permissions."""

    name: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        parts = self.name.split("/")
        if any(part in {"", ".", ".."} for part in parts) or "\0" in self.name or self.name == _TRAILER:
            raise ValueError(f"{self.name!r} is not a name relative to the root directory")
        if len(self.data) > _MAX_SIZE:
            raise ValueError(f"{self.name}: larger than 4 GiB")

    @property
    def target(self) -> str:
        """Return what a symbolic link points to."""
        return self.data.decode("utf-8", "surrogateescape")


def file(name: str, data: bytes, mode: int = 0o644) -> Entry:
    """Return a regular file."""
    return Entry(name, stat.S_IFREG | mode, data)


def directory(name: str, mode: int = 0o755) -> Entry:
    """Return a directory."""
    return Entry(name, stat.S_IFDIR | mode)


def symlink(name: str, target: str) -> Entry:
    """Return a symbolic link."""
    return Entry(name, stat.S_IFLNK | 0o777, target.encode("utf-8", "surrogateescape"))


def character_device(name: str, major: int, minor: int, mode: int = 0o600) -> Entry:
    """Return the node of a character device."""
    return Entry(name, stat.S_IFCHR | mode, device=(major, minor))


def with_parents(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries and every directory above them that is not among them.

    Raises:
        ValueError: a name stands twice, or lies below something that is not a directory.
    """
    by_name: dict[str, Entry] = {}
    for entry in entries:
        if entry.name in by_name:
            raise ValueError(f"{entry.name} stands twice in the archive")
        by_name[entry.name] = entry
    for name in tuple(by_name):
        parts = name.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            parent = by_name.setdefault("/".join(parts[:depth]), directory("/".join(parts[:depth])))
            if not stat.S_ISDIR(parent.mode):
                raise ValueError(f"{name} lies below {parent.name}, which is not a directory")
    return list(by_name.values())


def pack(entries: Iterable[Entry]) -> bytes:
    """Return an archive of the entries and of the directories above them, padded to four bytes.

    Raises:
        ValueError: as `with_parents`.
    """
    chunks = []
    # Sorted by the parts of the name, a directory stands before what it holds.
    for inode, entry in enumerate(sorted(with_parents(entries), key=lambda entry: entry.name.split("/")), start=1):
        chunks.append(_encode(entry, inode))
    chunks.append(_encode_raw(_TRAILER, (0, 0), 0, b"", (0, 0)))
    return b"".join(chunks)


def _encode(entry: Entry, inode: int) -> bytes:
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    return _encode_raw(entry.name, (inode, links), entry.mode, entry.data, entry.device)


def _encode_raw(name: str, inode_links: tuple[int, int], mode: int, data: bytes, device: tuple[int, int]) -> bytes:
    inode, links = inode_links
    raw_name = name.encode("utf-8", "surrogateescape") + b"\0"
    # inode, mode, uid, gid, links, mtime, size, device of the filesystem (two), of the node (two), name, checksum
    fields = (inode, mode, 0, 0, links, 0, len(data), 0, 0, *device, len(raw_name), 0)
    header = _MAGIC + b"".join(b"%08X" % number for number in fields)
    return _pad(header + raw_name) + _pad(data)


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def compress(archive: bytes) -> bytes:
    """Return the archive compressed by gzip, without name and date, padded to four bytes.

    The padding lets another archive follow: the kernel looks for the next one only at a multiple of four.
    """
    # The header is written here because libraries differ in the byte that names the operating system.
    header = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(archive) + deflate.flush()
    trailer = zlib.crc32(archive).to_bytes(4, "little") + (len(archive) & 0xFFFFFFFF).to_bytes(4, "little")
    return _pad(header + body + trailer)
