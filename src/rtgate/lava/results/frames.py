# SPDX-License-Identifier: MIT
"""Frames: data as lines of a job's log, which may lose lines, repeat them and mix them with others.

Every line is taken whole or not at all::

    @rtgate1 SET UNIT SEQ/COUNT PAYLOAD CRC

SET is a random word, one for each directory of records. UNIT is a record's number, or a letter: `a`, the announcement
(which records are going to come, sent before anything is measured); `z`, the closing (which came, with their SHA-256);
`b`, what is carried out on the board itself (`lava.in_job.on_board`). PAYLOAD is base64 of part SEQ of COUNT of the
compressed unit; CRC is that of everything between the first space and it. Two different frames of one number spoil the
unit: a kernel under test may print frames too.
"""

from __future__ import annotations

import base64
import lzma
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

PAYLOAD = 3000  # characters; a log's line costs LAVA some hundred bytes beside its text
_LARGEST = 1 << 26  # bytes of a unit
_MOST = 100_000  # frames of a unit

_FRAME = re.compile(
    r"@rtgate1 (?P<body>(?P<set>[0-9a-f]{12}) (?P<unit>[abz]|[0-9]{1,6}) (?P<seq>[0-9]{1,6})/(?P<count>[0-9]{1,6}) "
    rf"(?P<payload>[A-Za-z0-9+/=]{{1,{PAYLOAD}}})) (?P<crc>[0-9a-f]{{8}})"
)


def frames(name: str, unit: str, data: bytes, payload: int = PAYLOAD) -> Iterator[str]:
    """Return a unit as lines, each with at most `payload` characters of it."""
    text = base64.b64encode(lzma.compress(data, format=lzma.FORMAT_XZ)).decode("ascii")
    parts = [text[start : start + payload] for start in range(0, len(text), payload)]
    for number, part in enumerate(parts, 1):
        body = f"{name} {unit} {number}/{len(parts)} {part}"
        yield f"@rtgate1 {body} {zlib.crc32(body.encode()):08x}"


@dataclass(slots=True)
class Unit:
    """The frames of one unit.

    Attributes:
        count: how many it should have.
        line: the number, from 0, of the line with the first one.
    """

    count: int
    line: int = 0
    parts: dict[int, str] = field(default_factory=dict)
    is_damaged: bool = False

    def take(self, seq: int, count: int, payload: str) -> None:
        """Take a frame, which may be there already; one that differs from it spoils the unit."""
        if count != self.count or self.parts.setdefault(seq, payload) != payload:
            self.is_damaged = True

    def data(self) -> bytes:
        """Return the unit. Raises ValueError: it is not whole, or not what we compress."""
        if self.is_damaged:
            raise ValueError("its frames contradict each other")
        gaps = self.count - len(self.parts)
        if gaps:
            raise ValueError(f"{gaps} of {self.count} frames are missing or damaged")
        text = "".join(self.parts[number] for number in range(1, self.count + 1))
        reader = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=1 << 28)
        try:
            data = reader.decompress(base64.b64decode(text, validate=True), max_length=_LARGEST)
        except lzma.LZMAError as error:
            raise ValueError(f"it cannot be decompressed: {error}") from error
        if not reader.eof:
            raise ValueError("it is not whole, or too large")
        return data


def collect_frames(lines: Iterable[str]) -> dict[str, dict[str, Unit]]:
    """Return the frames by set and unit, sets in the order in which they began."""
    sets: dict[str, dict[str, Unit]] = {}
    for at, line in enumerate(lines):
        if "@rtgate1 " not in line:
            continue
        for match in _FRAME.finditer(line):
            seq, count = int(match["seq"]), int(match["count"])
            good = zlib.crc32(match["body"].encode()) == int(match["crc"], 16)
            if good and 1 <= seq <= count <= _MOST:
                units = sets.setdefault(match["set"], {})
                units.setdefault(match["unit"], Unit(count, at)).take(seq, count, match["payload"])
    return sets
