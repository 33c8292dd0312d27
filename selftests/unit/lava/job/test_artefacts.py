# SPDX-License-Identifier: MIT
from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from selftests.unit.lava.conftest import HASTY

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.http.client import Http
from rtgate.http.secret import Token
from rtgate.lava.job import artefacts
from rtgate.lava.job.artefacts import FileServer, Storage, check, serving

DATA = bytes(range(256)) * 1000


@pytest.fixture
def files() -> Iterator[FileServer]:
    with serving("", "http://127.0.0.1:8000") as running:
        yield running


@pytest.fixture
def url(files: FileServer, tmp_path: Path) -> str:
    (tmp_path / "Image").write_bytes(DATA)
    return files.publish(tmp_path / "Image")


def test_a_file_at_a_path_that_nobody_guesses(url: str) -> None:
    assert url.startswith("http://127.0.0.1:")
    secret, name = url.split("/")[-2:]
    assert (len(secret), name) == (32, "Image")
    reply = requests.get(url, timeout=5)
    assert (reply.status_code, reply.content) == (200, DATA)


def test_head_comes_first(url: str) -> None:
    reply = requests.head(url, timeout=5)
    assert (reply.status_code, reply.headers["Content-Length"], reply.content) == (200, str(len(DATA)), b"")
    assert reply.headers["Accept-Ranges"] == "bytes"


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("bytes=0-99", (0, 100)),
        ("bytes=100-", (100, len(DATA))),
        ("bytes=-10", (len(DATA) - 10, len(DATA))),
        (f"bytes=5-{len(DATA) * 2}", (5, len(DATA))),
    ],
)
def test_ranges(url: str, asked: str, found: tuple[int, int]) -> None:
    reply = requests.get(url, headers={"Range": asked}, timeout=5)
    assert (reply.status_code, reply.content) == (206, DATA[slice(*found)])
    assert reply.headers["Content-Range"] == f"bytes {found[0]}-{found[1] - 1}/{len(DATA)}"


def test_a_range_behind_the_end(url: str) -> None:
    reply = requests.get(url, headers={"Range": f"bytes={len(DATA)}-"}, timeout=5)
    assert (reply.status_code, reply.headers["Content-Range"]) == (416, f"bytes */{len(DATA)}")


@pytest.mark.parametrize("asked", ["bytes=0-1,5-6", "lines=1-2", "nonsense", "bytes=-"])
def test_ranges_that_nobody_needs_get_the_whole_file(url: str, asked: str) -> None:
    reply = requests.get(url, headers={"Range": asked}, timeout=5)
    assert (reply.status_code, len(reply.content)) == (200, len(DATA))


@given(st.text(), st.integers(0, 10_000))
def test_no_range_is_out_of_the_file(header: str, size: int) -> None:
    found = artefacts._range(header, size)
    assert found is None or 0 <= found[0] <= found[1] <= size


@pytest.mark.parametrize("path", ["/", "/Image", "/../../etc/passwd", "/x/Image", "//etc/passwd", "/%2e%2e/etc/passwd"])
def test_nothing_else_is_served(url: str, path: str) -> None:
    base = "/".join(url.split("/")[:3])
    assert requests.get(f"{base}{path}", timeout=5).status_code == 404


def test_nobody_writes(url: str) -> None:
    assert requests.put(url, data=b"x", timeout=5).status_code == 501
    assert requests.get(url, timeout=5).content == DATA


def test_many_at_once(url: str) -> None:
    found: list[bytes] = []

    def fetch() -> None:
        found.append(hashlib.sha256(requests.get(url, timeout=10).content).digest())

    threads = [threading.Thread(target=fetch) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [hashlib.sha256(DATA).digest()] * 8


def test_a_file_that_is_replaced_stays_what_it_was(url: str, tmp_path: Path) -> None:
    (tmp_path / "new").write_bytes(b"another kernel")
    (tmp_path / "new").rename(tmp_path / "Image")
    assert requests.get(url, timeout=5).content == DATA


def test_a_file_that_is_written_over_is_served_no_more(url: str, tmp_path: Path) -> None:
    (tmp_path / "Image").write_bytes(b"half a kernel")
    assert requests.get(url, timeout=5).status_code == 410


@pytest.mark.parametrize("asked", [{}, {"Range": "bytes=0-99"}])
def test_a_file_that_is_written_over_at_the_same_size_is_served_no_more(
    url: str, tmp_path: Path, asked: dict[str, str]
) -> None:
    with (tmp_path / "Image").open("r+b") as file:
        file.write(b"another kernel")
    _later(tmp_path / "Image")
    assert requests.get(url, headers=asked, timeout=5).status_code == 410
    assert requests.head(url, headers=asked, timeout=5).status_code == 410


def test_a_file_that_is_written_over_while_it_is_sent_is_cut_short(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pread

    def meanwhile(descriptor: int, size: int, start: int) -> bytes:
        if start:
            _later(tmp_path / "Image")
        return real(descriptor, min(size, 1000), start)

    monkeypatch.setattr("rtgate.lava.job.artefacts.os.pread", meanwhile)
    with pytest.raises(requests.RequestException):
        requests.get(url, timeout=5)


def _later(path: Path) -> None:
    """Let a file be written a second later: a file system's clock may not tell what lies closer together."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))


def test_names_that_a_boot_loader_can_be_told(files: FileServer, tmp_path: Path) -> None:
    (tmp_path / "my kernel;reset").write_bytes(b"x")
    assert files.publish(tmp_path / "my kernel;reset").endswith("/my_kernel_reset")


def test_a_file_that_is_not_there(files: FileServer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        files.publish(tmp_path / "none")


def test_after_the_end_nothing_answers(tmp_path: Path) -> None:
    (tmp_path / "Image").write_bytes(DATA)
    with serving("", "http://127.0.0.1:1") as files:
        url = files.publish(tmp_path / "Image")
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=2)


def test_a_name_of_ones_own() -> None:
    with serving("localhost", "http://127.0.0.1:1") as files:
        assert files.host == "localhost"


@pytest.mark.parametrize("text", ["a b", "host:", "host:99999", "http://host", ":80"])
def test_names_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="--serve"), serving(text, "http://127.0.0.1:1"):
        pass


def test_a_port_that_is_taken(files: FileServer, url: str) -> None:
    port = url.split("/")[2].split(":")[1]
    with pytest.raises(InfrastructureError, match="cannot be served"), serving(f"127.0.0.1:{port}", "http://h"):
        pass


# --- a storage


@contextmanager
def storage(stored: dict[str, bytes], token: str, status: int = 201) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_arguments: object) -> None: ...

        def answer(self, status: int, size: int = 0) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(size))
            self.end_headers()

        def do_HEAD(self) -> None:
            self.answer(200 if self.path in stored else 404, len(stored.get(self.path, b"")))

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


def test_an_upload(tmp_path: Path) -> None:
    (tmp_path / "Image").write_bytes(DATA)
    stored: dict[str, bytes] = {}
    with storage(stored, "put-token-1") as url:
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


# --- URLs


@pytest.mark.parametrize("url", ["https://h/Image", "file:///srv/Image", "scp://u@h/Image", "ftp://h/x"])
def test_urls_that_are_given(url: str) -> None:
    assert artefacts.check_url(url) == url


@pytest.mark.parametrize(
    "url",
    ["https://u:secret@h/x", "https://token@h/x", "http://h/a b", "http://h/\n", "javascript:1", "http://h/\x1b[m"],
)
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        artefacts.check_url(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["private_token", "job_token", "access-token", "PASSWORD", "client_secret"])
def test_a_url_with_a_secret_in_its_query_never_gets_into_a_job(key: str) -> None:
    with pytest.raises(ConfigError, match="looks like a secret") as caught:
        artefacts.check_url(f"https://h/Image?x=1&{key}=hidden")
    assert "hidden" not in str(caught.value)
    assert artefacts.check_url("https://h/Image?X-Amz-Signature=1").endswith("=1")


@pytest.mark.parametrize(
    "url", ["ftp://h/x", "h/x", "https://u:hidden@h/x", "https://h/x?sig=hidden", "https://h/x#hidden", "https:///x"]
)
def test_what_is_no_storage(url: str) -> None:
    with pytest.raises(ConfigError, match="--put") as caught:
        artefacts.storage(url)
    assert "hidden" not in str(caught.value)
    assert artefacts.storage("https://h/x") == "https://h/x"


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
