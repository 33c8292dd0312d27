# SPDX-License-Identifier: MIT
"""The suites of a gate, in a process of their own, which measures a batch of boots."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from rtgate.board import boards
from rtgate.board.boards import Board
from rtgate.board.boot import ArmName
from rtgate.errors import ChangedError, ConfigError, InfrastructureError
from rtgate.kernel.build_copy import pin_kernel
from rtgate.measure.case import Arm
from rtgate.measure.profiles import boots, profile
from rtgate.process import die_with_parent
from rtgate.records import schedule
from rtgate.records.schedule import Steps
from rtgate.report.notices import say, silence
from rtgate.workflow import suites
from rtgate.workflow.arms import ArmRequest, check_console, console_of, make_arms
from rtgate.workflow.judging import Criteria, Judging, JudgingRequest, judge_run

LOG = "measure.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Boots that are measured together.

    Attributes:
        board: on this one only; empty for every board of the gate.
        cases: only these; empty for all.
        seeds, boots: which, as the suites' options name them; empty for those of the command line or the profile.
        screen: whether they are boots of the candidate alone, to be compared with the history.
        looks: the looks that are planned at the pairs.
    """

    board: str = ""
    cases: tuple[str, ...] = ()
    seeds: str = ""
    boots: str = ""
    screen: bool = False
    looks: Steps = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteOptions:
    """What the suites are called with, whatever the batch.

    Attributes:
        console, flavour, power_cycle: as the suites' options of these names; empty for their defaults.
        seeds, boots: which boots, unless a batch names them; empty for those of the profile.
        select: the cases that match, as pytest's -k; empty for all.
        boot_cache: whether virtual-time boots that were made before are not made again.
    """

    board: str
    profile: str
    tuning: str = "default"
    console: str = ""
    flavour: str = ""
    power_cycle: str = ""
    seeds: str = ""
    boots: str = ""
    select: str = ""
    boot_cache: bool = True

    def check(self, kernels: Collection[str]) -> None:
        """Find mistakes now, not after an hour of building and measuring. Raises ConfigError.

        Args:
            kernels: the arms whose kernels are named, or are going to be built.
        """
        board = boards.board(self.board)
        console = console_of(board, self.console)
        board.tuning(self.tuning)
        profile(self.profile)
        check_console(board, console, kernels, self.power_cycle)
        boots(self.seeds, self.boots or None, virtual_time=console == "virtual")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suites:
    """What a gate measures with.

    Attributes:
        kernels: build directory by arm.
        output: gets records, logs and verdicts.
        criteria: what the records are judged by.
        further_boards: boards that are measured with that of the options, in one comparison.
        arms: every arm on every board, as it was looked at before anything is measured.
        remedy: options of `rtgate placebos learn` for this kernel line; empty where nobody is told of placebos.
    """

    options: SuiteOptions
    kernels: Mapping[str, Path]
    output: Path
    criteria: Criteria = field(default_factory=Criteria)
    further_boards: tuple[str, ...] = ()
    arms: tuple[Arm, ...] = ()
    remedy: str = ""

    @property
    def boards(self) -> tuple[str, ...]:
        """Every board that is measured."""
        return (self.options.board, *self.further_boards)

    @property
    def records(self) -> Path:
        """The directory of the records."""
        return self.output / "records"

    def measure(self, batch: Batch) -> bool:
        """Measure; return whether every boot of every case was carried out. What pytest says goes into `LOG`.

        Raises:
            ConfigError, InfrastructureError: the suites did not run.
        """
        boards = (batch.board,) if batch.board else self.boards
        path = self.output / LOG
        begin = _size(path)
        notices = self._notices(batch)
        codes = []
        for number, board in enumerate(boards):
            options = ["--board", board, *self._options(batch), *(notices if number == 0 else ())]
            codes.append(pytest(self.options.select, options, path))
        if all(code == _NO_CASES for code in codes):
            raise _not_run(_NO_CASES, path, begin)
        complete = all(code in {0, _NO_CASES} for code in codes)
        if not complete:
            why = end_of(path, begin)
            say(f"not everything was measured{': ' if why else ''}{why}; see {path}")
        return complete

    def _options(self, batch: Batch) -> list[str]:
        options = ["--records", str(self.records), "--no-judge"]
        options += ["--profile", self.options.profile, "--tuning", self.options.tuning]
        for name, directory in self.kernels.items():
            if name == "candidate" or not batch.screen:
                options += ["--arm", f"{name}={directory.absolute()}"]
        options += self._boots(batch)
        options += [] if self.options.boot_cache else ["--no-boot-cache"]
        for option in ("console", "flavour", "power-cycle"):
            value = getattr(self.options, option.replace("-", "_"))
            options += [f"--{option}", value] if value else []
        options += [word for case in batch.cases for word in ("--case", case)]
        options += ["--screen"] if batch.screen else []
        options += ["--looks", schedule.format_steps(batch.looks)] if batch.looks else []
        return options

    def _notices(self, batch: Batch) -> list[str]:
        """Return what makes the first suites say what is known of placebos, of all boards before any is measured."""
        if not self.remedy or ArmName.BASELINE not in self.kernels or batch.cases:
            return []
        return [
            "--tell-placebos",
            self.remedy,
            *(word for board in self.further_boards for word in ("--also-tell", board)),
        ]

    def _boots(self, batch: Batch) -> list[str]:
        for option in ("seeds", "boots"):
            if getattr(batch, option):
                return [f"--{option}", getattr(batch, option)]
        options = [(option, getattr(self.options, option)) for option in ("seeds", "boots")]
        return [word for option, value in options if value for word in (f"--{option}", value)]

    def judge(self) -> Judging:
        """Judge what is stored, and write verdict.json. Raises as `judge_run`."""
        self.records.mkdir(exist_ok=True)
        request = JudgingRequest(records=self.records, criteria=self.criteria)
        judging = judge_run(request if self.further_boards else replace(request, board=self.options.board))
        judging.write(self.output / "verdict.json", self.records)
        return judging


def prepare_suites(
    options: SuiteOptions, kernels: Mapping[str, Path], output: Path, criteria: Criteria | None = None
) -> Suites:
    """Return what measures built kernels, after a look at all that it needs.

    The kernels are copies: whoever builds into their directories meanwhile changes nothing.

    Raises:
        ConfigError: board, kernels, profile, console or tuning do not fit together.
        InfrastructureError: QEMU or a root filesystem is not to be had.
    """
    board = boards.board(options.board)
    request = ArmRequest(
        board=board.name,
        kernels=dict(kernels),
        profile=options.profile,
        console=options.console or None,
        tuning=options.tuning,
        flavour=options.flavour or None,
        power_cycle=options.power_cycle or None,
    )
    further = _further_boards(options, board, kernels)
    arms = tuple(arm for name in (board.name, *further) for arm in make_arms(replace(request, board=name)))
    copies = {arm: pin_kernel(directory).directory for arm, directory in kernels.items()}
    return Suites(
        options=options,
        kernels=copies,
        output=output,
        further_boards=further,
        arms=arms,
        criteria=criteria or Criteria(),
    )


def _further_boards(options: SuiteOptions, board: Board, kernels: Mapping[str, Path]) -> tuple[str, ...]:
    """Return the boards that the profile measures with this one: two kernels on virtual time, tuned as any."""
    plain = options.console in {"", "virtual"} and board.virtual and options.tuning == "default"
    return profile(options.profile).further_boards(board.name) if plain and len(kernels) > 1 else ()


_NO_CASES = 5  # pytest's exit code where no test was left to run


def pytest(select: str, options: Sequence[str], log: Path) -> int:
    """Run the suites and return 0, 1 if a test failed, or 5 if there is no case; any other end is an error here.

    Raises:
        ConfigError: the suites refused what they were called with, or cannot be collected.
        InfrastructureError: this machine cannot measure, or ended the suites.
        ChangedError: what is measured is not what it was.
    """
    begin = _size(log)
    code = _run(suites.command([], [*(["-k", select] if select else []), *options]), log)
    if code == ChangedError.suites_code:
        raise ChangedError(f"{end_of(log, begin)}; see {log}")
    if code == InfrastructureError.exit_code:
        raise InfrastructureError(f"the suites did not run: {end_of(log, begin)}; see {log}")
    if code < 0:  # nobody's mistake: as for lack of memory
        ending = f"signal {-code} ({signal.strsignal(-code) or 'unknown'})"
        raise InfrastructureError(f"the suites were ended by {ending}: {end_of(log, begin)}; see {log}")
    if code not in {0, 1, _NO_CASES}:
        raise _not_run(code, log, begin)
    return code


def _run(argv: Sequence[str], log: Path) -> int:
    """Run the suites in a session of their own: Ctrl-C reaches this process alone, which passes it on once."""
    child = subprocess.Popen(
        die_with_parent(argv, "TERM"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env=suites.environment(),
    )
    assert child.stdout is not None
    keeper = threading.Thread(target=keep, args=(child.stdout, log), daemon=True)
    keeper.start()
    try:
        with silence():  # they speak themselves
            return child.wait()
    except KeyboardInterrupt:
        child.terminate()  # the suites take it as Ctrl-C; SIGINT may be ignored, as below nohup
        child.wait()
        raise
    finally:
        keeper.join(timeout=5)  # something that outlived the suites may hold the pipe


def _not_run(code: int, log: Path, begin: int) -> ConfigError:
    return ConfigError(f"the suites did not run (pytest's exit code {code}): {end_of(log, begin)}; see {log}")


def keep(pipe: IO[bytes], log: Path) -> None:
    """Add what the suites say to a log as far as the disk takes it: they themselves must not fail for their log."""
    with pipe:
        with contextlib.suppress(OSError), log.open("ab", buffering=0) as stream:
            for line in pipe:
                stream.write(line)
        for _ in pipe:
            pass


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def end_of(log: Path, begin: int) -> str:
    """Return what a log ends with: why the suites refused, or their last lines.

    Args:
        log: what every batch was added to.
        begin: its size in bytes before the batch in question: the refusal of a former one explains nothing.
    """
    text = log.read_bytes()[begin:].decode(errors="replace").strip()
    refusals = re.findall(r"^!+ _pytest\.outcomes\.Exit: (.*?) !+$", text, re.MULTILINE)
    return refusals[-1] if refusals else " / ".join(text.splitlines()[-3:])
