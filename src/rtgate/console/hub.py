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
from dataclasses import dataclass
from pathlib import Path

from rtgate.console import telnet
from rtgate.console.hub_client import Client, Pace, hub_line
from rtgate.console.hub_log import TimedLog
from rtgate.console.line import Line, LineLostError, Opener, opener, watch
from rtgate.errors import InfrastructureError

# The kernel's own buffer counts too: what lies there can no longer be dropped when it has become old.
_SEND_BUFFER = 128 * 1024
_TYPED = 65536  # bytes that wait for the line before clients have to wait
_RETRY_S = (0.2, 5.0)  # the first pause before a lost line is tried again, and the longest
_CONNECT_S = 10.0
_PACE_S = 0.02
_SILENT_S = 0.5

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
        patience: seconds for which a silent virtual machine may leave what is typed, before that is thrown away. One
            on a busy host takes seconds; one that is reset must not find it.
    """

    line: str
    telnet: tuple[Address, ...] = ()
    raw: tuple[Address, ...] = ()
    pending: int = 256 << 10
    log: Path | None = None
    log_limit: int = 256 << 20
    clients: int = 32
    patience: float = 5.0


def _listener(place: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
    try:
        listener = socket.create_server(place, family=family, backlog=16)
    except OSError as error:
        raise InfrastructureError(f"cannot listen on {place[0]}:{place[1]}: {error.strerror}") from error
    listener.settimeout(0)
    # Connections inherit it; without it the kernel lets the buffer grow to megabytes.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    return listener


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
        self._retry_at, self._pause = 0.0, _RETRY_S[0]
        self._typed = bytearray()
        self._clients: list[Client] = []
        self._stopped = False
        self._pace = Pace()
        self._took = self._spoke = 0.0  # when the line last had taken everything, and when it last said something
        # A signal handler or another thread ends the loop by a byte in this pipe.
        self._bell = os.pipe()
        self._selector.register(self._bell[0], selectors.EVENT_READ, None)
        self.addresses = tuple(
            self._listen(place, is_telnet=kind == "telnet")
            for kind, places in (("telnet", settings.telnet), ("raw", settings.raw))
            for place in places
        )

    def _listen(self, place: Address, *, is_telnet: bool) -> Address:
        listener = _listener(place)
        self._selector.register(listener, selectors.EVENT_READ, (listener, is_telnet))
        return listener.getsockname()[0], listener.getsockname()[1]

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
                happened = self._selector.select(self._patience())
                self._unstick()  # before anything is typed: while nothing happens the loop sleeps
                for key, events in happened:
                    self._serve(key, events)
        finally:
            self._close()

    def _patience(self) -> float | None:
        if self._connected:
            if self._pace.is_exceeded(self._clients):
                return _PACE_S
            return _SILENT_S if self._is_stuck() else None
        return max(0.0, self._retry_at - time.monotonic())

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
            self._note_loss("no connection within 10 s")
            return
        try:
            self._line = self._open()
        except LineLostError as error:
            self._note_loss(str(error))
            return
        self._retry_at = time.monotonic() + _CONNECT_S
        if self._line.connecting:
            self._wait_for(self._line.descriptor, selectors.EVENT_WRITE, self._line)
        else:
            self._note_connection()

    def _is_stuck(self) -> bool:
        return self._connected and self._line is not None and bool(self._typed or self._line.untaken())

    def _unstick(self) -> None:
        """Throw away what a hung or stopped virtual machine does not take: no UART keeps it for the next boot."""
        now = time.monotonic()
        if not self._is_stuck():
            self._took = now
            return
        waiting = now - self._took < self._settings.patience or now - self._spoke < _SILENT_S
        if waiting or not self._settings.line.startswith("unix:"):
            return
        assert self._line is not None
        self._event("what was typed is thrown away: the board does not take it")
        self._wait_for(self._line.descriptor, 0, None)
        self._line.close()
        self._line, self._connected, self._took, self._retry_at = None, False, now, now
        self._typed.clear()
        self._look_after_line()

    def _note_connection(self) -> None:
        self._connected = True
        if self._pause != _RETRY_S[0]:
            self._say("the line is back")
        self._pause = _RETRY_S[0]
        self._event(f"{self._settings.line} is open")

    def _note_loss(self, reason: str) -> None:
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
                line.check_connection()
                self._note_connection()
            elif events & selectors.EVENT_READ:
                self._copy(line.read())
            if self._typed and events & selectors.EVENT_WRITE:
                del self._typed[: line.write(bytes(self._typed))]
        except LineLostError as error:
            self._note_loss(str(error))

    def _copy(self, data: bytes) -> None:
        if not data:
            return
        self._spoke = time.monotonic()
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
                connection.send(hub_line(f"there are {len(self._clients)} clients already"))
            connection.close()
            self._event(f"{name} was turned away")
            return
        connection.settimeout(0)
        watch(connection)
        client = Client(connection, name, telnet.Decoder() if is_telnet else None, self._settings.pending)
        client.sending = telnet.GREETING if is_telnet else b""
        self._clients.append(client)
        self._event(f"{name} has come ({'telnet' if is_telnet else 'raw'})")
        if not self._connected and self._pause != _RETRY_S[0]:
            client.queue(hub_line("the line is gone, trying again"))
        self._send(client)

    def _serve_client(self, client: Client, events: int) -> None:
        if events & selectors.EVENT_READ:
            keystrokes = client.receive()
            if keystrokes is None:
                self._part(client)
                return
            if self._connected:  # what nobody hears is not kept: it would be typed into another boot
                self._typed += keystrokes
        self._send(client)

    def _send(self, client: Client) -> None:
        try:
            client.send()
        except OSError:
            self._part(client)

    def _part(self, client: Client) -> None:
        self._clients.remove(client)
        self._wait_for(client.connection, 0, None)
        client.connection.close()
        self._event(f"{client.name} has gone")

    def _watch_all(self) -> None:
        """Wait for what can go on: what the line says, what clients type and have yet to take."""
        if self._line is not None and self._connected:
            line_read = 0 if self._pace.is_exceeded(self._clients) else selectors.EVENT_READ
            line_write = selectors.EVENT_WRITE if self._typed else 0
            self._wait_for(self._line.descriptor, line_read | line_write, self._line)
        client_read = selectors.EVENT_READ if len(self._typed) < _TYPED else 0
        for client in self._clients:
            self._wait_for(client.connection, client_read | (selectors.EVENT_WRITE if client.pending else 0), client)

    def _wait_for(self, what: socket.socket | int, events: int, data: object) -> None:
        key = self._selector.get_map().get(what)
        if key is None and events:
            self._selector.register(what, events, data)
        elif key is not None and not events:
            self._selector.unregister(what)
        elif key is not None and key.events != events:
            self._selector.modify(what, events, data)

    def _say(self, text: str) -> None:
        for client in tuple(self._clients):
            client.queue(hub_line(text))
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
