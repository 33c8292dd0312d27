# SPDX-License-Identifier: MIT
"""Transports: bytes to and from a console, whatever carries them. The only owner of pexpect and pyserial."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import pexpect
import serial

from rtgate.console.line import address, serial_port, watch
from rtgate.durations import Deadline
from rtgate.errors import ConfigError, TransportError
from rtgate.process import die_with_parent

_POLL_S = 0.05
_CHUNK = 65536
_PATIENCE_S = 10.0  # for a connection, and for what does not take what is typed


class EndedError(TransportError):
    """The program behind a console ended. `code` is its exit code, None where it is not known or a signal ended it."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class Transport(Protocol):
    """A two-way line of bytes."""

    def read(self) -> bytes:
        """Return what has arrived, after waiting at most 50 ms; empty when nothing has. Raises TransportError."""

    def write(self, data: bytes) -> None:
        """Send bytes. Raises TransportError."""

    def close(self) -> None:
        """Close the line, and end the program behind it if there is one."""


def _heed_the_terminal() -> None:
    """Undo what a shell's `&` and nohup leave ignored: the Ctrl-C that we type must interrupt what it is typed at."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class ProgramTransport:
    """The standard input and output of a program on a terminal of its own, by pexpect."""

    def __init__(self, argv: Sequence[str]) -> None:
        command = die_with_parent(argv)
        try:
            self._child: pexpect.spawn[bytes] = pexpect.spawn(
                command[0], command[1:], timeout=None, echo=False, preexec_fn=_heed_the_terminal
            )
        except pexpect.ExceptionPexpect as error:
            raise TransportError(f"{argv[0]} does not start: {error}") from error
        self._child.delaybeforesend = None

    @property
    def pid(self) -> int:
        """The program's process."""
        assert self._child.pid is not None
        return self._child.pid

    def read(self) -> bytes:
        """Return what has arrived."""
        try:
            return bytes(self._child.read_nonblocking(_CHUNK, timeout=_POLL_S))
        except pexpect.TIMEOUT:
            return b""
        except pexpect.EOF:
            code = self._exit_code()
            raise EndedError(f"the program behind the console ended (exit code {code})", code) from None

    def _exit_code(self) -> int | None:
        """Return the exit code, None where there is none. The program's end can be seen a moment before its code."""
        deadline = Deadline.after(1.0)
        try:
            while not deadline.expired:
                # Only looked at: pexpect collects it, and would wait for a program that has only closed its terminal.
                status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if status is not None:
                    return status.si_status if status.si_code == os.CLD_EXITED else None
                time.sleep(0.01)
        except ChildProcessError:
            return self._child.exitstatus  # collected already
        return None

    def write(self, data: bytes) -> None:
        """Send bytes."""
        try:
            self._child.send(data)
        except OSError as error:
            raise TransportError(f"the program behind the console does not read: {error}") from error

    def close(self) -> None:
        """End the program. One that a control group (v1) has frozen dies when it is thawed."""
        with contextlib.suppress(pexpect.ExceptionPexpect):  # it did not die within pexpect's time
            self._child.close(force=True)


class SerialTransport:
    """A serial port or a pseudo-terminal, by pyserial."""

    def __init__(self, device: str, baud: int) -> None:
        try:
            # Nobody else may read what a board says meanwhile, or start something on it.
            self._port = serial.Serial(
                device, baudrate=baud, timeout=_POLL_S, write_timeout=_PATIENCE_S, exclusive=True
            )
        except (serial.SerialException, ValueError, OSError) as error:
            raise TransportError(f"the console {device} cannot be opened: {error}") from error

    def read(self) -> bytes:
        """Return what has arrived."""
        try:
            first = self._port.read(1)
            return bytes(first + self._port.read(self._port.in_waiting)) if first else b""
        except (serial.SerialException, OSError) as error:
            raise TransportError(f"the console {self._port.port} closed: {error}") from error

    def write(self, data: bytes) -> None:
        """Send bytes."""
        try:
            self._port.write(data)
        except (serial.SerialException, OSError) as error:
            raise TransportError(f"the console {self._port.port} does not take data: {error}") from error

    def close(self) -> None:
        """Close the port."""
        self._port.close()


class TcpTransport:
    """A TCP port that carries a serial port. pyserial's own takes two bytes at a time."""

    def __init__(self, host: str, port: int) -> None:
        self._place = f"tcp:{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), timeout=_PATIENCE_S)
        except (OSError, UnicodeError) as error:
            raise TransportError(f"the console {self._place} cannot be opened: {error}") from error
        watch(self._socket)

    def read(self) -> bytes:
        """Return what has arrived."""
        try:
            self._socket.settimeout(_POLL_S)
            data = self._socket.recv(_CHUNK)
        except TimeoutError:
            return b""
        except OSError as error:
            raise TransportError(f"the console {self._place} closed: {error}") from error
        if not data:
            raise TransportError(f"the console {self._place} closed: the other side ended the connection")
        return data

    def write(self, data: bytes) -> None:
        """Send bytes."""
        try:
            self._socket.settimeout(_PATIENCE_S)
            self._socket.sendall(data)
        except OSError as error:
            raise TransportError(f"the console {self._place} does not take data: {error}") from error

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def open_transport(console: str, baud: int) -> Transport:
    """Open a console. Raises as `transport_opener`, and TransportError: it cannot be opened."""
    return transport_opener(console, baud)()


def transport_opener(console: str, baud: int) -> Callable[[], Transport]:
    """Return what opens `serial:DEVICE[:BAUD]`, `tcp:HOST:PORT` or `command:CMD`.

    Raises:
        ConfigError: it is none of these.
    """
    kind, _, rest = console.partition(":")
    if kind == "serial" and rest:
        return partial(SerialTransport, *serial_port(rest, baud))
    if kind == "tcp":
        with contextlib.suppress(ConfigError):  # which lists lines, of which programs are none
            return partial(TcpTransport, *address(rest))
    if kind == "command" and rest.strip():
        return partial(ProgramTransport, _words(rest))
    raise ConfigError(
        f"unknown console {console!r} (allowed: virtual, host, serial:DEVICE[:BAUD], tcp:HOST:PORT, command:CMD, lava)"
    )


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"the console's command {command!r} is not a command line: {error}") from error
