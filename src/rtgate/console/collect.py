# SPDX-License-Identifier: MIT
"""Fetching frames from a shell: a plan is started, left alone while it measures, and asked for what is missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rtgate.console.frames import FrameReader
from rtgate.console.shell import UNKNOWN, PendingCommand, Shell
from rtgate.durations import Deadline

_STARTS = 5  # of a command that may arrive damaged
_KILLED = (130, 131)  # by a Ctrl-C or Ctrl-\\ that noise made; nothing is sent while it measures, so it had measured
_IN_VAIN = 15  # times to ask for frames of which none arrives
_AT_ONCE = 100  # frames asked for in one line


def frames(
    shell: Shell, command: str, nonce: str, seconds: float, over: Callable[[str], bool] = lambda _: False
) -> FrameReader:
    """Run a plan that prints frames, and ask again for those that arrived damaged.

    Args:
        shell: where it runs.
        command: prints the frames; with ` resend 3 7` or ` closing` after it, those again.
        nonce: marks the frames.
        seconds: that the command itself may take.
        over: tells from what the console printed that nothing is measured any more, and may be disturbed.

    Returns:
        The reader, which may still be incomplete.

    Raises:
        HangError: the command did not end and no shell answers any more.
        KernelFaultError, InfrastructureError, Interrupted: as `Shell.until`.
    """
    fetch = _Fetch(shell, FrameReader(nonce), over)
    for _ in range(_STARTS):
        if fetch.begin(command, shell.waits.hang) and fetch.read_until_end(seconds) not in _KILLED:
            break
    fetch.over = lambda _: True
    _repair(fetch, command)
    return fetch.reader


def _repair(fetch: _Fetch, command: str) -> None:
    shell, reader, in_vain = fetch.shell, fetch.reader, 0
    deadline = Deadline.after(shell.waits.repair)
    while not reader.complete and in_vain < _IN_VAIN and not deadline.expired:
        if reader.has_closing_line and not reader.missing:
            reader.forget()
        gaps = len(reader.missing) + (not reader.has_closing_line)
        numbers = reader.missing[:_AT_ONCE] if reader.has_closing_line else ()
        shell.again += len(numbers) or 1
        words = f"resend {' '.join(map(str, numbers))}" if numbers else "closing"
        if fetch.begin(f"{command} {words}", 2 * shell.waits.answer):
            code = fetch.read_until_end(shell.waits.spare)
            if not reader.frame_count and code not in {0, UNKNOWN}:
                return  # there are no frames
        in_vain = 0 if len(reader.missing) + (not reader.has_closing_line) < gaps else in_vain + 1


@dataclass(slots=True)
class _Fetch:
    """Feeds a reader with what commands print."""

    shell: Shell
    reader: FrameReader
    over: Callable[[str], bool]
    _command: PendingCommand = field(init=False)
    _fed: int = 0

    def begin(self, command: str, seconds: float) -> bool:
        """Send a command, and return whether it has arrived."""
        shell = self.shell
        pending_command = shell.next()
        shell.ask(pending_command, f"{pending_command.announcement}; {command}", checked=True)
        self._command, self._fed = pending_command, pending_command.start
        wait = Deadline.after(seconds)
        while pending_command.announced.search(shell.log, pending_command.start) is None:
            if shell.find_answer(pending_command, pending_command.start) is not None or wait.expired:
                shell.again += 1
                if wait.expired:
                    # Nothing runs: the shell waits for the end of a line that arrived damaged.
                    shell.find(Deadline.after(shell.waits.hang))
                return False
            shell.read()
        return True

    def read_until_end(self, seconds: float) -> int:
        """Feed the reader with what the command prints until it has ended, and return its exit code.

        Nothing is sent while it measures. Once it does not, and nothing new comes, it is asked how it ended.
        """
        shell, deadline = self.shell, Deadline.after(seconds)
        frame_count, last_change, measuring = self.reader.frame_count, time.monotonic(), True
        while (code := shell.find_answer(self._command, self._fed)) is None:
            ended = measuring and self.over(shell.log[max(self._command.start, self._fed - 200) :].decode("latin-1"))
            self._feed()
            if ended or self.reader.frame_count != frame_count:
                frame_count, last_change, measuring = self.reader.frame_count, time.monotonic(), False
            if deadline.expired:
                # A shell that waits for the end of a damaged question needs Ctrl-C, which would end a measurement, and
                # the packing of its results. Frames can be sent again.
                shell.find(Deadline.after(shell.waits.hang), gently=measuring or not self.reader.frame_count)
                break
            if time.monotonic() - last_change > shell.waits.quiet and (not measuring or shell.has_prompt):
                if self.reader.complete:
                    break
                shell.transport.write(self._command.question)
                shell.again += 1
                last_change = time.monotonic()
            shell.read()
        self._feed()
        self.reader.finish()
        return UNKNOWN if code is None else code

    def _feed(self) -> None:
        self.reader.feed(bytes(self.shell.log[self._fed :]))
        self._fed = len(self.shell.log)
