# SPDX-License-Identifier: MIT
"""Live targets: a plan carried out over a console, on a QEMU board in host time or on whatever is attached."""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rtgate.boards import Board
from rtgate.console.faults import scan
from rtgate.console.frames import FrameReader
from rtgate.console.shell import Shell
from rtgate.console.transport import ProgramTransport, SerialTransport, Transport, attached
from rtgate.deadline import Deadline
from rtgate.errors import DeadlineError, HangError, InfrastructureError, KernelFaultError, ParseError, TransportError
from rtgate.target.outcome import LineQuality, Outcome, State, last_lines, unpack
from rtgate.target.plan import Plan, script
from rtgate.target.qemu import Machine, Monitor, process, version
from rtgate.target.rootfs import RootfsImage

_BOOT_S = 180.0  # host seconds; QEMU without KVM boots in a few, on a busy machine in a minute
_UPLOAD_S = 60.0

Opener = Callable[[ExitStack], Transport]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTarget:
    """A target with a shell on a console.

    Attributes:
        open: opens the console of one boot; what it enters into the stack is closed when the boot is over.
        boots: whether each plan gets a fresh boot, or whatever runs is used.
        machine: what runs the board, for the record.
    """

    board: Board
    open: Opener
    stop: threading.Event
    boots: bool
    machine: dict[str, str]

    @classmethod
    def started(cls, board: Board, image: Path, rootfs: RootfsImage, stop: threading.Event, *, pty: bool) -> LiveTarget:
        """Return a QEMU board in host time, a fresh boot for each plan; its console by pexpect or pyserial (`pty`)."""
        assert board.qemu is not None
        machine = Machine(board=board, image=image, initrd=rootfs.path, serial="chardev:console")
        opener = _pty_opener(machine) if pty else _stdio_opener(machine)
        return cls(board=board, open=opener, stop=stop, boots=True, machine={"qemu": version(board.qemu.binary)})

    @classmethod
    def attached(cls, board: Board, console: str, stop: threading.Event) -> LiveTarget:
        """Return the target behind a console that already has a shell. Raises ConfigError for an unknown console."""
        _, _, rest = console.partition(":")
        if not rest:
            attached(console, board.console.baud)

        def opener(stack: ExitStack) -> Transport:
            transport = attached(console, board.console.baud)
            stack.callback(transport.close)
            return transport

        return cls(board=board, open=opener, stop=stop, boots=False, machine={"console": console})

    def run(self, plan: Plan) -> Outcome:
        """Carry out the plan and return what came of it. Raises Interrupted when `stop` was set."""
        began = time.monotonic()
        log = bytearray()
        try:
            with ExitStack() as stack:
                shell = Shell(self.open(stack), self.stop, log)
                outcome = self._on(shell, plan, began)
        except TransportError as error:
            outcome = Outcome(state=State.LAB, message=str(error))
        except InfrastructureError as error:
            outcome = Outcome(state=State.LAB, message=str(error))
        return Outcome(
            state=outcome.state,
            message=outcome.message,
            files=outcome.files,
            console=bytes(log),
            faults=scan(log.decode("utf-8", errors="replace")),
            line=outcome.line,
            seconds={**outcome.seconds, "total": round(time.monotonic() - began, 3)},
            machine=self.machine,
        )

    def _on(self, shell: Shell, plan: Plan, began: float) -> Outcome:
        try:
            self._ready(shell)
        except (KernelFaultError, HangError, DeadlineError) as error:
            state = State.NO_BOOT if self.boots else State.LAB
            return Outcome(state=state, message=f"no shell came up: {error}\n{last_lines(bytes(shell.log))}")
        boot = round(time.monotonic() - began, 3)
        try:
            path = f"/tmp/rtgate-{plan.nonce}"  # noqa: S108 - on the target
            shell.upload(script(plan), path, Deadline.after(_UPLOAD_S))
            allowed = Deadline.after(plan.deadline_s + 60)
            reader, asked = shell.frames(f"sh {path}", plan.nonce, allowed)
            shell.transport.write(b"exit\nstty echo\n")
        except KernelFaultError as error:
            return Outcome(state=State.FAULT, message=f"the kernel died during the measurement: {error}")
        except (HangError, DeadlineError) as error:
            message = f"the target hung during the measurement: {error}; last lines:\n{last_lines(bytes(shell.log))}"
            return Outcome(state=State.HANG, message=message)
        return _outcome(reader, asked, {"boot": boot})

    def _ready(self, shell: Shell) -> None:
        deadline = Deadline.after(_BOOT_S if self.boots else 20.0)
        if self.boots:
            shell.until(re.escape(self.board.console.prompt.encode()), deadline, 0)
        shell.find(deadline)
        shell.plain(Deadline.after(20.0))


def _outcome(reader: FrameReader, asked: int, seconds: dict[str, float]) -> Outcome:
    line = LineQuality(received=reader.received, damaged=reader.damaged, repeated=asked)
    try:
        return Outcome(state=State.MEASURED, files=unpack(reader), line=line, seconds=seconds)
    except ParseError as error:
        return Outcome(state=State.UNREADABLE, message=str(error), line=line, seconds=seconds)


def _stdio_opener(machine: Machine) -> Opener:
    def opener(stack: ExitStack) -> Transport:
        argv = [*machine.argv(), "-chardev", "stdio,id=console,signal=off"]
        transport = ProgramTransport(argv)
        stack.callback(transport.close)
        return transport

    return opener


def _pty_opener(machine: Machine) -> Opener:
    def opener(stack: ExitStack) -> Transport:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rtgate-")))
        log, monitor = directory / "qemu.log", directory / "qmp"
        qmp = ("-qmp", f"unix:{monitor},server=on,wait=off")
        # Paused until the line is open: QEMU drops what nobody reads on a pseudo-terminal.
        argv = [*machine.argv(), "-chardev", "pty,id=console", *qmp, "-S"]
        stack.enter_context(process(argv, log))
        device = _pty_device(log, Deadline.after(20))
        transport = SerialTransport(device, machine.board.console.baud)
        stack.callback(transport.close)
        with _monitor(monitor) as asked:
            asked.ask("cont")
        return transport

    return opener


@contextmanager
def _monitor(path: Path) -> Iterator[Monitor]:
    monitor = Monitor(path)
    try:
        yield monitor
    finally:
        monitor.close()


def _pty_device(log: Path, deadline: Deadline) -> str:
    while not deadline.expired:
        found = re.search(r"redirected to (/dev/pts/\d+)", log.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.02)
    raise InfrastructureError(f"QEMU opened no pseudo-terminal: {log.read_text(errors='replace').strip()[:300]}")
