# SPDX-License-Identifier: MIT
"""The definitions of a submission's jobs, from an order and the URLs of what is booted. It asks no server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rtgate.board.boards import Board
from rtgate.errors import ConfigError
from rtgate.judge.thresholds import ProfileCase, excerpt
from rtgate.lava.in_job import on_board
from rtgate.lava.job import multinode
from rtgate.lava.job.definition import Files, JobArm, JobRequest, Transport, render
from rtgate.lava.job.multinode import Endpoint
from rtgate.lava.job.request import NONCE, MeasurementRequest
from rtgate.lava.lab.check import TESTED
from rtgate.measure.case import Case
from rtgate.measure.profiles import Profile, profile
from rtgate.workflow import pipeline
from rtgate.workflow.verdicts import limits, limits_files

_PROOF_S = 120  # starting a shell on a worker that has much to do


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What a submission says of its jobs and of how they are followed.

    Attributes:
        queue_s: how long a job may wait for a free board, in seconds.
        retries: how often a job is submitted again after faults of the lab.
        server: as the command line names it; empty for that of the environment.
        priority: empty for that which fits the job.
        image: container image on the worker; empty for the transport's own.
        upload: URL that gets the records, too; None for none.
        metadata: KEY=TEXT.
        overlays: files that were applied to the device tree.
        some_cases: whether only some cases of the suites are measured.
    """

    queue_s: float = 0.0
    retries: int = 0
    server: str = ""
    priority: str = ""
    visibility: str = "public"
    image: str = ""
    upload: str | None = None
    metadata: tuple[str, ...] = ()
    overlays: tuple[str, ...] = ()
    some_cases: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWriter:
    """Writes the definitions of the jobs of one submission.

    Attributes:
        options: of each job.
        whole: all that is measured; a job may be a part of it.
        files: where workers get what is booted, by arm.
        family: of the kernels.
        thresholds: limits, instead of those of the site and of rtgate.
        endpoint: of the board at the other end of the PCIe cable; None for a job of one board.
        version: of the server; keys that it does not know are left out.
    """

    options: JobOptions
    board: Board
    whole: MeasurementRequest
    files: Mapping[str, Files]
    family: str
    thresholds: Path | None = None
    endpoint: EndpointWriter | None = None
    version: tuple[int, int] = TESTED

    @property
    def all_files(self) -> Mapping[str, Files]:
        """What each arm boots, the endpoint's kernel included."""
        return {**self.files, **({"endpoint": self.endpoint.writer.files["candidate"]} if self.endpoint else {})}

    def job(self, order: MeasurementRequest, nonce: str, tags: tuple[str, ...]) -> str:
        """Return the definition of a job that measures an order, which may be a part of the whole.

        Raises ConfigError as `definition.render`.
        """
        request = self.request(order, nonce, tags)
        return render(request) if self.endpoint is None else multinode.render(request, self.endpoint.endpoint(nonce))

    def proof(self, order: MeasurementRequest, arms: tuple[str, ...], nonce: str, tags: tuple[str, ...]) -> str:
        """Return the definition of a job that boots these arms, one after the other, and measures nothing."""
        request = self.request(order, nonce, tags)
        return render(
            replace(
                request,
                name=f"rtgate {self.board.name}: do {', '.join(arms)} boot",
                arms=tuple(arm for arm in request.arms if arm.name in arms),
                boots=arms,
                priority=self.options.priority or "high",
                metadata={**_origin(self.options.metadata), NONCE: nonce},
                upload=None,
                test_s=_PROOF_S,
                cases=(),
                limits="",
                steps=(("echo booted",),) * len(arms),
            )
        )

    def request(self, order: MeasurementRequest, nonce: str, tags: tuple[str, ...]) -> JobRequest:
        """Return the part of a job that measures an order on this board."""
        options = self.options
        names = ", ".join(kernel.name for kernel in order.kernels.values())
        return JobRequest(
            name=f"rtgate {self.board.name}: {','.join(order.suites)} on {names}",
            board=self.board,
            arms=tuple(
                JobArm(name=arm, files=self.files[arm], identity=json.dumps(asdict(kernel)))
                for arm, kernel in order.kernels.items()
            ),
            boots=order.boots,
            suites=order.suites,
            profile=order.profile,
            tuning=order.tuning,
            priority=options.priority or ("low" if order.is_part or order.before else "medium"),
            tags=tags,
            visibility=options.visibility,
            metadata={**_origin(options.metadata), **_overlays(options.overlays), **order.as_metadata(), NONCE: nonce},
            transport=order.transport,
            image=options.image,
            upload=options.upload,
            server=self.version,
            family=self.family,
            test_s=order.boot_s,
            steps=self._steps(order),
            cases=tuple(case.name for case in order.cases)
            if options.some_cases or order.cases != self.whole.cases
            else (),
            limits=self._limits(order),
        )

    def _limits(self, order: MeasurementRequest) -> str:
        """Return the limits by which a job's cases are judged inside it, where rtgate runs there."""
        if order.transport is not Transport.DOCKER:
            return ""
        own = profile(order.profile, order.board)
        profile_cases = {case.name: _profile_case(own, case) for case in order.cases}
        paths = limits_files(self.thresholds)
        return excerpt(paths, limits(self.thresholds), order.board, profile_cases, order.profile)

    def _steps(self, order: MeasurementRequest) -> tuple[tuple[str, ...], ...]:
        """Return what each boot's own shell carries out, for the transport that needs nothing else."""
        if order.transport is not Transport.BOARD:
            return ()
        expectation = order.expected()
        return tuple(on_board.steps(expectation, number) for number in range(1, len(order.boots) + 1))


def _profile_case(own: Profile, case: Case) -> ProfileCase:
    """Return how a profile measures a case; it asks nothing of one that only a file of cases names."""
    is_measured = own.has(case.suite, case.tool.name, case.load)
    options = own.asks(case.tool.name, case.suite, case.load) if is_measured else {}
    return ProfileCase(options, own.of(case.tool.name, case.suite, case.load).duration_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointWriter:
    """Writes the endpoint's part of each job.

    Attributes:
        writer: of the jobs that its board alone would have; its `whole` is what it measures in each job.
        set_up: the shell script that makes an endpoint of the board.
        tags: that its device must have.
    """

    writer: JobWriter
    set_up: str
    tags: tuple[str, ...] = ()

    @property
    def order(self) -> MeasurementRequest:
        """What it measures in each job."""
        return self.writer.whole

    def endpoint(self, nonce: str) -> Endpoint:
        """Return its part of a job. Raises ConfigError as `definition.render`."""
        request = self.writer.request(self.order, nonce, self.tags)
        overlays = _overlays(self.writer.options.overlays, "endpoint-overlays")
        order = replace(request, metadata={**overlays, **self.order.as_metadata(multinode.ENDPOINT)})
        return Endpoint(request=order, set_up=self.set_up)


def _origin(texts: Sequence[str]) -> dict[str, str]:
    """Return where the job comes from: what the pipeline says, and what the command line adds."""
    metadata = pipeline.origin()
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key or key.startswith("rtgate."):
            raise ConfigError(f"--metadata {text}: expected KEY=TEXT, and a key that does not begin with `rtgate.`")
        metadata[key] = value
    return metadata


def _overlays(paths: Sequence[str], key: str = "overlays") -> dict[str, str]:
    """Return which overlays the device tree has: its own name does not tell."""
    return {key: " ".join(Path(path).name for path in paths)} if paths else {}
