# SPDX-License-Identifier: MIT
"""The jobs of one submission, one after the other on the same board, and what all of them come to."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rtgate import site
from rtgate.board.boards import Board
from rtgate.board.boot import TimeBase
from rtgate.errors import ConfigError
from rtgate.judge.thresholds import excerpt
from rtgate.lava.client import devices
from rtgate.lava.client.devices import Lab
from rtgate.lava.client.follow import Waits
from rtgate.lava.client.server import Lava
from rtgate.lava.client.submission import Submission
from rtgate.lava.in_job import on_board
from rtgate.lava.in_job.target import time_of
from rtgate.lava.job.definition import Files, JobArm, JobRequest, lava_of, render
from rtgate.lava.job.request import NONCE, MeasurementRequest
from rtgate.report.notices import silence
from rtgate.workflow import job_failures, job_results
from rtgate.workflow.budget import Budget
from rtgate.workflow.job_planner import JobPlanner
from rtgate.workflow.job_results import Carried
from rtgate.workflow.job_watch import JobWatch
from rtgate.workflow.judging import Criteria
from rtgate.workflow.sequential import Stored

_PROOF_S = 120  # starting a shell on a worker that has much to do


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What a submission says of its jobs and of how they are followed.

    Attributes:
        queue_s: how long a job may wait for a free board, in seconds.
        retries: how often a job is submitted again after faults of the lab.
        server: as the command line names it; empty for that of the environment.
        priority: empty for that which fits the job.
        image: container image on the worker; empty for the transport's own.
        upload: URL that gets the records, too; None for none.
        metadata: KEY=TEXT.
        overlays: files that were applied to the device tree.
        some_cases: whether only some cases of the suites are measured.
    """

    queue_s: float
    retries: int = 0
    server: str = ""
    priority: str = ""
    visibility: str = "public"
    image: str = ""
    upload: str | None = None
    metadata: tuple[str, ...] = ()
    overlays: tuple[str, ...] = ()
    some_cases: bool = False


@dataclass(kw_only=True)
class Series:
    """The jobs of one submission, ready to be: the lab was looked at, files are published.

    Attributes:
        options: of each job.
        criteria: what the records are judged by.
        budget: what the comparison may take of the board.
        extend: whether further jobs measure what stays open.
        tags: of devices; the first attempt pins the device for those that follow.
        files: where workers get them, by arm.
        family: of the kernels.
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
    files: Mapping[str, Files]
    family: str
    watch: JobWatch
    kept: bool = False

    def submission(self, order: MeasurementRequest) -> Submission:
        """Return the submission of a part of the order."""
        return Submission(
            lava=self.lava,
            device_type=lava_of(self.board).device_type,
            make=lambda nonce, tags: render(self._request(order, nonce, tags)),
            proof=lambda arms, nonce, tags: render(self._proof(order, arms, nonce, tags)),
            watch=self.watch,
            tags=self.tags,
            waits=Waits(queue=self.options.queue_s),
            attempts=1 + max(0, self.options.retries),
            arms=order.boots,
            emulated=time_of(self.board) != TimeBase.REAL,
            server=self.options.server,
            failure=lambda attempt: job_failures.in_attempt(order, attempt, self.criteria.thresholds),
        )

    def _request(self, order: MeasurementRequest, nonce: str, tags: tuple[str, ...]) -> JobRequest:
        options = self.options
        named = ", ".join(kernel.name for kernel in order.kernels.values())
        return JobRequest(
            name=f"rtgate {self.board.name}: {','.join(order.suites)} on {named}",
            board=self.board,
            arms=tuple(
                JobArm(name=arm, files=self.files[arm], identity=json.dumps(asdict(kernel)))
                for arm, kernel in order.kernels.items()
            ),
            boots=order.boots,
            suites=order.suites,
            profile=order.profile,
            tuning=order.tuning,
            priority=options.priority or ("low" if order.boots != self.order.boots else "medium"),
            tags=tags,
            visibility=options.visibility,
            metadata={**_origin(options.metadata), **_overlays(options.overlays), **order.as_metadata(), NONCE: nonce},
            transport=order.transport,
            image=options.image,
            upload=options.upload,
            server=self.lab.version,
            family=self.family,
            test_s=order.boot_s,
            steps=self._steps(order),
            cases=tuple(case.name for case in order.cases)
            if options.some_cases or order.cases != self.order.cases
            else (),
            limits=self._limits(order),
        )

    def _proof(self, order: MeasurementRequest, arms: tuple[str, ...], nonce: str, tags: tuple[str, ...]) -> JobRequest:
        """Return a job that boots these arms, one after the other, and measures nothing."""
        request = self._request(order, nonce, tags)
        return replace(
            request,
            name=f"rtgate {self.board.name}: do {', '.join(arms)} boot",
            arms=tuple(arm for arm in request.arms if arm.name in arms),
            boots=arms,
            priority=self.options.priority or "high",
            metadata={**_origin(self.options.metadata), NONCE: nonce},
            upload=None,
            test_s=_PROOF_S,
            cases=(),
            limits="",
            steps=(("echo booted",),) * len(arms),
        )

    def _limits(self, order: MeasurementRequest) -> str:
        """Return the limits by which a job's cases are judged inside it, where rtgate runs there."""
        if order.transport != "docker":
            return ""
        named = self.criteria.thresholds
        files = [named] if named else site.files("thresholds.yaml")
        return excerpt(files, order.board, {case.name for case in order.cases})

    def _steps(self, order: MeasurementRequest) -> tuple[tuple[str, ...], ...]:
        """Return what each boot's own shell carries out, for the transport that needs nothing else."""
        if order.transport != "board":
            return ()
        expected = order.expected()
        return tuple(on_board.steps(expected, number) for number in range(1, len(order.boots) + 1))


def run_jobs(series: Series, output: Path) -> int:
    """Carry out the order, judge what its jobs brought, report; return the exit code. Raises as `carry_out`."""
    return job_results.judge(series.order, carry_out(series, output), output, series.criteria)


def carry_out(series: Series, output: Path) -> list[Carried]:
    """Carry out the order, and what a comparison needs beyond it, on the same board; keep records and logs.

    Raises:
        ConfigError, InfrastructureError: LAVA does not take the job, or does not answer.
    """
    further = JobPlanner(
        whole=series.order,
        stored=Stored(records=output / "records", board=series.board.name, criteria=series.criteria),
        budget=series.budget,
        watch=series.watch,
    )
    done: list[Carried] = []
    order: MeasurementRequest | None = further.first()
    while order is not None:
        jobs = _parts(series, order, output)
        done += jobs
        if not all(one.whole for one in jobs):
            break
        further.spend(jobs)
        if not series.extend or not series.order.looks:
            break
        job_results.look(done, output)
        order = further.order()
        if order is not None and not series.kept:
            series.watch.say("not measured on: no tag keeps a job on the board that the others ran on")
            break
    job_results.look(done, output)
    return done


def _parts(series: Series, order: MeasurementRequest, output: Path) -> list[Carried]:
    """Carry out every part of an order, one after the other on the same board; a part that none came to has nothing."""
    done: list[Carried] = []
    for part in order.parts():
        if done and not done[-1].whole:
            job_results.mark_missing(part, output)
            done.append(Carried(part, ()))
            continue
        try:
            with silence():  # the job's log speaks
                attempts = series.submission(part).run()
        finally:
            series.watch.close()
        job_results.keep(part, attempts, output, series.watch, series.criteria.thresholds)
        done.append(Carried(part, attempts))
        if done[-1].whole:
            device = attempts[-1].job.device
            series.tags = devices.same(series.lab.devices, device, series.tags)
            series.kept = len(series.lab.devices) == 1 or devices.own_tag(series.lab.devices, device) in series.tags
    return done


_CI = {  # GitLab's variables and GitHub's
    "merge-request": ("CI_MERGE_REQUEST_IID",),
    "commit": ("CI_COMMIT_SHA", "GITHUB_SHA"),
    "branch": ("CI_COMMIT_REF_NAME", "GITHUB_REF_NAME"),
    "pipeline": ("CI_PIPELINE_ID", "GITHUB_RUN_ID"),
    "ci-job": ("CI_JOB_ID",),
}


def _origin(named: Sequence[str]) -> dict[str, str]:
    """Return where the job comes from: what GitLab or GitHub says, and what the command line adds."""
    variables = [(key, name) for key, names in _CI.items() for name in names]
    found = {key: os.environ[name] for key, name in variables if os.environ.get(name)}
    for text in named:
        key, equals, value = text.partition("=")
        if not equals or not key or key.startswith("rtgate."):
            raise ConfigError(f"--metadata {text}: expected KEY=TEXT, and a key that does not begin with `rtgate.`")
        found[key] = value
    return found


def _overlays(paths: Sequence[str]) -> dict[str, str]:
    """Return which overlays the device tree has: its own name does not tell."""
    return {"overlays": " ".join(Path(path).name for path in paths)} if paths else {}
