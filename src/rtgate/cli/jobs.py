# SPDX-License-Identifier: MIT
"""`rtgate jobs`: the latest jobs of a LAVA server that rtgate submitted."""

from __future__ import annotations

import argparse

from rtgate.cli import command_options
from rtgate.errors import ConfigError
from rtgate.lava.client.access import access
from rtgate.lava.client.server import Lava
from rtgate.report.listing import show_listing
from rtgate.workflow.job_watch import JobWatch
from rtgate.workflow.lab_jobs import select_jobs

DESCRIPTION = "The latest jobs of a LAVA server that rtgate submitted."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    command_options.server(parser)
    parser.add_argument("--all", action="store_true", help="also jobs that rtgate did not submit")
    parser.add_argument("--active", action="store_true", help="only jobs that have not ended")
    add_selection(parser)
    parser.add_argument("-n", dest="count", type=int, default=20, metavar="N", help="how many (default: %(default)s)")


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which jobs are meant."""
    parser.add_argument(
        "--metadata",
        action="append",
        default=[],
        metavar="KEY=TEXT",
        help="only jobs with this, for example pipeline=$CI_PIPELINE_ID",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    lava = Lava(access(arguments.server), notify=JobWatch().say)
    jobs = select_jobs(lava, wanted_metadata(arguments), active=arguments.active, everybody=arguments.all)
    show_listing(
        ("job", "state", "health", "device", "submitted", "name"),
        (
            (job.number, job.state, job.health, job.device or "-", job.submitted[:16].replace("T", " "), job.name)
            for job in jobs[: arguments.count]
        ),
    )
    return 0


def wanted_metadata(arguments: argparse.Namespace) -> dict[str, str]:
    """Return what jobs must have in their metadata. Raises ConfigError: an option is not KEY=TEXT."""
    pairs = [text.partition("=") for text in arguments.metadata]
    for text, (key, equals, _) in zip(arguments.metadata, pairs, strict=True):
        if not key or not equals:
            raise ConfigError(f"--metadata {text}: expected KEY=TEXT")
    return {key: value for key, _, value in pairs}
