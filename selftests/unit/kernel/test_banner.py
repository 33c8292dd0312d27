# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.kernel import banner

UNAME = b"#1 SMP PREEMPT_RT Mon Jan  1 00:00:00 UTC 2024"
BANNER = b"Linux version 6.12.117 (rtgate@rtgate) (gcc (Debian 12.2.0-14) 12.2.0, GNU ld 2.40) " + UNAME + b"\n"
# linux_proc_banner, which holds no version.
FORMAT = b"%s version %s (rtgate@rtgate) (gcc 12.2.0) %s\n\0"


def x86(text: bytes) -> bytes:
    """A boot sector's header as arch/x86/boot/header.S lays it out, and a compressed kernel."""
    header = bytearray(0x400)
    header[0x202:0x206] = b"HdrS"
    header[0x20E:0x210] = (0x180).to_bytes(2, "little")
    return bytes(header[:0x380]) + text + b"\0" + BANNER.replace(b"#1", b"#9")


@pytest.mark.parametrize(
    ("data", "version"),
    [
        (bytes(64) + FORMAT + BANNER + b"\0", UNAME.decode()),
        (x86(b"6.12.117 (rtgate@rtgate) " + UNAME), UNAME.decode()),
        (b"\x1f\x8b" + bytes(100), ""),
        (b"", ""),
    ],
    ids=["arm64", "x86", "compressed", "empty"],
)
def test_what_a_kernel_will_say_of_itself(tmp_path: Path, data: bytes, version: str) -> None:
    (tmp_path / "Image").write_bytes(data)
    assert banner.version(tmp_path / "Image") == version


def test_an_image_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        banner.version(tmp_path / "Image")
