# SPDX-License-Identifier: MIT
from __future__ import annotations

import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

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
    monkeypatch.setattr(upload, "_WAIT_S", 0.0)
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


def test_records_are_put_below_the_url_with_the_token(storage: Storage, records: Path) -> None:
    url = upload.put(records, storage.url + "/", "boot-2", {"LAVA_JOB_ID": "47", "RTGATE_UPLOAD_TOKEN": "geheim"})
    assert url == f"{storage.url}/job-47/boot-2.tar.gz"
    ((path, token, data),) = storage.got
    assert (path, token) == ("/store/job-47/boot-2.tar.gz", "Bearer geheim")
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert "records/x" in archive.getnames()


def test_a_token_may_stand_in_a_file(storage: Storage, records: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("geheim\n")
    upload.put(records, storage.url, "boot-1", {"RTGATE_UPLOAD_TOKEN_FILE": str(tmp_path / "token")})
    assert storage.got[0][1] == "Bearer geheim"
    with pytest.raises(ConfigError, match="cannot be read"):
        upload.put(records, storage.url, "boot-1", {"RTGATE_UPLOAD_TOKEN_FILE": str(tmp_path / "none")})


def test_a_storage_that_fails_once_is_asked_again(storage: Storage, records: Path) -> None:
    storage.answers = [503]
    upload.put(records, storage.url, "boot-1", {})
    assert len(storage.got) == 2


@pytest.mark.parametrize("answer", [503, 403, 301, 302, 307])
def test_a_storage_that_does_not_take_it_is_the_labs_and_no_token_goes_elsewhere(
    answer: int, storage: Storage, records: Path
) -> None:
    storage.answers = [answer] * 3
    with pytest.raises(InfrastructureError, match=f"answered {answer}") as caught:
        upload.put(records, storage.url, "boot-1", {"RTGATE_UPLOAD_TOKEN": "geheim"})
    assert len(storage.got) == 3
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["ftp://h/x", "file:///etc", "https://", "x", "https://u:geheim@h/", "https://h/?t=geheim", "https://h/#a"]
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        upload.check(url)
    assert "geheim" not in str(caught.value)
