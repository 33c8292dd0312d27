# SPDX-License-Identifier: MIT
from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from rtgate.http.client import Http, NoAnswer
from rtgate.http.patience import Patience

MIB = 1 << 20
PATIENCE = Patience(connect=2.0, answer=0.5, total=5.0, first=0.01, longest=0.05)
HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/yaml\r\n"


@contextmanager
def answering(send: Callable[[socket.socket], None]) -> Iterator[str]:
    """Yield the URL of a server that answers one request by `send`."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):  # the client has hung up
            connection.recv(65536)
            send(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    thread.join(10)
    assert not thread.is_alive()


def drip(connection: socket.socket) -> None:
    connection.sendall(f"{HEAD}Content-Length: 1000\r\n\r\n".encode())
    for _ in range(200):
        connection.sendall(b"x")
        time.sleep(0.05)


def drip_until_closed(connection: socket.socket) -> None:
    connection.sendall(f"{HEAD}Connection: close\r\n\r\n".encode())
    for _ in range(200):
        connection.sendall(b"x")
        time.sleep(0.05)


def drip_chunks(connection: socket.socket) -> None:
    connection.sendall(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
    for _ in range(200):
        connection.sendall(b"1\r\nx\r\n")
        time.sleep(0.05)


@pytest.mark.parametrize("send", [drip, drip_until_closed, drip_chunks])
def test_a_server_that_sends_byte_by_byte_holds_no_call_for_ever(send: Callable[[socket.socket], None]) -> None:
    """Each byte comes well within a timeout of its own."""
    start = time.monotonic()
    with answering(send) as url, pytest.raises(NoAnswer, match="gave no answer in 0 s"):
        Http(patience=PATIENCE).once("GET", url)
    assert time.monotonic() - start < 3


def test_a_long_answer_takes_its_time() -> None:
    def send(connection: socket.socket) -> None:
        connection.sendall(f"{HEAD}Content-Length: {4 * MIB}\r\n\r\n".encode())
        for _ in range(4):
            time.sleep(0.3)
            connection.sendall(b"x" * MIB)

    with answering(send) as url:
        start = time.monotonic()
        assert Http(patience=PATIENCE).once("GET", url).text == "x" * 4 * MIB
        assert time.monotonic() - start > 2 * PATIENCE.answer
    with answering(send) as url, pytest.raises(NoAnswer):
        Http(patience=replace(PATIENCE, total=0.7)).once("GET", url)


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("application/yaml", "\u00fc".encode(), "\u00fc"),
        ("text/plain; charset=latin-1", b"\xfc", "\u00fc"),
        ("text/plain; charset=klingon", "\u00fc".encode(), "\u00fc"),
        ("application/json", b"\xfc", "\ufffd"),
        ("application/json", b"", ""),
    ],
)
def test_the_encoding_is_what_the_server_says(kind: str, body: bytes, text: str) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    with answering(lambda connection: connection.sendall(head.encode() + body)) as url:
        assert Http(patience=PATIENCE).once("GET", url).text == text


def test_an_answer_that_ends_too_early_is_none() -> None:
    head = f"{HEAD}Content-Length: 10\r\n\r\nx".encode()
    with answering(lambda connection: connection.sendall(head)) as url, pytest.raises(NoAnswer):
        Http(patience=PATIENCE).once("GET", url)
