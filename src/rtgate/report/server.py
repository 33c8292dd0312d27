# SPDX-License-Identifier: MIT
"""A report over HTTP, for a browser that does not see the files: the pages themselves, and nothing else."""

from __future__ import annotations

import shutil
import socket
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

from rtgate.errors import ConfigError

_TYPES = {
    "index.html": "text/html; charset=utf-8",
    "summary.html": "text/html; charset=utf-8",
    "verdict.json": "application/json",
    "junit.xml": "application/xml",
    "note.md": "text/plain; charset=utf-8",
    "note.txt": "text/plain; charset=utf-8",
}
"""What is served. Records are not: what a board printed has no business in a browser."""
_FIRST = ("index.html", "summary.html")


def server(directory: Path, host: str, port: int) -> ThreadingHTTPServer:
    """Return a server of a report's directory; port 0 is any free one.

    Raises:
        ConfigError: there is no report, or the address cannot be had.
    """
    if not any((directory / name).is_file() for name in _FIRST):
        raise ConfigError(f"{directory} has no report: make one with rtgate report RECORDS -o {directory}")

    class Handler(_Handler):
        root = directory

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        def handle_error(self, request: object, client_address: object) -> None:
            """Say nothing of a browser that leaves in mid-page."""

    try:
        return Server((host, port), Handler)
    except OSError as error:
        raise ConfigError(f"{host}:{port}: {error.strerror or error}: name another one with --listen") from error


class _Handler(BaseHTTPRequestHandler):
    root: ClassVar[Path]
    timeout = 30  # seconds, of a client that is silent
    server_version, sys_version = "rtgate", ""

    def do_GET(self) -> None:
        """Answer with a file of the report."""
        path = self._file()
        if path is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        with path.open("rb") as source:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", _TYPES[path.name])
            self.send_header("Content-Length", str(path.stat().st_size))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if self.command == "GET":
                shutil.copyfileobj(source, self.wfile)

    do_HEAD = do_GET  # noqa: N815 - the library's name

    def _file(self) -> Path | None:
        """Return the file that is asked for; None if it is none of a report's."""
        request = self.path.partition("?")[0].removeprefix("/")
        for name in (request,) if request else _FIRST:
            path = self.root / name
            if name in _TYPES and path.is_file() and not path.is_symlink():
                return path
        return None

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing of each request."""
