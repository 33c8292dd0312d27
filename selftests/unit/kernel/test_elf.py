# SPDX-License-Identifier: MIT
"""What pyelftools raises of damaged files, and where it does: the table of sections says how much is read."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.kernel import build_id
from rtgate.kernel.elf import DamagedElfError, open_elf, read_elf
from rtgate.kernel.modules import information
from rtgate.kernel.source_lines import source_lines
from rtgate.kernel.vmlinux import Vmlinux

from .linked import linked

SIZE = 0x20  # of a section, in its entry (Elf64_Shdr)
OFFSET = 0x18
TOO_LARGE = {"memory": 1 << 60, "index": 1 << 63, "all bits": (1 << 64) - 1}


@pytest.mark.parametrize(
    "error", [AssertionError(), AttributeError("x"), MemoryError(), OverflowError("x"), KeyError("x"), OSError(22, "x")]
)
def test_whatever_reading_raises_is_one_error_that_says_what_it_was(error: Exception) -> None:
    minimal = bytearray(0x40)
    minimal[:7] = b"\x7fELF\x02\x01\x01"
    with (
        pytest.raises(
            DamagedElfError, match=rf"^a: damaged: {str(error)[:3] or type(error).__name__}".replace("[", r"\[")
        ),
        read_elf(io.BytesIO(minimal), "a: damaged"),
    ):
        raise error


def test_what_is_not_there_is_not_damaged(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match="cannot be read: No such file") as caught,
        open_elf(tmp_path / "a", "damaged"),
    ):
        pass
    assert not isinstance(caught.value, DamagedElfError)


@pytest.mark.parametrize("field", [OFFSET, SIZE])
@pytest.mark.parametrize("value", TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_section_that_is_larger_than_everything_ends_nothing(field: int, value: int, tmp_path: Path) -> None:
    """Each of the sections in turn, for each who reads ELF files."""
    path = linked("x86_64", tmp_path, "one", "-g", "-Wl,--build-id=sha1", a="int f(int x) { return x + 1; }")
    addresses = [symbol.address for symbol in Vmlinux(path).symbols if symbol.function]
    good = path.read_bytes()
    (table,), (count,) = struct.unpack_from("<Q", good, 0x28), struct.unpack_from("<H", good, 0x3C)
    damaged = 0
    for number in range(count):
        data = bytearray(good)
        struct.pack_into("<Q", data, table + 0x40 * number + field, value)
        path.write_bytes(data)
        for read in (lambda: Vmlinux(path), lambda: source_lines(path, addresses)):
            try:
                read()
            except DamagedElfError:
                damaged += 1
        assert isinstance(build_id.of_kernel(path, path), str)
        assert isinstance(information(path), dict)
    assert damaged
