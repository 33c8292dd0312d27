# SPDX-License-Identifier: MIT
from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping

import pytest
import requests

from rtgate.errors import ConfigError
from rtgate.http import receiver
from rtgate.http.receiver import Receiver

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def seen() -> list[tuple[Mapping[str, str], bytes]]:
    return []


@pytest.fixture
def address(seen: list[tuple[Mapping[str, str], bytes]]) -> Iterator[tuple[str, int]]:
    def receive(headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        seen.append((headers, body))
        return 202, "taken"

    with Receiver(("127.0.0.1", 0), receive, longest_s=1.0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield "127.0.0.1", server.server_port
        server.shutdown()


def talk(address: tuple[str, int], data: bytes, patience_s: float = 5.0) -> bytes:
    """Send bytes and return the answer; a connection that is cut has none."""
    with socket.create_connection(address, timeout=patience_s) as line:
        line.sendall(data)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := line.recv(4096):
                answer += piece
        return answer


def test_what_is_posted_arrives(address: tuple[str, int], seen: list[tuple[Mapping[str, str], bytes]]) -> None:
    url = f"http://127.0.0.1:{address[1]}/any/path"
    with requests.post(url, data=b'{"x": 1}', headers={**JSON, "X-Event": "note"}, timeout=5) as answer:
        assert (answer.status_code, answer.text) == (202, "taken\n")
    ((headers, body),) = seen
    assert (headers["x-event"], body) == ("note", b'{"x": 1}')


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_an_address_of_ipv6() -> None:
    with Receiver(("::1", 0), lambda *_: (200, "")) as server:
        assert server.socket.getsockname()[:2] == ("::1", server.server_port)


def test_threads_that_cannot_be_started_take_no_room_for_ever(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none)
        for _ in range(receiver._CONNECTIONS):
            assert talk(address, b"") == b""
    with requests.post(f"http://127.0.0.1:{address[1]}/", data=b"{}", headers=JSON, timeout=5) as answer:
        assert answer.status_code == 202


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST / HTTP/1.1\r\nContent-Type: application/json\r\n\r\n", b"411"),
        (b"POST / HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: -5\r\n\r\n", b"411"),
        (b"POST / HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", b"411"),
        (b"POST / HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 26214401\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n", b"415"),
        (b"GET / HTTP/1.1\r\n\r\n", b"501"),
        (b"\xff\xfe\x00\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", b"431"),
        (b"POST /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
    ],
)
def test_what_is_refused_unread(
    address: tuple[str, int], seen: list[tuple[Mapping[str, str], bytes]], head: bytes, status: bytes
) -> None:
    assert status in talk(address, head).partition(b"\r\n")[0]
    assert seen == []


def test_a_body_that_ends_early_is_none(address: tuple[str, int], seen: list[object]) -> None:
    with socket.create_connection(address) as line:
        line.sendall(b"POST / HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{}")
        line.shutdown(socket.SHUT_WR)
        assert line.recv(100) == b""
    assert seen == []


def test_who_sends_a_byte_now_and_then_is_cut_off(address: tuple[str, int], seen: list[object]) -> None:
    """Each byte comes in time; the whole does not."""
    began = time.monotonic()
    with socket.create_connection(address) as line, contextlib.suppress(OSError):
        line.sendall(b"POST / HTTP/1.1\r\nX: ")
        while time.monotonic() - began < 10:
            time.sleep(0.2)
            line.sendall(b"y")
    assert time.monotonic() - began < 8
    assert seen == []


def test_too_many_connections_are_sent_away_and_later_ones_are_served(address: tuple[str, int]) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(receiver._CONNECTIONS):
            stack.enter_context(socket.create_connection(address))
        time.sleep(0.3)
        assert b" 503 " in talk(address, b"")
    url, end = f"http://127.0.0.1:{address[1]}/", time.monotonic() + 8
    while requests.post(url, data=b"{}", headers=JSON, timeout=5).status_code != 202:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_an_address_that_cannot_be_had(address: tuple[str, int]) -> None:
    with pytest.raises(ConfigError, match="name another one with --listen"):
        Receiver(address, lambda headers, body: (200, ""))
