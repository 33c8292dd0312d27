# SPDX-License-Identifier: MIT
"""A submission to a LAVA lab, made ready: kernels found, the lab looked at, files published."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from rtgate.board.boards import Board
from rtgate.errors import ConfigError
from rtgate.lava.client import devices
from rtgate.lava.client.access import TOKEN_FILE, access
from rtgate.lava.client.server import Lava
from rtgate.lava.job.definition import lava_of
from rtgate.lava.job.request import MeasurementRequest, in_turns
from rtgate.measure.case import Case
from rtgate.measure.profiles import profile
from rtgate.records.schedule import Steps
from rtgate.tools.registry import TOOLS
from rtgate.workflow.budget import Budget
from rtgate.workflow.job_files import Named, Source, Way, publish, source
from rtgate.workflow.job_series import JobOptions, Series
from rtgate.workflow.job_watch import JobWatch
from rtgate.workflow.judging import Criteria
from rtgate.workflow.verdicts import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What is submitted.

    Attributes:
        kernels: what each arm boots.
        flavour: what a kernel of unknown provenance should be; None for nobody knows.
        boots: of each kernel; None for the profile's, or those of the first look.
        looks: when somebody is going to look at pairs of boots; empty for once, at the end.
        options: of the jobs.
        budget: what a comparison may take of the board.
        extend: whether further jobs measure what stays open.
        tags: only devices that have them; `device` is one of them.
        serve, put: how workers get files of this machine (see `job_files.Way`).
        stays: whether somebody waits for the job, and serves its files meanwhile.
    """

    board: Board
    kernels: Mapping[str, Named]
    cases: tuple[Case, ...]
    profile: str
    budget: Budget
    options: JobOptions
    tuning: str = "default"
    flavour: str | None = None
    boots: int | None = None
    looks: Steps = ()
    transport: str = "docker"
    criteria: Criteria = field(default_factory=Criteria)
    extend: bool = True
    tags: tuple[str, ...] = ()
    device: str = ""
    serve: str = ""
    put: str | None = None
    stays: bool = True


def prepared(submission: Submission, watch: JobWatch, stack: ExitStack) -> Series:
    """Look at the lab, say what it has, publish the files: they are served until `stack` ends.

    Raises:
        ConfigError: kernels, board, profile or tuning do not fit together, or the lab takes no job of ours.
        InfrastructureError: the lab does not answer, or the root filesystem is not to be had.
    """
    board = submission.board
    sources = {arm: source(board, named, submission.flavour, stack) for arm, named in submission.kernels.items()}
    order = _order(submission, sources)
    _check(submission, sources)
    lava = Lava(access(submission.options.server or None), told=watch.say)
    if lava.access.token is None:
        raise ConfigError(f"{lava.access.url} takes no job without a token: name its file with {TOKEN_FILE}")
    lab = devices.look(lava, lava_of(board).device_type, submission.tags)
    watch.say(lab.summary(lava.access.url))
    for entry in lava_of(board).unconfirmed:
        watch.say(f"{board.name}: unconfirmed: {entry.what}: {entry.reason}")
    if "baseline" not in sources and not lava.health_check(lab_type := lava_of(board).device_type):
        watch.say(
            f"no health check for {lab_type} is installed: a kernel that hangs silently while it boots cannot be told "
            f"from a broken board here, and is MISS. Compare with a --baseline, or install one: {_installs(board)}"
        )
    (family,) = {one.family for one in sources.values()}
    way = Way(serve=submission.serve, put=submission.put, server=lava.access.url)
    tags = submission.tags
    return Series(
        options=submission.options,
        criteria=submission.criteria,
        budget=submission.budget,
        extend=submission.extend,
        board=board,
        order=order,
        lava=lava,
        lab=lab,
        tags=devices.pinned(lab.devices, submission.device, tags) if submission.device else tags,
        files=publish(sources, way, stack),
        family=family,
        watch=watch,
    )


def _installs(board: Board) -> str:
    """Return the command that makes the health check of a board, for the lab's administrator."""
    files = "--kernel URL --ramdisk URL" + " --dtb URL" * bool(lava_of(board).dtbs)
    return f"rtgate lab-check --health-check {board.name} {files} > {lava_of(board).device_type}.yaml"


def _order(submission: Submission, sources: Mapping[str, Source]) -> MeasurementRequest:
    """Return what is asked for. Raises ConfigError: profile or tuning are wrong."""
    submission.board.tuning(submission.tuning)
    chosen, cases = profile(submission.profile, TOOLS), submission.cases
    usual = max(chosen.of(case.tool.name, case.suite, case.load).boots for case in cases)
    count = submission.looks[0][0] if submission.looks else submission.boots or usual
    return MeasurementRequest(
        board=submission.board.name,
        kernels={arm: one.kernel for arm, one in sources.items()},
        boots=in_turns(tuple(sources), count),
        cases=cases,
        suites=tuple(dict.fromkeys(case.suite for case in cases)),
        profile=submission.profile,
        tuning=submission.tuning,
        transport=submission.transport,
        looks=submission.looks,
    )


def _check(submission: Submission, sources: Mapping[str, Source]) -> None:
    """Find what does not fit together before anything is asked of a lab. Raises ConfigError."""
    limits(submission.criteria.thresholds)
    if len({one.family for one in sources.values()}) > 1:
        raise ConfigError("one arm is a vendor's kernel, the other is not: they name the console differently")
    if any(one.local for one in sources.values()) and not (submission.stays or submission.put):
        raise ConfigError("files of this machine are served as long as this command runs: --wait, or --put URL")
