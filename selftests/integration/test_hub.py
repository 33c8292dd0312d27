# SPDX-License-Identifier: MIT
"""The hub as a program, with 50 MB, a client that reads and two that do not."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rtgate.durations import Deadline

LINES = 50 * (1 << 20) // 64
TEXT = b"".join(b"%062d\r\n" % number for number in range(LINES)) + b"END"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def started(stack: ExitStack, port: int, log: Path) -> tuple[subprocess.Popen[str], list[int]]:
    line = f"tcp:127.0.0.1:{port}"
    argv = [sys.executable, "-m", "rtgate", "hub", line, "--telnet", "0", "--raw", "0", "--log", str(log)]
    hub = stack.enter_context(subprocess.Popen(argv, stderr=subprocess.PIPE, text=True))
    stack.callback(hub.kill)
    assert hub.stderr is not None
    return hub, [int(found) for found in re.findall(r"127\.0\.0\.1:(\d+)", hub.stderr.readline().split(" on ")[1])]


def receive(client: socket.socket) -> tuple[bytearray, float]:
    """Return what the hub sends up to the end of the text, and the longest pause before a part of it."""
    received, longest = bytearray(), 0.0
    while not received.endswith(b"END"):
        before = time.monotonic()
        received += client.recv(1 << 20) or pytest.fail("the hub closed the line")
        longest = max(longest, time.monotonic() - before)
    return received, longest


def lava(client: socket.socket, done: threading.Event) -> None:
    """Read as LAVA 2023.01 does while a test runs: little, and seldom."""
    while not done.wait(1.0):
        client.recv(400)


def test_fifty_megabytes_reach_who_reads(stack: ExitStack, tmp_path: Path) -> None:
    board = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    board.settimeout(60)
    hub, (telnet, raw) = started(stack, board.getsockname()[1], tmp_path / "log")
    line = stack.enter_context(board.accept()[0])
    idle, seldom, reader = (
        stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60)) for port in (telnet, telnet, raw)
    )
    deadline = Deadline.after(10)
    while (tmp_path / "log").read_bytes().count(b" has come ") < 3:
        assert not deadline.expired
        time.sleep(0.01)
    done = threading.Event()
    jobs = ((line.sendall, (TEXT,)), (lava, (seldom, done)))
    threads = [threading.Thread(target=job, args=words, daemon=True) for job, words in jobs]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    received, longest = receive(reader)
    seconds = time.monotonic() - began
    done.set()
    assert received == TEXT
    print(f"{len(TEXT) / seconds / 1e6:.0f} MB/s, longest pause {longest:.2f} s")
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert longest < 5
    # Who comes back finds the newest bytes, and how many are missing before them.
    late, _ = receive(idle)
    missing = [int(found) for found in re.findall(rb"(\d+) bytes are missing here", late)]
    assert missing
    assert sum(missing) > 40_000_000
    assert late.endswith(TEXT[-100_000:])
    # The board's answer to what is typed comes at once, in spite of them.
    reader.sendall(b"x")
    line.settimeout(60)
    assert line.recv(1) == b"x"
    hub.send_signal(signal.SIGTERM)
    assert hub.wait(10) == 0
    log = (tmp_path / "log").read_text()
    assert log.count(f" | {LINES - 1:062d}\n") == 1
    assert log.count("\n") > LINES
