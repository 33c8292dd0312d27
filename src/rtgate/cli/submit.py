# SPDX-License-Identifier: MIT
"""`rtgate submit`: one job for one board of a LAVA lab, from kernel to verdict."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rtgate import boards
from rtgate import record as records_file
from rtgate.boards import FLAVOURS, Board
from rtgate.cli import suites
from rtgate.cli.concluding import Asked, conclude
from rtgate.cli.fetch import keep
from rtgate.cli.job_files import Files, Sources, publish
from rtgate.cli.job_watch import JobWatch
from rtgate.cli.soak import seconds
from rtgate.errors import ConfigError
from rtgate.judge.verdict import Verdict
from rtgate.lava import devices
from rtgate.lava.access import access
from rtgate.lava.client import Lava
from rtgate.lava.following import Waits
from rtgate.lava.job import PRIORITIES, TRANSPORTS, JobArm, JobRequest, lava_of, render
from rtgate.lava.order import NONCE, Expected, Order
from rtgate.lava.submission import Attempt, Submission
from rtgate.lava.verdicts import verdicts
from rtgate.profiles import profile
from rtgate.tools.registry import TOOLS

_DESCRIPTION = """\
Measure a kernel on a board of a LAVA lab: submit one job, follow it, fetch its records, judge them. Without --wait the
job is left to itself, and `rtgate fetch JOB` does the rest later, on any machine. Ctrl-C cancels the job.

The server and its token: RTGATE_LAVA_URL and RTGATE_LAVA_TOKEN_FILE (or RTGATE_LAVA_TOKEN), or lavacli's identities.

examples:
  rtgate submit --board lab-virt-arm64 --kernel build/virt-arm64 --suite latency --wait
  rtgate submit --board rk3588-evb1 --kernel build/mine --baseline build/base --boots 2 --wait
  rtgate submit --board rk3568-evb1 --kernel https://builds.example.org/Image --dtb https://builds.example.org/a.dtb
"""


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "submit",
        help="measure on a board of a LAVA lab",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--board", required=True, metavar="NAME", help="the board")
    parser.add_argument("--server", metavar="URL", help="the LAVA server, or an identity of lavacli.yaml")
    _add_kernels(parser.add_argument_group("what is booted"))
    _add_measuring(parser.add_argument_group("what is measured"))
    _add_job(parser.add_argument_group("the job"))
    _add_ending(parser.add_argument_group("afterwards"))


def _add_kernels(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--kernel", required=True, metavar="DIR|URL", help="the kernel: a build directory, or a URL")
    group.add_argument("--baseline", metavar="DIR|URL", help="the kernel to compare with; booted in turns")
    for name, what in (
        ("dtb", "device tree"),
        ("ramdisk", "ramdisk (default: the board's image)"),
        ("modules", "archive of modules"),
        ("nfsroot", "archive of a root filesystem for NFS"),
    ):
        group.add_argument(f"--{name}", metavar="FILE|URL", help=what)
    group.add_argument("--overlay", action="append", default=[], metavar="FILE|URL", help="device tree overlay")
    group.add_argument("--flavour", choices=FLAVOURS, help="what a kernel without build.json should be")
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


def _add_measuring(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--suite", default="latency", metavar="S[,S]", help="default: %(default)s")
    group.add_argument("--profile", default="quick", metavar="NAME", help="default: %(default)s")
    group.add_argument("--tuning", default="default", metavar="NAME", help="default: %(default)s")
    group.add_argument("--boots", type=int, metavar="N", help="boots of each kernel (default: the profile's)")


def _add_job(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--priority", default="medium", metavar="P", help=f"{', '.join(PRIORITIES)}, or 0 to 100")
    group.add_argument("--tag", action="append", default=[], metavar="TAG", help="only devices that have this tag")
    group.add_argument("--device", metavar="NAME", help="only this device (it needs a tag of its own)")
    group.add_argument("--visibility", default="public", metavar="V", help="public, personal, group:NAME")
    group.add_argument("--transport", default="docker", choices=TRANSPORTS, help="default: %(default)s")
    group.add_argument("--image", default="", metavar="NAME", help="container image on the worker")
    group.add_argument("--upload", metavar="URL", help="records go there too (HTTP PUT)")
    group.add_argument("--untrusted", action="store_true", help="nobody has reviewed this kernel: needs --tag")
    group.add_argument(
        "--metadata", action="append", default=[], metavar="KEY=TEXT", help="kept with the job, visible to all"
    )
    group.add_argument("--dry-run", action="store_true", help="print the job, validated by the server, and end")


def _add_ending(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--wait", action="store_true", help="follow the job, fetch, judge, report")
    group.add_argument("--retries", type=int, default=2, metavar="N", help="after lab faults (default: %(default)s)")
    group.add_argument("--queue-timeout", default="4h", metavar="TIME", help="for a free board (default: %(default)s)")
    group.add_argument("--thresholds", type=Path, metavar="FILE", help="limits, instead of thresholds.yaml")
    group.add_argument("--allow-unjudged", action="store_true", help="exit 0 although nothing was judged")
    group.add_argument("-v", "--verbose", action="store_true", help="print the job's whole log")
    group.add_argument("-o", "--output", type=Path, default=Path("report"), metavar="DIR", help="default: %(default)s")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    board = boards.board(arguments.board)
    device_type = lava_of(board).device_type
    watch = JobWatch(verbose=arguments.verbose)
    order, sources = _order(arguments, board)
    _consistent(arguments, sources)
    if arguments.wait:
        keep.prepare(arguments.output)
    lava = Lava(access(arguments.server))
    lab = devices.look(lava, device_type, arguments.tag)
    watch.say(lab.summary(lava.access.url))
    for entry in lava_of(board).unconfirmed:
        watch.say(f"unconfirmed for {board.name}: {entry}")
    tags = tuple(arguments.tag)
    tags = devices.pinned(lab.devices, arguments.device, tags) if arguments.device else tags
    with ExitStack() as stack:
        files = publish(sources, arguments, lava.access.url, stack)
        submission = Submission(
            lava=lava,
            device_type=device_type,
            make=lambda nonce, more: render(_request(arguments, order, files, lab.version, nonce, more)),
            watch=watch,
            tags=tags,
            waits=Waits(queue=seconds(arguments.queue_timeout)),
            attempts=1 + arguments.retries,
            arms=order.boots,
        )
        if arguments.dry_run:
            print(submission.checked("rtgate-dry-run", tags), end="")
            return 0
        if not arguments.wait:
            number = submission.leave()
            print(number)
            watch.say(f"submitted; later: rtgate fetch {number}")
            return 0
        try:
            attempts = submission.run()
        finally:
            watch.close()
    return _concluded(arguments, order, attempts)
