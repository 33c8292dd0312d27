# SPDX-License-Identifier: MIT
"""An instrument without hardware: the firmware's own logic, compiled for this machine, on a pseudo-terminal.

What the board would answer is made up; faults are those of a wire, of power, and of the instrument's own parts.
"""

from __future__ import annotations

import ctypes
import os
import pty
import select
import subprocess
import tempfile
import threading
import time
import tty
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIRMWARE = ROOT / "target" / "instrument"
# One period: how many ticks after the pulse the board answered last, None for not at all; and whether several times.
Period = tuple[int | None, bool]


@cache
def _library() -> bytes:
    """Return the firmware's logic as a library of this machine."""
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory) / "instrument.so"
        sources = (FIRMWARE / "instrument.c", ROOT / "selftests" / "instrument_host.c")
        warnings = ("-Wall", "-Wextra", "-Wmissing-prototypes", "-Wstrict-prototypes", "-Werror")
        command = ("gcc", "-std=gnu11", "-O1", *warnings, "-shared", "-fPIC", f"-I{FIRMWARE}", "-o", library, *sources)
        subprocess.run(command, check=True)
        return library.read_bytes()


class Logic:
    """One instrument's logic, with memory of its own."""

    def __init__(self, *, crystal: bool = True, timer: bool = True) -> None:
        # A library is loaded once for each file, and so is its memory.
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(_library())
            file.flush()
            self._library = ctypes.CDLL(file.name)
        self._library.instrument_period.argtypes = (ctypes.c_bool, ctypes.c_bool, ctypes.c_uint32)
        self._library.instrument_period.restype = ctypes.c_bool
        self._library.host_sent.restype = ctypes.c_size_t
        self._library.host_period_us.restype = ctypes.c_uint32
        self._library.instrument_is_running.restype = ctypes.c_bool
        self._library.host_set(crystal, timer)
        self._buffer = ctypes.create_string_buffer(1 << 20)

    def begin(self) -> bytes:
        """Start it, and return what it sends."""
        self._library.instrument_begin()
        return self._sent()

    def take(self, data: bytes) -> bytes:
        """Give it bytes, and return what it sends."""
        for byte in data:
            self._library.instrument_take(ctypes.c_char(byte))
        return self._sent()

    @property
    def period_us(self) -> int:
        """Return the period of the measurement that runs, 0 without one."""
        return int(self._library.host_period_us())

    def measure(self, periods: Iterable[Period]) -> bytes:
        """Let the periods of a measurement go by, and return what it sends at the end."""
        self._library.instrument_period(False, False, 0)  # the first pulse begins
        for ticks, again in periods:
            self._library.instrument_period(ticks is not None, again, ticks or 0)
        self._library.instrument_poll()
        return self._sent()

    def _sent(self) -> bytes:
        count = self._library.host_sent(self._buffer, len(self._buffer))
        return self._buffer.raw[:count]


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How an instrument on a terminal behaves.

    Attributes:
        answers: of the board, for so many pulses.
        noise: changes what it sends.
        restarts: whether its power fails while it measures.
        silent: whether it says nothing at all.
    """

    answers: Callable[[int], Iterable[Period]]
    noise: Callable[[bytes], bytes] = bytes
    restarts: bool = False
    silent: bool = False


@contextmanager
def instrument(behaviour: Behaviour, logic: Callable[[], Logic] = Logic) -> Iterator[Path]:
    """Run an instrument, and yield the terminal that stands for the board's serial port."""
    own, other = pty.openpty()
    tty.setraw(other)  # until the board sets its port it would hear its own banner
    end = threading.Event()
    thread = threading.Thread(target=_serve, args=(own, behaviour, logic, end), daemon=True)
    thread.start()
    try:
        yield Path(os.ttyname(other))
    finally:
        end.set()
        thread.join(10)
        os.close(own)
        os.close(other)


def _serve(terminal: int, behaviour: Behaviour, logic: Callable[[], Logic], end: threading.Event) -> None:
    part = logic()
    _send(terminal, behaviour, part.begin())
    while not end.is_set():
        if select.select([terminal], [], [], 0.05)[0]:
            _send(terminal, behaviour, part.take(os.read(terminal, 64)))
        if part.period_us:
            part = _measure(terminal, behaviour, part, logic)


def _measure(terminal: int, behaviour: Behaviour, part: Logic, logic: Callable[[], Logic]) -> Logic:
    status = part.take(b"status\n").decode()
    pulses = int(status.partition(" of=")[2].split()[0])
    time.sleep(pulses * part.period_us / 1e6)
    if behaviour.restarts:
        part = logic()
        _send(terminal, behaviour, part.begin())
    else:
        _send(terminal, behaviour, part.measure(behaviour.answers(pulses)))
    return part


def _send(terminal: int, behaviour: Behaviour, data: bytes) -> None:
    if not behaviour.silent:
        data = behaviour.noise(data)
        while data:
            data = data[os.write(terminal, data) :]
