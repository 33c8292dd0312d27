# SPDX-License-Identifier: MIT
"""The hub over real sockets: a board that a test plays, and clients."""

from __future__ import annotations

import re
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rtgate.console import telnet
from rtgate.console.hub import Hub, Settings
from rtgate.durations import Deadline
from rtgate.errors import InfrastructureError

Start = Callable[..., Hub]
Connect = Callable[..., socket.socket]
Accept = Callable[[Hub], socket.socket]
_MISSING = re.compile(rb"\r\n\*\*\* rtgate hub: (\d+) bytes are missing here: [^\r]*\*\*\*\r\n")


@pytest.fixture
def board() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        yield server


@pytest.fixture
def start(board: socket.socket, tmp_path: Path) -> Iterator[Start]:
    running: list[tuple[Hub, threading.Thread]] = []

    def started(**settings: object) -> Hub:
        everything = {"line": f"tcp:127.0.0.1:{board.getsockname()[1]}", "raw": (("127.0.0.1", 0),), **settings}
        hub = Hub(Settings(**everything))  # type: ignore[arg-type] # a test's shorthand
        thread = threading.Thread(target=hub.run)
        thread.start()
        running.append((hub, thread))
        return hub

    yield started
    for hub, thread in running:
        hub.stop()
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture
def accept(board: socket.socket, stack: ExitStack) -> Accept:
    """Return what returns the board's end of a hub's line, once the hub knows that it is there."""

    def accepted(hub: Hub) -> socket.socket:
        line = stack.enter_context(board.accept()[0])
        deadline = Deadline.after(10)
        while not hub._connected:
            assert not deadline.expired
            time.sleep(0.01)
        return line

    return accepted


@pytest.fixture
def client(stack: ExitStack) -> Connect:
    """Return what connects to the hub, once the hub knows of it or has turned it away."""

    def connected(hub: Hub, number: int = 0) -> socket.socket:
        connection = stack.enter_context(socket.create_connection(hub.addresses[number], timeout=10))
        name = "{}:{}".format(*connection.getsockname())
        deadline = Deadline.after(10)
        while name not in {one.name for one in tuple(hub._clients)} and not select.select([connection], [], [], 0)[0]:
            assert not deadline.expired
            time.sleep(0.01)
        return connection

    return connected


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def read_until(connection: socket.socket, end: bytes, seconds: float = 20) -> bytes:
    deadline = Deadline.after(seconds)
    data = bytearray()
    while data.find(end, max(0, len(data) - (2 << 20))) < 0:
        assert not deadline.expired, bytes(data[-200:])
        piece = connection.recv(1 << 20)
        assert piece, bytes(data[-200:])
        data += piece
    return bytes(data)


def test_everybody_reads_and_everybody_types(start: Start, client: Connect, accept: Accept) -> None:
    hub = start()
    line = accept(hub)
    first, second = client(hub), client(hub)
    first.sendall(b"uname\r")
    assert line.recv(100) == b"uname\r"
    second.sendall(b"\x03")
    assert line.recv(100) == b"\x03"
    line.sendall(b"Linux\xff\n")
    assert read_until(first, b"\n") == b"Linux\xff\n"
    assert read_until(second, b"\n") == b"Linux\xff\n"


def test_telnet_and_raw_side_by_side(start: Start, client: Connect, accept: Accept) -> None:
    hub = start(telnet=(("127.0.0.1", 0),))
    line = accept(hub)
    by_telnet, raw = client(hub, 0), client(hub, 1)
    assert by_telnet.recv(100) == telnet.GREETING
    by_telnet.sendall(bytes((telnet.IAC, telnet.DO, telnet.ECHO, telnet.IAC, telnet.WILL, 31)) + b"ls\r\n")
    assert line.recv(100) == b"ls\r"
    assert by_telnet.recv(100) == bytes((telnet.IAC, telnet.DONT, 31))
    raw.sendall(b"\r\n")
    assert line.recv(100) == b"\r\n"
    line.sendall(b"\xff.")
    assert read_until(by_telnet, b".") == b"\xff\xff."
    assert read_until(raw, b".") == b"\xff."


def test_an_idle_client_holds_up_nobody_and_learns_what_it_missed(
    start: Start, client: Connect, accept: Accept
) -> None:
    hub = start()
    line = accept(hub)
    idle, active = client(hub), client(hub)
    sent = b"".join(b"%09d\n" % number for number in range(1_000_000)) + b"END"
    sender = threading.Thread(target=line.sendall, args=(sent,))
    sender.start()
    assert read_until(active, b"END") == sent
    sender.join()
    late = read_until(idle, b"END")
    gaps = _MISSING.findall(late)
    assert gaps
    assert len(_MISSING.sub(b"", late)) + sum(int(gap) for gap in gaps) == len(sent)
    # What is dropped leaves half of the 256 KiB, less one piece of at most 64 KiB.
    assert late.endswith(sent[-64_000:])


def test_what_waits_for_a_client_is_bounded(start: Start, client: Connect, accept: Accept) -> None:
    hub = start(pending=100_000)
    line = accept(hub)
    idle = client(hub)
    idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    active = client(hub)
    sender = threading.Thread(target=line.sendall, args=(bytes(10_000_000) + b"END",))
    sender.start()
    read_until(active, b"END")
    sender.join()
    # Beyond the bound there is what both kernels keep.
    assert len(read_until(idle, b"END")) < 5_000_000


def test_a_line_that_closes_is_opened_again(start: Start, client: Connect, accept: Accept) -> None:
    hub = start()
    line = accept(hub)
    connection = client(hub)
    line.sendall(b"one\n")
    read_until(connection, b"one\n")
    line.close()
    said = read_until(connection, b"trying again ***\r\n")
    assert b"the line is gone" in said
    line = accept(hub)
    read_until(connection, b"the line is back ***\r\n")
    line.sendall(b"two\n")
    assert read_until(connection, b"two\n").endswith(b"two\n")
    connection.sendall(b"x")
    assert line.recv(10) == b"x"


def test_what_is_typed_while_the_line_is_gone_is_not_kept(start: Start, client: Connect, accept: Accept) -> None:
    hub = start()
    line = accept(hub)
    connection = client(hub)
    line.close()
    read_until(connection, b"trying again ***\r\n")
    connection.sendall(b"stale")
    time.sleep(0.05)
    line = accept(hub)
    read_until(connection, b"back ***\r\n")
    connection.sendall(b"fresh")
    assert line.recv(100) in (b"fresh", b"stalefresh"[-5:])


def test_a_line_that_is_not_there_yet_is_waited_for(start: Start, tmp_path: Path, client: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as early:
        port = early.getsockname()[1]
    hub = start(line=f"tcp:127.0.0.1:{port}", log=tmp_path / "log")
    connection = client(hub)
    assert b"the line is gone" in read_until(connection, b"***\r\n")
    with socket.create_server(("127.0.0.1", port)) as server:
        server.settimeout(10)
        line, _ = server.accept()
        line.sendall(b"here\n")
        read_until(connection, b"here\n")
        line.close()
    text = (tmp_path / "log").read_text()
    assert text.count("is lost: Connection refused") == 1, "once, not at each attempt"
    assert " | here\n" in text


def test_a_board_that_takes_nothing_stops_no_reader(start: Start, client: Connect, accept: Accept) -> None:
    hub = start()
    line = accept(hub)
    typing, reading = client(hub), client(hub)
    typing.settimeout(1)
    with pytest.raises(TimeoutError):
        typing.sendall(bytes(50_000_000))
    line.sendall(b"still here\n")
    read_until(reading, b"still here\n")
    read_until(typing, b"still here\n")


def test_a_client_that_breaks_off_is_forgotten(start: Start, tmp_path: Path, client: Connect, accept: Accept) -> None:
    hub = start(log=tmp_path / "log")
    line = accept(hub)
    broken, other = client(hub), client(hub)
    broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    broken.close()
    for _ in range(20):
        line.sendall(b"x" * 1000 + b"\n")
    line.sendall(b"END")
    read_until(other, b"END")
    assert (tmp_path / "log").read_text().count("has gone") == 1


def test_there_is_a_bound_on_clients(start: Start, client: Connect, accept: Accept) -> None:
    hub = start(clients=1)
    first = client(hub)
    line = accept(hub)
    line.sendall(b"x")
    first.recv(1)
    assert b"1 clients already" in read_until(client(hub), b"***\r\n")


def test_an_address_that_is_taken_is_the_labs_fault(board: socket.socket) -> None:
    with pytest.raises(InfrastructureError, match="cannot listen on"):
        Hub(Settings(line="tcp:127.0.0.1:1", raw=(board.getsockname()[:2],)))


def test_what_is_typed_after_a_long_silence_arrives(start: Start, client: Connect, tmp_path: Path) -> None:
    """A shell that waits for a command says nothing, for as long as it takes."""
    with socket.socket(socket.AF_UNIX) as machine:
        machine.bind(str(tmp_path / "console"))
        machine.listen()
        machine.settimeout(10)
        hub = start(line=f"unix:{tmp_path}/console", log=tmp_path / "log", patience=0.2)
        typing = client(hub)
        with machine.accept()[0] as quiet:
            for _ in range(3):
                time.sleep(0.5)
                typing.sendall(b"a command\n")
                read_until(quiet, b"a command\n")
        assert b"thrown away" not in (tmp_path / "log").read_bytes()


def test_what_a_stopped_machine_leaves_is_thrown_away(start: Start, client: Connect, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as machine:
        machine.bind(str(tmp_path / "console"))
        machine.listen()
        machine.settimeout(10)
        hub = start(line=f"unix:{tmp_path}/console", log=tmp_path / "log", patience=1.0)
        typing = client(hub)
        with machine.accept()[0] as stopped:
            typing.sendall(b"for a kernel that hangs\n")
            deadline = Deadline.after(10)
            while b"thrown away" not in (tmp_path / "log").read_bytes():
                assert not deadline.expired
                time.sleep(0.05)
            assert stopped.recv(100) == b"for a kernel that hangs\n"  # it is in the old connection only
        with machine.accept()[0] as started:
            started.sendall(b"U-Boot\n")
            assert read_until(typing, b"\n") == b"U-Boot\n"
            typing.sendall(b"\x03")
            assert started.recv(100) == b"\x03"


def test_a_machine_that_prints_and_takes_nothing_keeps_its_line(start: Start, client: Connect, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as machine:
        machine.bind(str(tmp_path / "console"))
        machine.listen()
        machine.settimeout(10)
        hub = start(line=f"unix:{tmp_path}/console", patience=1.0)
        typing = client(hub)
        with machine.accept()[0] as busy:
            typing.sendall(b"x")
            for _ in range(15):
                busy.sendall(b"loading\n")
                time.sleep(0.1)
            assert busy.recv(100) == b"x"
            busy.sendall(b"END")
            read_until(typing, b"END")
