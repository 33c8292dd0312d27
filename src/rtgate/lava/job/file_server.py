# SPDX-License-Identifier: MIT
"""A file server of our own for a lab's workers, as long as a command runs.

LAVA asks for each file with HEAD, fetches it later, and again on every retry; so what is published stays until the job
has ended. Whoever may read a job may read the URLs in it: the path of a served file cannot be guessed, and nothing else
is served.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.lava.job.urls import published_name

_BLOCK = 1 << 18
_SOCKET_S = 120.0  # a worker that reads nothing for so long has gone


@dataclass(frozen=True, slots=True)
class _ServedFile:
    """A published file: the file itself, whatever the path names later.

    Attributes:
        mark: tells this content from others: size, and nanoseconds of its last change.
    """

    descriptor: int
    size: int
    mark: str

    @property
    def is_unchanged(self) -> bool:
        """Whether nobody has written to the file since it was published."""
        return _mark(os.fstat(self.descriptor)) == self.mark


@dataclass(slots=True)
class FileServer:
    """Serves published files by HTTP: GET, HEAD and ranges.

    Attributes:
        host: the name or address by which workers reach this machine.
    """

    host: str
    _http: ThreadingHTTPServer
    _files: dict[str, _ServedFile] = field(default_factory=dict)

    def publish(self, path: Path) -> str:
        """Return the URL of a file from now on. Raises ConfigError: it cannot be read."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
        status = os.fstat(descriptor)
        where = f"/{secrets.token_urlsafe(24)}/{published_name(path)}"
        self._files[where] = _ServedFile(descriptor, status.st_size, _mark(status))
        return f"http://{self.host}:{self._http.server_address[1]}{where}"

    def find(self, where: str) -> _ServedFile | None:
        """Return what is served at a path."""
        return self._files.get(where)

    def close(self) -> None:
        """Take everything back."""
        for file in self._files.values():
            os.close(file.descriptor)
        self._files.clear()


@contextmanager
def serving(where: str, server: str) -> Iterator[FileServer]:
    """Serve files while the block lasts.

    Args:
        where: `HOST[:PORT]` by which the lab's workers reach this machine; empty for the address from which this
            machine reaches LAVA.
        server: LAVA's URL.

    Raises:
        InfrastructureError: the port is taken, or LAVA cannot be reached.
        ConfigError: `where` is wrong.
    """
    host, port = _place(where) if where else (_own_address(server), 0)
    # A name of our own choice may be that of a router before us: then we listen everywhere.
    bind = "" if where else host
    try:
        http = _Listener((bind, port), _Handler)
    except OSError as error:
        raise InfrastructureError(f"files cannot be served at {host}:{port}: {error.strerror}") from error
    files = FileServer(host, http)
    http.find = files.find
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield files
    finally:
        http.shutdown()
        http.server_close()
        files.close()


def _place(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"([A-Za-z0-9_.-]{1,253})(?::([0-9]{1,5}))?", text)
    if match is None or int(match[2] or 0) > 65535:
        raise ConfigError(f"--serve {text}: expected HOST or HOST:PORT by which the lab's workers reach this machine")
    return match[1], int(match[2] or 0)


def _own_address(server: str) -> str:
    """Return the address from which this machine would talk to a server; nothing is sent."""
    parts = urlsplit(server)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((parts.hostname or "", parts.port or 80))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise InfrastructureError(
            f"no address by which {parts.hostname} could reach this machine ({error}): name one with --serve HOST"
        ) from error


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    find: Callable[[str], _ServedFile | None]

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a worker that goes away in mid-file comes again."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "rtgate"
    sys_version = ""
    timeout = _SOCKET_S

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing of the many requests for each file."""

    def do_HEAD(self) -> None:
        """Answer what LAVA asks first."""
        self._answer(body=False)

    def do_GET(self) -> None:
        """Send a file, or the range of it that is asked for."""
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        assert isinstance(self.server, _Listener)
        file = self.server.find(self.path)
        if file is None:
            self._head(404, {"Content-Length": "0"})
            return
        if not file.is_unchanged:
            # Half an old kernel and half a new one must not be booted.
            self._head(410, {"Content-Length": "0"})
            return
        span = _range(self.headers.get("Range", ""), file.size)
        if span is None:
            self._head(416, {"Content-Range": f"bytes */{file.size}", "Content-Length": "0"})
            return
        first, end = span
        headers = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes", "ETag": file.mark}
        headers["Content-Length"] = str(end - first)
        partly = "Range" in self.headers and (first, end) != (0, file.size)
        if partly:
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{file.size}"
        self._head(206 if partly else 200, headers)
        if body:
            self._send(file, first, end)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, file: _ServedFile, first: int, end: int) -> None:
        while first < end:
            block = os.pread(file.descriptor, min(_BLOCK, end - first), first)
            if not block or not file.is_unchanged:
                self.close_connection = True  # written to under our hands: the client sees that bytes are missing
                return
            self.wfile.write(block)
            first += len(block)


def _mark(status: os.stat_result) -> str:
    return f'"{status.st_size:x}-{status.st_mtime_ns:x}"'


def _range(header: str, size: int) -> tuple[int, int] | None:
    """Return first byte and end of what a `Range` header asks for; None for what does not exist (RFC 9110, 14.2)."""
    match = re.fullmatch(r"bytes=([0-9]{0,18})-([0-9]{0,18})", header.strip())
    if match is None or not (match[1] or match[2]):
        return 0, size  # several ranges, other units: the whole file is a correct answer
    if not match[1]:
        return max(0, size - int(match[2])), size
    first = int(match[1])
    end = min(size, int(match[2]) + 1) if match[2] else size
    return (first, end) if first < end else None
