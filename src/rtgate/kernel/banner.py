# SPDX-License-Identifier: MIT
"""What a kernel will say of itself when it runs, read from its image: `uname -v`."""

from __future__ import annotations

import re
from pathlib import Path

from rtgate.errors import ConfigError

# init/version-timestamp.c's linux_banner, in an image that is not compressed.
_BANNER = re.compile(rb"Linux version \S+ \([^\n\0]{1,1000}? (#\d[^\n\0]{0,200})\n")
# arch/x86/boot/header.S: kernel_version, at this offset of the header, is where its text begins less 0x200.
_HEADER, _VERSION_AT, _SECTOR = b"HdrS", 0x20E, 0x200
_X86 = re.compile(rb"\S+ \([^\0]{1,200}?\) (#\d[^\0]{0,200})\0")


def version(image: Path) -> str:
    """Return `uname -v` of the kernel in an image, empty where it does not show. Raises ConfigError: it cannot be read.

    arm64's `Image` holds it as text, x86's `bzImage` in its header; what is compressed as a whole shows nothing.
    """
    try:
        data = image.read_bytes()
    except OSError as error:
        raise ConfigError(f"{image}: cannot be read: {error.strerror}") from error
    if data[0x202:0x206] == _HEADER:
        start = int.from_bytes(data[_VERSION_AT : _VERSION_AT + 2], "little") + _SECTOR
        match = _X86.match(data, start)
    else:
        match = _BANNER.search(data)
    return match[1].decode(errors="replace") if match else ""
