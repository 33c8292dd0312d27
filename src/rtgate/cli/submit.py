# SPDX-License-Identifier: MIT
"""`rtgate submit`: one job for one board of a LAVA lab, from kernel to verdict."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from dataclasses import replace

from rtgate import durations, files
from rtgate.cli import command_options, job_options, requests
from rtgate.lava.client.waiting import RETRIES
from rtgate.workflow.budget import DEFAULT, Budget, minutes
from rtgate.workflow.job_series import run_jobs
from rtgate.workflow.job_watch import JobWatch
from rtgate.workflow.report_directory import lock, replacing, require_report_directory
from rtgate.workflow.submission import Submission, prepare_series

DESCRIPTION = """\
Measure a kernel on a board of a LAVA lab: submit one job, follow it, fetch its records, judge them. Without --wait the
job is left to itself, and `rtgate fetch JOB` does the rest later, on any machine. Ctrl-C cancels the job. For the
boards of a lab, and what it lacks for them, see `rtgate lab-check`; exit codes are those of `rtgate --help`.

The server and its token: RTGATE_LAVA_URL and RTGATE_LAVA_TOKEN_FILE (or RTGATE_LAVA_TOKEN), or lavacli's identities.

examples:
  rtgate submit --board lab-virt-arm64 --kernel build/virt-arm64-preempt_rt --suite latency --wait
  rtgate submit --board rk3588-evb1 --kernel build/mine --baseline build/base --boots 2 --wait
  rtgate submit --board rk3568-evb1 --family mainline --kernel https://builds.example.org/Image \\
      --dtb https://builds.example.org/a.dtb
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    command_options.board(parser)
    command_options.server(parser)
    boot_group = parser.add_argument_group("what is booted")
    job_options.add_kernels(boot_group)
    _add_ways(boot_group)
    measure_group = parser.add_argument_group("what is measured")
    job_options.add_measuring(measure_group, "default: the profile's; for two kernels as many as it takes")
    _add_looks(measure_group)
    job_options.add_endpoint(parser)
    job_options.add_job(parser.add_argument_group("the job"))
    _add_ending(parser.add_argument_group("afterwards"))


def _add_ways(group: argparse._ArgumentGroup) -> None:
    ways = group.add_mutually_exclusive_group()
    ways.add_argument(
        "--serve",
        default="",
        metavar="HOST[:PORT]",
        help="how workers reach this machine's file server (default: its address towards LAVA); needs --wait",
    )
    ways.add_argument(
        "--put", metavar="URL", help="upload files below URL instead (HTTP PUT, token in RTGATE_PUT_TOKEN)"
    )


def _add_looks(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--budget",
        default=DEFAULT,
        metavar="TIME",
        help="of the board, for two kernels: 45 min, 2 h (default: %(default)s)",
    )
    group.add_argument("--no-extend", action="store_true", help="no further job where a comparison stays open")


def _add_ending(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--wait", action="store_true", help="follow the job, fetch, judge, report")
    group.add_argument(
        "--retries", type=int, default=RETRIES, metavar="N", help="after lab faults (default: %(default)s)"
    )
    command_options.following(group)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    submission = _submission(arguments)
    watch = JobWatch(verbose=arguments.verbose)
    with ExitStack() as stack:
        if arguments.wait:
            output = arguments.output.absolute()
            require_report_directory(output)
            files.require_free_space(output)
            stack.enter_context(lock(output))
        series = prepare_series(submission, watch, stack)
        if not arguments.wait:
            number = series.submission(series.order).leave()
            watch.say(f"submitted; later, anywhere: rtgate fetch {number}")
            print(number)
            return 0
        stack.enter_context(replacing(output))
        return run_jobs(series, output)


def _submission(arguments: argparse.Namespace) -> Submission:
    """Return what is submitted. Raises ConfigError: options do not fit together, or name nothing."""
    budget = Budget(minutes(arguments.budget))
    submission = job_options.submission(
        arguments,
        criteria=requests.criteria(arguments),
        queue_s=durations.option("--queue-timeout", arguments.queue_timeout),
        retries=arguments.retries,
    )
    return replace(
        submission,
        budget=budget,
        in_looks=_in_looks(arguments),
        extend=not arguments.no_extend,
        serve=arguments.serve,
        put=arguments.put,
        stays=arguments.wait,
    )


def _in_looks(arguments: argparse.Namespace) -> bool:
    """Return whether pairs of boots are looked at while they are measured.

    That needs two kernels, and somebody who waits for the first job. Who names a number of boots wants one look at all
    of them.
    """
    return bool(arguments.baseline and arguments.wait and not arguments.boots)
