# SPDX-License-Identifier: MIT
"""A shell on the other side of a console: find it, run commands in it, upload a script to it.

The console is hostile: it echoes, the kernel prints into it, bytes get lost. Markers are sent in two halves so that
their echo never matches; a plain shell without prompt and line editing is started inside whatever shell answers.
"""

from __future__ import annotations

import base64
import gzip
import re
import threading
import time
from dataclasses import dataclass, field

from rtgate.console.faults import FATAL, scan
from rtgate.console.frames import FrameReader, cksum
from rtgate.console.transport import Transport
from rtgate.deadline import Deadline
from rtgate.errors import DeadlineError, HangError, Interrupted, KernelFaultError, TransportError

_GRACE_S = 2.0  # in which a dying kernel may finish its trace
_CHUNK = 400  # characters a line; a terminal's canonical mode takes 4095
_ATTEMPTS = 5
_STEP_S = 10.0  # for one command of an upload


@dataclass(slots=True)
class Shell:
    """A shell on a live target.

    Attributes:
        log: everything the console printed.
        stop: set by whoever wants everything to end now.
    """

    transport: Transport
    stop: threading.Event
    log: bytearray = field(default_factory=bytearray)
    _count: int = 0
    _scanned: int = 0

    def until(self, pattern: bytes, deadline: Deadline, start: int | None = None) -> re.Match[bytes]:
        """Read until a pattern is in the log after `start` (default: now), and return the match.

        Raises:
            KernelFaultError: the kernel died while waiting.
            DeadlineError: the pattern did not come.
            TransportError: the console closed.
            Interrupted: `stop` was set.
        """
        begin = len(self.log) if start is None else start
        compiled = re.compile(pattern)
        while True:
            found = compiled.search(self.log, begin)
            if found:
                return found
            if deadline.expired:
                raise DeadlineError(f"the console did not say {pattern!r} within {deadline.allowed:g} s")
            self.read()

    def read(self) -> bytes:
        """Read what has arrived. Raises as `until`, the deadline apart."""
        if self.stop.is_set():
            raise Interrupted("stopped")
        data = self.transport.read()
        if data:
            self.log += data
            self._look_for_death()
        return data

    def _look_for_death(self) -> None:
        end = self.log.rfind(b"\n")
        if end <= self._scanned:
            return
        text = self.log[max(0, self._scanned - 200) : end].decode("utf-8", errors="replace")
        self._scanned = end
        fatal = [fault for fault in scan(text) if fault.kind in FATAL]
        if fatal:
            self._drain(Deadline.after(_GRACE_S))
            raise KernelFaultError(fatal[0].line)

    def _drain(self, deadline: Deadline) -> None:
        try:
            while not deadline.expired:
                self.log += self.transport.read()
        except TransportError:
            return

    def find(self, deadline: Deadline) -> None:
        """Find a shell: press return and ask until it answers. Raises as `until`, but HangError for the deadline."""
        while not deadline.expired:
            mark = self._mark()
            start = len(self.log)
            self.transport.write(f'\n echo "{mark[:3]}""{mark[3:]}:0"\n'.encode())
            try:
                self.until(mark.encode(), Deadline.after(deadline.sooner(3.0)), start)
            except DeadlineError:
                continue
            return
        raise HangError(f"no shell answered on the console within {deadline.allowed:g} s")

    def plain(self, deadline: Deadline) -> None:
        """Start a shell without prompt, echo and line editing. Raises as `find`.

        Its standard error is no terminal, so POSIX has it not be interactive.
        """
        self.transport.write(b" stty -echo 2>/dev/null; sh 2>&1 | cat\n")
        self.find(deadline)

    def run(self, command: str, deadline: Deadline) -> tuple[int, bytes]:
        """Run a command and return its exit code and output. Raises as `until`."""
        mark = self._mark()
        start = len(self.log)
        self.transport.write(f'{command}\necho "{mark[:3]}""{mark[3:]}:$?"\n'.encode())
        found = self.until(mark.encode() + rb":(\d+)\s", deadline, start)
        return int(found[1]), bytes(self.log[start : found.start()])

    def _mark(self) -> str:
        self._count += 1
        return f"MRK{self._count:05d}{time.monotonic_ns() % 1_000_000_007:010d}"

    def upload(self, text: str, path: str, deadline: Deadline) -> None:
        """Write a file on the target, and check that it arrived.

        Raises:
            TransportError: it arrived damaged every time.
            HangError: no shell answers any more.
            KernelFaultError, Interrupted: as `until`.
        """
        data = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
        for _ in range(_ATTEMPTS):
            try:
                if self._sent(data, path, f"{cksum(text.encode())} {len(text.encode())}", deadline):
                    return
            except DeadlineError:
                # An end mark may have been damaged on its way; only silence means that the target hangs.
                self.find(deadline)
        raise TransportError(f"a script of {len(data)} characters arrived damaged: the console loses bytes")

    def _sent(self, data: str, path: str, wanted: str, deadline: Deadline) -> bool:
        def step(command: str) -> bytes:
            return self.run(command, Deadline.after(deadline.sooner(_STEP_S)))[1]

        step(f"rm -f {path} {path}.b64")
        for start in range(0, len(data), _CHUNK):
            step(f"printf %s {data[start : start + _CHUNK]} >>{path}.b64")
        said = step(f"base64 -d <{path}.b64 | gzip -dc >{path}; cksum <{path}")
        return re.search(rf"\b{wanted}\b".encode(), said) is not None

    def frames(self, command: str, nonce: str, deadline: Deadline) -> tuple[FrameReader, int]:
        """Run a plan that prints frames, and ask again for those that arrived damaged.

        Args:
            command: prints the frames; with ` resend 3 7` or ` closing` after it, those again.
            nonce: marks the frames.
            deadline: for the command itself.

        Returns:
            The reader, and how many frames were asked for again; the reader may still be incomplete.

        Raises:
            HangError: the command did not end and no shell answers any more.
            KernelFaultError, TransportError, Interrupted: as `until`.
        """
        reader = FrameReader(nonce)
        self._collect(reader, command, deadline)
        asked = 0
        for _ in range(2 * _ATTEMPTS):
            if reader.ended and not reader.missing:
                break
            missing = reader.missing[:100] if reader.ended else ()
            asked += len(missing) or 1
            words = f"resend {' '.join(map(str, missing))}" if missing else "closing"
            self._collect(reader, f"{command} {words}", Deadline.after(60))
        return reader, asked

    def _collect(self, reader: FrameReader, command: str, deadline: Deadline) -> None:
        start = len(self.log)
        try:
            self.run(command, deadline)
        except DeadlineError:
            # The end mark may have been damaged on its way; only silence means that the target hangs.
            self.find(Deadline.after(15))
        reader.feed(bytes(self.log[start:]))
        reader.finish()
