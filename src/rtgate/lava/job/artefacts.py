# SPDX-License-Identifier: MIT
"""How kernel, ramdisk and device tree get to a lab's worker: by a file server of our own, a storage, or given URLs.

A directory that somebody uploads is a storage, too.

LAVA asks for each file with HEAD, fetches it later, and again on every retry; so what is published stays until the job
has ended. Whoever may read a job may read the URLs in it: the path of a served file cannot be guessed, and nothing else
is served.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedReader
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl, urlsplit

from rtgate import files
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.http.client import Http

_BLOCK = 1 << 18
_SOCKET_S = 120.0  # a worker that reads nothing for so long has gone
_SECRET = re.compile(r"token|passw|secret", re.IGNORECASE)  # a signature that expires is another matter
_URL = re.compile(r"(?:https?|ftp|file|scp)://[\x21-\x7e]{1,2000}")


class Store(Protocol):
    """Makes a file of this machine available to a lab's workers."""

    def publish(self, path: Path) -> str:
        """Return the URL of a file from now on."""


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
        where = f"/{secrets.token_urlsafe(24)}/{_name(path)}"
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


@dataclass(frozen=True, slots=True)
class Storage:
    """The lab's own storage, which takes files by HTTP PUT below a URL; equal files get equal names."""

    url: str
    http: Http

    def publish(self, path: Path) -> str:
        """Upload a file, unless it is there, and return its URL.

        Raises:
            ConfigError: the file cannot be read, or the storage refuses it.
            InfrastructureError: the storage does not answer.
        """
        try:
            with path.open("rb") as file:
                where = f"{self.url.rstrip('/')}/{_content_name(path, file)}"
                there = self.http.repeat("HEAD", where, follow=True)
                if there.status == 200 and there.headers.get("content-length") == str(path.stat().st_size):
                    return where
                reply = self.http.repeat("PUT", where, data=file)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
        if reply.status not in {200, 201, 204}:
            raise ConfigError(f"the storage refuses {where}: HTTP {reply.status}")
        return where


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory whose content somebody uploads, so that it is below a URL; equal files get equal names."""

    path: Path
    url: str

    def publish(self, path: Path) -> str:
        """Copy a file into the directory, unless it is there, and return the URL that it will have.

        Raises:
            ConfigError: the file cannot be read.
            InfrastructureError: the directory cannot be written.
        """
        try:
            with path.open("rb") as file:
                name = _content_name(path, file)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
        copy = self.path / name
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            if not copy.exists():
                files.copy(path, copy)
        except OSError as error:
            raise InfrastructureError(f"{copy} cannot be written: {error.strerror}") from error
        return f"{self.url.rstrip('/')}/{name}"


def _content_name(path: Path, file: BufferedReader) -> str:
    """Return what a file is called in a storage, by what it holds; `file` is read to its end. Raises OSError."""
    return f"{hashlib.file_digest(file, 'sha256').hexdigest()}/{_name(path)}"


def check_url(text: str) -> str:
    """Return a URL that a person gave, or raise ConfigError: it stands in the job, for all who may read it."""
    if not _URL.fullmatch(text):
        raise ConfigError(f"{text[:80]!r} is not a URL (expected http, https, ftp, scp or file://, without spaces)")
    parts = urlsplit(text)
    if parts.password or (parts.username and parts.scheme != "scp"):
        raise ConfigError(f"a URL in a job is public: no password in it ({parts.scheme}://...@{parts.hostname})")
    name = next((key for key, _ in parse_qsl(parts.query, keep_blank_values=True) if _SECRET.search(key)), "")
    if name:
        raise ConfigError(
            f"a URL in a job is public, and {name!r} in that of {parts.hostname} looks like a secret: the lab must be "
            "able to fetch the file without it"
        )
    return text


def storage(text: str) -> str:
    """Return the URL of a storage that files are uploaded to, or raise ConfigError; the message repeats no secret."""
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError("--put needs a URL of http or https")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigError(
            "--put: no user, password, query or fragment in the URL, it becomes part of the job: a token comes from "
            "RTGATE_PUT_TOKEN"
        )
    return check_url(text)


def directory_url(text: str) -> str:
    """Return the URL below which a directory's files will be, or raise ConfigError; the message repeats no secret."""
    parts = urlsplit(check_url(text))
    if parts.query or parts.fragment:
        raise ConfigError("--artefacts-url: names of files are added to it, so it has no query and no fragment")
    return text


def is_url(text: str) -> bool:
    """Return whether a word on the command line means a URL."""
    return "://" in text


def check(urls: Iterable[str], http: Http) -> None:
    """Check that what a job is going to fetch is there; what only a worker can see is left to it.

    Raises:
        ConfigError: a file is not there, or empty.
        InfrastructureError: a server does not answer.
    """
    for url in dict.fromkeys(urls):
        if not url.startswith(("http://", "https://")):
            continue
        reply = http.repeat("HEAD", url, follow=True)
        if reply.status in {405, 501}:
            reply = http.repeat("GET", url, follow=True, headers={"Range": "bytes=0-0"})
        if reply.status not in {200, 206}:
            raise ConfigError(f"{url}: HTTP {reply.status}: the lab could not fetch it either")
        if reply.headers.get("content-length") == "0":
            raise ConfigError(f"{url}: the file is empty")


def _name(path: Path) -> str:
    """Return a file's name as it may stand in a URL and on U-Boot's command line."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", path.name)[-80:].lstrip(".-") or "file"
