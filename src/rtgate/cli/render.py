# SPDX-License-Identifier: MIT
"""`rtgate render`: a job as a file, for those who submit it by other means."""

from __future__ import annotations

import argparse
from pathlib import Path

from rtgate.cli import command_options, job_options
from rtgate.workflow.job_watch import JobWatch
from rtgate.workflow.judging import Criteria
from rtgate.workflow.rendering import render_job

DESCRIPTION = """\
Write the job that `rtgate submit` would submit as DIR/job.yaml, and the files that it boots to DIR/artefacts, to be
uploaded to the URL that you name. No LAVA server and no token are needed. Any client may submit the job, later and more
than once; `rtgate fetch JOB` judges it. With --server a server checks the job, and nothing is submitted.

examples:
  rtgate render --board rk3588-evb1 --kernel build/mine --artefacts-url https://builds.example.org/4711 -o job
  lavacli jobs submit job/job.yaml
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    command_options.board(parser)
    command_options.server(parser)
    boot_group = parser.add_argument_group("what is booted")
    job_options.add_kernels(boot_group)
    boot_group.add_argument(
        "--artefacts-url", default="", metavar="URL", help="below which the files of DIR/artefacts will be"
    )
    measure_group = parser.add_argument_group("what is measured")
    job_options.add_measuring(measure_group)
    command_options.thresholds(measure_group)
    job_options.add_endpoint(parser)
    job_options.add_job(parser.add_argument_group("the job"))
    parser.add_argument("-o", "--output", type=Path, default=Path("job"), metavar="DIR", help="default: %(default)s")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    submission = job_options.submission(arguments, criteria=Criteria(thresholds=arguments.thresholds))
    print(render_job(submission, arguments.artefacts_url, arguments.output, JobWatch()))
    return 0
