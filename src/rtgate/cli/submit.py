# SPDX-License-Identifier: MIT
"""`rtgate submit`: one job for one board of a LAVA lab, from kernel to verdict."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rtgate import durations, files
from rtgate.board import boards
from rtgate.board.families import FAMILIES
from rtgate.cli import command_options, requests
from rtgate.errors import ConfigError
from rtgate.lava.job import cases as cases_file
from rtgate.lava.job.definition import PRIORITIES, TRANSPORTS
from rtgate.measure.case import Case
from rtgate.records.schedule import Steps
from rtgate.workflow import suites
from rtgate.workflow.archive import history_url
from rtgate.workflow.budget import DEFAULT, Budget, minutes
from rtgate.workflow.job_files import Named
from rtgate.workflow.job_series import JobOptions, run_jobs
from rtgate.workflow.job_watch import JobWatch
from rtgate.workflow.report_directory import check_ours, locked, replacing
from rtgate.workflow.sequential import PROCEDURES, looks_of
from rtgate.workflow.submission import Submission, prepared

_DESCRIPTION = """\
Measure a kernel on a board of a LAVA lab: submit one job, follow it, fetch its records, judge them. Without --wait the
job is left to itself, and `rtgate fetch JOB` does the rest later, on any machine. Ctrl-C cancels the job. What boards a
lab has, and what it lacks for them, says `rtgate lab-check`; exit codes are those of `rtgate --help`.

The server and its token: RTGATE_LAVA_URL and RTGATE_LAVA_TOKEN_FILE (or RTGATE_LAVA_TOKEN), or lavacli's identities.

examples:
  rtgate submit --board lab-virt-arm64 --kernel build/virt-arm64-preempt_rt --suite latency --wait
  rtgate submit --board rk3588-evb1 --kernel build/mine --baseline build/base --boots 2 --wait
  rtgate submit --board rk3568-evb1 --family mainline --kernel https://builds.example.org/Image \\
      --dtb https://builds.example.org/a.dtb
"""


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "submit",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command_options.board(parser)
    command_options.server(parser)
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
    group.add_argument(
        "--overlay",
        action="append",
        default=[],
        metavar="FILE",
        help="apply this overlay to the device tree, a file too (needs fdtoverlay); may be repeated",
    )
    group.add_argument(
        "--family",
        choices=FAMILIES,
        help="what a kernel was made from that has no `config` beside it, as one given by URL: decides its console",
    )
    command_options.flavour(group)
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
    group.add_argument("--cases", type=Path, metavar="FILE", help="only these, as `rtgate screen` chose them")
    command_options.profile(group)
    command_options.tuning(group)
    group.add_argument(
        "--boots", type=int, metavar="N", help="boots of each kernel (default: the profile's; in looks for two kernels)"
    )
    group.add_argument(
        "--procedure",
        default=PROCEDURES[0],
        choices=PROCEDURES,
        help="two kernels: pairs of boots of both, or first a screen of the candidate against the history "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--budget",
        default=DEFAULT,
        metavar="TIME",
        help="of the board, for two kernels: 45 min, 2 h (default: %(default)s)",
    )
    group.add_argument("--no-extend", action="store_true", help="no further job where a comparison stays open")


def _add_job(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--priority", metavar="P", help=f"{', '.join(PRIORITIES)}, or 0 to 100 (default: medium)")
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
    command_options.following(group)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    submission = _submission(arguments)
    watch = JobWatch(verbose=arguments.verbose)
    with ExitStack() as stack:
        if arguments.wait:
            output = arguments.output.absolute()
            check_ours(output)
            files.require_free_space(output)
            stack.enter_context(locked(output))
        series = prepared(submission, watch, stack)
        if arguments.dry_run:
            print(series.submission(series.order).checked("rtgate-dry-run", series.tags), end="")
            return 0
        if not arguments.wait:
            number = series.submission(series.order).leave()
            watch.say(f"submitted; later, anywhere: rtgate fetch {number}")
            print(number)
            return 0
        stack.enter_context(replacing(output))
        return run_jobs(series, output)


def _submission(arguments: argparse.Namespace) -> Submission:
    """Return what is submitted. Raises ConfigError: options do not fit together, or name nothing."""
    board = boards.board(arguments.board)
    budget = Budget(minutes(arguments.budget))
    _check_trust(arguments)
    if arguments.boots is not None and arguments.boots < 1:
        raise ConfigError(f"--boots {arguments.boots}: expected at least 1")
    return Submission(
        board=board,
        kernels=_kernels(arguments),
        cases=_cases(arguments),
        profile=arguments.profile,
        tuning=arguments.tuning,
        flavour=arguments.flavour,
        boots=arguments.boots,
        looks=_looks(arguments),
        transport=arguments.transport,
        options=_job_options(arguments),
        criteria=requests.criteria(arguments),
        budget=budget,
        extend=not arguments.no_extend,
        tags=tuple(arguments.tag),
        device=arguments.device or "",
        serve=arguments.serve,
        put=arguments.put,
        stays=arguments.wait or arguments.dry_run,
    )


def _kernels(arguments: argparse.Namespace) -> dict[str, Named]:
    kernels = {"baseline": arguments.baseline} if arguments.baseline else {}
    kernels["candidate"] = arguments.kernel
    more = {name: getattr(arguments, name) for name in ("dtb", "ramdisk", "modules", "nfsroot")}
    more |= {"overlays": tuple(arguments.overlay), "family": arguments.family}
    return {arm: Named(kernel=kernel, **more) for arm, kernel in kernels.items()}


def _looks(arguments: argparse.Namespace) -> Steps:
    """Return the looks at pairs of boots: they need two kernels, and somebody who waits for the first job.

    Who names a number of boots wants one look at all of them.
    """
    in_looks = arguments.baseline and arguments.wait and not arguments.boots
    if arguments.procedure == "screened" and not (in_looks and history_url(arguments.history)):
        raise ConfigError("--procedure screened needs --baseline, --wait, --history URL, and no --boots")
    return looks_of(arguments.procedure) if in_looks else ()


def _job_options(arguments: argparse.Namespace) -> JobOptions:
    return JobOptions(
        queue_s=durations.option("--queue-timeout", arguments.queue_timeout),
        retries=arguments.retries,
        server=arguments.server or "",
        priority=arguments.priority or "",
        visibility=arguments.visibility,
        image=arguments.image,
        upload=arguments.upload,
        metadata=tuple(arguments.metadata),
        overlays=tuple(arguments.overlay),
        some_cases=bool(arguments.cases),
    )


def _cases(arguments: argparse.Namespace) -> tuple[Case, ...]:
    if not arguments.cases:
        return suites.cases(arguments.suite.split(","), arguments.profile, arguments.tuning)
    cases = cases_file.read(arguments.cases)
    if not cases:
        raise ConfigError(f"{arguments.cases} names no case: there is nothing to measure")
    if any(case.tuning != arguments.tuning for case in cases):
        raise ConfigError(f"{arguments.cases} has cases of another tuning than {arguments.tuning}: name it (--tuning)")
    return cases


def _check_trust(arguments: argparse.Namespace) -> None:
    if arguments.untrusted and not arguments.tag:
        raise ConfigError("--untrusted: name the devices that strangers' kernels may run on, with --tag")
    if arguments.untrusted and arguments.upload:
        raise ConfigError("--untrusted and --upload: a job of strangers gets no way to write anywhere")
