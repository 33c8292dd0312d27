# SPDX-License-Identifier: MIT
"""Reads archives of the format `newc`, as the kernel does: rtgate itself only writes them."""

from __future__ import annotations

from collections.abc import Iterator

from rtgate.rootfs.cpio import Entry

_MAGIC, _HEADER_SIZE, _TRAILER = b"070701", 110, "TRAILER!!!"


def unpack(archive: bytes) -> Iterator[Entry]:
    """Yield the entries of an archive, up to its end mark.

    Raises:
        ValueError: the bytes are not such an archive, or it is cut short.
    """
    offset = 0
    while True:
        header = archive[offset : offset + _HEADER_SIZE]
        if len(header) < _HEADER_SIZE or not header.startswith(_MAGIC):
            raise ValueError(f"no entry of a newc archive at offset {offset}")
        fields = [int(header[start : start + 8], 16) for start in range(6, _HEADER_SIZE, 8)]
        mode, size, major, minor, name_size = fields[1], fields[6], fields[9], fields[10], fields[11]
        name_end = offset + _HEADER_SIZE + name_size
        name = archive[offset + _HEADER_SIZE : name_end - 1].decode("utf-8", "surrogateescape")
        if name == _TRAILER:
            return
        start = name_end + -name_end % 4
        if start + size > len(archive):
            raise ValueError(f"{name}: the archive is cut short")
        yield Entry(name, mode, archive[start : start + size], (major, minor))
        offset = start + size + -(start + size) % 4
