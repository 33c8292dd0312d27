# SPDX-License-Identifier: MIT
"""How a kernel's build goes: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from rtgate.kernel.build import Listener
from rtgate.report.notices import note_output, reminder, silence
from rtgate.report.progress import estimate
from rtgate.report.text import plain_text


@contextmanager
def show_progress(name: str, *, quiet: bool) -> Iterator[Listener]:
    """Show how a build goes: a bar on a terminal, else a line now and then; nothing if it is `quiet`."""
    console = Console(stderr=True, highlight=False)
    if quiet:
        with silence():
            yield Listener()
    elif console.is_terminal:
        with _bar(name, console) as listener:
            yield listener
    else:
        lines = _Lines(name, console)
        with reminder(lines.going_on, lines.line):
            yield Listener(lines.notice, lines.progress)


@contextmanager
def _bar(name: str, console: Console) -> Iterator[Listener]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    details = (TextColumn("{task.fields[left]}"), TextColumn("{task.fields[file]}", markup=False))
    with silence(), Progress(*columns, *details, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None, file="", left="")
        speed = _Speed()

        def progress(file_count: int, total: int | None, file: str) -> None:
            bar.update(
                task, completed=file_count, total=total, file=plain_text(file), left=speed.remaining(file_count, total)
            )

        def notice(text: str) -> None:
            bar.print(plain_text(text), markup=False, soft_wrap=True)

        yield Listener(notice, progress)


class _Speed:
    """How fast files are made: the time and the files before the first one that is told say nothing about it."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def remaining(self, file_count: int, total: int | None) -> str:
        """Return how long the rest takes, in words; empty if nobody knows."""
        now = time.monotonic()
        start, already = self._first = self._first or (now, file_count)
        return "" if total is None else estimate(now - start, file_count - already, total - already)


class _Lines:
    """Progress for logs: a line where nothing was said for a while."""

    def __init__(self, name: str, console: Console) -> None:
        self._console = console
        self._now = f"building {name}", time.monotonic()
        self._speed = _Speed()

    def notice(self, text: str) -> None:
        self._now = text, time.monotonic()
        self.line(text)
        note_output()

    def progress(self, file_count: int, total: int | None, file: str) -> None:
        count = f"{file_count}" if total is None else f"{file_count} of {total}"
        status = ", ".join(filter(None, (count, self._speed.remaining(file_count, total))))
        self._now = f"{status}: {file}", time.monotonic()

    def going_on(self) -> str:
        text, start = self._now
        return f"{text} ... {time.monotonic() - start:.0f} s"

    def line(self, text: str) -> None:
        self._console.print(plain_text(text), markup=False, soft_wrap=True)
