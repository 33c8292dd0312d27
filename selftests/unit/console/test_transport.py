# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import pty
import signal
import socket
import threading
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rtgate.board import boards
from rtgate.console.transport import EndedError, ProgramTransport, SerialTransport, Transport, open_transport
from rtgate.errors import ConfigError, TransportError
from rtgate.target.live import LiveTarget

EVERY_BYTE = bytes(range(256))


def read(transport: Transport, size: int) -> bytes:
    data = b""
    end = time.monotonic() + 10
    while len(data) < size and time.monotonic() < end:
        data += transport.read()
    return data


def read_until_closed(transport: Transport) -> bytes:
    data = b""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            data += transport.read()
        except TransportError:
            return data
    raise AssertionError("it did not close")


def test_ctrl_c_interrupts_a_program_also_when_we_were_started_in_the_background() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        transport = ProgramTransport(["sh", "-c", "echo ready; exec sleep 100"])
        assert read(transport, 7) == b"ready\r\n"
        transport.write(b"\x03")
        read_until_closed(transport)
    finally:
        signal.signal(signal.SIGINT, before)
        transport.close()


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    """Return the far end of a pseudo-terminal, and the name of the near end."""
    far, near = pty.openpty()
    tty.setraw(near)
    name = os.ttyname(near)
    yield far, name
    os.close(near)
    os.close(far)


def test_a_serial_port_is_one_run_s_alone(terminal: tuple[int, str]) -> None:
    _, name = terminal
    first = open_transport(f"serial:{name}", 9600)
    try:
        with pytest.raises(TransportError, match="cannot be opened"):
            open_transport(f"serial:{name}", 9600)
    finally:
        first.close()
    open_transport(f"serial:{name}", 9600).close()


@pytest.fixture
def port() -> Iterator[tuple[socket.socket, int]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        yield server, server.getsockname()[1]


def test_a_serial_port_carries_every_byte(terminal: tuple[int, str]) -> None:
    far, name = terminal
    transport = open_transport(f"serial:{name}:115200", 9600)
    try:
        os.write(far, EVERY_BYTE)
        assert read(transport, 256) == EVERY_BYTE
        transport.write(EVERY_BYTE)
        assert os.read(far, 1000) == EVERY_BYTE
        assert transport.read() == b""
    finally:
        transport.close()


def test_a_tcp_port_carries_every_byte(port: tuple[socket.socket, int]) -> None:
    server, number = port
    transport = open_transport(f"tcp:127.0.0.1:{number}", 9600)
    far, _ = server.accept()
    with far:
        far.sendall(EVERY_BYTE)
        assert read(transport, 256) == EVERY_BYTE
        transport.write(EVERY_BYTE)
        assert far.recv(1000) == EVERY_BYTE
        assert transport.read() == b""
        far.shutdown(socket.SHUT_RDWR)
    assert read_until_closed(transport) == b""
    transport.close()


def test_a_tcp_port_is_read_as_fast_as_it_sends(port: tuple[socket.socket, int]) -> None:
    """Rockchip's consoles send 150 kB in a second."""
    server, number = port
    transport = open_transport(f"tcp:127.0.0.1:{number}", 9600)
    far, _ = server.accept()
    with far:
        far.sendall(bytes(20_000))
        far.shutdown(socket.SHUT_WR)
        sizes: list[int] = []
        with suppress(TransportError):
            while True:
                sizes.append(len(transport.read()))
    transport.close()
    assert sum(sizes) == 20_000
    assert len(sizes) < 100


def test_a_program_carries_bytes() -> None:
    transport = open_transport("command:sh -c 'stty raw -echo; echo ready; exec cat'", 9600)
    try:
        assert read(transport, 6).startswith(b"ready")
        transport.write(b"\x80abc\xff\n")
        assert read(transport, 6) == b"\x80abc\xff\n"
        assert transport.read() == b""
    finally:
        transport.close()


def test_what_a_program_printed_is_read_before_its_end_is_told() -> None:
    transport = ProgramTransport(["echo", "last words"])
    assert read_until_closed(transport) == b"last words\r\n"
    transport.close()


def test_closing_ends_a_program_that_does_not_want_to(tmp_path: Path) -> None:
    script = "trap '' HUP INT TERM; echo $$; while :; do sleep 0.05; done"
    transport = ProgramTransport(["sh", "-c", script])
    pid = int(read(transport, 2).split()[0])
    assert Path(f"/proc/{pid}").exists()
    transport.close()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("size", [0, 1])
def test_a_quiet_line_is_not_waited_for(terminal: tuple[int, str], size: int) -> None:
    far, name = terminal
    transport = SerialTransport(name, 115200)
    os.write(far, b"x" * size)
    began = time.monotonic()
    assert transport.read() == b"x" * size
    assert time.monotonic() - began < 2
    transport.close()


def test_a_port_that_vanished_is_an_error() -> None:
    far, near = pty.openpty()
    transport = SerialTransport(os.ttyname(near), 115200)
    os.close(near)
    os.close(far)
    read_until_closed(transport)
    with pytest.raises(TransportError, match="does not take data"):
        transport.write(b"x")
    transport.close()


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize(
    "console",
    [lambda: "serial:/dev/nowhere", lambda: f"tcp:127.0.0.1:{closed_port()}"],
    ids=["no device", "nobody listens"],
)
def test_a_console_that_cannot_be_opened_is_the_labs_fault(console: Callable[[], str]) -> None:
    with pytest.raises(TransportError, match="cannot be opened"):
        open_transport(console(), 115200)


def test_a_program_that_does_not_exist_ends_at_once() -> None:
    assert b"nowhere" in read_until_closed(open_transport("command:/dev/null/nowhere --option", 115200))


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("echo x; exit 3", 3), ("kill -KILL $$", None)])
def test_how_a_program_ended_is_told(script: str, code: int | None) -> None:
    transport = ProgramTransport(["sh", "-c", script])
    with suppress(EndedError):
        while True:
            transport.read()
    with pytest.raises(EndedError, match=rf"ended \(exit code {code}\)") as caught:
        transport.read()
    assert caught.value.code == code
    transport.close()


def test_a_program_is_not_read_after_its_end() -> None:
    transport = ProgramTransport(["true"])
    read_until_closed(transport)
    with pytest.raises(TransportError):
        transport.read()
    transport.close()


@pytest.mark.parametrize(
    "console", ["", "serial", "serial:", "tcp:", "tcp:host", "tcp:h:ssh", "tcp:a:b:c", "command:", "ssh:h"]
)
def test_an_unknown_console_lists_the_known_ones(console: str) -> None:
    with pytest.raises(
        ConfigError, match=r"unknown console .* \(allowed: .*serial:DEVICE.*tcp:HOST:PORT, command:CMD, lava\)"
    ):
        open_transport(console, 115200)


@pytest.mark.parametrize("console", ["command:  ", "command:ssh 'board"])
def test_a_command_that_is_none_is_a_mistake(console: str) -> None:
    with pytest.raises(ConfigError):
        open_transport(console, 115200)


def test_an_attached_board_is_refused_before_the_first_boot() -> None:
    with pytest.raises(ConfigError, match="unknown console 'tcp:host'"):
        LiveTarget.of_console(boards.board("virt-arm64"), "tcp:host", threading.Event())
