# SPDX-License-Identifier: MIT
"""A server that takes what others POST, and answers at once. It is made to stand behind a reverse proxy with TLS.

Whoever reaches it may send anything, so all is bounded: bytes, seconds from the first to the last one, connections.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rtgate.errors import ConfigError

LARGEST = 25 << 20  # bytes; neither GitLab nor GitHub delivers more
_LONGEST_S = 20.0  # of a whole connection; GitLab waits 10 s for an answer
_CONNECTIONS = 16
_BUSY = b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 10\r\n\r\n"

Receive = Callable[[Mapping[str, str], bytes], tuple[int, str]]
"""Takes headers by names in lower case and the body; returns the status and one line. It must not wait."""


class Receiver(ThreadingHTTPServer):
    """The server; `serve_forever` serves until another thread or a signal ends it.

    Args:
        address: host and port; port 0 is any free one.
        receive: is called for each request, from several threads at once.
        longest_s: how long a connection may last.

    Raises:
        ConfigError: the address cannot be had.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], receive: Receive, longest_s: float = _LONGEST_S) -> None:
        self.receive = receive
        self.longest_s = longest_s
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        try:
            super().__init__(address, _Handler)
        except OSError as error:
            host, port = address
            raise ConfigError(f"{host}:{port}: {error.strerror or error}: name another one with --listen") from error

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, or send it away."""
        if self._free.acquire(blocking=False):
            try:
                super().process_request(request, client_address)
            except RuntimeError:  # no thread can be started: the server closes the connection
                self._free.release()
                raise
            return
        request.settimeout(0)  # nobody is waited for here
        with contextlib.suppress(OSError):
            request.send(_BUSY)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and make room for the next one."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has gone, or was cut off."""


class _Handler(BaseHTTPRequestHandler):
    server: Receiver
    server_version, sys_version = "rtgate", ""

    def setup(self) -> None:
        """Begin the connection's time, which a byte now and then does not prolong."""
        super().setup()
        self._timer = threading.Timer(self.server.longest_s, self._cut)
        self._timer.daemon = True
        self._timer.start()

    def finish(self) -> None:
        """End it."""
        self._timer.cancel()
        super().finish()

    def do_POST(self) -> None:
        """Take a delivery."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal() and len(length) < 18):
            self._answer(HTTPStatus.LENGTH_REQUIRED, "say Content-Length")
        elif int(length) > LARGEST:
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {LARGEST} bytes")
        elif self.headers.get_content_type() != "application/json":
            self._answer(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "choose the content type application/json")
        else:
            body = self.rfile.read(int(length))
            if len(body) == int(length):  # else the client has gone, or was cut off
                self._answer(*self.server.receive(self._lower_headers(), body))

    def _lower_headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _answer(self, status: int, text: str) -> None:
        data = f"{text}\n".encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _cut(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing of each request: what is done is said by whoever does it."""
