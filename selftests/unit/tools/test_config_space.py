# SPDX-License-Identifier: MIT
from __future__ import annotations

import contextlib
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.pci import EXPRESS_AT, space

from rtgate.errors import ParseError
from rtgate.tools import config_space
from rtgate.tools.config_space import ConfigSpace, Express, LinkEnd


def changed(data: bytes, *changes: tuple[int, int]) -> bytes:
    found = bytearray(data)
    for offset, value in changes:
        found[offset] = value
    return bytes(found)


def test_a_function_with_a_link() -> None:
    found = config_space.read(space(link=(1, 2), most=(4, 16), aspm=2, sizes=(1, 2, 5)))
    link = LinkEnd(generation=1, width=2, most_generation=4, most_width=16, aspm=2)
    express = Express(mps=256, mrrs=4096, link=link)
    assert found == ConfigSpace(id="144d:a808", express=express)


@pytest.mark.parametrize("link", [(0, 0), (6, 32), (15, 63)])
def test_every_field_of_a_link_is_read_whole(link: tuple[int, int]) -> None:
    found = config_space.read(space(link=link, most=link))
    assert found is not None
    assert found.express is not None
    assert found.express.link == LinkEnd(
        generation=link[0], width=link[1], most_generation=link[0], most_width=link[1], aspm=0
    )


def test_conventional_pci_has_no_link() -> None:
    found = config_space.read(space("1234:11e8", port=None))
    assert found == ConfigSpace(id="1234:11e8", express=None)
    # The chain counts only where the status register says that there is one.
    found = config_space.read(changed(space(), (0x06, 0)))
    assert found is not None
    assert found.express is None


@pytest.mark.parametrize("kind", [0x0, 0x1, 0x4, 0x5, 0x6, 0x7, 0x8, 0x9, 0xA])
def test_what_is_integrated_into_the_root_complex_has_no_link(kind: int) -> None:
    found = config_space.read(space(port=kind))
    assert found is not None
    assert found.express is not None
    assert (found.express.link is None) == (kind in {0x9, 0xA})


@pytest.mark.parametrize("data", [b"\xff" * 256, b"\xff" * 64, b"\xff\xff" + space()[2:]])
def test_all_ones_is_no_answer(data: bytes) -> None:
    assert config_space.read(data) is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "only 0 bytes of a configuration space could be read"),
        (space()[:63], "only 63 bytes of a configuration space could be read, 64 are its header"),
        (space()[:64], "only 64 bytes of a configuration space could be read: the rest takes root"),
        (changed(space(), (0x51, 0x40)), "its chain of capabilities loops at 0x40"),
        (changed(space(), (0x51, 0x3C)), "its chain of capabilities leads out at 0x3c"),
        (changed(space(), (0x51, 0xF8), (0xF8, 0x10)), "its PCI Express capability at 0xf8 leads out of the space"),
        (changed(space(), (EXPRESS_AT + 2, 0xB2)), "its PCI Express capability has the unknown port type 0xb"),
        (space(sizes=(6, 0, 0)), "its Max_Payload_Size has the reserved value 6"),
        (space(sizes=(0, 0, 6)), "its Max_Read_Request_Size has the reserved value 6"),
    ],
)
def test_damage_is_told(data: bytes, message: str) -> None:
    with pytest.raises(ParseError, match="^" + message):
        config_space.read(data)


def test_reserved_bits_of_a_pointer_are_not_part_of_it() -> None:
    assert config_space.read(changed(space(), (0x34, 0x43), (0x41, 0x52))) == config_space.read(space())


@given(st.binary(max_size=300) | st.binary(min_size=200, max_size=200).map(lambda tail: space()[:56] + tail))
def test_no_bytes_are_too_strange(data: bytes) -> None:
    with contextlib.suppress(ParseError):
        found = config_space.read(data)
        assert found is None or len(found.id) == 9


@given(
    st.tuples(st.integers(0, 15), st.integers(0, 63)),
    st.integers(0, 3),
    st.tuples(*map(partial(st.integers, 0), (5, 7, 5))),
)
def test_what_is_written_is_read(link: tuple[int, int], aspm: int, sizes: tuple[int, int, int]) -> None:
    found = config_space.read(space(link=link, aspm=aspm, sizes=sizes))
    assert found is not None
    assert found.express is not None
    assert found.express.link is not None
    assert (found.express.link.generation, found.express.link.width, found.express.link.aspm) == (*link, aspm)
    assert (found.express.mps, found.express.mrrs) == (128 << sizes[0], 128 << sizes[2])
