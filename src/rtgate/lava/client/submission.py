# SPDX-License-Identifier: MIT
"""A submission: a job, followed to its end, and tried again where the lab failed.

A lab's faults are tried again, on another board where there is one; a kernel's never are. Whatever ends the submission
early, also Ctrl-C, cancels the job: a job that nobody waits for would hold a board.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from rtgate import strict_yaml
from rtgate.durations import Deadline
from rtgate.errors import ConfigError, DeadlineError, InfrastructureError, RtgateError
from rtgate.http.client import NoAnswer
from rtgate.lava.client.devices import other_device_tags, own_tag, same_device_tags
from rtgate.lava.client.follow import FinishedJob, Following, Waits
from rtgate.lava.client.server import Job, Lava
from rtgate.lava.job import multinode
from rtgate.lava.job.request import NONCE, new_nonce
from rtgate.lava.results.blame import (
    KernelTrial,
    assign_blame,
    came_up,
    ending_of,
    ending_of_endpoint,
    ending_with_endpoint,
    known_kernel_booted,
)
from rtgate.lava.results.classify import Blame, Ending
from rtgate.lava.results.log import LogLine

_CANCEL_S = 20.0  # a CI runner that wants to end gives little more
_OPEN = "whether a known-good kernel boots there is open: "
_ELSEWHERE = "no known-good kernel could be tried on that very board: give it a tag that no other of its type has"
_ENDPOINT_END_S = 300.0  # powering off, and a log that is slow to come
_CANCEL_WAIT_S = 0.5  # between two looks for a job that was being submitted


class Watch(Protocol):
    """Is told what happens."""

    def say(self, text: str) -> None:
        """A sentence for people."""

    def state(self, job: Job) -> None:
        """A job has another state."""

    def show_line(self, line: LogLine) -> None:
        """A job's log has one more line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One job of a submission, after its end.

    Attributes:
        trials: the jobs that told whose fault a silent boot of it was.
        endpoint: the endpoint's job, where two boards were measured together; it has none of its own.
    """

    job: Job
    lines: tuple[LogLine, ...]
    ending: Ending
    trials: tuple[FinishedJob, ...] = ()
    endpoint: Attempt | None = None


@dataclass(slots=True, kw_only=True)
class Submission:
    """What is going to be carried out.

    Attributes:
        make: returns the job's definition for a nonce and for tags.
        proof: returns the definition of a job that only boots these arms, for a nonce and for tags.
        tags: those that every attempt has.
        attempts: at most, the first included.
        arms: of each boot of the job, in order.
        emulated: the board gets what processor time its host has left.
        server: as the command line names it, for commands that are told; empty if it does not.
        fixed: every attempt needs the same devices: a cable connects them.
        failure: returns why what an attempt measured before the lab failed fails the kernel; empty if it does not.
    """

    lava: Lava
    device_type: str
    make: Callable[[str, tuple[str, ...]], str]
    proof: Callable[[tuple[str, ...], str, tuple[str, ...]], str]
    watch: Watch
    tags: tuple[str, ...] = ()
    waits: Waits = field(default_factory=Waits)
    attempts: int = 3
    arms: tuple[str, ...] = ()
    emulated: bool = False
    server: str = ""
    fixed: bool = False
    failure: Callable[[Attempt], str] = lambda _attempt: ""

    def run(self) -> tuple[Attempt, ...]:
        """Carry it out; return every attempt, the one that counts last.

        Raises:
            ConfigError: the server does not take the job, at the first attempt.
            InfrastructureError: no board, or no server, at the first attempt.
            KeyboardInterrupt: the user stopped; the job is cancelled.
        """
        attempts: list[Attempt] = []
        tags = self.tags
        while True:
            try:
                if attempts and not self.fixed:
                    device = attempts[-1].job.device
                    tags = other_device_tags(self.lava.devices(self.device_type), device, self.tags)
                attempts.append(self._attempt(tags))
            except (ConfigError, InfrastructureError) as error:
                if not attempts:
                    raise
                self.watch.say(str(error))  # what the attempts before it left is kept
                return tuple(attempts)
            ending = attempts[-1].ending
            if not ending.may_retry or ending.panics or len(attempts) >= self.attempts:
                return tuple(attempts)
            failure = self.failure(attempts[-1])
            if failure:
                self.watch.say(
                    f"the lab failed ({ending.full_sentence}), but trying again could only hide this: {failure}"
                )
                return tuple(attempts)
            self.watch.say(
                f"the lab failed, trying again ({len(attempts)} of {self.attempts - 1}): {ending.full_sentence}"
            )

    def leave(self) -> int:
        """Submit the job and let it run; return its number. Raises as `run`."""
        nonce = new_nonce()
        definition = self.check_definition(nonce, self.tags)
        with self._cancel_on_error(nonce) as began:
            number = self.lava.submit(definition, nonce)
            began(number)
        return number

    def check_definition(self, nonce: str, tags: tuple[str, ...]) -> str:
        """Return the job's definition, which the server's schema has nothing against. Raises ConfigError."""
        definition = self.make(nonce, tags)
        complaint = self.lava.validate(definition)
        if complaint:
            raise ConfigError(f"{self.lava.access.url} would refuse the job: {complaint}")
        return definition

    def _attempt(self, tags: tuple[str, ...]) -> Attempt:
        nonce = new_nonce()
        job = self._follow(self.check_definition(nonce, tags), nonce)
        ending = ending_of(job, emulated=self.emulated)
        endpoint = endpoint_of(job.job, self.lava, self.waits, emulated=self.emulated)
        if endpoint is not None:
            ending = ending_with_endpoint(ending, job.lines, endpoint.ending, endpoint.job.number)
        attempt = Attempt(job=job.job, lines=job.lines, ending=ending, endpoint=endpoint)
        return self._decide_blame(attempt) if ending.blame is Blame.SILENT else attempt

    def _follow(self, definition: str, nonce: str) -> FinishedJob:
        with self._cancel_on_error(nonce) as began:
            number = self.lava.submit(definition, nonce)
            began(number)
            self.watch.say(f"job {number}: {self.lava.access.url}/scheduler/job/{number}")
            following = Following(self.lava, number, self.waits, self.watch.show_line, self.watch.state)
            return following.follow()

    @contextmanager
    def _cancel_on_error(self, nonce: str) -> Iterator[Callable[[int], None]]:
        """Cancel the job if the block ends early, also one whose submission was under way."""
        numbers: list[int] = []
        try:
            yield numbers.append
        except RtgateError as error:
            # What was refused, or never sent, needs no waiting for; an answer that got lost does.
            self._cancel(numbers, nonce, sent=isinstance(error.__cause__, NoAnswer))
            raise
        except BaseException:
            self._cancel(numbers, nonce, sent=True)
            raise

    def _cancel(self, numbers: list[int], nonce: str, *, sent: bool) -> None:
        """Cancel the job of this number; without one, the job with this nonce, which may show only after a while."""
        deadline = Deadline.after(_CANCEL_S)
        subject = f"job {numbers[0]}" if numbers else "the job, if it was submitted,"
        ends = f"to end it: {self._cancelling(str(numbers[0]) if numbers else f'--metadata {NONCE}={nonce}')}"
        try:
            jobs = numbers or self._find_jobs(nonce, deadline, again=sent)
            for number in jobs:
                self._hasty(deadline).cancel(number)
                self.watch.say(f"job {number} is cancelled")
            if not jobs and sent:
                self.watch.say(f"the job was not found and may have been submitted all the same; {ends}")
        except RtgateError as error:
            self.watch.say(f"{subject} could not be cancelled and may be running: {error}; {ends}")
        except KeyboardInterrupt:
            self.watch.say(f"{subject} was not cancelled and may be running; {ends}")
            raise

    def _find_jobs(self, nonce: str, deadline: Deadline, *, again: bool) -> Sequence[int]:
        """Return the jobs with a nonce: a server may carry out a request after the client that sent it has gone."""
        jobs = self._hasty(deadline).find(nonce)
        if again and not jobs:
            self.watch.say(f"looking for {deadline.remaining:.0f} s for the job that was being submitted")
        while again and not jobs and not deadline.expired:
            time.sleep(deadline.sooner(_CANCEL_WAIT_S))
            jobs = self._hasty(deadline).find(nonce)
        return jobs

    def _cancelling(self, which: str) -> str:
        """Return the command that cancels a job, to be typed where this one was."""
        return f"rtgate cancel {f'--server {shlex.quote(self.server)} ' if self.server else ''}{which}"

    def _hasty(self, deadline: Deadline) -> Lava:
        """Return a client that gives up when the time is over, but asks once in any case."""
        return Lava(self.lava.access, replace(self.lava.patience, connect=5.0, answer=10.0, total=deadline.remaining))

    def _decide_blame(self, attempt: Attempt) -> Attempt:
        """Find out whose fault a silent boot was.

        A known-good kernel is tried on the same board, then the silent one again: the baseline if there is one, else
        the kernel of the lab's health check.
        """
        job, ending = attempt.job, attempt.ending
        silent = dict(enumerate(self.arms, 1)).get(ending.boot, "candidate")
        reference = "baseline" if "baseline" in self.arms and silent != "baseline" else "the lab's health check"
        self.watch.say(
            f"{ending.full_sentence}: trying a known-good kernel ({reference}) on {job.device}, then this one again"
        )
        jobs: list[FinishedJob] = []
        try:
            if reference == "baseline":
                trial = self._after_baseline(silent, job, jobs)
            else:
                trial = self._after_health_check(silent, job, jobs)
        except InfrastructureError as error:
            trial = KernelTrial(reason=f"nobody could try a known-good kernel: {error}")
        except ConfigError as error:
            trial = KernelTrial(reason=f"the job that tries {reference} cannot be submitted: {error}")
        return replace(attempt, ending=assign_blame(ending, trial), trials=tuple(jobs))

    def _after_baseline(self, silent: str, job: Job, jobs: list[FinishedJob]) -> KernelTrial:
        """Boot the baseline, and the silent kernel after it, in one job."""
        proof = self._proof(("baseline", silent), job)
        jobs.append(proof)
        by = f"the baseline, job {proof.job.number}"
        if proof.job.device != job.device:
            return KernelTrial(reason=_ELSEWHERE)
        good, why = came_up(proof, 1, emulated=self.emulated)
        if not good:
            return KernelTrial(by=by, good=good, reason=f"{_OPEN}{why}")
        again, why = came_up(proof, 2, emulated=self.emulated)
        return KernelTrial(by=by, good=True, again=again, reason=why, job=proof.job.number)

    def _after_health_check(self, silent: str, job: Job, jobs: list[FinishedJob]) -> KernelTrial:
        """Run the lab's own health check, and boot the silent kernel in a job after it."""
        try:
            definition, nonce = self._health_check(job)
            jobs.append(self._follow(definition, nonce))
        except ConfigError as error:
            return KernelTrial(reason=f"the lab's health check cannot be used: {error}")
        by = f"the lab's health check, job {jobs[0].job.number}"
        if jobs[0].job.device != job.device:
            return KernelTrial(reason=_ELSEWHERE)
        good, why = known_kernel_booted(jobs[0], emulated=self.emulated)
        if not good:
            return KernelTrial(by=by, good=good, reason=f"{_OPEN}{why}")
        proof = self._proof((silent,), job)
        jobs.append(proof)
        if proof.job.device != job.device:
            return KernelTrial(by=by, good=True, reason="it could not be tried on that very board")
        again, why = came_up(proof, 1, emulated=self.emulated)
        return KernelTrial(by=by, good=True, again=again, reason=why, job=proof.job.number)

    def _proof(self, arms: tuple[str, ...], job: Job) -> FinishedJob:
        """Follow a job that only boots these arms, on the board of another job if there is a way to."""
        nonce = new_nonce()
        tags = same_device_tags(self.lava.devices(self.device_type), job.device, self.tags)
        return self._follow(self.proof(arms, nonce, tags), nonce)

    def _health_check(self, job: Job) -> tuple[str, str]:
        """Return the lab's own health check as a job for the same board.

        Raises:
            InfrastructureError: the lab has none.
            ConfigError: it cannot be read.
        """
        text = self.lava.health_check(self.device_type)
        data = strict_yaml.data(text) if text else None
        if not isinstance(data, dict):
            raise InfrastructureError(
                f"the lab has no health check for {self.device_type}: install one (`rtgate lab-check --health-check`), "
                "or submit with --baseline"
            )
        devices = self.lava.devices(self.device_type)
        tag = own_tag(devices, job.device) if len(devices) > 1 else None
        nonce = new_nonce()
        metadata = data.get("metadata") if isinstance(data.get("metadata"), dict) else {}
        data |= {"job_name": f"rtgate: does {job.device} boot a known-good kernel"}
        data |= {"metadata": {**(metadata or {}), NONCE: nonce, "rtgate.checks": str(job.number)}}
        data |= {"device_type": self.device_type, "priority": "high", "visibility": data.get("visibility", "public")}
        if tag:
            data["tags"] = [tag]
        return strict_yaml.dump(data), nonce


def endpoint_of(job: Job, lava: Lava, waits: Waits, *, emulated: bool) -> Attempt | None:
    """Return the endpoint's job, which ends when the root complex's has; None for a job of one board.

    One that does not end is the lab's fault, and leaves what the root complex measured as it is. Raises as `Lava.job`.
    """
    number = job.definition.job_of(multinode.ENDPOINT)
    if not number:
        return None
    short = replace(waits, running=_ENDPOINT_END_S)
    try:
        ended = Following(lava, number, short, lambda _line: None, lambda _job: None).follow()
    except DeadlineError as error:
        ending = Ending(blame=Blame.LAB, sentence=str(error), of_endpoint=True)
        return Attempt(job=lava.job(number), lines=(), ending=ending)
    return Attempt(job=ended.job, lines=ended.lines, ending=ending_of_endpoint(ending_of(ended, emulated=emulated)))
