# SPDX-License-Identifier: MIT
from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from selftests.unit.lava.job.conftest import DATA

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.lava.job import file_server
from rtgate.lava.job.file_server import FileServer, serving


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
    found = file_server._range(header, size)
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

    monkeypatch.setattr("rtgate.lava.job.file_server.os.pread", meanwhile)
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
