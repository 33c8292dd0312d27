# SPDX-License-Identifier: MIT
"""`rtgate cancel`: end jobs of a LAVA lab, by number or by what their metadata say."""

from __future__ import annotations

import argparse
from typing import Any

from rtgate.cli import command_options
from rtgate.cli.jobs import add_selection, select
from rtgate.errors import ConfigError
from rtgate.lava.client.access import access
from rtgate.lava.client.server import Lava
from rtgate.workflow.job_watch import JobWatch

_DESCRIPTION = """\
Cancel jobs: those of these numbers, or all that rtgate submitted with the given metadata and that have not ended. A CI
job that is killed can do so afterwards: rtgate cancel --metadata pipeline=$CI_PIPELINE_ID
"""


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "cancel",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("job", type=int, nargs="*", metavar="JOB", help="the job's number")
    command_options.server(parser)
    add_selection(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if bool(arguments.job) == bool(arguments.metadata):
        raise ConfigError("which jobs? Name numbers, or --metadata KEY=TEXT")
    lava = Lava(access(arguments.server), told=JobWatch().say)
    numbers = arguments.job or [job.number for job in select(lava, arguments.metadata, active=True)]
    left = []
    for number in numbers:
        try:
            print(f"job {number} {_cancelled(lava, number)}")
        except ConfigError as error:
            left.append(str(error))  # one that is not ours must not keep the others running
    if left:
        raise ConfigError("; ".join(left))
    return 0


def _cancelled(lava: Lava, number: int) -> str:
    """Cancel a job and return what became of it. Raises ConfigError: there is none, or it goes on."""
    before = lava.job(number)
    if before.finished:
        return f"has ended already: {before.health}"
    lava.cancel(number)
    # LAVA says that it did so also to those who may not.
    now = lava.job(number)
    if now.state not in {"Canceling", "Finished"}:
        raise ConfigError(f"job {number} is still {now.state}: it is {now.submitter or 'somebody'}'s, not ours")
    return "is cancelled"
