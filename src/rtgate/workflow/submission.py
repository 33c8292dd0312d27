# SPDX-License-Identifier: MIT
"""A submission to a LAVA lab, made ready: kernels found, the lab looked at, files published."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from rtgate.board.boards import Board
from rtgate.errors import ConfigError
from rtgate.judge.compare.procedures import Procedure
from rtgate.lava.client import devices
from rtgate.lava.client.access import TOKEN_FILE, access
from rtgate.lava.client.devices import Lab
from rtgate.lava.client.server import Lava
from rtgate.lava.job.artefacts import Store
from rtgate.lava.job.definition import Transport, lava_of
from rtgate.lava.job.request import MeasurementRequest, in_turns
from rtgate.lava.lab.check import TESTED
from rtgate.measure.case import Case
from rtgate.measure.profiles import profile
from rtgate.workflow.budget import DEFAULT, Budget, minutes
from rtgate.workflow.job_files import FileTransfer, NamedFiles, Source, check_files, publish, source, store
from rtgate.workflow.job_series import Series
from rtgate.workflow.job_watch import JobWatch
from rtgate.workflow.job_writer import EndpointWriter, JobOptions, JobWriter
from rtgate.workflow.judging import Criteria
from rtgate.workflow.procedure import Choice, Comparison, choose
from rtgate.workflow.verdicts import limits

NO_TUNING = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The board at the other end of the PCIe cable: it boots before the one that is measured, and is set up.

    Attributes:
        kernel: what it boots, whatever kernel is measured.
        set_up: the shell script that makes an endpoint of it.
        tags: of its device, beside those of both.
    """

    board: Board
    kernel: NamedFiles
    set_up: str
    tuning: str = NO_TUNING
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What is submitted.

    Attributes:
        kernels: what each arm boots.
        flavour: what a kernel of unknown provenance should be; None for nobody knows.
        boots: of each kernel; None for the profile's, or those of the first look.
        in_looks: whether somebody looks at pairs of boots while they are measured, or once, at the end.
        options: of the jobs.
        budget: what a comparison may take of the board.
        extend: whether further jobs measure what stays open.
        tags: only devices that have them; `device` is one of them.
        serve, put: how workers get files of this machine (see `job_files.FileTransfer`).
        stays: whether somebody waits for the job, and serves its files meanwhile.
        endpoint: the second board of each job; None for a job of one.
    """

    board: Board
    kernels: Mapping[str, NamedFiles]
    cases: tuple[Case, ...]
    profile: str
    options: JobOptions
    budget: Budget = field(default_factory=lambda: Budget(minutes(DEFAULT)))
    tuning: str = NO_TUNING
    flavour: str | None = None
    boots: int | None = None
    in_looks: bool = False
    transport: Transport = Transport.DOCKER
    criteria: Criteria = field(default_factory=Criteria)
    extend: bool = True
    tags: tuple[str, ...] = ()
    device: str = ""
    serve: str = ""
    put: str | None = None
    stays: bool = True
    endpoint: Endpoint | None = None

    def of_endpoint(self, endpoint: Endpoint) -> Submission:
        """Return what the endpoint's part of a job is: the same cases once, by the shell on the board itself."""
        return replace(
            self,
            board=endpoint.board,
            kernels={"candidate": endpoint.kernel},
            cases=tuple(replace(case, tuning=endpoint.tuning) for case in self.cases),
            options=replace(self.options, image="", upload=None, overlays=endpoint.kernel.overlays),
            tuning=endpoint.tuning,
            flavour=None,
            boots=1,
            in_looks=False,
            transport=Transport.BOARD,
            tags=(*self.tags, *endpoint.tags),
            device="",
            endpoint=None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """What a job measures, and what it boots.

    Attributes:
        sources: what each arm boots.
        endpoint: the same of the endpoint; None for a job of one board.
    """

    submission: Submission
    order: MeasurementRequest
    sources: Mapping[str, Source]
    endpoint: JobPlan | None = None

    @property
    def local(self) -> bool:
        """Whether any file of it is one of this machine."""
        own = any(arm_source.local for arm_source in self.sources.values())
        return own or (self.endpoint is not None and self.endpoint.local)


def prepare_series(submission: Submission, watch: JobWatch, stack: ExitStack) -> Series:
    """Look at the lab, say what it has, publish the files: they are served until `stack` ends.

    Raises:
        ConfigError: kernels, board, profile or tuning do not fit together, or the lab takes no job of ours.
        InfrastructureError: the lab does not answer, or the root filesystem is not to be had.
    """
    plan = plan_job(submission, stack)
    if plan.local and not (submission.stays or submission.put):
        raise ConfigError("files of this machine are served as long as this command runs: --wait, or --put URL")
    lava, lab = look_at_lab(submission, watch)
    if plan.endpoint is not None:
        _check_cable(plan.submission, lab, look_at_lab(plan.endpoint.submission, watch)[1])
    way = FileTransfer(serve=submission.serve, put=submission.put, server=lava.access.url)
    choice = _procedure(submission, plan.order, lab) if submission.in_looks else None
    if choice is not None:
        watch.say(choice.sentence)
        plan = replace(plan, order=in_looks(plan.order, choice.procedure))
    job_writer = writer(plan, store(way, stack) if plan.local else None, lab)
    check_files(job_writer.all_files)
    return Series(
        options=submission.options,
        criteria=submission.criteria,
        budget=submission.budget,
        extend=submission.extend,
        board=submission.board,
        order=plan.order,
        lava=lava,
        lab=lab,
        tags=device_tags(submission, lab),
        writer=job_writer,
        watch=watch,
        procedure=choice.procedure if choice else None,
    )


def _check_cable(submission: Submission, lab: Lab, other: Lab) -> None:
    """Check that LAVA has no choice of devices: it knows nothing of cables, and chooses by chance. Raises ConfigError.

    Args:
        submission: with an endpoint.
        lab: the devices that fit the root complex.
        other: those that fit the endpoint.
    """
    tags = set(device_tags(submission, lab))
    first = sorted(device.name for device in lab.devices if device.has(tags))
    assert submission.endpoint is not None
    own = {*submission.tags, *submission.endpoint.tags}
    second = sorted(device.name for device in other.devices if device.has(own))
    if len(first) == len(second) == 1 and first != second:
        return
    raise ConfigError(
        f"LAVA would choose among {', '.join(first)} for the root complex and {', '.join(second)} for the endpoint, "
        "and knows nothing of cables: name one device each, with --tag or --device, and --endpoint-tag"
    )


def _procedure(submission: Submission, order: MeasurementRequest, lab: Lab) -> Choice:
    """Return how two kernels are compared on any device that may get the job. Raises as `choose`."""
    tags = set(device_tags(submission, lab))
    comparison = Comparison(
        board=order.board,
        devices=[device.name for device in lab.devices if device.has(tags)],
        flavour=order.kernels["candidate"].flavour,
        cases=[case.name for case in order.cases],
        profile=order.profile,
    )
    return choose(submission.criteria.history, comparison)


def in_looks(order: MeasurementRequest, procedure: Procedure) -> MeasurementRequest:
    """Return the order with the pairs of the first look."""
    looks = procedure.looks.steps
    return replace(order, boots=in_turns(tuple(order.kernels), looks[0][0]), looks=looks)


def plan_job(submission: Submission, stack: ExitStack) -> JobPlan:
    """Return what is measured, and what each arm boots; `stack` keeps files that had to be unpacked for it.

    Raises:
        ConfigError: kernels, board, profile, tuning or limits do not fit together.
        InfrastructureError: the root filesystem is not to be had.
    """
    board = submission.board
    limits(submission.criteria.thresholds)
    sources = {
        arm: source(board, files, submission.flavour, stack, submission.cases)
        for arm, files in submission.kernels.items()
    }
    if len({arm_source.family for arm_source in sources.values()}) > 1:
        raise ConfigError("one of the kernels is a vendor's, the other is not: they name the console differently")
    if len({arm_source.kernel.flavour for arm_source in sources.values()}) > 1:
        raise ConfigError("the kernels are of two flavours, which are not compared (but see rtgate compare-flavours)")
    other = submission.endpoint
    if other is not None and "pcie" in {case.suite for case in submission.cases} and not board.pcie:
        raise ConfigError(
            f"{board.path}: list the endpoint under `pcie`: without it a kernel that does not find it would be SKIP"
        )
    return JobPlan(
        submission=submission,
        order=_order(submission, sources),
        sources=sources,
        endpoint=plan_job(submission.of_endpoint(other), stack) if other is not None else None,
    )


def look_at_lab(submission: Submission, watch: JobWatch) -> tuple[Lava, Lab]:
    """Look at the lab and say what it has. Raises as `prepare_series`."""
    board = submission.board
    lava = Lava(access(submission.options.server or None), notify=watch.say)
    if lava.access.token is None:
        raise ConfigError(f"{lava.access.url} takes no job without a token: name its file with {TOKEN_FILE}")
    lab = devices.look(lava, lava_of(board).device_type, submission.tags)
    watch.say(lab.summary(lava.access.url))
    say_unconfirmed(board, watch)
    if "baseline" not in submission.kernels and not lava.health_check(lab_type := lava_of(board).device_type):
        watch.say(
            f"no health check for {lab_type} is installed: a kernel that hangs silently while it boots looks like a "
            f"broken board, and is MISS. Compare with a --baseline, or install one: {_installs(board)}"
        )
    return lava, lab


def say_unconfirmed(board: Board, watch: JobWatch) -> None:
    """Say what nobody has tried of the board's file."""
    for entry in lava_of(board).unconfirmed:
        watch.say(f"{board.name}: unconfirmed: {entry.what}: {entry.reason}")


def device_tags(submission: Submission, lab: Lab) -> tuple[str, ...]:
    """Return the tags that a device must have. Raises ConfigError: no tag is the named device's alone."""
    return devices.pin_tags(lab.devices, submission.device, submission.tags) if submission.device else submission.tags


def writer(plan: JobPlan, file_store: Store | None, lab: Lab | None) -> JobWriter:
    """Publish what is booted, and return what writes the jobs; without a lab for the oldest server.

    Raises as `publish`.
    """
    (family,) = {arm_source.family for arm_source in plan.sources.values()}
    submission = plan.submission
    return JobWriter(
        options=submission.options,
        board=submission.board,
        whole=plan.order,
        files=publish(plan.sources, file_store),
        family=family,
        thresholds=submission.criteria.thresholds,
        endpoint=_endpoint_writer(plan, file_store, lab),
        version=lab.version if lab else TESTED,
    )


def _endpoint_writer(plan: JobPlan, file_store: Store | None, lab: Lab | None) -> EndpointWriter | None:
    other = plan.submission.endpoint
    if other is None or plan.endpoint is None:
        return None
    return EndpointWriter(
        writer=writer(plan.endpoint, file_store, lab), set_up=other.set_up, tags=plan.endpoint.submission.tags
    )


def _installs(board: Board) -> str:
    """Return the command that makes the health check of a board, for the lab's administrator."""
    files = "--kernel URL --ramdisk URL" + " --dtb URL" * bool(lava_of(board).dtbs)
    return f"rtgate lab-check --health-check {board.name} {files} > {lava_of(board).device_type}.yaml"


def _order(submission: Submission, sources: Mapping[str, Source]) -> MeasurementRequest:
    """Return what is asked for. Raises ConfigError: profile or tuning are wrong."""
    submission.board.tuning(submission.tuning)
    job_profile, cases = profile(submission.profile), submission.cases
    usual = max(job_profile.of(case.tool.name, case.suite, case.load).boots for case in cases)
    count = submission.boots or usual
    return MeasurementRequest(
        board=submission.board.name,
        kernels={arm: arm_source.kernel for arm, arm_source in sources.items()},
        boots=in_turns(tuple(sources), count),
        cases=cases,
        suites=tuple(dict.fromkeys(case.suite for case in cases)),
        profile=submission.profile,
        tuning=submission.tuning,
        transport=submission.transport,
    )
