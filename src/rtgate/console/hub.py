# SPDX-License-Identifier: MIT
"""The console hub: one line, any number of clients, none of which holds up another.

LAVA and pytest listen to the same console, so a program has to copy it. ser2net waits for the slowest of its clients:
LAVA 2023.01, which reads little while a test runs, then stops the line for everybody. This hub always reads the line.
What a client does not read waits for it up to a bound; beyond that the oldest bytes are dropped, and the client finds a
sentence in their place. What clients type goes to the line in the order in which it comes.

A line can be faster than any client (QEMU's is); so it waits for the fastest of those that are reading right now, and
for nobody else.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from rtgate.console import telnet
from rtgate.console.hub_log import TimedLog
from rtgate.console.line import Line, LineLostError, Opener, opener, watch
from rtgate.errors import InfrastructureError

_CHUNK = 65536
# The kernel's own buffer counts too: what lies there can no longer be dropped when it has become old.
_SEND_BUFFER = 128 * 1024
_TYPED = 65536  # bytes that wait for the line before clients have to wait
_RETRY_S = (0.2, 5.0)  # the first pause before a lost line is tried again, and the longest
_CONNECT_S = 10.0
_READING_S = 0.5  # a client that took bytes so recently is reading
_PACE_S = 0.02

Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a hub does.

    Attributes:
        line: `serial:DEVICE[:BAUD]`, `tcp:HOST:PORT` or `unix:PATH`.
        telnet: addresses for telnet clients.
        raw: addresses for clients that want bytes and nothing else.
        pending: bytes that wait for a client that does not read.
        log_limit: bytes after which the log is moved aside.
        clients: connections at a time.
    """

    line: str
    telnet: tuple[Address, ...] = ()
    raw: tuple[Address, ...] = ()
    pending: int = 256 << 10
    log: Path | None = None
    log_limit: int = 256 << 20
    clients: int = 32


@dataclass(slots=True, eq=False)
class _Client:
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
        """Have bytes wait for the client; return whether bytes had to be dropped for the first time in a row."""
        self.waiting.append(data)
        self.waiting_size += len(data)
        if self.waiting_size <= self.limit:
            return False
        first = not self.dropped
        while self.waiting_size > self.limit // 2 and len(self.waiting) > 1:
            gone = self.waiting.popleft()
            self.waiting_size -= len(gone)
            self.dropped += len(gone)
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
                sent = self.connection.send(self.sending)
            except BlockingIOError:
                return
            self.sending = self.sending[sent:]
            self.took = time.monotonic()
            self.recent += sent

    def _next(self) -> bytes:
        if self.dropped:
            said = _said(f"{self.dropped} bytes are missing here: this client did not read them in time")
            self.dropped = 0
            return said
        pieces = []
        size = 0
        while self.waiting and size < _CHUNK:
            pieces.append(self.waiting.popleft())
            size += len(pieces[-1])
        self.waiting_size -= size
        data = b"".join(pieces)
        return data if self.decoder is None else telnet.encoded(data)

    def received(self) -> bytes | None:
        """Return what the client typed; None when it has gone."""
        try:
            data = self.connection.recv(_CHUNK)
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


def _said(text: str) -> bytes:
    return f"\r\n*** rtgate hub: {text} ***\r\n".encode()


class Hub:
    """A running hub."""

    def __init__(self, settings: Settings) -> None:
        """Open the addresses and the log; the line is opened by `run`.

        Raises:
            ConfigError: the line is none, or the log cannot be written.
            InfrastructureError: an address cannot be listened on.
        """
        self._settings = settings
        self._open: Opener = opener(settings.line)
        self._selector = selectors.DefaultSelector()
        self._log = TimedLog(settings.log, settings.log_limit) if settings.log else None
        self._line: Line | None = None
        self._connected = False
        self._retry_at = 0.0
        self._pause = _RETRY_S[0]
        self._typed = bytearray()
        self._clients: list[_Client] = []
        self._stopped = False
        self._second = 0.0
        # A signal handler or another thread ends the loop by a byte in this pipe.
        self._bell = os.pipe()
        self._selector.register(self._bell[0], selectors.EVENT_READ, None)
        self.addresses = tuple(
            self._listen(place, is_telnet=kind == "telnet")
            for kind, places in (("telnet", settings.telnet), ("raw", settings.raw))
            for place in places
        )

    def _listen(self, place: Address, *, is_telnet: bool) -> Address:
        family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        try:
            listener = socket.create_server(place, family=family, backlog=16)
        except OSError as error:
            raise InfrastructureError(f"cannot listen on {place[0]}:{place[1]}: {error.strerror}") from error
        listener.settimeout(0)
        # Connections inherit it; without it the kernel lets the buffer grow to megabytes.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._selector.register(listener, selectors.EVENT_READ, (listener, is_telnet))
        return listener.getsockname()[0], listener.getsockname()[1]

    @property
    def connected(self) -> bool:
        """Whether the line is open."""
        return self._connected

    def stop(self) -> None:
        """End `run` soon; may be called by another thread or a signal's handler."""
        with contextlib.suppress(OSError):
            os.write(self._bell[1], b".")

    def run(self) -> None:
        """Copy until `stop` is called, then close everything."""
        try:
            while not self._stopped:
                self._look_after_line()
                self._watch_all()
                for key, events in self._selector.select(self._patience()):
                    self._serve(key, events)
        finally:
            self._close()

    def _patience(self) -> float | None:
        if self._connected:
            return _PACE_S if self._ahead() else None
        return max(0.0, self._retry_at - time.monotonic())

    def _ahead(self) -> bool:
        """Whether the line is faster than the fastest client that is reading."""
        now = time.monotonic()
        if now - self._second >= 1.0:
            self._second = now
            for client in self._clients:
                client.before, client.recent = client.recent, 0
        reading = [client for client in self._clients if now - client.took < _READING_S]
        if not reading:
            return False
        # By what it takes: one that has just lost its oldest bytes has few waiting, too.
        fastest = max(reading, key=lambda client: client.before + client.recent)
        return fastest.waiting_size > fastest.limit // 2

    def _serve(self, key: selectors.SelectorKey, events: int) -> None:
        if key.data is None:
            self._stopped = True
        elif isinstance(key.data, tuple):
            self._welcome(*key.data)
        elif isinstance(key.data, Line):
            self._serve_line(key.data, events)
        elif key.data in self._clients:  # another event of this round may have closed it
            self._serve_client(key.data, events)

    # The line.

    def _look_after_line(self) -> None:
        if self._connected or time.monotonic() < self._retry_at:
            return
        if self._line is not None:
            self._lost("no connection within 10 s")
            return
        try:
            self._line = self._open()
        except LineLostError as error:
            self._lost(str(error))
            return
        self._retry_at = time.monotonic() + _CONNECT_S
        if self._line.connecting:
            self._wait_for(self._line.descriptor, selectors.EVENT_WRITE, self._line)
        else:
            self._found()

    def _found(self) -> None:
        self._connected = True
        if self._pause != _RETRY_S[0]:
            self._say("the line is back")
        self._pause = _RETRY_S[0]
        self._event(f"{self._settings.line} is open")

    def _lost(self, reason: str) -> None:
        if self._connected or self._pause == _RETRY_S[0]:
            self._event(f"{self._settings.line} is lost: {reason}")
            self._say("the line is gone, trying again")
        if self._line is not None:
            self._wait_for(self._line.descriptor, 0, None)
            self._line.close()
        self._line = None
        self._connected = False
        self._typed.clear()
        self._retry_at = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _RETRY_S[1])

    def _serve_line(self, line: Line, events: int) -> None:
        if line is not self._line:
            return
        try:
            if not self._connected:
                line.established()
                self._found()
            elif events & selectors.EVENT_READ:
                self._copy(line.read())
            if self._typed and events & selectors.EVENT_WRITE:
                del self._typed[: line.write(bytes(self._typed))]
        except LineLostError as error:
            self._lost(str(error))

    def _copy(self, data: bytes) -> None:
        if not data:
            return
        if self._log:
            self._log.console(data)
        for client in tuple(self._clients):
            if client.queue(data):
                self._event(f"{client.name} does not read; what is older than {client.limit >> 10} KiB is dropped")
            self._send(client)

    # Clients.

    def _welcome(self, listener: socket.socket, is_telnet: bool) -> None:  # noqa: FBT001 - the listener's own data
        try:
            connection, place = listener.accept()
        except OSError:
            return
        name = f"{place[0]}:{place[1]}"
        if len(self._clients) >= self._settings.clients:
            with contextlib.suppress(OSError):
                connection.send(_said(f"there are {len(self._clients)} clients already"))
            connection.close()
            self._event(f"{name} was turned away")
            return
        connection.settimeout(0)
        watch(connection)
        client = _Client(connection, name, telnet.Decoder() if is_telnet else None, self._settings.pending)
        client.sending = telnet.GREETING if is_telnet else b""
        self._clients.append(client)
        self._event(f"{name} has come ({'telnet' if is_telnet else 'raw'})")
        if not self._connected and self._pause != _RETRY_S[0]:
            client.queue(_said("the line is gone, trying again"))
        self._send(client)

    def _serve_client(self, client: _Client, events: int) -> None:
        if events & selectors.EVENT_READ:
            typed = client.received()
            if typed is None:
                self._part(client)
                return
            if self._connected:  # what nobody hears is not kept: it would be typed into another boot
                self._typed += typed
        self._send(client)

    def _send(self, client: _Client) -> None:
        try:
            client.send()
        except OSError:
            self._part(client)

    def _part(self, client: _Client) -> None:
        self._clients.remove(client)
        self._wait_for(client.connection, 0, None)
        client.connection.close()
        self._event(f"{client.name} has gone")

    def _watch_all(self) -> None:
        """Wait for what can go on: what the line says, what clients type and have yet to take."""
        if self._line is not None and self._connected:
            said = 0 if self._ahead() else selectors.EVENT_READ
            typed = selectors.EVENT_WRITE if self._typed else 0
            self._wait_for(self._line.descriptor, said | typed, self._line)
        typing = selectors.EVENT_READ if len(self._typed) < _TYPED else 0
        for client in self._clients:
            self._wait_for(client.connection, typing | (selectors.EVENT_WRITE if client.pending else 0), client)

    def _wait_for(self, what: socket.socket | int, events: int, data: object) -> None:
        registered = self._selector.get_map().get(what)
        if registered is None and events:
            self._selector.register(what, events, data)
        elif registered is not None and not events:
            self._selector.unregister(what)
        elif registered is not None and registered.events != events:
            self._selector.modify(what, events, data)

    def _say(self, text: str) -> None:
        for client in tuple(self._clients):
            client.queue(_said(text))
            self._send(client)

    def _event(self, text: str) -> None:
        if self._log:
            self._log.event(text)
        else:
            sys.stderr.write(f"rtgate hub: {text}\n")

    def _close(self) -> None:
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, tuple):
                key.data[0].close()
        for client in self._clients:
            client.connection.close()
        self._clients.clear()
        if self._line is not None:
            self._line.close()
        self._selector.close()
        for end in self._bell:
            os.close(end)
        if self._log:
            self._log.close()
