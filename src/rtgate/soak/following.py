# SPDX-License-Identifier: MIT
"""Following a soak: listen, ask when a chunk should be over, fetch it, write its record, let the target forget it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtgate import record as records_file
from rtgate.console.faults import scan
from rtgate.console.shell import Shell
from rtgate.console.transport import EndedError
from rtgate.deadline import Deadline
from rtgate.errors import ConfigError, DeadlineError, HangError, InfrastructureError, KernelFaultError, TransportError
from rtgate.measure import Arm, Case, plan, recorded
from rtgate.record import Chunk, Place, Record
from rtgate.soak.order import Order, forget, write
from rtgate.target.detached import Detached
from rtgate.target.live import LiveTarget
from rtgate.target.outcome import Outcome, State, last_lines
from rtgate.target.session import Session
from rtgate.target.soak import COMPLETE, SKIPPED, STOPPED, Phase, Soak, Status

_SPARE_S = 3.0  # beyond its length, that the first chunk may take: load, tool and archive start and end
_MARGIN_S = 1.5  # the target counts whole seconds
_ASK_AGAIN_S = (1.0, 10.0)  # at first and at most; the target's pause is longer
_OPEN_AGAIN_S = 5.0
_FETCHES = 3  # of one chunk over lines that lose too much, before it is given up
# States of records that say how the target seemed to end; what is fetched after all takes their place.
_DEATHS = frozenset({State.NO_BOOT, State.FAULT, State.HANG, State.LAB})


@dataclass(slots=True, kw_only=True)
class Following:
    """A worker that follows a soak to its end.

    Attributes:
        seen: told of every chunk's record, and of the seconds that are left after it.
        say: told in a sentence what happens to the console.
        stopping: have the target end the soak now.
        patience_s: seconds that the console may be lost.
        pause_s: target seconds that the target waits for us after a chunk.
    """

    order: Order
    case: Case
    arm: Arm
    target: LiveTarget
    records: Path
    seen: Callable[[Record, float], None]
    say: Callable[[str], None]
    stopping: bool = False
    patience_s: float = 900.0
    pause_s: int = 20
    _said: bytearray = field(default_factory=bytearray)
    _from: int = 0
    _lost: Deadline | None = None
    _under_way: int = 0
    _took_s: float = 0.0
    _new: bool = False
    _begun: bool = False
    _recorded: set[int] = field(default_factory=set)
    _fetches: dict[int, int] = field(default_factory=dict)

    def follow(self) -> str:
        """Follow the soak until it has ended; return why it did, as a sentence or a word of `target.soak`.

        Raises:
            ConfigError: the plan is not the one that the soak was begun with.
            InfrastructureError: the target does not take the soak, or the console did not come back.
            KeyboardInterrupt: a person detaches; the soak goes on.
        """
        self._new = self.order.boot_id is None
        if plan(self.case, self.arm, self.order.first).nonce != self.order.plan:
            raise ConfigError("the board's files, or rtgate's, are not those that the soak was begun with")
        while True:
            try:
                with self._session() as session:
                    return self._attend(self._joined(session))
            except KernelFaultError as error:
                return self._died(State.FAULT, f"the kernel died during the soak: {error}")
            except (HangError, DeadlineError, TransportError) as error:
                ended = self._without_console(error)
                if ended:
                    return ended
            except InfrastructureError:
                if self._is_new:
                    self._refused()
                raise

    @property
    def soak(self) -> Soak:
        """The soak as the target has it."""
        order = self.order
        made = plan(self.case, self.arm, order.first)
        return Soak(nonce=order.nonce, plan=made, first=order.first, last=order.last, pause_s=self.pause_s)

    @property
    def _place(self) -> Place:
        return Place(records=self.records, board=self.order.board, arm=self.arm.name, case=self.order.case)

    @contextmanager
    def _session(self) -> Iterator[Session]:
        log = bytearray()
        with ExitStack() as stack:
            try:
                shell = self.target.opened(stack, self.soak.plan, log)
                with self._found(shell):
                    yield Session(shell, self.target.waits)
            finally:
                self._said += log[self._from :]
                self._from = 0

    @contextmanager
    def _found(self, shell: Shell) -> Iterator[None]:
        try:
            if self.order.boot_id is not None:
                # A worker that was killed has left its plain shell there.
                shell.find(Deadline.after(self.target.waits.attach))
                shell.leave()
            self.target.ready(shell)
            yield
        finally:
            with suppress(TransportError):
                shell.leave()

    def _joined(self, session: Session) -> Detached:
        """Return the soak on the target; begin it if that was not done."""
        if self.order.boot_id is None:
            boot_id = session.prepared(self.soak.plan.work_directory)
            self.order = replace(self.order, boot_id=boot_id)
            write(self.order, self.records)
        detached = Detached(session, self.soak, self.order.boot_id or "")
        if detached.status() is None and self._missing():
            if len(self._missing()) < self.order.chunks or self.stopping:
                raise InfrastructureError("the target knows nothing of the soak: its files are gone")
            detached.start()
        self._begun = True
        return detached

    def _attend(self, detached: Detached) -> str:
        """Wait, fetch, and wait again, until the soak has ended."""
        told = False
        ask_again = _ASK_AGAIN_S[0]
        while True:
            status = detached.status()
            self._lost = None
            if status is None or not self._missing():
                return self._ended(detached, COMPLETE)
            self._note(status)
            if self.stopping and not told and status.phase in {Phase.MEASURING, Phase.PAUSING}:
                detached.stop()
                told = True
            if status.phase is not Phase.MEASURING:
                self._take_waiting(detached, status)
            if status.phase in {Phase.ENDED, Phase.LOST}:
                return self._ended(detached, self._why(status))
            if self._overdue(status):
                return self._died(State.HANG, f"chunk {status.number} has not ended after {status.age_s} s")
            left = self._left(status)
            ask_again = _ASK_AGAIN_S[0] if left else min(_ASK_AGAIN_S[1], 2 * ask_again)
            detached.listen(left or ask_again)

    def _note(self, status: Status) -> None:
        self._took_s = float(status.took_s) or self._took_s
        self._under_way = status.number + (status.phase is not Phase.MEASURING)

    def _left(self, status: Status) -> float:
        """Return how long to leave the target alone: until the chunk should be over, 0 when it should have been."""
        if self.stopping:
            return 0.0
        whole = (self._took_s or self.order.chunk_s + _SPARE_S) + _MARGIN_S
        return max(0.0, whole - status.age_s) if status.phase is Phase.MEASURING else whole

    def _overdue(self, status: Status) -> bool:
        """Return whether a chunk takes longer than its plan alone might."""
        waits = self.target.waits
        allowed = max(1.0, waits.target) * self.soak.plan.deadline_s + waits.spare
        return status.phase is Phase.MEASURING and status.age_s > allowed

    def _take_waiting(self, detached: Detached, status: Status) -> None:
        """Fetch every chunk that waits. While it pauses nothing else is asked: the next chunk begins with the last."""
        number = status.waiting
        while number:
            self._take(detached, number)
            if status.phase is Phase.PAUSING:
                number = number + 1 if number < status.number else 0
            else:
                left = detached.status()
                number = left.waiting if left else 0

    def _take(self, detached: Detached, number: int) -> None:
        if self._is_recorded(number):
            detached.confirm(number)
            return
        outcome = detached.fetch(number)
        self._fetches[number] = self._fetches.get(number, 0) + 1
        if outcome.state is State.UNREADABLE and self._fetches[number] < _FETCHES:
            raise TransportError(f"chunk {number} did not arrive whole: {outcome.message}")
        log = detached.session.shell.log
        self._said += log[self._from :]
        self._from = len(log)
        record = self._written(number, outcome)
        detached.confirm(number)
        self.seen(record, len(self._missing()) * (self._took_s or self.order.chunk_s))

    def _written(self, number: int, outcome: Outcome) -> Record:
        console = bytes(self._said)
        self._said.clear()
        outcome = replace(
            outcome,
            console=console,
            faults=scan(console.decode("utf-8", errors="replace")),
            machine={**self.target.machine, "soak": self.order.nonce},
        )
        record = recorded(self.case, self.arm, self.soak.plan, outcome)
        record = replace(record, chunk=Chunk(soak=self.order.nonce, number=number))
        return records_file.read(records_file.write(record, outcome.files, console, self.records))

    def _is_recorded(self, number: int) -> bool:
        """Return whether a chunk was fetched. That a target seemed dead during it is no reason not to fetch it."""
        directory = self._place.directory / f"{number:03d}"
        if number not in self._recorded and (directory / "record.json").exists():
            record = records_file.read(directory)
            ours = record.chunk == Chunk(soak=self.order.nonce, number=number)
            if ours and record.state not in {state.value for state in _DEATHS}:
                self._recorded.add(number)
        return number in self._recorded

    def _missing(self) -> list[int]:
        return [number for number in range(self.order.first, self.order.last + 1) if not self._is_recorded(number)]

    def _why(self, status: Status) -> str:
        if status.phase is Phase.LOST:
            return "something on the target ended the soak's script"
        return status.why

    def _ended(self, detached: Detached, why: str) -> str:
        """Remove the soak from the target; write down why chunks are missing."""
        missing = self._missing()
        if why in {STOPPED, SKIPPED}:
            records_file.unplan(self._place, len(missing))
        elif missing:
            message = why if why != COMPLETE else "it ended, and the target does not have the chunk"
            self._seen_dead(missing[0], Outcome(state=State.LAB, message=f"the soak ended early: {message}"))
        with suppress(TransportError, HangError):
            if not detached.clean():
                self.say(f"the target still has files of the soak in {self.soak.plan.work_directory}")
        forget(self.records)
        return why

    def _died(self, state: State, message: str) -> str:
        """Write the record of the chunk in which the target died."""
        missing = self._missing()
        if not missing:
            self.say(f"after the last chunk: {message}")
            return COMPLETE
        number = max(missing[0], min(self._under_way, self.order.last))
        lost = [str(one) for one in missing if one < number]
        message += f" (chunks that nobody had fetched: {', '.join(lost)})" if lost else ""
        self._seen_dead(number, Outcome(state=state, message=message))
        if state is not State.HANG:
            forget(self.records)
        return message

    def _seen_dead(self, number: int, outcome: Outcome) -> None:
        self.seen(self._written(number, outcome), 0.0)

    def _without_console(self, error: Exception) -> str:
        """Wait a while before the console is opened again; return why the soak has ended, empty if it has not.

        Raises:
            InfrastructureError: nobody can reach the target.
        """
        if self.target.boots:
            return self._machine_gone(error)
        if self._is_new:
            self._refused()
            raise InfrastructureError(f"the target was not reached: {error}") from error
        if self._lost is None:
            self._lost = Deadline.after(self.patience_s)
            self.say(f"the console is lost: {error}; trying again for {self.patience_s:.0f} s")
        if not self._lost.expired:
            self.target.stop.wait(self._lost.sooner(_OPEN_AGAIN_S))
            return ""
        again = f"rtgate soak --continue {self.records}"
        if isinstance(error, HangError):
            message = f"the target hung: {error}; last lines:\n{last_lines(bytes(self._said))}"
            return self._died(State.HANG, f"{message}\nIf it goes on after all: {again}")
        raise InfrastructureError(f"{error}; the soak may go on by itself: {again}") from error

    def _machine_gone(self, error: Exception) -> str:
        if isinstance(error, EndedError) and error.code != 0:
            self._refused()
            raise InfrastructureError(str(error)) from error
        state = State.HANG if isinstance(error, HangError) else State.FAULT
        message = f"the machine stopped during the soak: {error}; last lines:\n{last_lines(bytes(self._said))}"
        return self._died(state if self.order.boot_id is not None else State.NO_BOOT, message)

    @property
    def _is_new(self) -> bool:
        """Whether nothing has begun on the target yet, as far as anybody knows."""
        return self._new and not self._begun

    def _refused(self) -> None:
        """Nothing was begun."""
        records_file.unplan(self._place, self.order.chunks)
        forget(self.records)
