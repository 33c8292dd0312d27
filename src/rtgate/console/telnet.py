# SPDX-License-Identifier: MIT
"""As much of telnet (RFC 854) as a console needs: every key at once, no echo by the client, every byte arrives."""

from __future__ import annotations

from enum import Enum, auto

IAC, DONT, DO, WONT, WILL, SB, SE = 255, 254, 253, 252, 251, 250, 240
ECHO, SUPPRESS_GO_AHEAD = 1, 3
_OURS = frozenset({ECHO, SUPPRESS_GO_AHEAD})  # what this end offers

# Without these a client sends whole lines and shows what is typed itself.
GREETING = bytes((IAC, WILL, ECHO, IAC, WILL, SUPPRESS_GO_AHEAD, IAC, DO, SUPPRESS_GO_AHEAD))


def encode(data: bytes) -> bytes:
    """Return bytes for a telnet client."""
    return data.replace(b"\xff", b"\xff\xff")


class _State(Enum):
    DATA = auto()
    RETURN = auto()  # after a CR, which has gone to the line
    COMMAND = auto()  # after IAC
    OPTION = auto()  # after IAC and what is negotiated
    SUB = auto()  # in a subnegotiation
    SUB_COMMAND = auto()  # after IAC in one


class Decoder:
    """What a telnet client sends, as bytes for the line. A line's end (CR LF, CR NUL) becomes the return key's CR."""

    def __init__(self) -> None:
        self._state = _State.DATA
        self._verb = 0

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the bytes for the line, and what to answer to the client."""
        line_bytes, answer = bytearray(), bytearray()
        for byte in data:
            if self._state in (_State.DATA, _State.RETURN):
                self._data(byte, line_bytes)
            elif self._state is _State.OPTION:
                answer += _answer(self._verb, byte)
                self._state = _State.DATA
            else:
                self._command(byte, line_bytes)
        return bytes(line_bytes), bytes(answer)

    def _data(self, byte: int, line_bytes: bytearray) -> None:
        ends = self._state is _State.RETURN and byte in b"\n\0"
        if byte == IAC:
            self._state = _State.COMMAND
            return
        self._state = _State.RETURN if byte == ord("\r") else _State.DATA
        if not ends:
            line_bytes.append(byte)

    def _command(self, byte: int, line_bytes: bytearray) -> None:
        if self._state is _State.SUB:
            self._state = _State.SUB_COMMAND if byte == IAC else _State.SUB
        elif self._state is _State.SUB_COMMAND:
            self._state = _State.DATA if byte == SE else _State.SUB
        elif byte in (DO, DONT, WILL, WONT):
            self._verb = byte
            self._state = _State.OPTION
        else:
            if byte == IAC:
                line_bytes.append(byte)
            self._state = _State.SUB if byte == SB else _State.DATA


def _answer(verb: int, option: int) -> bytes:
    """Return the answer to a negotiation: no to everything that this end did not offer, silence to the rest."""
    if option in _OURS or verb not in (DO, WILL):
        return b""
    return bytes((IAC, WONT if verb == DO else DONT, option))
