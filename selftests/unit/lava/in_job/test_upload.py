# SPDX-License-Identifier: MIT
from __future__ import annotations

import contextlib
import io
import socket
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from selftests.unit.lava.conftest import HASTY

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.lava.in_job import upload


class Storage:
    """A storage that answers what a test wrote down."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.got: list[tuple[str, str | None, bytes]] = []
        storage = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                storage.got.append((self.path, self.headers.get("Authorization"), data))
                self.send_response(storage.answers.pop(0) if storage.answers else 201)
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/store"


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    monkeypatch.setattr(upload, "Patience", lambda **_: HASTY)
    made = Storage()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.fixture
def records(tmp_path: Path) -> Path:
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "x").write_text("content")
    return tmp_path / "records"


@pytest.mark.parametrize(("number", "directory"), [("47", "job-47"), ("12.1", "job-12.1"), ("", "job-none")])
def test_records_are_put_below_the_url_with_the_token(
    number: str, directory: str, storage: Storage, records: Path
) -> None:
    """Each job has a place of its own, also one of several boards."""
    url = upload.put(records, storage.url + "/", number, "boot-2", {"RTGATE_UPLOAD_TOKEN": "geheim-0123456789"})
    assert url == f"{storage.url}/{directory}/boot-2.tar.gz"
    ((path, token, data),) = storage.got
    assert (path, token) == (f"/store/{directory}/boot-2.tar.gz", "Bearer geheim-0123456789")
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert "records/x" in archive.getnames()


def test_a_token_may_stand_in_a_file(storage: Storage, records: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("geheim-0123456789\n")
    upload.put(records, storage.url, "47", "boot-1", {"RTGATE_UPLOAD_TOKEN_FILE": str(tmp_path / "token")})
    assert storage.got[0][1] == "Bearer geheim-0123456789"
    with pytest.raises(ConfigError, match="does not name a file"):
        upload.put(records, storage.url, "47", "boot-1", {"RTGATE_UPLOAD_TOKEN_FILE": str(tmp_path / "none")})


def test_a_storage_that_fails_once_is_asked_again(storage: Storage, records: Path) -> None:
    storage.answers = [503]
    upload.put(records, storage.url, "47", "boot-1", {})
    assert len(storage.got) == 2


def test_a_storage_in_trouble_is_the_labs(storage: Storage, records: Path) -> None:
    storage.answers = [503] * 1000
    with pytest.raises(InfrastructureError, match="HTTP 503"):
        upload.put(records, storage.url, "47", "boot-1", {})
    assert len(storage.got) > 3


@pytest.mark.parametrize("answer", [400, 403, 301, 302, 307])
def test_a_storage_that_refuses_is_not_asked_again_and_no_token_goes_elsewhere(
    answer: int, storage: Storage, records: Path
) -> None:
    storage.answers = [answer] * 3
    with pytest.raises(ConfigError) as caught:
        upload.put(records, storage.url, "47", "boot-1", {"RTGATE_UPLOAD_TOKEN": "geheim-0123456789"})
    assert len(storage.got) == 1
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("token", ["geheim-0123456789\nRTGATE_OTHER=x", "geheim-0123456789\r\nX: y", "geheim ö-012345"])
def test_a_file_that_holds_more_than_a_token_is_refused_and_not_printed(
    storage: Storage, records: Path, tmp_path: Path, token: str
) -> None:
    """The message stands in the job's log."""
    (tmp_path / "token").write_text(token, encoding="utf-8")
    environment = {"RTGATE_UPLOAD_TOKEN_FILE": str(tmp_path / "token")}
    for act in (
        lambda: upload.check(storage.url, "47", environment),
        lambda: upload.put(records, storage.url, "47", "b", environment),
    ):
        with pytest.raises(ConfigError, match="holds no token") as caught:
            act()
        assert "geheim" not in str(caught.value)
    assert storage.got == []


def test_an_upload_that_takes_too_long_is_given_up(
    storage: Storage, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "_LONGEST_S", 0.0)
    with pytest.raises(InfrastructureError, match="could not be uploaded in 0 s"):
        upload.put(records, storage.url, "47", "boot-1", {})


def test_what_is_no_answer_of_http_is_the_labs(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of something else that listens there: it must not end the job without its result."""
    monkeypatch.setattr(upload, "Patience", lambda **_: HASTY)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    with server.accept()[0] as connection:
                        connection.recv(1 << 16)
                        connection.sendall(b"220 ready\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(InfrastructureError, match="does not answer"):
            upload.put(records, f"http://127.0.0.1:{server.getsockname()[1]}", "47", "boot-1", {})
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    "url", ["ftp://h/x", "file:///etc", "https://", "x", "https://u:geheim@h/", "https://h/?t=geheim", "https://h/#a"]
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        upload.check(url, "47")
    assert "geheim" not in str(caught.value)
