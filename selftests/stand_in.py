# SPDX-License-Identifier: MIT
"""What the stand-ins for servers share: they listen, are in moods, and answer a request under a lock."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

Headers = dict[str, str]
Response = tuple[int, Any, Headers]


@dataclass
class StandIn:
    """A server, and what goes wrong: moods are used up one by one by requests that match.

    A mood is (method, pattern of the path, what happens): `500`, `409` and so on; `lost`, carried out and never
    answered; `unheard`, neither; `page`, the page of a proxy; `slow`, an answer after two seconds; `deleted`, somebody
    deletes what the path names just before; `redirect`, elsewhere; others are the server's own.
    """

    prefix: ClassVar[str] = "/"
    name: ClassVar[str] = ""

    url: str = ""
    moods: list[tuple[str, str, str]] = field(default_factory=list)
    away: Callable[[], bool] = lambda: False
    requests: list[str] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def troubles(self) -> Mapping[str, Response]:
        """Return the answers of the server's own moods."""
        return {}

    def common_headers(self) -> Headers:
        """Return the headers of every answer."""
        return {}

    def lose(self, path: str) -> None:
        """Let somebody delete what a path names."""

    def answer(self, method: str, path: str, query: dict[str, str], body: Any, headers: Headers) -> Response:
        """Return status, body and headers."""
        raise NotImplementedError

    def mood(self, method: str, path: str) -> str:
        for number, (wanted, pattern, what) in enumerate(self.moods):
            if wanted == method and re.search(pattern, path):
                del self.moods[number]
                return what
        return ""

    def trouble(self, mood: str) -> Response | None:
        """Return the answer of a mood that hinders the request from being carried out."""
        troubles: dict[str, Response] = {
            "page": (200, "<html>Welcome to nginx!</html>", {}),
            "redirect": (301, "", {"Location": "http://elsewhere.invalid/"}),
            **self.troubles,
        }
        if mood.isdecimal() and mood not in troubles:
            return int(mood), f"<html>{self.name} is not responding</html>", {}
        return troubles.get(mood)


class _Handler(BaseHTTPRequestHandler):
    server: _Listener

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._handle("GET")

    def do_POST(self) -> None:
        self._handle("POST")

    def do_PUT(self) -> None:
        self._handle("PUT")

    def do_PATCH(self) -> None:
        self._handle("PATCH")

    def do_DELETE(self) -> None:
        self._handle("DELETE")

    def _handle(self, method: str) -> None:
        stand_in = self.server.stand_in
        parts = urlsplit(self.path)
        path = parts.path.removeprefix(stand_in.prefix)
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        headers = {name.lower(): value for name, value in self.headers.items()}
        with stand_in.lock:
            stand_in.requests.append(f"{method} {path}")
            mood = "503" if stand_in.away() else stand_in.mood(method, path)
            if mood == "unheard":
                self.close_connection = True
                return
            if mood == "deleted":
                stand_in.lose(path)
            answer = stand_in.trouble(mood) or stand_in.answer(
                method, path, query, json.loads(data) if data else None, headers
            )
        if mood == "lost":
            self.close_connection = True
            return
        if mood == "slow":
            time.sleep(2)
        self._send(*answer)

    def _send(self, status: int, body: Any, headers: Headers) -> None:
        kind = "text/plain" if isinstance(body, str) else "application/json"
        data = b"" if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        every = self.server.stand_in.common_headers()
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **every, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    stand_in: StandIn

    def handle_error(self, *_arguments: object) -> None:
        """A client that has gone is part of the tests."""


@contextmanager
def run(stand_in: StandIn) -> Iterator[None]:
    """Let a stand-in listen on any port."""
    with _Listener(("127.0.0.1", 0), _Handler) as http:
        http.stand_in = stand_in
        stand_in.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield
        finally:
            http.shutdown()
