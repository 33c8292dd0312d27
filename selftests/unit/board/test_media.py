# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rtgate.board import media
from rtgate.board.media import Region, asked, described
from rtgate.errors import ConfigError
from rtgate.strict_yaml import dump, parse

SHA = "0123456789abcdef" * 4
GOOD = f"device: /dev/mmcblk0, offset: 0x8000, length: 4161536, sha256: {SHA}"


def _read(text: str) -> tuple[Region, ...]:
    return media.read(parse(f"media: {{{text}}}\n", Path("b.yaml")).mapping(required=("media",))["media"])


def test_regions_are_read() -> None:
    loader, spi = _read(
        f"loader: {{{GOOD}, image: 'http://10.0.0.1:8080/rk/loader.img', size: 7818182656, model: BJTD4R}}, "
        f"spi-0: {{device: /dev/mtd0, offset: 0, length: 16777216, sha256: {SHA}}}"
    )
    assert loader == Region(
        name="loader",
        device="/dev/mmcblk0",
        offset=32768,
        length=4161536,
        sha256=SHA,
        image="http://10.0.0.1:8080/rk/loader.img",
        size=7818182656,
        model="BJTD4R",
    )
    assert (loader.flash, spi.flash) == (False, True)
    assert (spi.image, spi.size, spi.model) == ("", 0, "")


@pytest.mark.parametrize(
    ("offset", "length", "block"), [(32768, 4161536, 32768), (0, 8 << 20, 1 << 20), (512, 512, 512)]
)
def test_blocks_are_as_large_as_offset_and_length_allow(offset: int, length: int, block: int) -> None:
    assert Region(name="a", device="/dev/sda", offset=offset, length=length).block == block


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("device: /dev/mmcblk0", "device: /dev/../etc", "is no name of a device"),
        ("device: /dev/mmcblk0", "device: /dev/mtdblock0", "is no name of a device"),
        ("device: /dev/mmcblk0", "device: /dev/mtd0ro", "is no name of a device"),
        ("device: /dev/mmcblk0", "device: '/dev/sda;reboot'", "is no name of a device"),
        ("device: /dev/mmcblk0, ", "", "missing key 'device'"),
        ("offset: 0x8000", "offset: 100", "100 is not a number of whole sectors"),
        ("offset: 0x8000", "offset: -512", "-512 is out of range"),
        ("length: 4161536", "length: 0", "a region without bytes"),
        ("length: 4161536", "length: 1000", "whole sectors"),
        ("length: 4161536", "length: 4161536, size: 4161536", "ends at byte 4194304, behind the end of the device"),
        (SHA, SHA[:-1], "no SHA-256"),
        (SHA, SHA[:-1] + "g", "no SHA-256"),
        (SHA, f"{SHA}, model: 'a$(b)'", "is no model"),
        (SHA, f"{SHA}, images: x", "unknown key 'images'"),
        (SHA, f"{SHA}, image: 'https://h/x.img'", "is one of http"),
        (SHA, f"{SHA}, image: 'file:///x.img'", "is one of http"),
        (SHA, f"{SHA}, image: 'http:///x.img'", "is one of http"),
        (SHA, f'{SHA}, image: "http://h/$(reboot)"', "is one of http"),
        (SHA, f"{SHA}, image: 'http://[h/x'", "cannot be read"),
    ],
)
def test_what_is_wrong_is_refused_at_its_place(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigError) as caught:
        _read(f"loader: {{{GOOD.replace(old, new)}}}")
    assert message in str(caught.value)
    assert str(caught.value).startswith("b.yaml:1:")


@pytest.mark.parametrize(
    "url", ["http://u:hunter2@h/x", "http://hunter2@h/x", "http://h/x?k=hunter2", "http://h/x#hunter2"]
)
def test_a_secret_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError, match="becomes part of a job") as caught:
        _read(f"loader: {{{GOOD}, image: '{url}'}}")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["Loader", "a b", "-a", "a_b", "a" * 33, "a=b"])
def test_a_region_s_name_is_short_and_plain(name: str) -> None:
    with pytest.raises(ConfigError, match="is no name of a region"):
        _read(f"'{name}': {{{GOOD}}}")


def test_regions_do_not_share_bytes_and_do_not_stand_twice() -> None:
    with pytest.raises(ConfigError, match="b and a share bytes of /dev/mmcblk0"):
        _read(f"a: {{{GOOD}}}, b: {{{GOOD.replace('0x8000', '0')}}}")
    beside = GOOD.replace("0x8000", str(0x8000 + 4161536))
    assert len(_read(f"a: {{{GOOD}}}, b: {{{beside}}}, c: {{{GOOD.replace('mmcblk0', 'mmcblk0boot0')}}}")) == 3
    with pytest.raises(ConfigError, match="duplicate key 'a'"):
        _read(f"a: {{{GOOD}}}, a: {{{beside}}}")
    with pytest.raises(ConfigError, match="no region is listed"):
        _read("")


regions = st.builds(
    Region,
    name=st.from_regex(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", fullmatch=True),
    device=st.from_regex(r"/dev/(mmcblk[0-9]|sd[a-z]|mtd[0-9]|nvme0n1p[0-9])", fullmatch=True),
    offset=st.integers(0, 1 << 30).map(lambda number: number * 512),
    length=st.integers(1, 1 << 30).map(lambda number: number * 512),
    sha256=st.one_of(st.from_regex(r"[0-9a-f]{64}", fullmatch=True), st.from_regex(r"[0-9]{64}", fullmatch=True)),
    image=st.one_of(st.just(""), st.from_regex(r"http://[a-z0-9.]{1,20}/[a-z0-9._%+-]{1,20}", fullmatch=True)),
    model=st.one_of(st.just(""), st.from_regex(r"[A-Za-z0-9]{1,20}", fullmatch=True)),
)


@given(regions)
def test_what_is_printed_is_read_back_as_yaml_and_as_json(region: Region) -> None:
    for text in (dump(described([region])), json.dumps(described([region]))):
        assert "'" not in json.dumps(described([region]))
        assert media.read(parse(text, Path("x")).mapping(required=("media",))["media"]) == (region,)
    assert yaml.safe_load(dump(described([region])))["media"][region.name]["offset"] == region.offset


def test_regions_to_be_hashed_are_named_in_one_word() -> None:
    assert asked("loader=/dev/mmcblk0@32768+4161536") == Region(
        name="loader", device="/dev/mmcblk0", offset=32768, length=4161536
    )
    assert asked("boot0=/dev/mmcblk0boot0") == Region(name="boot0", device="/dev/mmcblk0boot0", offset=0, length=0)


@pytest.mark.parametrize(
    "word",
    [
        "",
        "a",
        "a=",
        "a=/etc/passwd",
        "A=/dev/sda",
        "a=/dev/sda@512",
        "a=/dev/sda@0+0",
        "a=/dev/sda@1+512",
        "a=/dev/sda;x",
    ],
)
def test_other_words_name_no_region(word: str) -> None:
    with pytest.raises(ConfigError):
        asked(word)
