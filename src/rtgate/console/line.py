# SPDX-License-Identifier: MIT
"""The line behind a hub, which never waits: a serial port, or a socket that carries one (ser2net, QEMU)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import sys
import termios
import threading
from collections.abc import Callable
from dataclasses import dataclass

from rtgate.errors import ConfigError

_CHUNK = 65536
_DEFAULT_BAUD = 1_500_000  # what Rockchip's boards have
_LOOKUP_S = 0.2  # that a name may hold up the hub's clients; a slower answer is there when the hub tries again
_LONGEST_PATH = 107  # bytes, unix(7)


class LineLostError(OSError):
    """The line is gone; the hub tries again."""


@dataclass(frozen=True, slots=True)
class Line:
    """An open line; one that is `connecting` is there once it can be written to and `check_connection` was asked."""

    descriptor: int
    connecting: bool

    def check_connection(self) -> None:
        """Check that the connection came about. Raises LineLostError."""
        with socket.socket(fileno=os.dup(self.descriptor)) as copy:
            code = copy.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise LineLostError(os.strerror(code))
            if copy.family != socket.AF_UNIX:
                watch(copy)

    def read(self) -> bytes:
        """Return what has arrived, empty if nothing has. Raises LineLostError."""
        try:
            data = os.read(self.descriptor, _CHUNK)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise LineLostError(error.strerror) from error
        if not data:
            raise LineLostError("the other side closed it")
        return data

    def write(self, data: bytes) -> int:
        """Return how many of the bytes the line took. Raises LineLostError."""
        try:
            return os.write(self.descriptor, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise LineLostError(error.strerror) from error

    def untaken(self) -> int:
        """Return how much of what was written the other side has not read, as far as the kernel tells (AF_UNIX)."""
        try:
            return int.from_bytes(fcntl.ioctl(self.descriptor, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
        except OSError:
            return 0

    def close(self) -> None:
        """Close it."""
        with contextlib.suppress(OSError):
            os.close(self.descriptor)


Opener = Callable[[], Line]


def opener(line: str) -> Opener:
    """Return what opens `serial:DEVICE[:BAUD]`, `tcp:HOST:PORT` or `unix:PATH`; it raises LineLostError.

    Raises:
        ConfigError: it is none of these.
    """
    kind, _, rest = line.partition(":")
    if kind == "serial" and rest:
        device, rate = serial_port(rest, _DEFAULT_BAUD)
        speed = getattr(termios, f"B{rate}", None)
        if speed is None:
            raise ConfigError(f"{line}: the baud rate {rate} is none that serial ports know")
        return lambda: _serial(device, speed)
    if kind == "tcp":
        return _TcpOpener(*address(rest))
    if kind == "unix" and rest:
        if len(os.fsencode(rest)) > _LONGEST_PATH:
            raise ConfigError(f"{line}: the path of a socket has at most {_LONGEST_PATH} bytes")
        return lambda: _connect(socket.AF_UNIX, rest)
    raise ConfigError(f"unknown line {line!r} (allowed: serial:DEVICE[:BAUD], tcp:HOST:PORT, unix:PATH)")


def serial_port(text: str, baud: int) -> tuple[str, int]:
    """Read `DEVICE[:BAUD]`, of this rate without BAUD."""
    device, colon, rate = text.rpartition(":")
    return (device, int(rate)) if colon and rate.isdecimal() else (text, baud)


def address(text: str) -> tuple[str, int]:
    """Read `[HOST:]PORT`, of this machine without HOST; an IPv6 address stands in brackets. Raises ConfigError."""
    name, _, port = text.rpartition(":")
    if not (port.isdecimal() and int(port) < 65536):
        raise ConfigError(f"{text!r} is no TCP port (allowed: [HOST:]PORT)")
    return name.strip("[]") or "127.0.0.1", int(port)


def _serial(device: str, speed: int) -> Line:
    try:
        descriptor = os.open(device, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError as error:
        raise LineLostError(error.strerror) from error
    try:
        # A second program on the port would steal half of the bytes. A console of rtgate has the lock alone. That comes
        # first: TIOCEXCL stays until the last one closes the port, and would lock out whom it belongs to.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.ioctl(descriptor, termios.TIOCEXCL)
        settings = termios.tcgetattr(descriptor)
        # 8 data bits, no parity, no flow control. No HUPCL: closing must not touch DTR, which resets some boards.
        settings[0:4] = [0, 0, termios.CS8 | termios.CREAD | termios.CLOCAL, 0]
        settings[4] = settings[5] = speed
        termios.tcsetattr(descriptor, termios.TCSANOW, settings)
    except BlockingIOError as error:
        os.close(descriptor)
        raise LineLostError("another program has it open: end that one") from error
    except (OSError, termios.error) as error:
        os.close(descriptor)
        raise LineLostError(error.args[-1]) from error
    return Line(descriptor, connecting=False)


class _TcpOpener:
    """Opens connections to a host. Its name is looked up beside, as that may take longer than anybody waits."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._lookup: _Lookup | None = None

    def __call__(self) -> Line:
        lookup = self._lookup = self._lookup or _Lookup(self._host, self._port)
        lookup.thread.join(_LOOKUP_S)
        if lookup.thread.is_alive():
            raise LineLostError(f"no answer yet to what the address of {self._host} is")
        self._lookup = None
        if lookup.problem:
            raise LineLostError(f"{self._host}: {lookup.problem}")
        return _connect(*lookup.places[0])


class _Lookup:
    """One lookup of a host's address."""

    def __init__(self, host: str, port: int) -> None:
        self.places: list[tuple[int, object]] = []
        self.problem = ""
        self.thread = threading.Thread(target=self._look_up, args=(host, port), daemon=True)
        self.thread.start()

    def _look_up(self, host: str, port: int) -> None:
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # the latter: a label of the name is too long
            self.problem = str(error)
        else:
            self.places = [(family, place) for family, _, _, _, place in answers]


def _connect(family: int, place: object) -> Line:
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.settimeout(0)
    code = connection.connect_ex(place)  # type: ignore[arg-type] # whatever belongs to the family
    if code not in (0, errno.EINPROGRESS):
        connection.close()
        raise LineLostError(os.strerror(code))
    return Line(connection.detach(), connecting=True)


def watch(connection: socket.socket) -> None:
    """Have bytes sent at once, and the kernel notice within about two minutes that the other machine is gone."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6)
    # Probes are for a line that is idle. Where output waits for an answer, the kernel would try for 15 minutes.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 120_000)  # ms
