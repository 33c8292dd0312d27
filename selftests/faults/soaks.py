# SPDX-License-Identifier: MIT
"""Soaks on real shells: targets whose consoles come and go while they measure."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from selftests.faults.carried import BOARD, CASE, arm, thresholds
from selftests.faults.targets import WORK, Blow, Machine, Stage, Target

from rtgate.console.transport import Transport
from rtgate.errors import TransportError
from rtgate.judge.judging import judge
from rtgate.judge.verdict import Verdict
from rtgate.measure.case import Arm
from rtgate.measure.profiles import Lengths, Profile
from rtgate.measure.run import records_by_case
from rtgate.records.record import Record, read_all
from rtgate.target.live import LiveTarget
from rtgate.target.plan import Plan
from rtgate.workflow.soak import spec as orders
from rtgate.workflow.soak.chunks import Chunks
from rtgate.workflow.verdicts import planned_in, subjects


@dataclass(slots=True)
class Console:
    """A line to a machine that goes on when the line is closed.

    Attributes:
        after_s: seconds from the plan's start until something happens; None for nothing.
        blow: what happens to the machine; None when the line closes.
    """

    machine: Transport
    after_s: float | None = None
    blow: Blow | None = None
    due: float = float("inf")
    closed: bool = False
    said: bytes = b""

    def read(self) -> bytes:
        struck = self._strike_if_due()
        said = self.machine.read()
        self.said = (self.said + said)[-200:]
        if self.after_s is not None and b"rtgate: plan started" in self.said:
            self.due, self.after_s = time.monotonic() + self.after_s, None
        return struck + said

    def write(self, data: bytes) -> None:
        self._strike_if_due()
        self.machine.write(data)

    def close(self) -> None:
        self.closed = True

    def _strike_if_due(self) -> bytes:
        if time.monotonic() > self.due:
            self.due = float("inf")
            if self.blow is not None:
                assert isinstance(self.machine, Machine)
                return self.machine._strike(self.blow)
            self.closed = True
        if self.closed:
            raise TransportError("the console closed")
        return b""


@dataclass(slots=True)
class Bench:
    """One target, and the directory of records of its soak.

    Attributes:
        openings: what the consoles after the first chunk are like; later ones are plain.
        told: what the worker said.
    """

    machine: Machine
    records: Path
    openings: list[Callable[[Machine], Transport]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    @classmethod
    @contextmanager
    def make(cls, stage: Stage, records: Path, target: Target) -> Iterator[Bench]:
        """Turn a target on, and off in the end."""
        machine = stage.start(target, random.Random(1))
        assert isinstance(machine, Machine)
        try:
            yield cls(machine, records)
        finally:
            machine.close()

    def chunks(self, count: int, patience_s: float = 20) -> Chunks:
        """Return the chunks of the soak that is under way, or of a new one."""
        measured = self.arm
        if not orders.exists(self.records):
            orders.begin(CASE, measured, "bench", count, self.records)
        target = measured.target
        assert isinstance(target, LiveTarget)
        return Chunks(
            order=orders.read(self.records),
            case=CASE,
            arm=measured,
            target=target,
            records=self.records,
            on_chunk=self._note_record,
            say=self.told.append,
            patience_s=patience_s,
            open_again_s=1.0,
        )

    def _note_record(self, record: Record, _: float) -> None:
        self.seen.append(record.boot)

    def _open(self, stack: ExitStack, _: Plan) -> Transport:
        """Open the console: the first time plainly, then as `openings` say."""
        made = self.openings.pop(0)(self.machine) if self.openings and self.seen else Console(self.machine)
        stack.callback(made.close)
        return made

    @property
    def arm(self) -> Arm:
        """The kernel, on a target whose consoles are as `openings` say."""
        lengths = Lengths(duration_s=0.2, seeds=(1,), boots=1)
        return arm(self._open, Profile(name="soak", description="", lengths=lengths))

    @property
    def all_records(self) -> list[Record]:
        return list(read_all(self.records))

    @property
    def verdicts(self) -> list[Verdict]:
        records = records_by_case(self.records, BOARD).get(CASE.name, [])
        made = subjects(CASE.name, records, {BOARD: {"candidate"}}, planned_in(self.records, CASE.name))
        return [verdict for subject in made for verdict in judge(subject, thresholds())]

    @property
    def leftovers(self) -> list[str]:
        """What is left of plans in the target's work directory, but their scripts; the console's log level there."""
        mark = f"left{time.monotonic_ns()}"
        left = f"$(ls -A {WORK} | grep ^F | grep -v 'sh$') $(cat /proc/sys/kernel/printk)"
        question = f"\nstty -echo; echo {mark[:3]}\\{mark[3:]} {left} end\n"
        self.machine.write(question.encode())
        said, end = b"", time.monotonic() + 5
        while time.monotonic() < end:
            said += self.machine.read()
            _, found, rest = said.partition(f"{mark} ".encode())
            if found and b"end" in rest:
                return rest.partition(b"end")[0].decode().split()
        raise AssertionError(f"the target does not answer: {said!r}")


def closes(after_s: float = 0.1) -> Callable[[Machine], Transport]:
    """Return a console that closes so many seconds after a plan has started."""
    return lambda machine: Console(machine, after_s)


def refuse(_: Machine) -> Transport:
    """Return no console."""
    raise TransportError("the console cannot be opened")


def striking_console(blow: Blow, after_s: float = 0.1) -> Callable[[Machine], Transport]:
    """Return a console whose machine is struck so many seconds after a plan has started."""
    return lambda machine: Console(machine, after_s, blow)


@contextmanager
def serve(machine: Machine) -> Iterator[int]:
    """Serve a machine's console on a TCP port, one caller at a time; it stays on when nobody calls."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.1)
        thread = threading.Thread(target=_serve, args=(machine, listening, over))
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            over.set()
            thread.join(10)


def _serve(machine: Machine, listening: socket.socket, over: threading.Event) -> None:
    while not over.is_set():
        with suppress(TimeoutError):
            caller, _ = listening.accept()
            with caller:
                _carry(machine, caller, over)


def _carry(machine: Machine, caller: socket.socket, over: threading.Event) -> None:
    caller.setblocking(False)
    with suppress(ConnectionError):
        while not over.is_set():
            caller.sendall(machine.read())
            with suppress(BlockingIOError):
                data = caller.recv(4096)
                if not data:
                    return
                machine.write(data)
