# SPDX-License-Identifier: MIT
"""Frames: results that a noisy serial line cannot falsify.

A plan sends its results as text lines, each with a checksum by POSIX `cksum`, so that every shell can make them::

    NONCE SEQ PAYLOAD CKSUM          SEQ counts from 1; PAYLOAD is at most 512 characters of base64
    NONCE end COUNT TOTAL CKSUM      TOTAL is the checksum of all COUNT data lines

CKSUM covers everything before it on the line, without the space in front of it, and a newline. Whatever else is on
the console (kernel messages, echoes, half lines) matches no checksum and is passed over. A frame is accepted whole or
not at all; a reader is told which ones are missing and asks for them again.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field

from rtgate.errors import ParseError

PAYLOAD = 512  # characters; the longest line that every serial driver's canonical mode carries is 4095


def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte << 24
        for _ in range(8):
            crc = ((crc << 1) ^ 0x04C11DB7 if crc & 0x80000000 else crc << 1) & 0xFFFFFFFF
        table.append(crc)
    return tuple(table)


_CRC = _table()


def cksum(data: bytes) -> int:
    """Return the checksum of the `cksum` utility (POSIX.1-2017, XCU: CRC-32 of the data followed by its length)."""
    crc = 0
    for byte in data:
        crc = ((crc << 8) & 0xFFFFFFFF) ^ _CRC[(crc >> 24) ^ byte]
    length = len(data)
    while length:
        crc = ((crc << 8) & 0xFFFFFFFF) ^ _CRC[(crc >> 24) ^ (length & 0xFF)]
        length >>= 8
    return crc ^ 0xFFFFFFFF


def encode(data: bytes, nonce: str) -> list[str]:
    """Return the frames of `data` as a plan sends them. The target's shell does the same; this is for tests."""
    text = base64.b64encode(data).decode("ascii")
    heads = [
        f"{nonce} {number} {text[start : start + PAYLOAD]}"
        for number, start in enumerate(range(0, len(text), PAYLOAD), start=1)
    ]
    lines = [_sealed(head) for head in heads]
    total = cksum("".join(f"{line}\n" for line in lines).encode("ascii"))
    return [*lines, _sealed(f"{nonce} end {len(lines)} {total}")]


def _sealed(head: str) -> str:
    return f"{head} {cksum((head + chr(10)).encode('ascii'))}"


@dataclass(slots=True)
class FrameReader:
    """Collects the frames of one nonce from whatever a console prints.

    Attributes:
        damaged: lines that carried the nonce but not a matching checksum.
        repeated: frames that arrived more than once.
        received: bytes seen.
    """

    nonce: str
    damaged: int = 0
    repeated: int = 0
    received: int = 0
    _frames: dict[int, str] = field(default_factory=dict)
    _end: tuple[int, int] | None = None
    _rest: str = ""

    def feed(self, data: bytes) -> None:
        """Take bytes as they come; lines may be cut anywhere."""
        self.received += len(data)
        lines = (self._rest + data.decode("latin-1")).replace("\r", "\n").split("\n")
        self._rest = lines.pop()
        for line in lines:
            self._take(line)

    def finish(self) -> None:
        """Take what is left as the last line: nothing more will come."""
        self.feed(b"\n")

    def _take(self, line: str) -> None:
        start = line.find(f"{self.nonce} ")
        if start < 0:
            return
        head, _, crc = line[start:].rpartition(" ")
        match = re.fullmatch(
            rf"{self.nonce} (?:(\d{{1,9}}) ([A-Za-z0-9+/=]{{1,{PAYLOAD}}})|end (\d{{1,9}}) (\d{{1,10}}))", head
        )
        if match is None or crc != str(cksum(f"{head}\n".encode("latin-1"))):
            self.damaged += 1
        elif match[1] is None:
            self._end = (int(match[3]), int(match[4]))
        elif int(match[1]) in self._frames:
            self.repeated += 1
        else:
            self._frames[int(match[1])] = f"{head} {crc}"

    @property
    def ended(self) -> bool:
        """Whether the closing line has arrived, so that it is known how many frames there are."""
        return self._end is not None

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers of frames that are known to be missing; only meaningful after `ended`."""
        count = self._end[0] if self._end else max(self._frames, default=0)
        return tuple(number for number in range(1, count + 1) if number not in self._frames)

    def payload(self) -> bytes:
        """Return the data.

        Raises:
            ParseError: the closing line or a frame is missing, or the total does not match.
        """
        if self._end is None:
            raise ParseError("the results never ended: the closing frame is missing")
        if self.missing:
            raise ParseError(f"{len(self.missing)} of {self._end[0]} frames of the results are missing or damaged")
        lines = [self._frames[number] for number in range(1, self._end[0] + 1)]
        if cksum("".join(f"{line}\n" for line in lines).encode("ascii")) != self._end[1]:
            raise ParseError("the frames of the results do not match their total checksum")
        try:
            return base64.b64decode("".join(line.split(" ")[2] for line in lines), validate=True)
        except binascii.Error as error:
            raise ParseError(f"the frames of the results are not base64: {error}") from error
