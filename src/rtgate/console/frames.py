# SPDX-License-Identifier: MIT
"""Frames: results that a noisy serial line cannot falsify.

A plan sends its results as text lines, each with a checksum by POSIX `cksum`, so that every shell can make them::

    NONCE SEQ PAYLOAD CKSUM          SEQ counts from 1; PAYLOAD is at most 640 characters of base64
    NONCE end COUNT TOTAL CKSUM      TOTAL is the checksum of all COUNT data lines

CKSUM covers everything from the nonce to it, without the space in front of it, and a newline. Whatever else is on the
console (kernel messages, echoes, half lines) matches no checksum and is passed over. A frame is accepted whole or
not at all; a reader is told which ones are missing and asks for them again.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field

from rtgate.errors import ParseError
from rtgate.files import cksum

# Characters. What is around them is 4.3 % of a line; a damaged line costs 60 ms at 115 200 baud. The longest line that
# every serial driver's canonical mode carries is 4095.
PAYLOAD = 640


# What stands behind the nonce. No plan sends a million frames, and the numbers of all that are missing are listed.
_FRAME = re.compile(
    rf" (?:([0-9]{{1,6}}) ([A-Za-z0-9+/=]{{1,{PAYLOAD}}})|end ([0-9]{{1,6}}) ([0-9]{{1,10}})) ([0-9]{{1,10}})"
)
# What a console echoes of the commands that ask for frames.
_COMMANDS = (" resend", " closing")


@dataclass(slots=True)
class FrameReader:
    """Collects the frames of one nonce from whatever a console prints.

    Attributes:
        damaged: pieces that began like a frame and had no matching checksum.
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
        if self._rest:
            self._take(self._rest)
            self._rest = ""

    def _take(self, line: str) -> None:
        """Take the frames of a line: one, or several where the ends of lines got lost."""
        start = line.find(f"{self.nonce} ")
        while start >= 0:
            match = _FRAME.match(line, start + len(self.nonce))
            if match is not None and match[5] == str(cksum(f"{line[start : match.start(5) - 1]}\n".encode("latin-1"))):
                self._accept(match, line[start : match.end()])
            elif not line.startswith(_COMMANDS, start + len(self.nonce)):
                self.damaged += 1
            start = line.find(f"{self.nonce} ", start + len(self.nonce))

    def _accept(self, match: re.Match[str], frame: str) -> None:
        if match[1] is None:
            self._end = (int(match[3]), int(match[4]))
        elif int(match[1]) in self._frames:
            self.repeated += 1
        else:
            self._frames[int(match[1])] = frame

    @property
    def frame_count(self) -> int:
        """How many frames, good and bad, have arrived: while it grows, the plan is sending."""
        return len(self._frames) + self.damaged + self.repeated + self.has_closing_line

    @property
    def has_closing_line(self) -> bool:
        """Whether the closing line has arrived, so that it is known how many frames there are."""
        return self._end is not None

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers of frames that are known to be missing; only meaningful after `has_closing_line`."""
        count = self._end[0] if self._end else max(self._frames, default=0)
        return tuple(number for number in range(1, count + 1) if number not in self._frames)

    @property
    def complete(self) -> bool:
        """Whether every frame has arrived and they belong together."""
        return self._end is not None and not self.missing and self._total() == self._end[1]

    def _total(self) -> int:
        assert self._end is not None
        lines = (self._frames[number] for number in range(1, self._end[0] + 1))
        return cksum("".join(f"{line}\n" for line in lines).encode("ascii"))

    def forget(self) -> None:
        """Forget the frames, because they do not belong together: a plan that was started twice sends two sets."""
        self._frames.clear()
        self._end = None

    def payload(self) -> bytes:
        """Return the data.

        Raises:
            ParseError: the closing line or a frame is missing, or the total does not match.
        """
        if self._end is None:
            raise ParseError("the results never ended: the closing frame is missing")
        if self.missing:
            raise ParseError(f"{len(self.missing)} of {self._end[0]} frames of the results are missing or damaged")
        if not self.complete:
            raise ParseError("the frames of the results do not match their total checksum")
        payloads = (self._frames[number].split(" ")[2] for number in range(1, self._end[0] + 1))
        try:
            return base64.b64decode("".join(payloads), validate=True)
        except binascii.Error as error:
            raise ParseError(f"the frames of the results are not base64: {error}") from error
