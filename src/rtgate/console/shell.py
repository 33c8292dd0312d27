# SPDX-License-Identifier: MIT
"""A shell on the other side of a console: find it, run commands in it, upload a script to it.

The console is hostile: it echoes, the kernel prints into it, bytes get lost and change in both directions, and what
is typed may never arrive. So nothing is believed that is not checked, and everything may be asked again:

* A command is followed by a question for its exit code, whose answer carries a mark. The mark is typed with a
  backslash in it, so that its echo never matches. The exit code is kept in a variable of its own; the question can be
  asked again, and a shell that does not know the answer is not the one that was given the command.
* A plain shell without prompt and line editing is started inside whatever shell answers.
* A shell that waits for the end of a damaged line, or a line that noise has stopped, is freed by Ctrl-C and Ctrl-Q.
"""

from __future__ import annotations

import base64
import gzip
import itertools
import re
import shlex
import threading
import time
from dataclasses import dataclass, field

from rtgate.console.faults import FATAL, banner, orderly_end, scan
from rtgate.console.transport import Transport
from rtgate.durations import Deadline
from rtgate.errors import (
    DeadlineError,
    HangError,
    InfrastructureError,
    Interrupted,
    KernelFaultError,
    TransportError,
)
from rtgate.files import cksum

UNKNOWN = -1  # the exit code of a command that the shell knows nothing of
_CHUNK = 400  # characters a line; a terminal's canonical mode takes 4095
_ATTEMPTS = 5  # at least, for something that arrives damaged
FREE = b"\x11\x03\n"
"""Ctrl-Q: go on after a Ctrl-S; Ctrl-C: forget the line."""
# Times as long as for an answer the questions of a search wait, in turns: a slow shell needs time, a line that damages
# answers needs many questions.
_LONGER = (1, 1, 2, 1, 1, 4)
_PROMPTED = 3  # times as long as for an answer a shell is asked that shows its prompt
_MARK = 200  # bytes that a mark with its answer is never longer than


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """How long a session on a live target waits for what, in seconds of this machine.

    Attributes:
        boot: for the shell of a board that was just started. QEMU without KVM boots in a few seconds, on a busy
            machine in a minute.
        attach: for the shell of a board that runs already.
        answer: for an answer, before the question is asked again.
        quiet: without a sign of progress before somebody looks whether there still is any.
        dying: in which a dying kernel may finish its trace.
        hang: of silence after which the target hangs; more than any line stops for.
        upload: for the plan's script.
        target: that a second of the target may take; the plan's own deadline is in those.
        spare: beyond the plan's deadline, for collecting and sending the results.
        repair: for asking again for damaged frames.
    """

    boot: float = 180.0
    attach: float = 20.0
    answer: float = 3.0
    quiet: float = 5.0
    dying: float = 2.0
    hang: float = 45.0
    upload: float = 120.0
    target: float = 1.0
    spare: float = 60.0
    repair: float = 300.0


@dataclass(frozen=True, slots=True)
class PendingCommand:
    """A command that was sent: its mark, the variable that keeps its exit code, and where its output begins."""

    mark: str
    variable: str
    start: int

    @property
    def question(self) -> bytes:
        """What makes the shell print the mark and the exit code, twice because a digit may change on its way."""
        code = f"${self.variable}"
        return f" echo {self.mark[:3]}\\{self.mark[3:]}:{code}:{code}.\n".encode()

    @property
    def answer(self) -> re.Pattern[bytes]:
        """What it prints."""
        return re.compile(self.mark.encode() + rb":([0-9]{0,3}):\1\.")

    @property
    def announcement(self) -> str:
        """A command that says that this one has arrived, three times because a line may be damaged on its way."""
        return f"for i in 1 2 3; do echo {self.mark[:3]}\\{self.mark[3:]}:go; done"

    @property
    def announced(self) -> re.Pattern[bytes]:
        """What it prints."""
        return re.compile(self.mark.encode() + rb":go")


def _answer_to_any(every: list[PendingCommand]) -> bytes:
    return b"(?:" + b"|".join(pending.mark.encode() for pending in every) + rb"):([0-9]{0,3}):\1\."


@dataclass(slots=True)
class Shell:
    """A shell on a live target.

    Attributes:
        log: everything the console printed.
        stop: set by whoever wants everything to end now.
        prompt: what the board's own shell shows; while a plan runs it means that the plain shell is gone.
        settled: the target has booted: a boot from here on is a death.
        again: how often something had to be sent or asked for again.
    """

    transport: Transport
    stop: threading.Event
    log: bytearray = field(default_factory=bytearray)
    waits: Waits = field(default_factory=Waits)
    prompt: bytes = b""
    settled: bool = False
    again: int = 0
    _count: int = 0
    _scanned: int = 0

    def until(self, pattern: bytes, deadline: Deadline, start: int | None = None) -> re.Match[bytes]:
        """Read until a pattern is in the log after `start` (default: now), and return the match.

        Raises:
            KernelFaultError: the kernel died while waiting.
            DeadlineError: the pattern did not come.
            InfrastructureError: the console closed, or a program had the target stopped.
            Interrupted: `stop` was set.
        """
        regex = re.compile(pattern)
        begin = len(self.log) if start is None else start
        while True:
            match = regex.search(self.log, begin)
            if match:
                return match
            if deadline.expired:
                raise DeadlineError(f"the console did not say {pattern!r} within {deadline.allowed:g} s")
            begin = max(begin, len(self.log) - _MARK)
            self.read()

    def read(self) -> bytes:
        """Read what has arrived. Raises as `until`, the deadline apart."""
        if self.stop.is_set():
            raise Interrupted("stopped")
        data = self.transport.read()
        if data:
            self.log += data
            self._look_for_death()
        return data

    def _look_for_death(self) -> None:
        end = max(self.log.rfind(b"\n"), self.log.rfind(b"\r"))
        if end <= self._scanned:
            return
        text = self.log[self._scanned : end].decode("utf-8", errors="replace")
        self._scanned = end
        fatal = [fault for fault in scan(text) if fault.kind in FATAL]
        if fatal:
            self._drain(Deadline.after(self.waits.dying))
            raise KernelFaultError(fatal[0].line)
        if not self.settled:
            return
        if orderly_end(text):
            raise InfrastructureError(f"a program had the target stopped: {orderly_end(text)}")
        if banner(text):
            raise KernelFaultError(f"the target started again by itself: {banner(text)}")

    def _drain(self, deadline: Deadline) -> None:
        try:
            while not deadline.expired:
                self.log += self.transport.read()
        except TransportError:
            return

    def find(self, deadline: Deadline, *, gently: bool = False) -> None:
        """Find a shell: press return and ask until it answers.

        A prompt that comes again and again without an answer is not a hang: what is typed gets lost. Then it is asked
        longer. Some questions wait longer than others, and a late answer to any of them counts: Ctrl-C throws away what
        a slow shell has not read yet, so always asking faster than it answers would never end.

        Args:
            deadline: for the answer, or for another prompt.
            gently: a plan may still be running, which Ctrl-C would end.

        Raises:
            HangError: no shell answered.
            TransportError: one only ever showed its prompt.
            KernelFaultError, InfrastructureError, Interrupted: as `until`.
        """
        last = Deadline.after(_PROMPTED * deadline.allowed)
        every: list[PendingCommand] = []
        for turn in itertools.count():
            if deadline.expired:
                break
            pending = self.next()
            every.append(pending)
            self.again += turn > 0
            begin = b"\n" if turn == 0 else b"\x11\n" if gently else FREE
            self.transport.write(begin + pending.question)
            wait = deadline.sooner(self.waits.answer * _LONGER[turn % len(_LONGER)])
            try:
                self.until(_answer_to_any(every), Deadline.after(wait), every[0].start)
            except DeadlineError:
                if turn and self.has_prompt and len(self.log) > pending.start:
                    deadline = Deadline(min(last.at, time.monotonic() + deadline.allowed), deadline.allowed)
                continue
            return
        if last.expired:
            raise TransportError("a shell shows its prompt and never answers: the line loses what is typed")
        raise HangError(f"no shell answered on the console within {deadline.allowed:g} s")

    def start_plain_shell(self, deadline: Deadline) -> None:
        r"""Start a shell without prompt, echo and line editing. Raises as `find`.

        Its standard error is not a terminal, so POSIX has it not be interactive. Of the characters that a terminal acts
        on only Ctrl-C is left: noise must not stop the output or end a plan, and a changed bit makes Ctrl-\ of `\`.
        """
        quiet = b"stty -echo -ixon quit undef susp undef 2>/dev/null || stty -echo 2>/dev/null"
        self.transport.write(b" rtgate_tty=$(stty -g 2>/dev/null); " + quiet + b"; rtgate=1 sh 2>&1 | cat\n")
        self.find(deadline)

    def leave(self) -> None:
        """Leave the plain shell, and nothing else: whoever leaves the first shell of a system ends the system."""
        self.transport.write(b' [ -z "$rtgate" ] || exit\n stty "$rtgate_tty" 2>/dev/null || stty echo 2>/dev/null\n')

    def run(self, command: str, deadline: Deadline, *, checked: bool = False) -> tuple[int, bytes]:
        """Run a command and return its exit code and output. It must be one that may be interrupted by questions.

        Args:
            command: what the shell reads.
            deadline: for its end.
            checked: it travels with its checksum (the target needs `cksum`), and is not carried out when it arrived
                damaged.

        Returns:
            The exit code, UNKNOWN when the command did not reach the shell; and what the console printed.

        Raises:
            DeadlineError, KernelFaultError, InfrastructureError, Interrupted: as `until`.
        """
        pending = self.ask(self.next(), command, checked=checked)
        wait = self.waits.answer
        while True:
            try:
                self.until(pending.answer.pattern, Deadline.after(deadline.sooner(wait)), pending.start)
            except DeadlineError:
                if deadline.expired:
                    raise DeadlineError(
                        f"the console did not say how {command[:60]!r} ended within {deadline.allowed:g} s"
                    ) from None
                self.transport.write(pending.question)
                self.again += 1
                wait *= 2
            else:
                return self._result(pending)

    @property
    def has_prompt(self) -> bool:
        """Whether the last thing that the console printed is the prompt of the board's own shell."""
        return bool(self.prompt) and self.log.endswith(self.prompt)

    def next(self) -> PendingCommand:
        """Return a command to be asked about, which is still to be sent."""
        self._count += 1
        mark = f"MRK{self._count:05d}{time.monotonic_ns() % 1_000_000_007:010d}"
        return PendingCommand(mark, f"r{mark}", len(self.log))  # the shell outlives this object: no name comes again

    def ask(self, pending: PendingCommand, command: str, *, checked: bool) -> PendingCommand:
        """Send a command, and the question how it ended."""
        if checked:
            whole = f"{command}; {pending.variable}=$?"
            checksum = f"{cksum(whole.encode())} {len(whole.encode())}"
            line = f'c={shlex.quote(whole)}; case $(printf %s "$c" | cksum) in "{checksum}"*) eval "$c" ;; esac'
        else:
            line = f"{command}\n{pending.variable}=$?"
        self.transport.write(f"{line}\n".encode() + pending.question)
        return pending

    def _result(self, pending: PendingCommand) -> tuple[int, bytes]:
        match = pending.answer.search(self.log, pending.start)
        assert match is not None
        output = re.sub(rb"MRK[0-9]{15}:[0-9]*:[0-9]*\.(?:\r*\n)?", b"", bytes(self.log[pending.start : match.start()]))
        return int(match[1] or UNKNOWN), output

    def has(self, program: str, deadline: Deadline) -> bool:
        """Return whether the target has a program. Raises as `sure`."""
        answers: list[int] = []
        while answers[-3:] != [1, 1, 1] and len(answers) < _ATTEMPTS:
            code = self._run_or_find(f"command -v {program} >/dev/null || (exit 1)", deadline, checked=False)[0]
            if code == 0:
                return True
            answers.append(code)
            self.again += 1
        return 1 not in answers

    def sure(self, command: str, deadline: Deadline) -> tuple[int, bytes]:
        """Run a checked command that may be carried out twice; each try has twice the time of an answer to end.

        Returns:
            The exit code, UNKNOWN when five tries did not tell it, nor all before the deadline; and what was printed.

        Raises:
            HangError: no shell answers any more.
            KernelFaultError, InfrastructureError, Interrupted: as `until`.
        """
        for turn in itertools.count(1):
            code, output = self._run_or_find(command, deadline, checked=True)
            if code != UNKNOWN:
                return code, output
            self.again += 1
            if turn >= _ATTEMPTS and deadline.expired:
                break
        return UNKNOWN, output

    def _run_or_find(self, command: str, deadline: Deadline, *, checked: bool) -> tuple[int, bytes]:
        try:
            return self.run(command, Deadline.after(deadline.sooner(2 * self.waits.answer)), checked=checked)
        except DeadlineError:
            # The shell may wait for the end of a line that arrived damaged; only silence means that it hangs.
            self.find(Deadline.after(self.waits.hang))
            return UNKNOWN, b""

    def upload(self, text: str, path: str, deadline: Deadline) -> None:
        """Write a file on the target, in parts that are files of their own beside it, and check that it arrived.

        Raises:
            TransportError: it arrived damaged every time.
            InfrastructureError: the target cannot write it.
            HangError: no shell answers any more.
            KernelFaultError, Interrupted: as `until`.
        """
        data = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
        parts = [data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK)]
        commands = [f"printf %s {part} >{path}.{number}" for number, part in enumerate(parts)]
        every = f"i=0; while [ $i -lt {len(parts)} ]; do cat {path}.$i; i=$((i + 1)); done"
        check = f'[ "$(cksum <{path})" = "{cksum(text.encode())} {len(text.encode())}" ]'
        for command in (*commands, f"{every} | base64 -d | gzip -dc >{path} && {check}"):
            code, output = self.sure(command, deadline)
            if code == UNKNOWN:
                raise TransportError("a script arrived damaged every time: the console loses bytes")
            if code != 0:
                reason = output.decode("utf-8", errors="replace").strip()
                raise InfrastructureError(f"the target cannot write a script: exit code {code}: {reason[-200:]}")

    def find_answer(self, pending: PendingCommand, since: int) -> int | None:
        """Return how a command ended if its answer is in the log after `since`: as `run`, None without an answer."""
        match = pending.answer.search(self.log, max(pending.start, since - _MARK))
        return None if match is None else int(match[1] or UNKNOWN)
