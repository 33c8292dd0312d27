# SPDX-License-Identifier: MIT
"""`ssh HOST gerrit stream-events`, read without waiting for it."""

from __future__ import annotations

import os
import selectors
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self

from rtgate.errors import ConfigError
from rtgate.forge.gerrit_events import Event, Lines, event
from rtgate.process import die_with_parent

PORT = 29418
_CHUNK = 1 << 16
_SAID = 2000
_END_S = 5.0
_SETTINGS = (
    "BatchMode=yes",
    "ClearAllForwardings=yes",
    "ConnectTimeout=30",
    "ServerAliveInterval=30",
    "ServerAliveCountMax=3",
    # A shared connection outlives its client, and keeps our pipes open.
    "ControlMaster=no",
    "ControlPath=none",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshAddress:
    """Where Gerrit's ssh server is, and who we are there.

    Attributes:
        config: a file of settings for ssh instead of the user's own; None for that.
    """

    host: str
    user: str
    port: int = PORT
    config: Path | None = None

    def argv(self, kinds: Sequence[str]) -> list[str]:
        """Return the command line that follows events of some kinds; a connection that died is noticed in 90 s."""
        settings = [] if self.config is None else ["-F", str(self.config)]
        for setting in _SETTINGS:
            settings += ["-o", setting]
        subscriptions = [word for kind in kinds for word in ("-s", kind)]
        place = ["-T", "-p", str(self.port), "-l", self.user, "--", self.host]
        return ["ssh", *settings, *place, "gerrit", "stream-events", *subscriptions]


def ssh_address(text: str, user: str, config: Path | None = None) -> SshAddress:
    """Return what HOST or HOST:PORT names. Raises ConfigError."""
    host, _, port = text.rpartition(":") if ":" in text and not text.endswith("]") else (text, "", str(PORT))
    if not host or host.startswith("-") or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"{text!r} is not HOST or HOST:PORT of Gerrit's ssh server")
    return SshAddress(host=host.strip("[]"), user=user, port=int(port), config=config)


@dataclass(slots=True)
class EventStream:
    """A connection; close it, or use it in `with`."""

    argv: Sequence[str]
    _lines: Lines = field(default_factory=Lines)
    _errors: str = ""
    _open: bool = True
    _child: subprocess.Popen[bytes] = field(init=False)
    _selector: selectors.DefaultSelector = field(init=False)

    def __post_init__(self) -> None:
        self._child = subprocess.Popen(
            die_with_parent(self.argv, "TERM"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._selector = selectors.DefaultSelector()
        for stream in (self._child.stdout, self._child.stderr):
            assert stream
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def open(self) -> bool:
        """Whether more events may come."""
        return self._open

    @property
    def reason(self) -> str:
        """Why the connection ended, in ssh's or Gerrit's words."""
        lines = [line.strip() for line in self._errors.splitlines() if line.strip()]
        return lines[-1] if lines else "the connection to Gerrit's event stream ended"

    @property
    def refused(self) -> bool:
        """Whether somebody has to act: the key, the host's key, or the permission is missing."""
        words = ("Permission denied", "Host key verification failed", "not permitted")
        return not self._open and any(text in self._errors for text in words)

    def read(self, seconds: float) -> list[Event]:
        """Return the events that have come, after `seconds` at most."""
        events = []
        for key, _ in self._selector.select(seconds):
            stream: IO[bytes] = key.fileobj  # type: ignore[assignment]
            data = os.read(stream.fileno(), _CHUNK)
            if not data:
                self._selector.unregister(stream)
            elif stream is self._child.stderr:
                self._errors = (self._errors + data.decode("utf-8", "replace"))[-_SAID:]
            else:
                events += [next_event for line in self._lines.add(data) if (next_event := event(line))]
        if not self._selector.get_map():
            self._open = False
        return events

    def close(self) -> None:
        """End the connection."""
        self._open = False
        self._selector.close()
        self._child.terminate()
        try:
            self._child.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        for stream in (self._child.stdout, self._child.stderr):
            assert stream
            stream.close()
