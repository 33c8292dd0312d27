# SPDX-License-Identifier: MIT
"""The hub's log: what a line said and when, as text that a terminal may show."""

from __future__ import annotations

import codecs
import re
import sys
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path

from rtgate.errors import ConfigError

# Control characters, and those that turn the direction of text round; tabs and line ends may stay.
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def escape(text: str) -> str:
    r"""Return text in which control characters are written out: `\x1b`."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


class TimedLog:
    """A text file in which each line begins with the time (UTC) at which its first byte came.

    After the time comes `|` and what the console said, or `--` and what happened to the hub. A full disk loses lines of
    the log, never bytes of the console. Beyond `limit` bytes the file is moved to NAME.1, over an older one.
    """

    def __init__(self, path: Path, limit: int) -> None:
        """Open the file. Raises ConfigError."""
        self._path = path
        self._limit = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")
        self._held = ""  # a CR whose LF may still come
        self._within = False  # a line has begun and not ended
        self._failed = False
        try:
            self._file: FileIO | None = self._open()
        except OSError as error:
            raise ConfigError(f"the log {path} cannot be written: {error}") from error

    def console(self, data: bytes) -> None:
        """Write what the line said."""
        text = (self._held + self._decoder.decode(data)).replace("\r\n", "\n")
        self._held = "\r" if text.endswith("\r") else ""
        text = escape(text.removesuffix("\r") if self._held else text)
        if not text:
            return
        mark = f"{_now()} | "
        lines = text.removesuffix("\n").replace("\n", f"\n{mark}")
        begin = "" if self._within else mark
        self._within = not text.endswith("\n")
        self._put(f"{begin}{lines}{'' if self._within else chr(10)}")

    def event(self, text: str) -> None:
        """Write what happened to the hub, on a line that no console can imitate."""
        begin = "\n" if self._within else ""
        self._within = False
        self._put(f"{begin}{_now()} -- {escape(text)}\n")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _put(self, text: str) -> None:
        try:
            if self._file is None:
                self._file = self._open()
            self._file.write(text.encode(errors="backslashreplace"))
            if self._file.tell() > self._limit:
                self.close()
                self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            self._failed = False
        except OSError as error:
            self._complain(error)

    def _open(self) -> FileIO:
        return self._path.open("ab", buffering=0)

    def _complain(self, error: OSError) -> None:
        if not self._failed:
            sys.stderr.write(f"rtgate hub: the log {self._path} cannot be written: {error}\n")
        self._failed = True


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
