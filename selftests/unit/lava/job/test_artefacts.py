# SPDX-License-Identifier: MIT
from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from selftests.unit.lava.conftest import HASTY
from selftests.unit.lava.job.conftest import DATA

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.http.client import Http
from rtgate.http.secret import Token
from rtgate.lava.job.artefacts import Storage, check
from rtgate.lava.job.file_server import FileServer


@contextmanager
def storage(stored: dict[str, bytes], token: str, status: int = 201, lacking: int = 404) -> Iterator[str]:
    """Run a storage that takes files with a token; `lacking` is what it answers for a file that it has not."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_arguments: object) -> None: ...

        def answer(self, status: int, size: int = 0) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(size))
            self.end_headers()

        def do_HEAD(self) -> None:
            self.answer(200 if self.path in stored else lacking, len(stored.get(self.path, b"")))

        def do_PUT(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Authorization") != f"Bearer {token}":
                self.answer(403)
                return
            stored[self.path] = data
            self.answer(status)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_address[1]}/files/"
        http.shutdown()


@pytest.mark.parametrize("lacking", [404, 403])
def test_an_upload(lacking: int, tmp_path: Path) -> None:
    """A storage that lists nothing for us answers 403 for a file that it has not."""
    (tmp_path / "Image").write_bytes(DATA)
    stored: dict[str, bytes] = {}
    with storage(stored, "put-token-1", lacking=lacking) as url:
        store = Storage(url, Http(Token("put-token-1", "x"), "Bearer", HASTY))
        found = store.publish(tmp_path / "Image")
        stored_before = dict(stored)
        assert store.publish(tmp_path / "Image") == found
    assert found == f"{url}{hashlib.sha256(DATA).hexdigest()}/Image"
    assert list(stored.values()) == [DATA]
    assert stored == stored_before


def test_an_upload_that_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Image").write_bytes(DATA)
    with storage({}, "put-token-1") as url:
        with pytest.raises(ConfigError, match="refused a request without a token"):
            Storage(url, Http(patience=HASTY)).publish(tmp_path / "Image")
        store = Storage(url, Http(Token("put-token-1", "x"), "Bearer", HASTY))
        with pytest.raises(ConfigError, match="cannot be read"):
            store.publish(tmp_path / "none")


def test_a_storage_that_says_no(tmp_path: Path) -> None:
    (tmp_path / "Image").write_bytes(DATA)
    with storage({}, "put-token-1", status=409) as url, pytest.raises(ConfigError, match="HTTP 409"):
        Storage(url, Http(Token("put-token-1", "x"), "Bearer", HASTY)).publish(tmp_path / "Image")


@pytest.mark.parametrize("status", [403, 404, 400])
def test_a_url_that_is_signed_for_get_alone(tmp_path: Path, status: int) -> None:
    """A storage refuses HEAD there, and LAVA asks by GET as well."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_arguments: object) -> None: ...

        def answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "1")
            self.end_headers()

        def do_HEAD(self) -> None:
            self.answer(status)

        def do_GET(self) -> None:
            self.answer(206)
            self.wfile.write(b"x")

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        check([f"http://127.0.0.1:{http.server_address[1]}/Image?X-Amz-Signature=1"], Http(patience=HASTY))
        http.shutdown()


def test_what_is_not_there_is_found_before_the_job(url: str) -> None:
    check([url, url, "file:///only/the/worker/sees/this"], Http(patience=HASTY))
    with pytest.raises(ConfigError, match="HTTP 404: the lab could not fetch it either"):
        check([f"{url}x"], Http(patience=HASTY))


def test_an_empty_file_is_no_kernel(files: FileServer, tmp_path: Path) -> None:
    (tmp_path / "Image").write_bytes(b"")
    with pytest.raises(ConfigError, match="is empty"):
        check([files.publish(tmp_path / "Image")], Http(patience=HASTY))


@pytest.mark.long("waits for a server, 3 s; test_http and test_server do in make test")
def test_a_server_that_is_away() -> None:
    with pytest.raises(InfrastructureError):
        check(["http://127.0.0.1:9/x"], Http(patience=HASTY))
