# SPDX-License-Identifier: MIT
"""`rtgate cancel`: end jobs of a LAVA lab, by number or by what their metadata say."""

from __future__ import annotations

import argparse

from rtgate.cli import command_options
from rtgate.cli.jobs import add_selection, wanted_metadata
from rtgate.errors import ConfigError
from rtgate.lava.client.access import access
from rtgate.lava.client.server import Lava
from rtgate.workflow.job_watch import JobWatch
from rtgate.workflow.lab_jobs import cancel_job, select_jobs

DESCRIPTION = """\
Cancel jobs: those of these numbers, or all that rtgate submitted with the given metadata and that have not ended. A CI
job that is killed can do so afterwards: rtgate cancel --metadata pipeline=$CI_PIPELINE_ID
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("job", type=int, nargs="*", metavar="JOB", help="the job's number")
    command_options.server(parser)
    add_selection(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if bool(arguments.job) == bool(arguments.metadata):
        raise ConfigError("which jobs? Name numbers, or --metadata KEY=TEXT")
    lava = Lava(access(arguments.server), notify=JobWatch().say)
    numbers = arguments.job or [job.number for job in select_jobs(lava, wanted_metadata(arguments), active=True)]
    refusals = []
    for number in numbers:
        try:
            print(f"job {number} {cancel_job(lava, number)}")
        except ConfigError as error:
            refusals.append(str(error))  # one that is not ours must not keep the others running
    if refusals:
        raise ConfigError("; ".join(refusals))
    return 0
