# SPDX-License-Identifier: MIT
from __future__ import annotations

import fcntl
import os
import pty
import select
import socket
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rtgate.console.line import Line, LineLostError, Opener, address, opener, watch
from rtgate.console.transport import SerialTransport
from rtgate.errors import ConfigError, TransportError

TIOCGEXCL = 0x80045440  # include/uapi/asm-generic/ioctls.h


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    ours, theirs = pty.openpty()
    name = os.ttyname(theirs)
    os.close(theirs)
    yield ours, name
    os.close(ours)


def test_a_serial_port_is_set_up_to_pass_bytes_on(terminal: tuple[int, str]) -> None:
    ours, name = terminal
    line = opener(f"serial:{name}:1500000")()
    settings = termios.tcgetattr(line.descriptor)
    assert settings[4] == termios.B1500000
    assert settings[2] & (termios.CSIZE | termios.CRTSCTS | termios.HUPCL) == termios.CS8
    assert line.read() == b""
    os.write(ours, b"\x00\x03\r\n\x11\x13\xff")
    select.select([line.descriptor], [], [], 5)
    assert line.read() == b"\x00\x03\r\n\x11\x13\xff"
    assert line.write(b"\n\xff\x04") == 3
    assert os.read(ours, 10) == b"\n\xff\x04"
    line.close()
    line.close()


def test_two_hubs_do_not_share_a_port(terminal: tuple[int, str]) -> None:
    """Also if root starts them, whom the kernel lets open it all the same."""
    line = opener(f"serial:{terminal[1]}")()
    with pytest.raises(LineLostError):
        opener(f"serial:{terminal[1]}")()
    line.close()


def test_a_hub_and_a_console_do_not_share_a_port(terminal: tuple[int, str]) -> None:
    console = SerialTransport(terminal[1], 115200)
    with pytest.raises(LineLostError, match="another program has it open"):
        opener(f"serial:{terminal[1]}")()
    other = os.open(terminal[1], os.O_RDWR | os.O_NOCTTY)
    assert fcntl.ioctl(other, TIOCGEXCL, bytes(4)) == bytes(4)
    os.close(other)
    console.close()
    line = opener(f"serial:{terminal[1]}")()
    with pytest.raises(TransportError, match="cannot be opened"):
        SerialTransport(terminal[1], 115200)
    line.close()


def test_a_port_that_is_not_there_is_a_lost_line() -> None:
    with pytest.raises(LineLostError, match="No such file"):
        opener("serial:/dev/ttyNONE:115200")()
    with pytest.raises(LineLostError):
        opener("serial:/dev/null:115200")()


def test_tcp_that_is_refused_and_tcp_that_closes() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    place = f"tcp:127.0.0.1:{server.getsockname()[1]}"
    line = opener(place)()
    assert line.connecting
    accepted, _ = server.accept()
    select.select([], [line.descriptor], [], 5)
    line.check_connection()
    accepted.close()
    select.select([line.descriptor], [], [], 5)
    with pytest.raises(LineLostError, match="closed"):
        line.read()
    line.close()
    server.close()
    refused = opener(place)()
    select.select([], [refused.descriptor], [], 5)
    with pytest.raises(LineLostError, match="refused"):
        refused.check_connection()
    refused.close()


def test_a_socket_in_the_file_system(tmp_path: Path) -> None:
    with pytest.raises(LineLostError, match="No such file"):
        opener(f"unix:{tmp_path}/console")()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{tmp_path}/console")
        server.listen()
        line = opener(f"unix:{tmp_path}/console")()
        line.check_connection()
        with server.accept()[0] as accepted:
            accepted.sendall(b"x")
            select.select([line.descriptor], [], [], 5)
            assert line.read() == b"x"
        line.close()


def test_a_name_that_is_looked_up_for_long_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()
    usual = socket.getaddrinfo

    def slow(host: str, port: int, **options: Any) -> list[Any]:
        answer.wait(30)
        return usual("127.0.0.1", port, **options)

    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(socket, "getaddrinfo", slow)
        open_line = opener(f"tcp:board-server:{server.getsockname()[1]}")
        began = time.monotonic()
        with pytest.raises(LineLostError, match=r"no answer yet .* board-server"):
            open_line()
        assert time.monotonic() - began < 10
        answer.set()
        line = _open_soon(open_line)
        select.select([], [line.descriptor], [], 5)
        line.check_connection()
        line.close()


def _open_soon(open_line: Opener) -> Line:
    deadline = time.monotonic() + 20
    while True:
        try:
            return open_line()
        except LineLostError:
            assert time.monotonic() < deadline


def test_a_name_that_cannot_be_one_is_a_lost_line() -> None:
    with pytest.raises(LineLostError):
        opener(f"tcp:{'x' * 64}.lab:7001")()


@pytest.mark.parametrize(
    "line", [f"unix:/{'x' * 107}", "ttyUSB0", "serial:", "serial:/dev/ttyS0:1234567", "tcp:host", "tcp:host:99999"]
)
def test_what_is_no_line_is_refused(line: str) -> None:
    with pytest.raises(ConfigError):
        opener(line)


def test_a_machine_that_is_gone_is_noticed_within_two_minutes() -> None:
    """By probes where nothing is sent, and by what is not acknowledged where something is."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        watch(connection)
        options = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
        idle, interval, count, unsent = (
            connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in options
        )
    assert idle + interval * count == 120
    assert unsent == 120_000


def test_addresses() -> None:
    assert address("7001") == ("127.0.0.1", 7001)
    assert address("0.0.0.0:7001") == ("0.0.0.0", 7001)
    assert address("[::1]:7001") == ("::1", 7001)
