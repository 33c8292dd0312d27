# SPDX-License-Identifier: MIT
"""`rtgate fetch`: what a job has measured, from its log, on any machine and at any time."""

from __future__ import annotations

import argparse
from pathlib import Path

from rtgate import durations
from rtgate.board.boards import Board
from rtgate.board.boot import TimeBase
from rtgate.cli import command_options, requests
from rtgate.errors import ConfigError
from rtgate.lava.client.access import access
from rtgate.lava.client.follow import Following, Waits, read_whole_log
from rtgate.lava.client.server import Lava
from rtgate.lava.client.submission import Attempt, endpoint_of
from rtgate.lava.in_job.target import time_of
from rtgate.lava.job import multinode
from rtgate.lava.job import request as orders
from rtgate.lava.results.blame import ending_of, ending_with_endpoint, ending_without_trial
from rtgate.lava.results.classify import classify
from rtgate.report.notices import silence
from rtgate.workflow import job_results
from rtgate.workflow.job_watch import JobWatch
from rtgate.workflow.report_directory import lock, replacing, require_report_directory
from rtgate.workflow.verdicts import limits

DESCRIPTION = """\
Fetch the records of a job that `rtgate submit` has submitted, judge them, and make the report. All that is needed
is in the job: its number is enough. A job that has not ended is an error, unless --wait follows it.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("job", type=int, metavar="JOB", help="the job's number")
    command_options.server(parser)
    parser.add_argument("--wait", action="store_true", help="follow a job that has not ended")
    command_options.following(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    output = arguments.output.absolute()
    require_report_directory(output)
    limits(arguments.thresholds)  # a mistake there is found before the wait, and before an older report is replaced
    criteria = requests.criteria(arguments)
    watch = JobWatch(verbose=arguments.verbose)
    lava = Lava(access(arguments.server), notify=watch.say)
    definition = lava.job(arguments.job).definition
    if definition.role == multinode.ENDPOINT:
        first = definition.job_of(multinode.ROOT_COMPLEX)
        raise ConfigError(f"job {arguments.job} is the endpoint's part of job {first}: fetch that")
    order = orders.read(definition, f"job {arguments.job}")
    attempt = _wait_for_end(lava, arguments, watch, order.expected().board)
    with lock(output), replacing(output):
        job_results.keep(order, [attempt], output, watch, arguments.thresholds)
        endpoint = _keep_endpoint(attempt, output, watch) if definition.role else None
        jobs = [job_results.JobAttempts(order, [attempt], endpoint)]
        return job_results.judge(order, jobs, output, criteria)


def _keep_endpoint(attempt: Attempt, output: Path, watch: JobWatch) -> job_results.JobAttempts:
    """Keep what the endpoint measured in the same job, and return it."""
    order = orders.read(attempt.job.definition, f"job {attempt.job.number}", multinode.ENDPOINT)
    return job_results.keep_endpoint(order, [attempt], output, watch)


def _wait_for_end(lava: Lava, arguments: argparse.Namespace, watch: JobWatch, board: Board) -> Attempt:
    """Return the job after its end. Raises ConfigError: it has not ended, and nobody said to wait."""
    job = lava.job(arguments.job)
    emulated = time_of(board) != TimeBase.REAL
    waits = Waits(queue=durations.option("--queue-timeout", arguments.queue_timeout))
    if job.finished:
        lines = read_whole_log(lava, job.number)
        ending = classify(job, lines, emulated=emulated)
    elif arguments.wait:
        try:
            with silence():  # the job's log speaks
                finished_job = Following(lava, job.number, waits, watch.show_line, watch.state).follow()
        finally:
            watch.close()
        job, lines = finished_job.job, finished_job.lines
        ending = ending_of(finished_job, emulated=emulated)
    else:
        raise ConfigError(f"job {job.number} has not ended ({job.state}): add --wait, or come back later")
    endpoint = endpoint_of(job, lava, waits, emulated=emulated)
    if endpoint is not None:
        ending = ending_with_endpoint(ending, lines, endpoint.ending, endpoint.job.number)
    return Attempt(job=job, lines=lines, ending=ending_without_trial(ending), endpoint=endpoint)
