# SPDX-License-Identifier: MIT
"""A relay in front of a server that loses answers, or refuses what it should carry out."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def spoiling(url: str, count: int, status: int = 0) -> Iterator[str]:
    """Yield the URL of a relay that spoils the first `count` POSTs.

    It carries them out and loses the answers; with a status it answers that, and carries nothing out.
    """
    left = [count]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._relay(None)

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            if status and left[0]:
                left[0] -= 1
                self._answer(status, b"spoiled")
            else:
                self._relay(data)

        def _relay(self, data: bytes | None) -> None:
            request = urllib.request.Request(f"{url}{self.path}", data, method=self.command)
            for name in ("Authorization", "Content-Type"):
                if self.headers[name]:
                    request.add_header(name, self.headers[name])
            with urllib.request.urlopen(request, timeout=60) as answer:
                body = answer.read()
            if data is not None and left[0]:
                left[0] -= 1
                self.close_connection = True
                return
            self._answer(200, body)

        def _answer(self, code: int, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
