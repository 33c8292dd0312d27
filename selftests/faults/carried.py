# SPDX-License-Identifier: MIT
"""Carrying out a real plan against a fault, and telling whether the verdict is right."""

from __future__ import annotations

import os
import random
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from selftests.faults.table import FAULTS, Fault, Truth
from selftests.faults.targets import LIMIT_US, WORK, Stage

from rtgate.board import boards
from rtgate.board.boot import ArmName, TimeBase
from rtgate.console.shell import Waits
from rtgate.console.transport import Transport
from rtgate.errors import Location
from rtgate.judge.judging import Subject, judge
from rtgate.judge.thresholds import LimitKind, Threshold, Thresholds
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.measure import raw_output
from rtgate.measure.case import Arm, Case
from rtgate.measure.case_record import measure
from rtgate.measure.observations import uname_flavour
from rtgate.measure.profiles import Profile, profile
from rtgate.records import record as record_file
from rtgate.records.record import KernelIdentity, Record
from rtgate.target.live import LiveTarget
from rtgate.target.plan import Plan
from rtgate.tools import Expected, Setting
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.threads import SCHED_OTHER, Threads, ThreadScope
from rtgate.units import Quantity

BOARD = "virt-arm64"
# A real line stops for half a minute; these targets live a second.
WAITS = Waits(boot=8, attach=6, answer=0.4, quiet=0.5, dying=0.2, hang=5, upload=40, target=0.1, spare=6, repair=30)
TOGETHER = 8
_KERNEL_IS_DEAD = {Kind.FAULT, Kind.HANG, Kind.BOOT}


class Judgement(Enum):
    """What became of a measurement."""

    RIGHT = "right"
    LOST = "lost"  # refused, although asking again would have repaired it
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quick(Cyclictest):
    """cyclictest as far as a stand-in can do its work: 0.2 s, one thread, without a real-time priority."""

    threads: int = 1

    def expected(self, setting: Setting) -> Expected:
        thread = Threads(count=1, policy=SCHED_OTHER, priority=0)
        return Expected(threads=(thread,), duration_s=0.2, seen=ThreadScope.SESSION)


CASE = Case(suite="latency", tool=Quick(), load="idle")
FLAVOUR = uname_flavour(os.uname().version)


@dataclass(frozen=True, slots=True)
class Trial:
    """One fault, one truth, one seed."""

    fault: Fault
    truth: Truth
    seed: int

    @property
    def name(self) -> str:
        return f"{self.fault.name}-{self.truth.name}-{self.seed}"


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a trial."""

    trial: Trial
    record: Record
    verdict: Verdict
    console: bytes

    @property
    def judgement(self) -> Judgement:
        status, kind, truth = self.verdict.status, self.verdict.kind, self.trial.truth
        if truth is Truth.GOOD:
            right, wrong = status is Status.PASS, status is Status.FAIL
        elif truth is Truth.SLOW:
            right = status is Status.FAIL and kind is Kind.LIMIT
            wrong = not right and status not in {Status.ERROR, Status.MISS}
        elif truth is Truth.NONE:
            right = status is self.trial.fault.status
            wrong = status not in {Status.ERROR, Status.MISS}
        else:
            # A bad kernel is never excused.
            right = status is Status.FAIL and kind in (_KERNEL_IS_DEAD if truth is Truth.DEAD else {Kind.FAULT})
            wrong = not right
        told = re.search(self.trial.fault.says, self.verdict.sentence) is not None
        return Judgement.WRONG if wrong else Judgement.RIGHT if right and told else Judgement.LOST

    def __str__(self) -> str:
        console = self.console.decode("utf-8", errors="backslashreplace").replace("\r", "")
        return (
            f"{self.trial.name}: {self.judgement.value}: {self.verdict.status.value} ({self.verdict.kind.value}): "
            f"{self.verdict.sentence}\nstate {self.record.state}, line {dict(self.record.line)}, "
            f"seconds {dict(self.record.seconds)}\n{console[-6000:]}"
        )


def trials(times: int = 1) -> list[Trial]:
    """Return every trial of the table; with `times`, so many times the seeds of faults that have several."""
    return [
        Trial(fault, truth, seed)
        for fault in FAULTS
        for truth in fault.truths
        for seed in range(1, fault.seeds * (times if fault.seeds > 1 else 1) + 1)
    ]


@contextmanager
def all_carried_out(wanted: Sequence[Trial]) -> Iterator[dict[Trial, Future[Result]]]:
    """Carry out trials beside each other: they mostly wait. What is not yet begun when the block is left is dropped."""
    with Stage.make() as stage:
        pool = ThreadPoolExecutor(TOGETHER)
        try:
            yield {trial: pool.submit(carried_out, trial, stage) for trial in wanted}
        finally:
            pool.shutdown(cancel_futures=True)


def carried_out(trial: Trial, stage: Stage) -> Result:
    """Carry out a plan and judge what came of it."""
    fault = trial.fault
    source = random.Random(trial.name)
    # Both looks at the page faults of its thread must see it, on a busy machine later than planned.
    target = replace(fault.target, lasts_s=1.6, slow=trial.truth is Truth.SLOW)

    def opened(stack: ExitStack, _: Plan) -> Transport:
        line = fault.line(stage.start(target, source), source)
        stack.callback(line.close)
        return line

    measured, outcome = measure(CASE, arm(opened, profile("smoke"), boots=target.boots), trial.seed)
    # As a run does: what is judged was written, read again and held against its raw output.
    with tempfile.TemporaryDirectory(dir=stage.path) as records:
        place = record_file.write(measured, outcome.files, outcome.console, Path(records))
        record = raw_output.verify(record_file.read(place))
    subject = Subject(case=CASE.name, board=BOARD, arm="candidate", flavour=FLAVOUR, records=(record,))
    worst = min(judge(subject, thresholds()), key=lambda verdict: verdict.status.rank)
    return Result(trial, record, worst, outcome.console)


def arm(opened: Callable[[ExitStack, Plan], Transport], lengths: Profile, *, boots: bool = False) -> Arm:
    """Return this machine's kernel on a target behind a console that `opened` opens."""
    # The prompt that the board's file has is not the one that its shell has.
    board = replace(boards.board(BOARD), work_directory=WORK, cpus=os.cpu_count() or 1)
    release = os.uname().release
    return Arm(
        name=ArmName.CANDIDATE,
        board=board,
        kernel=KernelIdentity(
            name="kernel", flavour=FLAVOUR, release=release, image_sha256="", source="", provenance="unknown"
        ),
        profile=lengths,
        time=TimeBase.REAL,
        target=LiveTarget(
            board=board,
            open=opened,
            stop=threading.Event(),
            boots=boots,
            machine={"console": "faults"},
            waits=WAITS,
            qemu=boots,
        ),
    )


def thresholds() -> Thresholds:
    """Return the limit that a slow target breaks."""
    limit = Threshold(
        board=BOARD,
        flavour=FLAVOUR,
        case=CASE.name,
        kind=LimitKind.MAX,
        measurement="latency.max",
        limit=Quantity.parse(f"{LIMIT_US} us"),
        source="the bench",
        location=Location(Path("thresholds.yaml"), 1, 1),
    )
    return Thresholds((limit,))
