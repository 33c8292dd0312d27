# SPDX-License-Identifier: MIT
"""`rtgate in-job`: measure one boot inside a LAVA job, and send results and records through the job's log."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rtgate.board import boards
from rtgate.cli import command_options, shared_options
from rtgate.errors import ConfigError, InfrastructureError, RtgateError
from rtgate.lava.in_job import signals, upload
from rtgate.lava.in_job.judging import NOT_COMPARED, CaseJudge
from rtgate.lava.job import environment
from rtgate.lava.job.environment import InJob
from rtgate.lava.results.classify import IN_JOB, SAYS
from rtgate.lava.results.plain_text import plain_line
from rtgate.lava.results.records import Sender
from rtgate.measure.profiles import profile
from rtgate.process import die_with_parent
from rtgate.records import record as records_file
from rtgate.workflow import suites
from rtgate.workflow.verdicts import limits

DESCRIPTION = """\
Measure one boot from inside a LAVA job: pytest runs here, in LAVA's docker test action, and drives the board over the
console that LAVA names. Prints LAVA's signals, and the records as checked lines that `rtgate fetch` reads from the
job's log. Job definitions that `rtgate submit` writes call it; nobody has to.

LAVA's result of a case is pass, fail, skip or unknown by the limits, one boot at a time. This is preliminary:
`rtgate fetch` judges all boots, and compares kernels.

The kernel that was booted is named by the variable RTGATE_KERNEL (JSON). A token for --upload comes from
RTGATE_UPLOAD_TOKEN, the file that RTGATE_UPLOAD_TOKEN_FILE names, or the job's `secrets`.
"""
_POLL_S = 0.5
_SIGN_OF_LIFE_S = 30.0  # who follows the job takes silence for a hang


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    command_options.board(parser)
    parser.add_argument("--arm", default="candidate", choices=("baseline", "candidate"), help="whose kernel was booted")
    parser.add_argument("--boot", default="1", metavar="N", help="which boot of the job this is (default: %(default)s)")
    parser.add_argument("--suite", required=True, metavar="S[,S]", help="what to measure, for example latency,signal")
    command_options.profile(parser)
    command_options.tuning(parser)
    shared_options.CASE.add(parser.add_argument)
    command_options.select(parser)
    command_options.thresholds(parser)
    parser.add_argument(
        "--compared", action="store_true", help="the job's two kernels are compared, which is left open here"
    )
    parser.add_argument("--upload", metavar="URL", help="PUT the records below this URL as well")
    parser.add_argument(
        "--power-cycle",
        action="store_true",
        help="reset a board that died by LAVA's command, because it boots this kernel by itself",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    try:
        judge = _validate(arguments)
        with tempfile.TemporaryDirectory(prefix="rtgate-") as name:
            job = _Job(arguments, judge, Path(name))
            whole = job.measure()
            return 0 if whole else InfrastructureError.exit_code
    except RtgateError as error:
        _say(plain_line(str(error)))
        _print([signals.result(IN_JOB, "fail")])
        if isinstance(error, environment.NoConsoleError):
            _print([signals.lab_failure("LAVA gives a test on this device no console: see rtgate lab-check")])
        return error.exit_code


def _validate(arguments: argparse.Namespace) -> CaseJudge:
    """Find mistakes before the board's time is spent; return what judges its cases. Raises ConfigError."""
    environment.boot(arguments.boot)
    board = boards.board(arguments.board)
    board.tuning(arguments.tuning)
    profile(arguments.profile)
    suites.directories(arguments.suite.split(","))
    job = _in_job(arguments)
    if arguments.upload:
        upload.check(arguments.upload, job.job)
    return CaseJudge(board, limits(arguments.thresholds))


def _in_job(arguments: argparse.Namespace) -> InJob:
    """Return what LAVA and the options tell of this boot. Raises ConfigError."""
    return environment.read({**os.environ, **_pytest_environment(arguments)})


def _pytest_environment(arguments: argparse.Namespace) -> dict[str, str]:
    """Return what pytest needs to know of the job beside LAVA's own variables."""
    variables = {environment.ARM: arguments.arm, environment.BOOT: arguments.boot}
    return {**variables, environment.POWER_CYCLE: "1" if arguments.power_cycle else "0"}


@dataclass(slots=True)
class _Job:
    """One boot of a job: pytest measures in a process of its own, records leave as they come."""

    arguments: argparse.Namespace
    judge: CaseJudge
    directory: Path
    _sent: set[Path] = field(default_factory=set)
    _sender: Sender = field(init=False)
    _announced: bool = False

    def __post_init__(self) -> None:
        self._sender = Sender(self._records)

    @property
    def _records(self) -> Path:
        return self.directory / "records"

    @property
    def _cases(self) -> Path:
        return self.directory / "cases.json"

    def measure(self) -> bool:
        """Measure and send everything; return whether every case was carried out and sent."""
        self._records.mkdir()
        log = self.directory / "pytest.log"
        with log.open("wb") as stream:
            child = subprocess.Popen(
                die_with_parent(self._argv(), "TERM"),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**suites.environment(), **_pytest_environment(self.arguments)},
                start_new_session=True,
            )
            try:
                self._follow(child)
            except BaseException:
                child.terminate()  # the suites take it as Ctrl-C: the board is left as it was
                child.wait()
                raise
        self._send_new()
        _print(self._sender.closing_lines())
        whole = child.returncode == 0
        if not whole:
            _say(f"not everything was measured (pytest ended with {child.returncode}): {_last(log)}")
        if self.arguments.upload:
            self._upload()
        if self.arguments.compared:
            _say("both kernels are compared by `rtgate fetch`, not here")
            _print([signals.result(NOT_COMPARED, "unknown")])
        _print([signals.result(IN_JOB, "pass" if whole else "fail")])
        return whole

    def _argv(self) -> list[str]:
        arguments = self.arguments
        options = ["--board", arguments.board, "--console", "lava", "--no-judge", "--records", str(self._records)]
        options += ["--profile", arguments.profile, "--tuning", arguments.tuning, "--cases", str(self._cases)]
        options += [word for case in arguments.case for word in ("--case", case)]
        return suites.command(
            arguments.suite.split(","), [*options, *(["-k", arguments.select] if arguments.select else [])]
        )

    def _follow(self, child: subprocess.Popen[bytes]) -> None:
        """Send what comes until pytest has ended; its own deadlines end every plan."""
        last_sign = time.monotonic()
        while child.poll() is None:
            time.sleep(_POLL_S)
            if self._send_new():
                last_sign = time.monotonic()
            elif time.monotonic() - last_sign > _SIGN_OF_LIFE_S:
                last_sign = time.monotonic()
                _say(f"measuring, {len(self._sent)} records so far")

    def _send_new(self) -> bool:
        """Send the announcement and the records that are there and were not sent; return whether there were any."""
        if not self._announced and self._cases.exists():
            self._announced = True
            _print(self._sender.announcement())
        files = sorted(self._records.glob("*/*/*/*/record.json"), key=lambda path: path.stat().st_mtime)
        paths = [path.parent for path in files if not path.parent.name.startswith(".")]
        new = [path for path in paths if path not in self._sent]
        for path in new:
            self._sent.add(path)
            record = records_file.read(path)
            _say(f"{record.case}: {plain_line(record.state)}{': ' * bool(record.message)}{_first(record.message)}")
            _print(self.judge.lines(record))
            _print(self._sender.record(path, int(self.arguments.boot)))
        return bool(new)

    def _upload(self) -> None:
        """Send the records to the given URL too. That it failed is said, and no more: they are in the log."""
        try:
            number = _in_job(self.arguments).job
            url = upload.put(self._records, self.arguments.upload, number, f"boot-{self.arguments.boot}")
        except (ConfigError, InfrastructureError) as error:
            _say(plain_line(str(error)))
            return
        _print([signals.reference("rtgate.records", url)])


def _first(text: str) -> str:
    return plain_line(text.partition("\n")[0])[:200]


def _last(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()[-3:]
    return plain_line(" / ".join(lines))[-600:]


def _say(text: str) -> None:
    _print([f"{SAYS}{text}"])


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
