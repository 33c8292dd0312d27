# SPDX-License-Identifier: MIT
"""The jobs of one submission, one after the other on the same board, and what all of them come to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rtgate.board.boards import Board
from rtgate.board.boot import TimeBase
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.judge.compare.procedures import Procedure
from rtgate.lava.client import devices
from rtgate.lava.client.devices import Lab
from rtgate.lava.client.follow import Waits
from rtgate.lava.client.server import Lava
from rtgate.lava.client.submission import Attempt, Submission
from rtgate.lava.in_job.target import time_of
from rtgate.lava.job.definition import lava_of
from rtgate.lava.job.request import MeasurementRequest
from rtgate.report.notices import silence
from rtgate.workflow import job_failures, job_results
from rtgate.workflow.budget import Budget
from rtgate.workflow.job_planner import JobPlanner
from rtgate.workflow.job_results import JobAttempts
from rtgate.workflow.job_watch import JobWatch
from rtgate.workflow.job_writer import JobOptions, JobWriter
from rtgate.workflow.judging import Criteria
from rtgate.workflow.sequential import PairQueue, StoredComparison

_NOT_KEPT = "not measured on: no tag keeps a job on the board that the others ran on: give each device one of its own"


@dataclass(kw_only=True)
class Series:
    """The jobs of one submission, ready to be: the lab was looked at, files are published.

    Attributes:
        options: of each job.
        criteria: what the records are judged by.
        budget: what the comparison may take of the board.
        extend: whether further jobs measure what stays open.
        tags: of devices; the first attempt pins the device for those that follow.
        writer: writes their definitions.
        procedure: of pairs of boots; None where nobody looks before all are measured.
        kept: whether the tags keep all further jobs on the device that the last one ran on.
    """

    options: JobOptions
    criteria: Criteria
    budget: Budget
    extend: bool
    board: Board
    order: MeasurementRequest
    lava: Lava
    lab: Lab
    tags: tuple[str, ...]
    writer: JobWriter
    watch: JobWatch
    procedure: Procedure | None = None
    kept: bool = False

    def submission(self, order: MeasurementRequest) -> Submission:
        """Return the submission of a part of the order."""
        return Submission(
            lava=self.lava,
            device_type=lava_of(self.board).device_type,
            make=lambda nonce, tags: self.writer.job(order, nonce, tags),
            proof=lambda arms, nonce, tags: self.writer.proof(order, arms, nonce, tags),
            watch=self.watch,
            tags=self.tags,
            waits=Waits(queue=self.options.queue_s),
            attempts=1 + max(0, self.options.retries),
            arms=order.boots,
            emulated=time_of(self.board) != TimeBase.REAL,
            server=self.options.server,
            fixed=self.writer.endpoint is not None,
            failure=lambda attempt: self._failure(order, attempt),
        )

    def _failure(self, order: MeasurementRequest, attempt: Attempt) -> str:
        """Return why what an attempt measured is a failure, on either board; empty if it is none."""
        own = job_failures.in_attempt(order, attempt, self.criteria.thresholds)
        endpoint = self.writer.endpoint
        if own or endpoint is None or attempt.endpoint is None:
            return own
        return job_failures.in_attempt(endpoint.order, attempt.endpoint, self.criteria.thresholds)


def run_jobs(series: Series, output: Path) -> int:
    """Carry out the order, judge what its jobs brought, report; return the exit code. Raises as `carry_out`."""
    return job_results.judge(series.order, carry_out(series, output), output, series.criteria)


def carry_out(series: Series, output: Path) -> list[JobAttempts]:
    """Carry out the order, and what a comparison needs beyond it, on the same board; keep records and logs.

    Raises:
        ConfigError, InfrastructureError: LAVA does not take the job, or does not answer.
    """
    further = JobPlanner(
        whole=series.order,
        queue=PairQueue(
            StoredComparison(records=output / "records", board=series.board.name, criteria=series.criteria)
        ),
        budget=series.budget,
        watch=series.watch,
        procedure=series.procedure,
    )
    all_jobs: list[JobAttempts] = []
    order: MeasurementRequest | None = further.first()
    while order is not None:
        jobs = _parts(series, order, output, began=bool(all_jobs))
        all_jobs += jobs
        if not all(job.is_complete for job in jobs):
            break
        further.spend(jobs)
        if not series.extend or not series.procedure:
            break
        job_results.look(all_jobs, output)
        order = further.order()
        if order is not None and not _may_go_on(series, order):
            break
    job_results.look(all_jobs, output)
    return all_jobs


def _may_go_on(series: Series, order: MeasurementRequest) -> bool:
    """Return whether the next part runs on the same board as the last one; boots of two boards are not compared."""
    if series.kept or len(order.kernels) == 1:
        return True
    series.watch.say(_NOT_KEPT)
    return False


def _attempts(series: Series, part: MeasurementRequest, *, began: bool) -> tuple[Attempt, ...]:
    """Carry out a part of an order; return its attempts, none if the server is lost or refuses the job.

    Raises ConfigError, InfrastructureError where nothing was measured before: what was is judged all the same.
    """
    try:
        with silence():  # the job's log speaks
            return series.submission(part).run()
    except (ConfigError, InfrastructureError) as error:
        if not began:
            raise
        series.watch.say(f"not measured on: {error}")
        return ()
    finally:
        series.watch.close()


def _parts(series: Series, order: MeasurementRequest, output: Path, *, began: bool) -> list[JobAttempts]:
    """Carry out every part of an order, one after the other on the same board; a part that none came to has nothing.

    `began` says that earlier orders brought something.
    """
    jobs: list[JobAttempts] = []
    for part in order.parts():
        endpoint, attempts = series.writer.endpoint, tuple[Attempt, ...]()
        if not jobs or (jobs[-1].is_complete and _may_go_on(series, order)):
            attempts = _attempts(series, part, began=began or bool(jobs))
        if attempts:
            job_results.keep(part, attempts, output, series.watch, series.criteria.thresholds)
        else:
            job_results.mark_missing(part, output)
        other = job_results.keep_endpoint(endpoint.order, attempts, output, series.watch) if endpoint else None
        jobs.append(JobAttempts(part, attempts, other))
        if jobs[-1].is_complete:
            device = attempts[-1].job.device
            series.tags = devices.same_device_tags(series.lab.devices, device, series.tags)
            series.kept = len(series.lab.devices) == 1 or devices.own_tag(series.lab.devices, device) in series.tags
    return jobs
