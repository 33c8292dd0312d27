# SPDX-License-Identifier: MIT
"""A virtual board in host time that stays on for several measurements, so that something may happen to it meanwhile."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from selftests.campaigns.comparisons import with_evidence

from rtgate.board.boards import Board
from rtgate.board.boot import ArmName, TimeBase
from rtgate.console.shell import Waits
from rtgate.console.transport import Transport, open_transport
from rtgate.judge.judging import Subject, judge
from rtgate.judge.thresholds import Thresholds
from rtgate.judge.verdict import Status
from rtgate.measure.case import Arm, Case
from rtgate.measure.case_record import measure
from rtgate.measure.profiles import Profile
from rtgate.records.record import KernelIdentity, Record
from rtgate.rootfs import images
from rtgate.target.live import LiveTarget
from rtgate.target.plan import Plan
from rtgate.target.qemu import Machine, Monitor, process
from rtgate.tools import Tool


@dataclass
class Line:
    """A console that starts a timer when a plan starts."""

    console: str
    timer: threading.Timer | None = None
    inner: Transport | None = None
    seen: bytes = b""

    def open(self, stack: ExitStack, _: Plan) -> Transport:
        self.inner = open_transport(self.console, 115200)
        stack.callback(self.inner.close)
        return self

    def read(self) -> bytes:
        assert self.inner is not None
        found = self.inner.read()
        self.seen += found
        if self.timer and b"rtgate: plan started" in self.seen:
            self.timer.start()
            self.timer = None
        self.seen = self.seen[-1000:]
        return found

    def write(self, data: bytes) -> None:
        assert self.inner is not None
        self.inner.write(data)

    def close(self) -> None:
        assert self.inner is not None
        self.inner.close()


@dataclass
class LiveBoard:
    """A virtual board that has booted."""

    arm: Arm
    monitor: Monitor
    line: Line

    def measure(self, tool: Tool, act: Callable[[Monitor], object] | None = None) -> Record:
        """Measure; soon after the plan has started do something to the machine."""
        self.line.seen = b""
        self.line.timer = threading.Timer(4, act, [self.monitor]) if act else None
        return measure(Case(suite=tool.suites[0], tool=tool, load="idle"), self.arm, 1)[0]


@contextmanager
def live_board(
    board: Board, image: Path, directory: Path, *, profile: Profile, words: Sequence[str] = ()
) -> Iterator[LiveBoard]:
    """Boot a virtual board in host time with all of its devices, and what more words for QEMU say."""
    assert board.qemu is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    machine = Machine(
        board=board,
        image=image,
        initrd=images.image("core", board.arch).path,
        serial=f"tcp:127.0.0.1:{port},server=on,wait=on",
        monitor=directory / "qmp",
        devices=tuple(board.qemu.devices),
    )
    with process([*machine.argv(), *words], directory / "qemu.log") as child:
        deadline = time.monotonic() + 30
        while "waiting for connection" not in (directory / "qemu.log").read_text(errors="replace"):
            assert child.poll() is None, (directory / "qemu.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        monitor = Monitor(directory / "qmp")
        _wait_for_prompt(f"tcp:127.0.0.1:{port}", board.console.prompt.encode())
        identity = KernelIdentity(
            name="live", flavour="preempt_rt", release="", image_sha256="", source="", provenance=""
        )
        line = Line(f"tcp:127.0.0.1:{port}")
        arm = Arm(
            name=ArmName.CANDIDATE,
            board=board,
            kernel=identity,
            profile=profile,
            time=TimeBase.HOST,
            target=LiveTarget(
                board=board, open=line.open, stop=threading.Event(), boots=False, machine={}, waits=Waits(attach=120)
            ),
        )
        try:
            yield LiveBoard(arm, monitor, line)
        finally:
            monitor.close()


def failures(record: Record) -> list[str]:
    """Return what fails of a record without any limits."""
    taken = (with_evidence(record),)  # never written, so no file names its raw output
    subject = Subject(case=record.case, board=record.board, arm=record.arm, flavour="preempt_rt", records=taken)
    return [verdict.sentence for verdict in judge(subject, Thresholds()) if verdict.status is Status.FAIL]


def _wait_for_prompt(console: str, prompt: bytes) -> None:
    """Read until the board has booted; what is typed before can leave its UART deaf (6.12, pl011 of QEMU 7.2)."""
    transport, seen, deadline = open_transport(console, 115200), b"", time.monotonic() + 180
    try:
        while prompt not in seen:
            assert time.monotonic() < deadline, seen[-1000:]
            seen += transport.read()
    finally:
        transport.close()
