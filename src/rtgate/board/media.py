# SPDX-License-Identifier: MIT
"""Boot media: which bytes of a board's eMMC, SPI flash or disk are the same on every good board.

Whoever may boot any kernel on a board may also write to what the board boots from. Regions say what must be there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rtgate.errors import ConfigError

if TYPE_CHECKING:
    from rtgate.strict_yaml import Mapping, Value

SECTOR = 512  # bytes; nothing on a medium is addressed by less
_LARGEST = 1 << 44
_BLOCK = 1 << 20
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_DEVICE = re.compile(r"/dev/(?!mtdblock|mtd[0-9]+ro$)[A-Za-z][A-Za-z0-9]{0,30}")
_MODEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._+-]{0,38}[A-Za-z0-9._+-])?")
# What neither a shell nor LAVA's signals nor JSON take for more than a letter.
_URL = re.compile(r"http://[A-Za-z0-9._~:/%+,\[\]-]{1,1000}")
# `loader=/dev/mmcblk0`, `loader=/dev/mmcblk0@32768+4161536`
_WORD = re.compile(r"([^=@+]+)=([^=@+]+)(?:@([0-9]{1,15})\+([0-9]{1,15}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Some bytes of a boot medium.

    Attributes:
        name: what results call it.
        device: as the health check's kernel names it: `/dev/mmcblk0`, `/dev/mmcblk0boot0`, `/dev/mtd0`.
        offset: in bytes, whole sectors.
        length: in bytes, whole sectors; 0 for all of the device, which only a region to be hashed may have.
        sha256: of a good board, in hexadecimal; empty when nobody knows it yet.
        image: the URL of the same bytes, from which they may be restored; empty where nothing may be written.
        size: of the whole device in bytes; 0 for any.
        model: what the device calls itself (`device/name` or `device/model` in sysfs); empty for any.
    """

    name: str
    device: str
    offset: int
    length: int
    sha256: str = ""
    image: str = ""
    size: int = 0
    model: str = ""

    @property
    def flash(self) -> bool:
        """Whether it is raw flash memory, which is slow to write and is erased in blocks."""
        return self.device.startswith("/dev/mtd")

    @property
    def block(self) -> int:
        """The largest block in bytes, up to 1 MiB, in which both offset and length are counted."""
        block = _BLOCK
        while self.offset % block or self.length % block:
            block //= 2
        return block


def read(value: Value) -> tuple[Region, ...]:
    """Read the key `media`: regions by name. Raises ConfigError."""
    found: list[Region] = []
    for name, entry in value.entries().items():
        if not _NAME.fullmatch(name):
            entry.key.fail(f"{name!r} is no name of a region (allowed: up to 32 lower-case letters, digits, '-')")
        region = _region(name, entry.value)
        shared = next((other.name for other in found if _overlap(other, region)), "")
        if shared:
            entry.value.fail(
                f"{name} and {shared} share bytes of {region.device}: restoring one would change the other"
            )
        found.append(region)
    if not found:
        value.fail("no region is listed (allowed: a name for each, with device, offset, length and sha256)")
    return tuple(found)


def _region(name: str, value: Value) -> Region:
    data = value.mapping(required=("device", "offset", "length", "sha256"), optional=("image", "size", "model"))
    offset, length = _sectors(data["offset"]), _sectors(data["length"])
    if not length:
        data["length"].fail("a region without bytes proves nothing")
    size = _sectors(data["size"]) if "size" in data else 0
    if size and offset + length > size:
        data["length"].fail(f"the region ends at byte {offset + length}, behind the end of the device at {size}")
    return Region(
        name=name,
        device=_matching(data["device"], _DEVICE, "a device", "/dev/ and a name: /dev/mmcblk0, /dev/mtd0"),
        offset=offset,
        length=length,
        sha256=_sha256(data["sha256"]),
        image=_image(data["image"]) if "image" in data else "",
        size=size,
        model=_model(data),
    )


def _sectors(value: Value) -> int:
    count = value.integer(minimum=0, maximum=_LARGEST)
    if count % SECTOR:
        value.fail(f"{count} is not a number of whole sectors (allowed: multiples of {SECTOR} bytes)")
    return count


def _matching(value: Value, pattern: re.Pattern[str], what: str, allowed: str) -> str:
    if not pattern.fullmatch(value.text()):
        value.fail(f"{value.text()!r} is no name of {what} (allowed: {allowed})")
    return value.text()


def _model(data: Mapping) -> str:
    if "model" not in data:
        return ""
    text = data["model"].written()  # some are numbers to YAML
    if not _MODEL.fullmatch(text):
        data["model"].fail(f"{text!r} is no model (allowed: up to 40 letters, digits, ' ', '.', '_', '+', '-')")
    return text


def _sha256(value: Value) -> str:
    text = value.written().lower()
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        value.fail("this is no SHA-256 (allowed: 64 hexadecimal digits)")
    return text


def _image(value: Value) -> str:
    """Return the URL of an image. The message never repeats a part that may be a secret."""
    url = value.text()
    try:
        parts = urlsplit(url)
        public = not (parts.username or parts.password or parts.query or parts.fragment or "@" in parts.netloc)
        named = bool(parts.hostname)
    except ValueError:
        value.fail("the image's URL cannot be read")
    if not public:
        value.fail("no user, password, query or fragment in an image's URL: it becomes part of a job, which is public")
    if not named or not _URL.fullmatch(url):
        value.fail("an image's URL is one of http, which is all that a board can fetch by; its SHA-256 protects it")
    return url


def _overlap(one: Region, other: Region) -> bool:
    apart = one.offset + one.length <= other.offset or other.offset + other.length <= one.offset
    return one.device == other.device and not apart


def described(regions: Iterable[Region]) -> dict[str, object]:
    """Return regions as plain data that `read` takes, below the key `media`."""
    return {"media": {region.name: _described(region) for region in regions}}


def _described(region: Region) -> dict[str, object]:
    found = {
        "device": region.device,
        "offset": region.offset,
        "length": region.length,
        "sha256": region.sha256,
        "image": region.image,
        "size": region.size,
        "model": region.model,
    }
    return {key: given for key, given in found.items() if given or key in {"offset", "length"}}


def asked(word: str) -> Region:
    """Return a region to be hashed from `NAME=DEVICE` or `NAME=DEVICE@OFFSET+LENGTH`. Raises ConfigError."""
    found = _WORD.fullmatch(word)
    offset, length = (int(found[3] or 0), int(found[4] or 0)) if found else (0, 0)
    if not found or not _NAME.fullmatch(found[1]) or not _DEVICE.fullmatch(found[2]) or (found[4] and not length):
        raise ConfigError(
            f"{word[:80]!r} names no region (allowed: NAME=DEVICE for all of a device, or NAME=DEVICE@OFFSET+LENGTH "
            "in bytes, for example loader=/dev/mmcblk0@32768+4161536)"
        )
    if offset % SECTOR or length % SECTOR:
        raise ConfigError(f"{word[:80]!r}: offset and length are whole sectors (multiples of {SECTOR} bytes)")
    return Region(name=found[1], device=found[2], offset=offset, length=length)
