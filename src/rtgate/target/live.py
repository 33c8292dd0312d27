# SPDX-License-Identifier: MIT
"""Live targets: a plan carried out over a console, on a QEMU board in host time or on whatever is attached."""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtgate.boards import Board
from rtgate.console.collect import frames
from rtgate.console.faults import scan
from rtgate.console.frames import FrameReader
from rtgate.console.shell import Shell, Waits
from rtgate.console.transport import EndedError, ProgramTransport, SerialTransport, Transport, attached
from rtgate.deadline import Deadline
from rtgate.errors import (
    DeadlineError,
    HangError,
    InfrastructureError,
    Interrupted,
    KernelFaultError,
    ParseError,
    RtgateError,
    TransportError,
)
from rtgate.target.outcome import LineQuality, Outcome, State, last_lines, unpack
from rtgate.target.plan import Plan, measured, script
from rtgate.target.qemu import Machine, Monitor, process, version
from rtgate.target.rootfs import RootfsImage

_STARTS = 3  # of a plan: the command that starts it may get lost
_READS = 8  # of the boot's id, which may arrive damaged

# What a plan and its upload cannot do without.
_PROGRAMS = "base64 cat cksum cut dmesg grep gzip mkdir paste rm sed setsid sleep split tail tar"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_LOGIN = re.compile(rb"(?:login|user ?name|password)(?: for \S+)?: *$|login incorrect", re.IGNORECASE | re.MULTILINE)

Opener = Callable[[ExitStack, Plan], Transport]
Rootfs = Callable[[Plan], RootfsImage]


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
    waits: Waits = field(default_factory=Waits)

    @classmethod
    def started(cls, board: Board, image: Path, rootfs: Rootfs, stop: threading.Event, *, pty: bool) -> LiveTarget:
        """Return a QEMU board in host time, a fresh boot for each plan; its console by pexpect or pyserial (`pty`)."""
        assert board.qemu is not None

        def machine(plan: Plan) -> Machine:
            return Machine(
                board=board,
                image=image,
                initrd=rootfs(plan).path,
                serial="chardev:console",
                command_line=plan.command_line,
            )

        opener = _pty_opener(machine) if pty else _stdio_opener(machine)
        return cls(board=board, open=opener, stop=stop, boots=True, machine={"qemu": version(board.qemu.binary)})

    @classmethod
    def attached(cls, board: Board, console: str, stop: threading.Event) -> LiveTarget:
        """Return the target behind a console that already has a shell. Raises ConfigError for an unknown console."""
        _, _, rest = console.partition(":")
        if not rest:
            attached(console, board.console.baud)

        def opener(stack: ExitStack, _: Plan) -> Transport:
            transport = attached(console, board.console.baud)
            stack.callback(transport.close)
            return transport

        return cls(board=board, open=opener, stop=stop, boots=False, machine={"console": console})

    def run(self, plan: Plan) -> Outcome:
        """Carry out the plan and return what came of it. Raises Interrupted when `stop` was set."""
        began = time.monotonic()
        log = bytearray()
        shell = None
        try:
            with ExitStack() as stack:
                prompt = self.board.console.prompt.encode()
                shell = Shell(self.open(stack, plan), self.stop, log, self.waits, prompt)
                outcome = self._on(shell, plan, began)
        except InfrastructureError as error:
            outcome = Outcome(state=State.LAB, message=str(error))
        repeated = outcome.line.repeated + (shell.again if shell else 0)
        return replace(
            outcome,
            line=replace(outcome.line, received=len(log), repeated=repeated),
            console=bytes(log),
            faults=scan(log.decode("utf-8", errors="replace")),
            seconds={**outcome.seconds, "total": round(time.monotonic() - began, 3)},
            machine=self.machine,
        )

    def _on(self, shell: Shell, plan: Plan, began: float) -> Outcome:
        try:
            self._ready(shell)
        except (KernelFaultError, HangError, EndedError) as error:
            return self._no_shell(shell, error)
        boot = round(time.monotonic() - began, 3)
        try:
            outcome = _Session(shell, plan, self.waits).outcome()
        except KernelFaultError as error:
            return Outcome(state=State.FAULT, message=f"the kernel died during the measurement: {error}")
        except (HangError, DeadlineError) as error:
            message = f"the target hung during the measurement: {error}; last lines:\n{last_lines(bytes(shell.log))}"
            return Outcome(state=State.HANG, message=message)
        except Interrupted:
            # The plan puts back what it set and ends what it started.
            with suppress(RtgateError):
                shell.transport.write(b"\x03")
                wait = Deadline.after(self.waits.quiet)
                while not wait.expired:
                    shell.transport.read()
            raise
        except EndedError as error:
            if not self._stopped(error):
                raise
            message = "the machine stopped during the measurement without a word; last lines:"
            return Outcome(state=State.FAULT, message=f"{message}\n{last_lines(bytes(shell.log))}")
        finally:
            with suppress(TransportError):
                shell.leave()
        return replace(outcome, seconds={"boot": boot, **outcome.seconds})

    def _ready(self, shell: Shell) -> None:
        deadline = Deadline.after(self.waits.boot if self.boots else self.waits.attach)
        if self.boots:
            self._booted(shell, deadline)
        # What starts the system may run in front, and Ctrl-C would end it.
        shell.find(deadline, gently=self.boots)
        shell.plain(Deadline.after(self.waits.attach))
        shell.settled = True

    def _booted(self, shell: Shell, deadline: Deadline) -> None:
        """Wait for the board's prompt, or for silence after a boot: its shell may have another prompt."""
        size, moved = 0, time.monotonic()
        while not deadline.expired and self.board.console.prompt.encode() not in shell.log:
            if len(shell.log) != size:
                size, moved = len(shell.log), time.monotonic()
            elif size and time.monotonic() - moved > self.waits.quiet:
                break
            shell.read()
        self._refuse_login(shell)

    def _no_shell(self, shell: Shell, error: Exception) -> Outcome:
        """Say why there is no shell."""
        if not isinstance(error, KernelFaultError):
            self._refuse_login(shell)
        if isinstance(error, EndedError) and not self._stopped(error):
            raise error
        state = State.NO_BOOT if self.boots else State.LAB
        return Outcome(state=state, message=f"no shell came up: {error}\n{last_lines(bytes(shell.log))}")

    def _refuse_login(self, shell: Shell) -> None:
        """Raise InfrastructureError if a login is asked for: the board has booted, and the kernel is not to blame."""
        if _LOGIN.search(shell.log[-200:]):
            raise InfrastructureError("the console asks for a login, where a plan needs a shell of root")

    def _stopped(self, error: EndedError) -> bool:
        """Return whether the machine itself ended the program behind its console: QEMU ends with 0 when it does."""
        return self.boots and error.code == 0


@dataclass(slots=True)
class _Session:
    """One plan in a shell that was found."""

    shell: Shell
    plan: Plan
    waits: Waits
    _boot_id: str = ""

    def outcome(self) -> Outcome:
        """Carry out the plan.

        Raises:
            KernelFaultError, HangError, DeadlineError: the target died.
            InfrastructureError: the target, its disk or the line cannot carry it out.
            Interrupted: as `Shell.until`.
        """
        began = time.monotonic()
        self._prepare()
        uploaded = time.monotonic()
        start = len(self.shell.log)
        for _ in range(_STARTS):
            allowed = self.waits.target * self.plan.deadline_s + self.waits.spare
            reader = frames(self.shell, f"sh {self._path}", self.plan.nonce, allowed, over=measured)
            if reader.complete:
                break
            self._why(bytes(self.shell.log[start:]))
            if reader.ended or self._sure(f"[ -e {self._work} ]") != 1:
                break
        ended = time.monotonic()
        seconds = {"upload": round(uploaded - began, 3), "plan": round(ended - uploaded, 3)}
        outcome = _outcome(reader, seconds)
        if outcome.state is State.MEASURED:
            self._of_this_boot(outcome)
            self._sure(f"sh {self._path} clean")
        return outcome

    def _of_this_boot(self, outcome: Outcome) -> None:
        """Check that the results are not those of another boot. Raises KernelFaultError."""
        found = re.search(
            rb"^" + _BOOT_ID.encode() + rb":([0-9a-f-]{36})$", outcome.files.get("facts", b""), re.MULTILINE
        )
        if found and self._boot_id and found[1].decode() != self._boot_id:
            raise KernelFaultError("the target started again by itself: it has another boot_id")

    @property
    def _work(self) -> str:
        """Return where the plan leaves its results, as a word of the shell."""
        return shlex.quote(f"{self.plan.work_directory}/{self.plan.nonce}")

    @property
    def _path(self) -> str:
        """Return where the plan is uploaded to. No space follows the nonce: an echo must not look like a frame."""
        return shlex.quote(f"{self.plan.work_directory}/{self.plan.nonce}.sh")

    def _prepare(self) -> None:
        """Upload the plan, and remove what an earlier run of it left: its frames must never pass for this one's."""
        self._look_for_programs()
        if self._sure("dmesg >/dev/null 2>&1") > 0:
            raise InfrastructureError("the target's kernel log cannot be read (dmesg): a fault would not be seen")
        self._boot_id = self._read_boot_id()
        deadline = Deadline.after(self.waits.upload)
        directory = shlex.quote(self.plan.work_directory)
        if self._sure(f"mkdir -p {directory}; [ -d {directory} ]") > 0:
            raise InfrastructureError(f"the target cannot make the directory {self.plan.work_directory}")
        self.shell.upload(self._script(), self._path, deadline)
        if self._sure(f"sh {self._path} clean && [ ! -e {self._work} ]"):
            raise InfrastructureError(f"the target cannot remove old results in {self.plan.work_directory}")

    def _look_for_programs(self) -> None:
        if not self.shell.has("cksum", Deadline.after(self.waits.upload)):
            raise InfrastructureError("the target lacks cksum, which a plan cannot do without")
        if self._sure(f"(for i in {_PROGRAMS}; do command -v $i || exit 1; done) >/dev/null") <= 0:
            return
        lacking = [one for one in _PROGRAMS.split() if self._sure(f"command -v {one} >/dev/null") > 0]
        raise InfrastructureError(f"the target lacks {', '.join(lacking)}, which a plan cannot do without")

    def _script(self) -> str:
        # Whatever removes files stands in the script, which is checked: a line that was typed may arrive damaged.
        clean = f'clean) rm -rf {self._work} "$0".[0-9]*; exit ;;'
        return f"case $1 in {clean} '' | resend | closing) ;; *) exit 2 ;; esac\n{script(self.plan)}"

    def _sure(self, command: str) -> int:
        return self.shell.sure(command, Deadline.after(self.waits.upload))[0]

    def _read_boot_id(self) -> str:
        """Return the boot's own name, empty where there is none; a damaged one is read again."""
        for _ in range(_READS):
            _, said = self.shell.sure(f"cat {_BOOT_ID}", Deadline.after(self.waits.upload))
            found = re.search(rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", said)
            if found and self._sure(_same_boot(found[0].decode())) == 0:
                return found[0].decode()
        return ""

    def _why(self, log: bytes) -> None:
        """Say why the results are incomplete, if it is not the line. Raises KernelFaultError or InfrastructureError."""
        if self._boot_id and self._sure(_same_boot(self._boot_id)) > 0:
            raise KernelFaultError("the target started again by itself: it has another boot_id")
        found = re.search(rb"rtgate: cannot write [^\r\n]*", log)
        if found:
            raise InfrastructureError(f"the target's disk is full or not writable: {found[0].decode(errors='replace')}")


def _same_boot(boot_id: str) -> str:
    return f'[ "$(cat {_BOOT_ID})" = {boot_id} ]'


def _outcome(reader: FrameReader, seconds: dict[str, float]) -> Outcome:
    line = LineQuality(damaged=reader.damaged, repeated=reader.repeated)
    try:
        return Outcome(state=State.MEASURED, files=unpack(reader), line=line, seconds=seconds)
    except ParseError as error:
        return Outcome(state=State.UNREADABLE, message=str(error), line=line, seconds=seconds)


def _stdio_opener(machine: Callable[[Plan], Machine]) -> Opener:
    def opener(stack: ExitStack, plan: Plan) -> Transport:
        argv = [*machine(plan).argv(), "-chardev", "stdio,id=console,signal=off"]
        transport = ProgramTransport(argv)
        stack.callback(transport.close)
        return transport

    return opener


def _pty_opener(machine: Callable[[Plan], Machine]) -> Opener:
    def opener(stack: ExitStack, plan: Plan) -> Transport:
        made = machine(plan)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rtgate-")))
        log, monitor = directory / "qemu.log", directory / "qmp"
        qmp = ("-qmp", f"unix:{monitor},server=on,wait=off")
        # Paused until the line is open: QEMU drops what nobody reads on a pseudo-terminal.
        argv = [*made.argv(), "-chardev", "pty,id=console", *qmp, "-S"]
        child = stack.enter_context(process(argv, log))
        device = _pty_device(log, Deadline.after(20))
        transport = _OfProcess(SerialTransport(device, made.board.console.baud), child)
        stack.callback(transport.close)
        with _monitor(monitor) as asked:
            _continue(asked, Deadline.after(20))
        return transport

    return opener


def _continue(monitor: Monitor, deadline: Deadline) -> None:
    """Let a paused machine run. Raises InfrastructureError when QEMU's monitor does not answer."""
    while monitor.ask("cont") is None:
        if deadline.expired:
            raise InfrastructureError("QEMU's monitor does not answer: the machine stays paused")
        time.sleep(0.1)


@dataclass(frozen=True, slots=True)
class _OfProcess:
    """A line that tells how the process behind it ended."""

    inner: Transport
    child: subprocess.Popen[bytes]

    def read(self) -> bytes:
        """Return what has arrived."""
        try:
            return self.inner.read()
        except TransportError as error:
            with suppress(subprocess.TimeoutExpired):
                self.child.wait(timeout=1)
            raise EndedError(str(error), self.child.returncode) from error

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self.inner.write(data)

    def close(self) -> None:
        """Close the line."""
        self.inner.close()


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
