# SPDX-License-Identifier: MIT
"""Progress of measuring: a bar with the time left on a terminal, a line per boot elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from rtgate.board.boot import State
from rtgate.judge.limits import format_quantity
from rtgate.records.record import Record
from rtgate.report.cases import figures
from rtgate.report.notices import note_output, reminder, silence
from rtgate.report.text import plain_text

_TELLING_SHARE = 0.05
_TELLING_S = 15.0


def time_left(seconds: float) -> str:
    """Return a time that is left, as exactly as it is known: in minutes, or in steps of ten seconds; empty for none."""
    if seconds < 1:
        return ""
    if seconds < 95:
        return f"about {max(10, round(seconds / 10) * 10)} s left"
    return f"about {round(seconds / 60)} min left"


def estimate(elapsed_s: float, step_count: int, total: int) -> str:
    """Return what is left of steps that take about as long as those before.

    Empty as long as it means nothing: the first steps of a build are not like the others.
    """
    if not step_count or elapsed_s < _TELLING_S or step_count < _TELLING_SHARE * total:
        return ""
    return time_left(elapsed_s * (total - step_count) / step_count)


class Progress:
    """Tells what has been measured and how long the rest takes."""

    def __init__(self, total: int, workers: int) -> None:
        self._total = total
        self._workers = workers
        self._done = 0
        self._made = 0
        self._busy_s = 0.0
        self._began = time.monotonic()
        self._console = Console(file=sys.__stderr__, highlight=False)
        self._bar: Bar | None = None

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        """Show one case while it is measured."""
        if not self._console.is_terminal:
            with reminder(partial(self._going_on, name, time.monotonic()), self._line):
                yield
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with silence(), Bar(*columns, TextColumn("{task.fields[left]}"), console=self._console, transient=True) as bar:
            self._bar = bar
            bar.add_task(f"measuring {name}", total=self._total, completed=self._done, left="")
            try:
                yield
            finally:
                self._bar = None

    def note_boot(self, record: Record) -> None:
        """Take note of a finished boot."""
        self._done += 1
        if "booted" not in record.machine:
            self._made += 1
            self._busy_s += record.seconds.get("total", 0.0)
        # As if none of the rest had been made before.
        rest_s = (self._total - self._done) * self._busy_s / max(1, self._made) / self._workers
        text = time_left(rest_s)
        remark = f" (booted {record.machine['booted']})" if "booted" in record.machine else ""
        line = f"{record.case} {record.boot} {record.arm}: {headline(record)}{remark}"
        if self._bar is None:
            self._line(f"[{', '.join(filter(None, (self._count, text)))}] {line}")
            note_output()
        else:
            self._bar.print(line, markup=False, soft_wrap=True)
            self._bar.update(self._bar.task_ids[0], completed=self._done, left=text)

    @property
    def _count(self) -> str:
        return f"{self._done}/{self._total}"

    def _going_on(self, name: str, start: float) -> str:
        return f"[{self._count}] measuring {name} ... {time.monotonic() - start:.0f} s"

    def _line(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)


def headline(record: Record) -> str:
    """Return the one figure by which people know a boot, or why there is none."""
    if not record.has_results:
        return f"{record.state}: {plain_text(record.message).partition(chr(10))[0]}"
    worst = figures([record]).high
    return f"max {format_quantity(worst, record.environment.instruction_ns)}" if worst else State.MEASURED
