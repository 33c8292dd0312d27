# SPDX-License-Identifier: MIT
"""What a person sees of a job while it runs: its states, its sections, what was measured, what went wrong.

Text of a job's log came through a board: no control character of it reaches the terminal. In GitLab each section can be
folded.
"""

from __future__ import annotations

import os
import re
import sys
import time
from typing import TextIO

from rtgate.lava.client.server import Job
from rtgate.lava.results.log import LogLine
from rtgate.lava.results.phases import Phase, section
from rtgate.report.text import plain_text

_FRAME = re.compile(r"@rtgate\d+ [0-9a-f]{12} ")
_LOUD = frozenset({"error", "exception"})


class JobWatch:
    """Prints on standard error.

    Args:
        verbose: print every line of the log but records.
    """

    def __init__(self, *, verbose: bool = False, stream: TextIO | None = None) -> None:
        self._verbose = verbose
        self._stream = stream or sys.stderr
        self._fold = bool(os.environ.get("GITLAB_CI"))
        self._open = ""
        self._phase = Phase.BEFORE
        self._state = (0, "")
        self._since = 0.0

    def say(self, text: str) -> None:
        """Print a sentence."""
        self._close()
        self._print(f"rtgate: {plain_text(text)}")

    def state(self, job: Job) -> None:
        """Print a job's state; the same one again means that it still waits."""
        self._close()
        where = f" on {job.device}" if job.device and job.state == "Running" else ""
        health = f" {job.health}" if job.finished else ""
        if (job.number, job.state) != self._state:
            self._state, self._since = (job.number, job.state), time.monotonic()
            more = ""
        else:
            more = f" for {(time.monotonic() - self._since) / 60:.0f} min, no board is free yet"
        self._print(f"{_now()} job {job.number}: {plain_text(job.state + health + where)}{more}")

    def show_line(self, line: LogLine) -> None:
        """Print a line of the log, if it tells something."""
        new_section = section(line)
        if new_section is not None:
            self._phase = new_section.phase
            self._section(f"{new_section.number} {new_section.action}", f"(at most {new_section.timeout})")
        elif not _FRAME.search(line.text) and (self._verbose or self._tells(line)):
            text = plain_text(_text(line)).strip("\n")
            # Of a traceback the last line tells; the rest is for those who want all.
            self._print(f"  {_clock(line)} {text if self._verbose else text.rpartition(chr(10))[2]}")

    def close(self) -> None:
        """End the section that is open."""
        self._close()

    def _tells(self, line: LogLine) -> bool:
        if line.level in _LOUD:
            return True
        return self._phase is Phase.TEST and line.level == "target" and line.text.startswith("rtgate: ")

    def _section(self, name: str, more: str) -> None:
        self._close()
        if self._fold:
            self._open = re.sub(r"[^a-z0-9]+", "_", name.lower())
            self._stream.write(f"\x1b[0Ksection_start:{int(time.time())}:{self._open}\r\x1b[0K")
        self._print(f"{_now()} == {plain_text(name)} {plain_text(more)}")

    def _close(self) -> None:
        if self._open:
            self._stream.write(f"\x1b[0Ksection_end:{int(time.time())}:{self._open}\r\x1b[0K")
            self._open = ""

    def _print(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()


def _now() -> str:
    return time.strftime("%H:%M:%S")


def _clock(line: LogLine) -> str:
    """Return the time of day of a log line, by the dispatcher's clock."""
    return line.time[11:19]


def _text(line: LogLine) -> str:
    result = line.result
    if not result:
        return line.text
    words = [f"{result.get('definition')}.{result.get('case')}: {result.get('result')}"]
    words += [f"{result['measurement']} {result.get('units', '')}"] if "measurement" in result else []
    return " ".join(words)
