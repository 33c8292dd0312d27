# SPDX-License-Identifier: MIT
"""What is kept of a job, and what it comes to: its log, its records, verdicts and the report."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rtgate import files
from rtgate.board.boot import ArmName
from rtgate.judge.verdict import Verdict
from rtgate.lava.client.submission import Attempt
from rtgate.lava.job.request import MeasurementRequest
from rtgate.lava.results import log, verdicts
from rtgate.lava.results.classify import Blame
from rtgate.lava.results.expected import mark_records, plan_records, without_broken_pairs
from rtgate.lava.results.fetch import fetch, merge
from rtgate.records import planned
from rtgate.records.record import Place
from rtgate.workflow import job_failures
from rtgate.workflow.conclusion import conclude
from rtgate.workflow.job_watch import JobWatch
from rtgate.workflow.judging import Criteria, JudgingRequest


def keep(
    order: MeasurementRequest,
    attempts: Sequence[Attempt],
    output: Path,
    watch: JobWatch,
    thresholds: Path | None = None,
) -> None:
    """Keep the logs of each attempt (`keep_logs`), and the records of the last one.

    Those before it failed by the lab's fault.

    Pairs that the lab broke are left out (`without_broken_pairs`), unless something fails the kernel by `thresholds`:
    that must not be left out with them.

    Raises:
        InfrastructureError: the directory cannot be written.
        ConfigError: it holds something damaged.
    """
    keep_logs(attempts, output)
    last = attempts[-1]
    expectation, part = order.expected(), output / ".part"
    shutil.rmtree(part, ignore_errors=True)
    fetch_result = fetch(expectation, last, part)
    plan_records(expectation, part)
    failure = len(order.kernels) > 1 and job_failures.in_records(order, part, thresholds)
    for note in (*fetch_result.notes, *(() if failure else without_broken_pairs(part, order.boots))):
        watch.say(note)
    mark_records(part, order.mark)
    merge(part, output / "records")
    watch.say(
        f"job {last.job.number}: {fetch_result.measured} records"
        + f", {fetch_result.broken} cases of boots that broke" * bool(fetch_result.broken)
    )


def keep_logs(attempts: Sequence[Attempt], output: Path) -> None:
    """Keep log, definition and ending of each attempt, and the logs of jobs that told whose fault it was.

    Raises InfrastructureError: the directory cannot be written.
    """
    with files.writing(output):
        (output / "lava").mkdir(parents=True, exist_ok=True)
        for attempt in attempts:
            where = output / "lava" / f"job-{attempt.job.number}"
            where.with_suffix(".json").write_text(json.dumps(_summary(attempt), indent=1) + "\n", encoding="utf-8")
            trial_logs = ((trial.job, trial.lines) for trial in attempt.trials)
            for job, lines in ((attempt.job, attempt.lines), *trial_logs):
                where = output / "lava" / f"job-{job.number}"
                where.with_suffix(".log").write_text(log.dump(lines), encoding="utf-8")
                where.with_suffix(".yaml").write_text(job.definition.text, encoding="utf-8")


def mark_missing(order: MeasurementRequest, output: Path) -> None:
    """Write down what a job was to bring that was never submitted, so that it is missed. Raises as `keep`."""
    part = output / ".part"
    shutil.rmtree(part, ignore_errors=True)
    plan_records(order.expected(), part)
    merge(part, output / "records")


@dataclass(frozen=True, slots=True)
class JobAttempts:
    """A job, or several that follow each other, with its attempts; none if nothing came to it.

    Attributes:
        endpoint: what the endpoint measured in the same job; None for a job of one board.
    """

    order: MeasurementRequest
    attempts: Sequence[Attempt]
    endpoint: JobAttempts | None = None

    @property
    def is_complete(self) -> bool:
        """Whether it came to its end."""
        return bool(self.attempts) and self.attempts[-1].ending.blame is Blame.NOBODY


def look(jobs: Sequence[JobAttempts], output: Path) -> None:
    """Write down that somebody looks at what the jobs brought now. Raises as `conclude`."""
    records = output / "records"
    screen_boots = sum(len(job.order.boots) for job in jobs if job.order.screen)
    for job in jobs:
        for arm in dict.fromkeys(job.order.boots):
            for case in job.order.cases:
                place = Place(records=records, board=job.order.board, arm=arm, case=case.name)
                planned.note_look(place, job.order.looks, screen_boots if arm == ArmName.CANDIDATE else 0)


def judge(order: MeasurementRequest, jobs: Sequence[JobAttempts], output: Path, criteria: Criteria) -> int:
    """Judge what was kept of an order's jobs, write verdicts and report, and return the exit code.

    What an endpoint measured in them is judged with it. Raises as `conclude`.
    """
    orders = {order.board: order, **{job.endpoint.order.board: job.endpoint.order for job in jobs if job.endpoint}}
    request = JudgingRequest(
        records=output / "records",
        criteria=criteria,
        cases={board: [case.name for case in orders[board].cases] for board in orders},
        arms={board: set(orders[board].kernels) for board in orders},
    )
    return conclude(output, request, of_jobs(jobs))


def keep_endpoint(order: MeasurementRequest, attempts: Sequence[Attempt], output: Path, watch: JobWatch) -> JobAttempts:
    """Keep what the endpoint measured in the jobs of these attempts, and return it. Raises as `keep`."""
    own = [attempt.endpoint for attempt in attempts if attempt.endpoint is not None]
    if not attempts or attempts[-1].endpoint is None:
        keep_logs(own, output)
        mark_missing(order, output)
        return JobAttempts(order, ())
    keep(order, own, output, watch)
    return JobAttempts(order, own)


def _parts(jobs: Sequence[JobAttempts]) -> Iterator[JobAttempts]:
    """Yield what each board of each job came to."""
    for job in jobs:
        yield job
        if job.endpoint is not None:
            yield job.endpoint


def of_jobs(jobs: Sequence[JobAttempts]) -> list[Verdict]:
    """Return what is to be said of jobs themselves, beside what they measured: what the lab or a boot came to."""
    return [
        part_verdict
        for part in _parts(jobs)
        if part.attempts
        for part_verdict in verdicts.verdicts(part.order, part.attempts)
    ]


def _summary(attempt: Attempt) -> dict[str, object]:
    """Return what programs want to know of a job: times as the server has them, blame, what was said."""
    job, ending = attempt.job, attempt.ending
    identity = {name: getattr(job, name) for name in ("number", "name", "state", "health", "device_type", "device")}
    times = {name: getattr(job, name) for name in ("submitted", "started", "ended")}
    return {
        "format": 1,
        **identity,
        **times,
        "blame": ending.blame.value,
        "sentence": ending.sentence,
        "boot": ending.boot,
        "line": ending.line,
        "panics": [asdict(panic) for panic in ending.panics],
    }
