# SPDX-License-Identifier: MIT
"""A client of the hub: what waits for it, and what it is told of what it did not read in time."""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from rtgate.console import telnet

_PIECE = 65536  # bytes that are encoded and sent at a time
_READING_S = 0.5  # a client that took bytes so recently is reading


@dataclass(slots=True, eq=False)
class Client:
    """A connected client: what waits for it, and the encoded bytes that are on their way."""

    connection: socket.socket
    name: str
    decoder: telnet.Decoder | None
    limit: int
    waiting: deque[bytes] = field(default_factory=deque)
    waiting_size: int = 0
    sending: bytes = b""
    dropped: int = 0
    took: float = 0.0  # monotonic seconds
    recent: int = 0  # bytes sent in this second
    before: int = 0  # and in the one before

    def queue(self, data: bytes) -> bool:
        """Have bytes wait for the client; return whether bytes had to be dropped for the first time in a row.

        Beyond the limit the oldest are dropped, and half the limit of the newest stays.
        """
        self.waiting.append(data)
        self.waiting_size += len(data)
        if self.waiting_size <= self.limit:
            return False
        first = not self.dropped
        surplus = self.waiting_size - self.limit // 2
        self.waiting_size -= surplus
        self.dropped += surplus
        while surplus:
            oldest = self.waiting.popleft()
            if len(oldest) > surplus:
                self.waiting.appendleft(oldest[surplus:])
            surplus -= min(surplus, len(oldest))
        return first

    @property
    def pending(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self.sending or self.waiting or self.dropped)

    def send(self) -> None:
        """Send what the connection takes. Raises OSError when the client is gone."""
        while self.pending:
            if not self.sending:
                self.sending = self._next()
            try:
                count = self.connection.send(self.sending)
            except BlockingIOError:
                return
            self.sending = self.sending[count:]
            self.took = time.monotonic()
            self.recent += count

    def _next(self) -> bytes:
        if self.dropped:
            notice = hub_line(f"{self.dropped} bytes are missing here: this client did not read them in time")
            self.dropped = 0
            return notice
        pieces = []
        size = 0
        while self.waiting and size < _PIECE:
            pieces.append(self.waiting.popleft())
            size += len(pieces[-1])
        self.waiting_size -= size
        data = b"".join(pieces)
        return data if self.decoder is None else telnet.encode(data)

    def receive(self) -> bytes | None:
        """Return what the client typed; None when it has gone."""
        try:
            data = self.connection.recv(_PIECE)
        except BlockingIOError:
            return b""
        except OSError:
            return None
        if not data:
            return None
        if self.decoder is None:
            return data
        data, answer = self.decoder.feed(data)
        self.sending += answer
        return data


def hub_line(text: str) -> bytes:
    """Return what the hub itself tells a client, on a line of its own."""
    return f"\r\n*** rtgate hub: {text} ***\r\n".encode()


class Pace:
    """Whether a line is faster than its fastest client."""

    def __init__(self) -> None:
        self._second = 0.0

    def is_exceeded(self, clients: Sequence[Client]) -> bool:
        """Return whether the fastest of the clients that are reading has much waiting."""
        now = time.monotonic()
        if now - self._second >= 1.0:
            self._second = now
            for client in clients:
                client.before, client.recent = client.recent, 0
        readers = [client for client in clients if now - client.took < _READING_S]
        if not readers:
            return False
        # By what it takes: one that has just lost its oldest bytes has few waiting, too.
        fastest = max(readers, key=lambda client: client.before + client.recent)
        return fastest.waiting_size > fastest.limit // 2
