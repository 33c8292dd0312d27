# SPDX-License-Identifier: MIT
"""`rtgate lab-check`: say what a LAVA lab supports, and what is missing for the rest."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rtgate import site
from rtgate.board import boards
from rtgate.board.boards import Board
from rtgate.cli import command_options
from rtgate.durations import Deadline
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.lava.client.access import access
from rtgate.lava.client.server import Device, Lava
from rtgate.lava.job import template
from rtgate.lava.job.definition import Files, Transport, printable
from rtgate.lava.lab import check, health
from rtgate.workflow.job_watch import JobWatch

DESCRIPTION = """\
Look at a LAVA lab and say, board by board, which ways of measuring it supports and what is missing for the others:
docker (pytest in a container on the worker) and board (LAVA's test shell on the board itself). It changes nothing;
with --probe it submits one short job per device type, which tells whether docker works on the worker that ran it.

With --health-check it prints the health check of a board's device type for the lab's LAVA server instead.

examples:
  rtgate lab-check --server https://lava.example.org
  rtgate lab-check --board rk3568-evb1 --probe
  rtgate lab-check --health-check rk3568-evb1 --kernel URL --ramdisk URL --dtb URL > rk3568-evb1.yaml

exit codes: 0 each board can be measured in some way, 2 usage or configuration, 3 one cannot, or nobody knows
"""
_PROBE_S = 900.0
_UNKNOWN = "not known from here: only a job shows whether the worker has docker and the image (add --probe)"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    command_options.server(parser)
    parser.add_argument(
        "--board", action="append", default=[], metavar="NAME", help="this board (default: all there are)"
    )
    parser.add_argument("--probe", action="store_true", help="submit a job per device type that tries docker")
    parser.add_argument("--image", default="", metavar="NAME", help="the container's image (default: rtgate's own)")
    parser.add_argument("--health-check", metavar="BOARD", help="print a health check for this board's device type")
    for name in template.FILES:
        parser.add_argument(f"--{name}", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--transport", choices=[*map(str, Transport)], help="of the health check (default: docker)")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    _check_options(arguments)
    if arguments.health_check:
        print(_health_check(arguments), end="")
        return 0
    server = Lava(access(arguments.server), notify=JobWatch().say)
    version = server.version()
    print(f"{server.access.url}: LAVA {version[0]}.{version[1]:02}, {server.whoami() or 'not logged in'}")
    for finding in check.server(version):
        print(f"  {finding.text}")
    looked = [_Look(server, version, board, arguments) for board in _boards(arguments.board)]
    here = [look for look in looked if arguments.board or server.knows(look.device_type)]
    if not here:
        device_types = ", ".join(sorted({look.device_type for look in looked}))
        raise ConfigError(f"the lab has none of the device types that rtgate has boards for ({device_types})")
    answers = [look.report() for look in here]
    return 0 if all(answers) else InfrastructureError.exit_code


def _check_options(arguments: argparse.Namespace) -> None:
    """Refuse options that would say nothing. Raises ConfigError."""
    is_printing = arguments.health_check is not None
    names = ("board", "probe", "server") if is_printing else (*template.FILES, "transport")
    if not is_printing and not arguments.probe:
        names = (*names, "image")
    useless = [f"--{name}" for name in names if getattr(arguments, name)]
    if useless:
        why = "--health-check asks no lab" if is_printing else "a lab is only looked at"
        raise ConfigError(f"{why}: leave out {', '.join(useless)}")


def _boards(names: list[str]) -> list[Board]:
    selection = [boards.board(name) for name in names or site.names("boards")]
    for board in selection:
        if names and board.lava is None:
            raise ConfigError(f"{board.path}: {board.name} has no `lava:`, so no lab can boot it")
    return [board for board in selection if board.lava is not None]


def _health_check(arguments: argparse.Namespace) -> str:
    if not arguments.kernel:
        raise ConfigError(
            "a health check boots a kernel that is known to be good: --kernel URL, --ramdisk URL, --dtb URL"
        )
    files = Files(**{name: getattr(arguments, name) for name in template.FILES})
    board = boards.board(arguments.health_check)
    return health.definition(
        board, files, transport=Transport(arguments.transport or Transport.DOCKER), image=arguments.image
    )


@dataclass(frozen=True, slots=True)
class _Probe:
    """What a job showed of docker on the worker that ran it; one that no worker ran has none."""

    job: int
    worker: str
    problem: str

    def elsewhere(self, device: Device) -> str:
        """Return why the job says nothing of a device; empty if it does."""
        if self.worker in {"", device.worker}:
            return ""
        return f"not known from here: job {self.job} ran on the worker {printable(self.worker, 60)}"


@dataclass(frozen=True, slots=True)
class _Look:
    """A look at one board of a lab."""

    server: Lava
    version: tuple[int, int]
    board: Board
    arguments: argparse.Namespace

    @property
    def device_type(self) -> str:
        """LAVA's name for the board."""
        assert self.board.lava is not None
        return self.board.lava.device_type

    def report(self) -> bool:
        """Tell what there is to say about the board, and return whether it can be measured."""
        print(f"\n{self.board.name} (device type {self.device_type})")
        if not self.server.knows(self.device_type):
            print("  the server does not know this device type: add lava-jobs/device-types/ to it")
            return False
        devices = self.server.devices(self.device_type)
        if not devices:
            print("  there is no device of this type")
            return False
        if not self.server.health_check(self.device_type):
            print("  no health check: faults of the lab look like faults of a kernel (rtgate lab-check --health-check)")
        findings = {device.name: self._findings(device) for device in devices}
        ready = any(device.usable and not check.missing(findings[device.name], Transport.DOCKER) for device in devices)
        probe = self._probe(devices) if self.arguments.probe and ready else None
        ways = {way for device in devices for way in self._device(device, findings[device.name], probe)}
        for claim in self.board.lava.unconfirmed if self.board.lava else ():
            print(f"  unconfirmed: {claim.what}: {claim.reason}")
        return bool(ways)

    def _findings(self, device: Device) -> tuple[check.Finding, ...]:
        assert self.board.lava is not None
        job_template = template.find(self.board.lava.boot)
        return check.device(self.board, job_template, self.version, self.server.dictionary(device.name))

    def _device(self, device: Device, findings: tuple[check.Finding, ...], probe: _Probe | None) -> Iterator[Transport]:
        """Tell about a device and yield the ways that it can be measured in for certain."""
        state = "online" if device.online else f"its worker {printable(device.worker, 60) or '(none)'} is not online"
        print(f"  {device.name}: {device.state}, health {device.health}, {state}")
        for finding in findings:
            if not finding.ways:
                print(f"    note: {printable(finding.text, 300)}")
        for way in Transport:
            lacks, unknown = list(check.missing(findings, way)), ""
            if way is Transport.DOCKER and not lacks:
                # Nothing of it shows from outside, and a job shows it of its own worker alone.
                unknown = probe.elsewhere(device) if probe else _UNKNOWN
                lacks += [probe.problem] if probe and probe.problem and not unknown else []
            print(f"    {way}: {unknown or ('no' if lacks else 'yes')}")
            for text in lacks:
                print(f"      {printable(text, 300)}")
            if not lacks and not unknown and device.usable:
                yield way

    def _probe(self, devices: Sequence[Device]) -> _Probe:
        """Try docker with a job, which LAVA starts on any device of the type."""
        number = self.server.submit(*health.probe(self.device_type, self.arguments.image))
        print(f"    probing docker with job {number}", file=sys.stderr)
        deadline = Deadline.after(_PROBE_S)
        ended = False
        try:
            while not (job := self.server.job(number)).finished and not deadline.expired:
                time.sleep(deadline.sooner(5))
            ended = job.finished
        finally:
            if not ended:
                self.server.cancel(number)
        if not ended:
            problem = f"job {number} did not end within {_PROBE_S:.0f} s ({job.state}); it was cancelled"
        elif job.health != "Complete":
            problem = f"job {number} ended {job.health}: docker or the image is missing on the worker; see its log"
        else:
            problem = ""
        return _Probe(number, next((device.worker for device in devices if device.name == job.device), ""), problem)
