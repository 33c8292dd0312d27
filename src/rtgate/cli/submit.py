# SPDX-License-Identifier: MIT
"""`rtgate submit`: one job for one board of a LAVA lab, from kernel to verdict."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rtgate import boards, room
from rtgate.boards import FLAVOURS, Board
from rtgate.cli import job_results, suites
from rtgate.cli.budget import DEFAULT, Budget, minutes
from rtgate.cli.further import Further
from rtgate.cli.history import add_option, named
from rtgate.cli.job_files import Named, Source, Way, publish, source
from rtgate.cli.job_results import Carried
from rtgate.cli.job_watch import JobWatch
from rtgate.cli.looking import PROCEDURES, Stored, looks_of
from rtgate.cli.report_directory import check_ours, empty, ours_alone
from rtgate.cli.soak import seconds
from rtgate.errors import ConfigError
from rtgate.lava import cases as cases_file
from rtgate.lava import devices, on_board
from rtgate.lava.access import TOKEN_FILE, access
from rtgate.lava.client import Lava
from rtgate.lava.devices import Lab
from rtgate.lava.following import Waits
from rtgate.lava.job import PRIORITIES, TRANSPORTS, Files, JobArm, JobRequest, lava_of, render
from rtgate.lava.order import NONCE, Order, in_turns
from rtgate.lava.submission import Submission
from rtgate.measure import Case
from rtgate.profiles import profile
from rtgate.tools.registry import TOOLS

_DESCRIPTION = """\
Measure a kernel on a board of a LAVA lab: submit one job, follow it, fetch its records, judge them. Without --wait the
job is left to itself, and `rtgate fetch JOB` does the rest later, on any machine. Ctrl-C cancels the job. What boards a
lab has, and what it lacks for them, says `rtgate lab-check`; exit codes are those of `rtgate --help`.

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
    group.add_argument("--cases", type=Path, metavar="FILE", help="only these, as `rtgate screen` chose them")
    group.add_argument("--profile", default="quick", metavar="NAME", help="default: %(default)s")
    group.add_argument("--tuning", default="default", metavar="NAME", help="default: %(default)s")
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
        help="of the board, for two kernels: 45m, 2h (default: 60m)",
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
    group.add_argument("--queue-timeout", default="4h", metavar="TIME", help="for a free board (default: %(default)s)")
    group.add_argument("--thresholds", type=Path, metavar="FILE", help="limits, instead of thresholds.yaml")
    add_option(group)
    group.add_argument("--allow-unjudged", action="store_true", help="exit 0 although nothing was judged")
    group.add_argument("-v", "--verbose", action="store_true", help="print the job's whole log")
    group.add_argument("-o", "--output", type=Path, default=Path("report"), metavar="DIR", help="default: %(default)s")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    board = boards.board(arguments.board)
    minutes(arguments.budget)
    watch = JobWatch(verbose=arguments.verbose)
    with ExitStack() as stack:
        sources = _sources(arguments, board, stack)
        order = _order(arguments, board, sources)
        _check(arguments, sources)
        if arguments.wait:
            output = arguments.output.absolute()
            check_ours(output)
            room.has_room(output)
            stack.enter_context(ours_alone(output))
        job = _prepared(arguments, order, sources, watch, stack)
        if arguments.dry_run:
            print(job.submission(order).checked("rtgate-dry-run", job.tags), end="")
            return 0
        if not arguments.wait:
            number = job.submission(order).leave()
            watch.say(f"submitted; later, anywhere: rtgate fetch {number}")
            print(number)
            return 0
        empty(output)
        return _followed(job, output)


@dataclass(kw_only=True)
class _Job:
    """What is submitted, ready to be: the lab was looked at, files are published.

    Attributes:
        asked: the command line.
        tags: of devices; the first attempt pins the device for those that follow.
        files: where workers get them, by arm.
        family: of the kernels.
        kept: whether the tags keep all further jobs on the device that the last one ran on.
    """

    asked: argparse.Namespace
    board: Board
    order: Order
    lava: Lava
    lab: Lab
    tags: tuple[str, ...]
    files: Mapping[str, Files]
    family: str
    watch: JobWatch
    kept: bool = False

    def submission(self, order: Order) -> Submission:
        """Return the submission of a part of the order."""
        return Submission(
            lava=self.lava,
            device_type=lava_of(self.board).device_type,
            make=lambda nonce, tags: render(self._request(order, nonce, tags)),
            watch=self.watch,
            tags=self.tags,
            waits=Waits(queue=seconds(self.asked.queue_timeout)),
            attempts=1 + max(0, self.asked.retries),
            arms=order.boots,
        )

    def _request(self, order: Order, nonce: str, tags: tuple[str, ...]) -> JobRequest:
        asked = self.asked
        named = ", ".join(kernel.name for kernel in order.kernels.values())
        return JobRequest(
            name=f"rtgate {self.board.name}: {','.join(order.suites)} on {named}",
            board=self.board,
            arms=tuple(
                JobArm(name=arm, files=self.files[arm], identity=json.dumps(asdict(kernel)))
                for arm, kernel in order.kernels.items()
            ),
            boots=order.boots,
            suites=order.suites,
            profile=order.profile,
            tuning=order.tuning,
            priority=asked.priority or ("low" if order.boots != self.order.boots else "medium"),
            tags=tags,
            visibility=asked.visibility,
            metadata={**_origin(asked.metadata), **order.as_metadata(), NONCE: nonce},
            transport=order.transport,
            image=asked.image,
            upload=asked.upload,
            server=self.lab.version,
            family=self.family,
            test_s=order.boot_s,
            steps=self._steps(order),
            cases=tuple(case.name for case in order.cases) if asked.cases or order.cases != self.order.cases else (),
        )

    def _steps(self, order: Order) -> tuple[tuple[str, ...], ...]:
        """Return what each boot's own shell carries out, for the transport that needs nothing else."""
        if order.transport != "board":
            return ()
        expected = order.expected()
        return tuple(on_board.steps(expected, number) for number in range(1, len(order.boots) + 1))


def _prepared(
    arguments: argparse.Namespace, order: Order, sources: dict[str, Source], watch: JobWatch, stack: ExitStack
) -> _Job:
    """Look at the lab, say what it has, publish the files: they are served until `stack` ends."""
    board = boards.board(arguments.board)
    lava = Lava(access(arguments.server), told=watch.say)
    if lava.access.token is None:
        raise ConfigError(f"{lava.access.url} takes no job without a token: name its file with {TOKEN_FILE}")
    lab = devices.look(lava, lava_of(board).device_type, arguments.tag)
    watch.say(lab.summary(lava.access.url))
    for entry in lava_of(board).unconfirmed:
        watch.say(f"{board.name}: unconfirmed: {entry.what}: {entry.reason}")
    tags = tuple(arguments.tag)
    (family,) = {one.family for one in sources.values()}
    way = Way(serve=arguments.serve, put=arguments.put, server=lava.access.url)
    return _Job(
        asked=arguments,
        board=board,
        order=order,
        lava=lava,
        lab=lab,
        tags=devices.pinned(lab.devices, arguments.device, tags) if arguments.device else tags,
        files=publish(sources, way, stack),
        family=family,
        watch=watch,
    )


def _followed(job: _Job, output: Path) -> int:
    """Carry out the order, and what a comparison needs beyond it, on the same board; judge all of it."""
    asked = job_results.asked(job.order, job.asked)
    further = Further(
        whole=job.order,
        stored=Stored(
            records=output / "records", board=job.board.name, history=asked.history, thresholds=asked.thresholds
        ),
        budget=Budget(minutes(job.asked.budget)),
        watch=job.watch,
    )
    done: list[Carried] = []
    order: Order | None = further.first()
    while order is not None:
        jobs = _carried_out(job, order, output)
        done += jobs
        if not all(one.whole for one in jobs):
            break
        further.spend(jobs)
        if job.asked.no_extend or not job.order.looks:
            break
        job_results.look(done, output)
        order = further.order()
        if order is not None and not job.kept:
            job.watch.say("not measured on: no tag keeps a job on the board that the others ran on")
            break
    return job_results.judge(done, output, asked)


def _carried_out(job: _Job, order: Order, output: Path) -> list[Carried]:
    """Carry out every part of an order, one after the other on the same board; a part that none came to has nothing."""
    done: list[Carried] = []
    for part in order.parts():
        if done and not done[-1].whole:
            done.append(Carried(part, ()))
            continue
        try:
            attempts = job.submission(part).run()
        finally:
            job.watch.close()
        job_results.keep(part, attempts, output, job.watch)
        done.append(Carried(part, attempts))
        if done[-1].whole:
            device = attempts[-1].job.device
            job.tags = devices.same(job.lab.devices, device, job.tags)
            job.kept = len(job.lab.devices) == 1 or devices.own_tag(job.lab.devices, device) in job.tags
    return done


def _sources(arguments: argparse.Namespace, board: Board, stack: ExitStack) -> dict[str, Source]:
    kernels = {"baseline": arguments.baseline} if arguments.baseline else {}
    kernels["candidate"] = arguments.kernel
    more = {name: getattr(arguments, name) for name in ("dtb", "ramdisk", "modules", "nfsroot")}
    overlays = tuple(arguments.overlay)
    return {
        arm: source(board, Named(kernel=kernel, overlays=overlays, **more), arguments.flavour, stack)
        for arm, kernel in kernels.items()
    }


def _order(arguments: argparse.Namespace, board: Board, sources: dict[str, Source]) -> Order:
    """Return what is asked for. Raises ConfigError: suites, profile or tuning are wrong."""
    board.tuning(arguments.tuning)
    chosen = profile(arguments.profile, TOOLS)
    cases = _cases(arguments)
    if arguments.boots is not None and arguments.boots < 1:
        raise ConfigError(f"--boots {arguments.boots}: expected at least 1")
    count = arguments.boots or max(chosen.of(case.tool.name, case.suite, case.load).boots for case in cases)
    # Looks need somebody who waits for the first job; who names a number of boots wants one look at all of them.
    in_looks = len(sources) == 2 and arguments.wait and not arguments.boots
    looks = looks_of(arguments.procedure) if in_looks else ()
    if arguments.procedure == "screened" and not (in_looks and named(arguments.history)):
        raise ConfigError("--procedure screened needs --baseline, --wait, --history URL, and no --boots")
    count = looks[0][0] if looks else count
    return Order(
        board=board.name,
        kernels={arm: one.kernel for arm, one in sources.items()},
        boots=in_turns(tuple(sources), count),
        cases=cases,
        suites=tuple(dict.fromkeys(case.suite for case in cases)),
        profile=arguments.profile,
        tuning=arguments.tuning,
        transport=arguments.transport,
        looks=looks,
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


def _check(arguments: argparse.Namespace, sources: dict[str, Source]) -> None:
    """Find what does not fit together before anything is asked of a lab. Raises ConfigError."""
    if len({one.family for one in sources.values()}) > 1:
        raise ConfigError("one arm is a vendor's kernel, the other is not: they name the console differently")
    if any(one.local for one in sources.values()) and not (arguments.wait or arguments.put or arguments.dry_run):
        raise ConfigError("files of this machine are served as long as this command runs: --wait, or --put URL")
    if arguments.untrusted and not arguments.tag:
        raise ConfigError("--untrusted: name the devices that strangers' kernels may run on, with --tag")
    if arguments.untrusted and arguments.upload:
        raise ConfigError("--untrusted and --upload: a job of strangers gets no way to write anywhere")


_CI = {
    "merge-request": "CI_MERGE_REQUEST_IID",
    "commit": "CI_COMMIT_SHA",
    "branch": "CI_COMMIT_REF_NAME",
    "pipeline": "CI_PIPELINE_ID",
    "ci-job": "CI_JOB_ID",
}


def _origin(named: Sequence[str]) -> dict[str, str]:
    """Return where the job comes from: what GitLab says, and what the command line adds."""
    found = {key: os.environ[variable] for key, variable in _CI.items() if os.environ.get(variable)}
    for text in named:
        key, equals, value = text.partition("=")
        if not equals or not key or key.startswith("rtgate."):
            raise ConfigError(f"--metadata {text}: expected KEY=TEXT, and a key that does not begin with `rtgate.`")
        found[key] = value
    return found
