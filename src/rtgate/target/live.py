# SPDX-License-Identifier: MIT
"""Live targets: a plan carried out over a console, on a QEMU board in host time or on whatever is attached."""

from __future__ import annotations

import re
import shlex
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtgate.board.boards import Board
from rtgate.console.collect import frames
from rtgate.console.faults import scan
from rtgate.console.login import is_asked, log_in
from rtgate.console.shell import Shell, Waits
from rtgate.console.transport import EndedError, ProgramTransport, Transport, transport_opener
from rtgate.durations import Deadline
from rtgate.errors import (
    DeadlineError,
    HangError,
    InfrastructureError,
    Interrupted,
    KernelFaultError,
    RtgateError,
    TransportError,
)
from rtgate.rootfs.images import RootfsImage
from rtgate.target import boot_digests, host
from rtgate.target.host_watch import HostWatch
from rtgate.target.outcome import Outcome, State, printable_tail, read_outcome
from rtgate.target.plan import Plan, has_measured, script
from rtgate.target.qemu import Machine, version
from rtgate.target.session import Session, check_boot

NO_SHELL = "no shell came up"
AFTER = "after-ctrl-c"
"""File of a record: what a target printed that answered only after Ctrl-C, with the end of its kernel's log."""
_STARTS = 3  # of a plan: the command that starts it may get lost

Opener = Callable[[ExitStack, Plan], Transport]
Rootfs = Callable[[Plan], RootfsImage]


def waits_of(board: Board, usual: Waits) -> Waits:
    """Return how long to wait for what on a board: as usual, but for the silence that its file allows."""
    silence = board.console.silence_s
    return usual if silence is None else replace(usual, hang=silence, spare=silence)


def _host_facts(host_wait: float | None) -> dict[str, str]:
    """Return what a record says of the host: nothing, where nothing is known."""
    return {} if host_wait is None else {"host_wait": f"{host_wait:.3f}"}


def _wait_share(pid: int, began: float) -> float | None:
    """Return the share of the time for which QEMU waited for a processor; None when it is gone."""
    wait_s = host.waited_s(pid)
    return None if wait_s is None else wait_s / max(time.monotonic() - began, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTarget:
    """A target with a shell on a console.

    Attributes:
        open: opens the console of one boot; what it enters into the stack is closed when the boot is over.
        boots: whether a boot is waited for, or whatever runs is used.
        machine: what runs the board, for the record.
        qemu: whether the program behind the console is the QEMU that runs the board, so that its end is the board's.
    """

    board: Board
    open: Opener
    stop: threading.Event
    boots: bool
    machine: dict[str, str]
    waits: Waits = field(default_factory=Waits)
    qemu: bool = False

    @classmethod
    def of_qemu(cls, board: Board, image: Path, rootfs: Rootfs, stop: threading.Event) -> LiveTarget:
        """Return a QEMU board in host time, a fresh boot for each plan."""
        assert board.qemu is not None

        def opener(stack: ExitStack, plan: Plan) -> Transport:
            machine = Machine(
                board=board,
                image=image,
                initrd=rootfs(plan).path,
                serial="chardev:console",
                command_line=plan.command_line,
                devices=plan.devices,
            )
            transport = ProgramTransport([*machine.argv(), "-chardev", "stdio,id=console,signal=off"])
            stack.callback(transport.close)
            return transport

        facts = {"qemu": version(board.qemu.binary), "qemu_sha256": boot_digests.program(board.qemu.binary)}
        facts["image_sha256"] = boot_digests.sha256(image)
        return cls(
            board=board,
            open=opener,
            stop=stop,
            boots=True,
            machine=facts,
            waits=waits_of(board, Waits()),
            qemu=True,
        )

    @classmethod
    def of_console(cls, board: Board, console: str, stop: threading.Event) -> LiveTarget:
        """Return the target behind a console that already has a shell. Raises ConfigError for an unknown console."""
        open_console = transport_opener(console, board.console.baud)

        def opener(stack: ExitStack, _: Plan) -> Transport:
            transport = open_console()
            stack.callback(transport.close)
            return transport

        return cls(
            board=board,
            open=opener,
            stop=stop,
            boots=False,
            machine={"console": console},
            waits=waits_of(board, Waits()),
        )

    def run(self, plan: Plan) -> Outcome:
        """Carry out the plan and return what came of it. Raises Interrupted when `stop` was set."""
        began = time.monotonic()
        log = bytearray()
        shell = None
        try:
            with ExitStack() as stack:
                shell = self.open_console(stack, plan, log)
                pid = self._pid(shell.transport)
                watch = stack.enter_context(HostWatch(pid))
                outcome = self._on(shell, plan, began)
                wait_share = None if pid is None else _wait_share(pid, began)
                outcome = replace(outcome, host_wait=wait_share, host_stopped=watch.stop_reason())
        except InfrastructureError as error:
            outcome = Outcome(state=State.LAB, message=str(error))
        repeats = outcome.line.repeated + (shell.again if shell else 0)
        return replace(
            outcome,
            line=replace(outcome.line, received=len(log), repeated=repeats),
            console=bytes(log),
            faults=scan(log.decode("utf-8", errors="replace")),
            seconds={**outcome.seconds, "total": round(time.monotonic() - began, 3)},
            machine={**self.machine, **_host_facts(outcome.host_wait)},
        )

    def _pid(self, transport: Transport) -> int | None:
        """Return the process that runs the board; None for a board that is none."""
        return transport.pid if self.qemu and isinstance(transport, ProgramTransport) else None

    def open_console(self, stack: ExitStack, plan: Plan, log: bytearray) -> Shell:
        """Open the console, until the stack is closed; what it prints goes to `log`. Raises TransportError."""
        return Shell(self.open(stack, plan), self.stop, log, self.waits, self.board.console.prompt.encode())

    def _on(self, shell: Shell, plan: Plan, began: float) -> Outcome:
        try:
            self.ready(shell)
        except (KernelFaultError, HangError, EndedError) as error:
            return self._no_shell(shell, error)
        boot = round(time.monotonic() - began, 3)
        plan_run = _PlanRun(Session(shell), plan)
        try:
            try:
                outcome = plan_run.outcome()
            except (HangError, DeadlineError) as error:
                return plan_run.hung(error)
        except KernelFaultError as error:
            return Outcome(state=State.FAULT, message=f"the kernel died during the measurement: {error}")
        except Interrupted:
            # The plan puts back what it set and ends what it started.
            with suppress(RtgateError):
                shell.transport.write(b"\x03")
                wait = Deadline.after(self.waits.quiet)
                while not wait.expired:
                    shell.transport.read()
            raise
        except EndedError as error:
            if not self._was_stopped(error):
                raise
            message = "the machine stopped during the measurement without a word; last lines:"
            return Outcome(state=State.FAULT, message=f"{message}\n{printable_tail(bytes(shell.log))}")
        finally:
            with suppress(TransportError):
                shell.leave()
        return replace(outcome, seconds={"boot": boot, **outcome.seconds})

    def ready(self, shell: Shell) -> None:
        """Find a shell on the console and start a plain one in it.

        Raises:
            HangError: no shell answered.
            KernelFaultError: the kernel died while it booted.
            InfrastructureError: the console closed, or asks for a login that the board's file does not have.
        """
        deadline = Deadline.after(self.waits.boot if self.boots else self.waits.attach)
        if self.boots:
            self._wait_for_boot(shell, deadline)
        self._find_shell(shell, deadline)
        shell.start_plain_shell(Deadline.after(self.waits.attach))
        shell.settled = True

    def _find_shell(self, shell: Shell, deadline: Deadline) -> None:
        """Log in if the board's file says how, and find the shell. A boot may be silent for long before it asks."""
        login = self.board.console.login
        while login:
            log_in(shell, login.user, login.password)
            try:
                shell.find(Deadline.after(self.waits.attach), gently=self.boots)
            except HangError:
                if deadline.expired:
                    raise
            else:
                return
        # What starts the system may run in front, and Ctrl-C would end it. A board that was up all the time is silent.
        shell.find(Deadline.after(max(deadline.remaining, self.waits.attach)), gently=self.boots)

    def _has_booted(self, log: bytearray) -> bool:
        """Return whether the prompt is behind the kernel's first line; a boot loader prints what looks like it."""
        start = log.rfind(b"Linux version ")
        return start >= 0 and self.board.console.prompt.encode() in log[start:]

    def _wait_for_boot(self, shell: Shell, deadline: Deadline) -> None:
        """Wait for the board's prompt, or for silence after a boot: its shell may have another prompt."""
        size, last_change = 0, time.monotonic()
        while not deadline.expired and not self._has_booted(shell.log):
            if len(shell.log) != size:
                size, last_change = len(shell.log), time.monotonic()
            elif size and time.monotonic() - last_change > self.waits.quiet:
                break
            shell.read()
        if not self.board.console.login:
            self._refuse_login(shell)

    def _no_shell(self, shell: Shell, error: Exception) -> Outcome:
        """Say why there is no shell."""
        if not isinstance(error, KernelFaultError):
            self._refuse_login(shell)
        if isinstance(error, EndedError) and not self._was_stopped(error):
            raise error
        state = State.NO_BOOT if self.boots else State.LAB
        return Outcome(state=state, message=f"{NO_SHELL}: {error}\n{printable_tail(bytes(shell.log))}")

    def _refuse_login(self, shell: Shell) -> None:
        """Raise InfrastructureError if a login is asked for: the board has booted, and the kernel is not to blame."""
        if is_asked(shell):
            advice = "log in, or put `login` and `password` into `console` of"
            if self.board.console.login:
                advice = "no shell came up behind `login` of `console` in"
            raise InfrastructureError(
                f"the console asks for a login, where a plan needs a shell of root: {advice} {self.board.path}"
            )

    def _was_stopped(self, error: EndedError) -> bool:
        """Return whether the machine itself ended the program behind its console: QEMU ends with 0 when it does."""
        return self.qemu and error.code == 0


@dataclass(slots=True)
class _PlanRun:
    """One plan in a shell that was found."""

    session: Session
    plan: Plan
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
        upload_end = time.monotonic()
        shell, waits = self.session.shell, self.session.shell.waits
        start = len(shell.log)
        for _ in range(_STARTS):
            limit = waits.target * self.plan.deadline_s + waits.spare
            reader = frames(shell, f"sh {self._path}", self.plan.nonce, limit, over=has_measured)
            if reader.complete:
                break
            self._explain_incomplete(bytes(shell.log[start:]))
            if reader.has_closing_line or self.session.sure(f"[ -e {self._work} ]") != 1:
                break
        plan_end = time.monotonic()
        seconds = {"upload": round(upload_end - began, 3), "plan": round(plan_end - upload_end, 3)}
        outcome = replace(read_outcome(reader), seconds=seconds)
        if outcome.state is State.MEASURED:
            check_boot(outcome.files, self._boot_id)
            self.session.sure(f"sh {self._path} clean")
        return outcome

    def hung(self, error: Exception) -> Outcome:
        """Return the outcome of a plan that does not end; it is ended, to see whether the target lives.

        Raises:
            KernelFaultError: it has started again.
            Interrupted: as `Shell.until`.
        """
        log = self.session.shell.log
        lines, end = printable_tail(bytes(log)), len(log)
        files, then = dict[str, bytes](), ""
        if self.session.revive(self._boot_id):
            # A file of its own: an old fault in the kernel's log is none of this measurement.
            files, then = {AFTER: bytes(log[end:])}, "; after Ctrl-C it answers"
            del log[end:]
        message = f"the target hung during the measurement: {error}{then}; last lines:\n{lines}"
        return Outcome(state=State.HANG, message=message, files=files)

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
        self._boot_id = self.session.prepare(self.plan.work_directory)
        shell = self.session.shell
        shell.upload(self._script(), self._path, Deadline.after(shell.waits.upload))
        if self.session.sure(f"sh {self._path} clean && [ ! -e {self._work} ]"):
            raise InfrastructureError(f"the target cannot remove old results in {self.plan.work_directory}")

    def _script(self) -> str:
        # Whatever removes files stands in the script, which is checked: a line that was typed may arrive damaged.
        clean = f'clean) rm -rf {self._work} "$0".[0-9]*; exit ;;'
        return f"case $1 in {clean} '' | resend | closing) ;; *) exit 2 ;; esac\n{script(self.plan)}"

    def _explain_incomplete(self, log: bytes) -> None:
        """Say why the results are incomplete, if it is not the line. Raises KernelFaultError or InfrastructureError."""
        self.session.check_same_boot(self._boot_id)
        match = re.search(rb"rtgate: cannot write [^\r\n]*", log)
        if match:
            raise InfrastructureError(f"the target's disk is full or not writable: {match[0].decode(errors='replace')}")
