# SPDX-License-Identifier: MIT
"""Following a job: its state, and its log as it grows, until it has ended or its time is up.

A server may restart meanwhile, answer with half a log, or have lost lines that it had: the log is asked for from the
last whole line on, and read once more as a whole in the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from rtgate.console.faults import FATAL, scan
from rtgate.durations import Deadline
from rtgate.errors import DeadlineError
from rtgate.lava.client.server import Job, Lava
from rtgate.lava.client.waiting import QUEUE_S
from rtgate.lava.results import log
from rtgate.lava.results.log import LogLine
from rtgate.lava.results.phases import Beginning, Phase, section

_LOOK_S = 30.0  # between two looks at the devices
_REMIND_S = 300.0  # between two words about a job that waits
_SPARE_S = 900.0  # the worker takes up a job, and after its limit ends it and cleans up
_ANY_JOB_S = 7 * 86400.0  # where nobody can read a job's own limit; LAVA can, and ends it


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """How long to wait, in seconds.

    Attributes:
        queue: for a board to become free.
        away: for any device of the type, with the tags, to be fit for work, while the job waits: without one it would
            wait for ever.
        running: from the start of the job to its end; None for the limit in the job's definition, and a while in which
            LAVA ends it by that.
        panic: for a kernel that died while booting, for LAVA to end the job or to boot it once more; it looks for the
            end of a panic, which a kernel that restarts at once never prints, and then waits for minutes.
        ending: after a job was cancelled, for LAVA to say so: its worker asks every 20 s, gives the job two minutes to
            end and five to clean up (`lava_dispatcher/worker.py`).
        busy, idle: between two questions, while the job runs and while it waits.
    """

    queue: float = QUEUE_S
    away: float = 600.0
    running: float | None = None
    panic: float = 30.0
    ending: float = 480.0
    busy: float = 1.0
    idle: float = 2.0


class StoppedBy(Enum):
    """Why rtgate cancelled a job that it followed."""

    QUEUE = "no board became free in time"
    AWAY = "no board is fit for work any more"
    TOO_LONG = "LAVA did not end it in time"
    DIED = "its kernel died while it booted"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedJob:
    """A job that has ended, and its whole log.

    Attributes:
        stopped_by: why rtgate cancelled it; None if rtgate did not.
    """

    job: Job
    lines: tuple[LogLine, ...]
    stopped_by: StoppedBy | None = None


@dataclass(slots=True)
class Following:
    """Follows one job.

    Attributes:
        on_line: told of each line of the log, once, as it comes.
        state: told of the job whenever its state has changed, and every few minutes while it waits.
    """

    lava: Lava
    number: int
    waits: Waits
    on_line: Callable[[LogLine], None]
    state: Callable[[Job], None]
    _next: int = 0
    _told: set[tuple[str, str]] = field(default_factory=set)
    _phase: Phase = Phase.BEFORE
    _died: Deadline | None = None
    _beginning: Beginning = field(default_factory=Beginning)
    _own: bool = True  # what the board says is of this boot, and no last words of the one before
    _look: Deadline = field(default_factory=lambda: Deadline.after(_LOOK_S))
    _away: Deadline | None = None
    _remind: Deadline = field(default_factory=lambda: Deadline.after(_REMIND_S))

    def follow(self) -> FinishedJob:
        """Return the job when it has ended.

        A job that waits too long for a board is cancelled, and one that runs longer than it may.

        Raises:
            InfrastructureError: the server is not to be reached any more.
            DeadlineError: the job does not end.
        """
        queue = Deadline.after(self.waits.queue)
        job = self._job("")
        longest = self._longest(job)
        run = Deadline.after(longest)
        while not job.finished:
            if not job.queued:
                self._more()
            elif queue.expired:
                return self._cancelled(job, StoppedBy.QUEUE)
            elif self._nobody(job):
                return self._cancelled(job, StoppedBy.AWAY)
            else:
                run = Deadline.after(longest)
            if self._died is not None and self._died.expired:
                return self._cancelled(job, StoppedBy.DIED)
            if run.expired:
                return self._cancelled(job, StoppedBy.TOO_LONG)
            time.sleep(self.waits.idle if job.queued else self.waits.busy)
            job = self._job(job.state)
        return FinishedJob(job=job, lines=self._read_whole_log())

    def _longest(self, job: Job) -> float:
        """Return the seconds that the job may run before it is cancelled."""
        if self.waits.running is not None:
            return self.waits.running
        return (job.definition.limit_s or _ANY_JOB_S) + _SPARE_S

    def _nobody(self, job: Job) -> bool:
        """Return whether no device that may run the job has been fit for work for too long; look now and then."""
        if self._look.expired:
            self._look = Deadline.after(min(_LOOK_S, self.waits.away))
            tags = set(job.definition.tags)
            if any(device.usable and device.has(tags) for device in self.lava.devices(job.device_type)):
                self._away = None
            elif self._away is None:
                self._away = Deadline.after(self.waits.away)
        return self._away is not None and self._away.expired

    def _cancelled(self, job: Job, reason: StoppedBy) -> FinishedJob:
        """Cancel the job and return it when it has ended. Raises as `follow`."""
        self.lava.cancel(self.number)
        deadline = Deadline.after(self.waits.ending)
        while not job.finished:
            if deadline.expired:
                raise DeadlineError(f"job {self.number} was cancelled and does not end: its worker may be away")
            time.sleep(self.waits.busy)
            job = self._job(job.state)
        return FinishedJob(job=job, lines=self._read_whole_log(), stopped_by=reason)

    def _job(self, before: str) -> Job:
        job = self.lava.job(self.number)
        if job.state != before or (job.queued and self._remind.expired):
            self._remind = Deadline.after(_REMIND_S)
            self.state(job)
        return job

    def _more(self) -> None:
        """Tell what the log has that it had not before."""
        lines = log.parse(self.lava.log(self.number, self._next), self._next)
        self._next += len(lines)
        for line in lines:
            self._tell(line)

    def _tell(self, line: LogLine) -> None:
        key = (line.time, line.text or repr(line.message))
        if key not in self._told:
            self._told.add(key)
            self._watch_boot(line)
            self.on_line(line)

    def _watch_boot(self, line: LogLine) -> None:
        """Note that a kernel died while it booted; a test that begins after all is worth waiting for."""
        action = section(line)
        if action is not None:
            self._own = self._own and self._phase is not Phase.TEST
            self._phase, self._died = action.phase, None
        elif line.printed and self._beginning.matches(line.text):
            self._own = True
        if self._phase is Phase.BOOT and self._own and self._died is None and _deadly(line):
            self._died = Deadline.after(self.waits.panic)

    def _read_whole_log(self) -> tuple[LogLine, ...]:
        """Return the whole log; read it again while it grows or ends in something that is not a line of a log."""
        lines = read_whole_log(self.lava, self.number, self.waits.busy)
        for line in lines:
            self._tell(line)
        return lines


def _deadly(line: LogLine) -> bool:
    return line.level == "target" and any(fault.kind in FATAL for fault in scan(line.text))


def read_whole_log(lava: Lava, number: int, wait: float = 1.0) -> tuple[LogLine, ...]:
    """Return the whole log of a job that has ended, each line once.

    `wait` is the time in seconds between two attempts. LAVA stores the end of a log a moment after the end of the job.
    """
    lines: tuple[LogLine, ...] = ()
    for attempt in range(5):
        # A last line that was cut off stays one that nobody understands: there will be no rest of it.
        text = lava.log(number)
        now = tuple(log.once(log.parse(text if text.endswith("\n") else f"{text}\n" if text else "")))
        settled = attempt > 0 and len(now) <= len(lines)
        lines = max(lines, now, key=len)
        if lines and (_is_complete(lines) or settled):
            break
        time.sleep(wait)
    return lines


def _is_complete(lines: tuple[LogLine, ...]) -> bool:
    """Return whether the last result that a dispatcher logs is there, and nothing unreadable."""
    end = any(line.result.get("definition") == "lava" and line.result.get("case") == "job" for line in lines[-20:])
    return end and not any(line.level == "unreadable" for line in lines)
