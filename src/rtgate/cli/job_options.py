# SPDX-License-Identifier: MIT
"""Options of a job for a LAVA lab, which `submit` and `render` share, and what is made of them."""

from __future__ import annotations

import argparse
from pathlib import Path

from rtgate import files
from rtgate.board import boards
from rtgate.board.families import FAMILIES
from rtgate.cli import command_options
from rtgate.errors import ConfigError
from rtgate.lava.job import cases as cases_file
from rtgate.lava.job import template
from rtgate.lava.job.definition import PRIORITIES, Transport
from rtgate.lava.job.urls import is_url
from rtgate.measure.case import Case
from rtgate.workflow import suites
from rtgate.workflow.job_files import NamedFiles
from rtgate.workflow.job_writer import JobOptions
from rtgate.workflow.judging import Criteria
from rtgate.workflow.submission import NO_TUNING, Endpoint, Submission

_SUITE = "latency"
_SCRIPT_LIMIT = 64 * 1024  # bytes: it goes into the job's definition


def add_kernels(group: argparse._ArgumentGroup) -> None:
    """Add what is booted."""
    group.add_argument("--kernel", required=True, metavar="DIR|URL", help="the kernel: a build directory, or a URL")
    group.add_argument("--baseline", metavar="DIR|URL", help="the kernel to compare with; booted alternately")
    for name, what in (
        ("dtb", "device tree"),
        ("ramdisk", "ramdisk (default: the board's image, or full if a case needs it)"),
        ("modules", "archive of modules"),
        ("nfsroot", "archive of a root filesystem for NFS"),
    ):
        group.add_argument(f"--{name}", metavar="FILE|URL", help=what)
    group.add_argument(
        "--overlay",
        action="append",
        default=[],
        metavar="FILE",
        help="apply this overlay (.dtbo, or .dtso) to the device tree, a file too; may be repeated",
    )
    group.add_argument(
        "--family",
        choices=FAMILIES,
        help="what a kernel was made from that has no `config` beside it, as one given by URL: decides its console",
    )
    command_options.flavour(group)


def add_measuring(group: argparse._ArgumentGroup, boots: str = "default: the profile's") -> None:
    """Add what is measured; `boots` says how many boots are usual."""
    group.add_argument("--suite", metavar="S[,S]", help=f"default: {_SUITE}")
    group.add_argument("--cases", type=Path, metavar="FILE", help="only these, as `rtgate select-cases` chose them")
    command_options.profile(group)
    command_options.tuning(group)
    group.add_argument("--boots", type=int, metavar="N", help=f"boots of each kernel ({boots})")


def add_job(group: argparse._ArgumentGroup) -> None:
    """Add what the job itself says."""
    group.add_argument(
        "--priority",
        metavar="P",
        help=f"{', '.join(PRIORITIES)}, or 0 to 100 (default: medium, low for one of several)",
    )
    group.add_argument("--tag", action="append", default=[], metavar="TAG", help="only devices that have this tag")
    group.add_argument("--device", metavar="NAME", help="only this device (it needs a tag of its own)")
    group.add_argument("--visibility", default="public", metavar="V", help="public, personal, group:NAME")
    group.add_argument("--transport", default="docker", choices=[*map(str, Transport)], help="default: %(default)s")
    group.add_argument("--image", default="", metavar="NAME", help="container image on the worker")
    group.add_argument("--upload", metavar="URL", help="records go there too (HTTP PUT)")
    group.add_argument("--untrusted", action="store_true", help="nobody has reviewed this kernel: needs --tag")
    group.add_argument(
        "--metadata", action="append", default=[], metavar="KEY=TEXT", help="kept with the job, visible to all"
    )


def add_endpoint(parser: argparse.ArgumentParser) -> None:
    """Add the second board of a job."""
    group = parser.add_argument_group("the other end of the PCIe cable: a second board, in the same job")
    group.add_argument(
        "--endpoint", metavar="BOARD", help="it boots first, is set up, and measures the same cases once"
    )
    group.add_argument("--endpoint-kernel", metavar="DIR", help="the build that it boots, whatever kernel is measured")
    group.add_argument("--endpoint-tag", action="append", default=[], metavar="TAG", help="only a device with this tag")
    group.add_argument("--endpoint-tuning", default=NO_TUNING, metavar="NAME", help="default: %(default)s")
    group.add_argument(
        "--endpoint-overlay",
        action="append",
        default=[],
        metavar="FILE",
        help="apply this overlay to its device tree, as one that makes an endpoint of its controller; may be repeated",
    )
    group.add_argument(
        "--endpoint-set-up", type=Path, metavar="FILE", help="the shell script that makes an endpoint of it"
    )


def submission(
    arguments: argparse.Namespace,
    *,
    criteria: Criteria,
    queue_s: float = 0.0,
    retries: int = 0,
) -> Submission:
    """Return what these options ask for.

    Args:
        arguments: those of the functions above, and the server's.
        criteria: what decides about limits.
        queue_s: how long a job may wait for a board, in seconds.
        retries: how often a job is submitted again.

    Raises:
        ConfigError: options do not fit together, or name nothing.
    """
    board = boards.board(arguments.board)
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
        transport=Transport(arguments.transport),
        options=JobOptions(
            queue_s=queue_s,
            retries=retries,
            server=arguments.server or "",
            priority=arguments.priority or "",
            visibility=arguments.visibility,
            image=arguments.image,
            upload=arguments.upload,
            metadata=tuple(arguments.metadata),
            overlays=tuple(arguments.overlay),
            some_cases=bool(arguments.cases),
        ),
        criteria=criteria,
        tags=tuple(arguments.tag),
        device=arguments.device or "",
        endpoint=_endpoint(arguments),
    )


def _endpoint(arguments: argparse.Namespace) -> Endpoint | None:
    """Return the second board of the job, None without one. Raises ConfigError: its options do not fit together."""
    parts = (arguments.endpoint, arguments.endpoint_kernel, arguments.endpoint_set_up)
    others = (arguments.endpoint_overlay, arguments.endpoint_tag, arguments.endpoint_tuning != NO_TUNING)
    if not any((*parts, *others)):
        return None
    if not all(parts):
        raise ConfigError("a second board needs --endpoint, --endpoint-kernel and --endpoint-set-up: give all three")
    if arguments.baseline:
        raise ConfigError("--endpoint: a job of two boards measures one kernel, so leave --baseline out")
    board = boards.board(arguments.endpoint)
    if board.name == arguments.board:
        raise ConfigError(
            f"--endpoint {board.name}: records go by the board's name, and that is the measured one's: give the "
            f"endpoint a board file of its own (a copy of {board.path} with another name)"
        )
    if is_url(arguments.endpoint_kernel):
        raise ConfigError("--endpoint-kernel: name a directory that `rtgate build` made, not a URL")
    for overlay in arguments.endpoint_overlay:
        if is_url(overlay) or not Path(overlay).is_file():
            raise ConfigError(f"--endpoint-overlay {overlay}: expected a file of this machine")
    kernel = NamedFiles(kernel=arguments.endpoint_kernel, overlays=tuple(arguments.endpoint_overlay))
    try:
        set_up = files.read_text(arguments.endpoint_set_up, _SCRIPT_LIMIT)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--endpoint-set-up {arguments.endpoint_set_up}: cannot be read: {error}") from error
    return Endpoint(
        board=board, kernel=kernel, set_up=set_up, tuning=arguments.endpoint_tuning, tags=tuple(arguments.endpoint_tag)
    )


def _kernels(arguments: argparse.Namespace) -> dict[str, NamedFiles]:
    kernels = {"baseline": arguments.baseline} if arguments.baseline else {}
    kernels["candidate"] = arguments.kernel
    more = {name: getattr(arguments, name) for name in template.BESIDE_KERNEL}
    more |= {"overlays": tuple(arguments.overlay), "family": arguments.family}
    return {arm: NamedFiles(kernel=kernel, **more) for arm, kernel in kernels.items()}


def _cases(arguments: argparse.Namespace) -> tuple[Case, ...]:
    if not arguments.cases:
        names = (arguments.suite or _SUITE).split(",")
        return suites.cases(names, arguments.profile, arguments.tuning, board=arguments.board)
    if arguments.suite:
        raise ConfigError("--cases names the cases: leave out --suite")
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
