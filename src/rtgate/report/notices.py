# SPDX-License-Identifier: MIT
"""What rtgate says on standard error while it works: notices, steps, and that a step goes on.

Nobody who waits is left without a word for more than three seconds. In a CI job (CI is set: GitLab, GitHub, Jenkins)
nobody waits: there the time between two words about the same thing doubles, up to a minute.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

from rtgate.report.text import plain_text

SILENCE_S = 2.5
CI_SILENCE_S = 60.0


def show_line(text: str) -> None:
    """Print a line to standard error."""
    # Subjects of commits and what a board or a build printed are in it, which may hold terminal escapes.
    print(plain_text(text), file=sys.stderr, flush=True)
    note_output()


def say(text: str) -> None:
    """Say something to whoever waits."""
    show_line(f"rtgate: {text}")


def end_loading() -> float:
    """Stop what `__main__` says while a command loads, and return for how many seconds nothing was said.

    Its timer alone repeats: that of a program that calls a command from Python stays.
    """
    rest_s, every_s = signal.getitimer(signal.ITIMER_REAL)
    if every_s:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return every_s - rest_s if every_s else 0.0


@contextmanager
def step(name: str) -> Iterator[None]:
    """Name a step when it begins, again while it goes on, and say how long it took when it ends well."""
    start = time.monotonic()
    show_line(f"== {name}")
    with reminder(lambda: f"== {name} ... {time.monotonic() - start:.0f} s"):
        yield
    show_line(f"== {name}: {time.monotonic() - start:.1f} s")


@contextmanager
def step_printer(doing: str = "working") -> Iterator[Callable[[str], None]]:
    """Yield what prints a step of slow work; a step is named again while it goes on, with its time.

    What is done before the first step is `doing`.
    """
    steps = [(doing, time.monotonic())]

    def say(text: str) -> None:
        steps.append((text, time.monotonic()))
        show_line(text)

    def now() -> str:
        text, start = steps[-1]
        return f"{text} ... {time.monotonic() - start:.0f} s"

    with reminder(now):
        yield say


@contextmanager
def reminder(
    now: Callable[[], str], tell: Callable[[str], None] = show_line, *, silent_s: float = 0.0
) -> Iterator[None]:
    """Say what goes on now whenever nothing was said for a while. Of reminders within each other the innermost speaks.

    Args:
        now: returns what goes on.
        tell: prints it (default: a line on standard error).
        silent_s: for how long nothing was said before; of the outermost one.
    """
    with _innermost(_Reminder(now, tell), silent_s):
        yield


@contextmanager
def silence() -> Iterator[None]:
    """Say nothing for a while, as something else speaks: a bar, or a child process."""
    with _innermost(_Reminder(str, lambda _: None, speaks=False)):
        yield


def note_output() -> None:
    """Note that something was said."""
    _Reminder.last = time.monotonic()
    _Reminder.wait_s = SILENCE_S


@contextmanager
def _innermost(reminder: _Reminder, silent_s: float = 0.0) -> Iterator[None]:
    reminder.start(silent_s)
    try:
        yield
    finally:
        reminder.stop()


class _Reminder:
    """One reminder, and what all of them share: when something was said, how long to wait then, and which are open."""

    last = 0.0
    wait_s = SILENCE_S
    open: ClassVar[list[_Reminder]] = []

    def __init__(self, now: Callable[[], str], tell: Callable[[str], None], *, speaks: bool = True) -> None:
        self._now = now
        self._tell = tell
        self.speaks = speaks
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self, silent_s: float) -> None:
        # Within another one the time goes on: many short steps that say nothing are one long silence.
        if not self.open or not self.open[-1].speaks:
            _Reminder.last = time.monotonic() - silent_s
            _Reminder.wait_s = SILENCE_S
        self.open.append(self)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        if not self.speaks:
            note_output()  # by something else
        self.open.remove(self)

    def _run(self) -> None:
        while not self._ended.wait(self._next_look_s()):
            if self.open[-1] is self and time.monotonic() - self.last >= self.wait_s:
                waited_s = self.wait_s
                self._tell(self._now())
                note_output()
                if os.environ.get("CI"):
                    _Reminder.wait_s = min(2 * waited_s, CI_SILENCE_S)

    def _next_look_s(self) -> float:
        # One that is not the innermost has nothing to say before the inner ones end, and who says something meanwhile
        # ends the long wait.
        left_s = min(self.last + self.wait_s - time.monotonic(), SILENCE_S)
        return max(0.01 if self.open[-1] is self else 0.25, left_s)
