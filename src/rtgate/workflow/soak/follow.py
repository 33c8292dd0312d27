# SPDX-License-Identifier: MIT
"""Following a soak: listen, ask when a chunk should be over, fetch it, write its record, let the target forget it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtgate.console.transport import EndedError
from rtgate.deadline import Deadline
from rtgate.errors import ConfigError, DeadlineError, HangError, InfrastructureError, KernelFaultError, TransportError
from rtgate.measure.case import Arm, Case, plan
from rtgate.records.record import Record
from rtgate.target.detached import Detached
from rtgate.target.live import LiveTarget
from rtgate.target.outcome import Outcome, State, last_lines
from rtgate.target.session import Session
from rtgate.target.soak import COMPLETE, SKIPPED, STOPPED, Phase, Soak, Status
from rtgate.workflow.soak.chunks import Chunks
from rtgate.workflow.soak.connection import Connection
from rtgate.workflow.soak.spec import SoakSpec, forget, write

_ASK_AGAIN_S = (1.0, 10.0)  # at first and at most; the target's pause is longer
_FETCHES = 3  # of one chunk over lines that lose too much, before it is recorded as unreadable
_TRIES = 6  # to fetch one chunk over lines that close


@dataclass(slots=True, kw_only=True)
class Following:
    """A worker that follows a soak to its end.

    Attributes:
        seen: told of every chunk's record, and of the seconds that are left after it.
        say: told in a sentence what happens to the console.
        stopping: have the target end the soak now.
        patience_s: seconds that the console may be lost.
        pause_s: target seconds that the target waits for us after a chunk.
        spare_s: beyond its length, that the first chunk may take: load, tool and archive begin and end.
        margin_s: beyond what the last chunk took, of which the target counts whole seconds.
        open_again_s: between two attempts to open a lost console.
    """

    order: SoakSpec
    case: Case
    arm: Arm
    target: LiveTarget
    records: Path
    seen: Callable[[Record, float], None]
    say: Callable[[str], None]
    stopping: bool = False
    patience_s: float = 900.0
    pause_s: int = 20
    spare_s: float = 3.0
    margin_s: float = 1.5
    open_again_s: float = 5.0
    _chunks: Chunks = field(init=False)
    _connection: Connection = field(init=False)
    _lost: Deadline | None = None
    _under_way: int = 0
    _took_s: float = 0.0
    _new: bool = False
    _begun: bool = False
    _disturbed: set[int] = field(default_factory=set)
    _tries: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._chunks = Chunks(order=self.order, case=self.case, arm=self.arm, records=self.records)
        self._connection = Connection(self.target, self.soak.plan)

    def follow(self) -> str:
        """Follow the soak until it has ended; return why it did, as a sentence or a word of `target.soak`.

        Raises:
            ConfigError: the plan is not the one that the soak was begun with.
            InfrastructureError: the target does not take the soak, or the console did not come back.
            KeyboardInterrupt: a person detaches; the soak goes on.
        """
        self._new = self.order.boot_id is None
        if plan(self.case, self.arm, self.order.first).nonce != self.order.plan:
            raise ConfigError("the board's files, or rtgate's, are not those that the soak was begun with: take those")
        try:
            return self._followed()
        except KeyboardInterrupt:
            if self.target.boots or self._is_new:
                self._chunks.give_up()
            raise

    def _followed(self) -> str:
        while True:
            try:
                with self._connection.session(again=self.order.boot_id is not None) as session:
                    return self._attend(*self._joined(session))
            except KernelFaultError as error:
                state = State.NO_BOOT if self.target.boots and self._is_new else State.FAULT
                return self._died(state, f"the kernel died during the soak: {error}")
            except (HangError, DeadlineError, TransportError) as error:
                ended = self._without_console(error)
                if ended:
                    return ended
            except (InfrastructureError, ConfigError) as error:
                if self._is_new:
                    self._chunks.give_up()
                if self._is_new or isinstance(error, ConfigError):
                    raise
                raise InfrastructureError(f"{error}; the soak may go on by itself: {_again(self.records)}") from error

    @property
    def soak(self) -> Soak:
        """The soak as the target has it."""
        order, made = self.order, plan(self.case, self.arm, self.order.first)
        return Soak(nonce=order.nonce, plan=made, first=order.first, last=order.last, pause_s=self.pause_s)

    def _joined(self, session: Session) -> tuple[Detached, Status | None]:
        """Return the soak on the target, begun if that was not done; and how far it is."""
        if self.order.boot_id is None:
            boot_id = session.prepared(self.soak.plan.work_directory)
            self.order = replace(self.order, boot_id=boot_id)
            write(self.order, self.records)
        detached = Detached(session, self.soak, self.order.boot_id or "")
        status = detached.status()
        if status is None and len(self._chunks.missing()) == self.order.chunks and not self.stopping:
            self._start(detached)
            detached.listen(self._whole_s)
            status = detached.status()
        self._begun = True
        return detached, status

    def _start(self, detached: Detached) -> None:
        self._begun = True  # when the line fails now, nobody knows
        try:
            detached.start()
        except InfrastructureError as error:
            if not isinstance(error, TransportError):
                self._begun = False
                with suppress(InfrastructureError, HangError):
                    detached.clean()
            raise

    def _attend(self, detached: Detached, status: Status | None) -> str:
        """Wait, fetch, and wait again, until the soak has ended."""
        told, ask_again = False, _ASK_AGAIN_S[0]
        if self._lost is not None:
            self.say("the console is back")
        while True:
            self._lost = None
            if status is None or not self._chunks.missing():
                return self._ended(detached, STOPPED if self.stopping else COMPLETE)
            self._note(status)
            if self.stopping and not told and status.phase in {Phase.MEASURING, Phase.PAUSING}:
                detached.stop()
                told = True
            if status.phase is not Phase.MEASURING:
                self._take_waiting(detached, status)
            if status.phase in {Phase.ENDED, Phase.LOST}:
                return self._ended(detached, _why(status))
            if self._overdue(status):
                return self._died(State.HANG, f"chunk {status.number} has not ended after {status.age_s} s")
            left = self._left(status)
            ask_again = _ASK_AGAIN_S[0] if left else min(_ASK_AGAIN_S[1], 2 * ask_again)
            detached.listen(left or ask_again)
            status = detached.status()

    def _note(self, status: Status) -> None:
        self._took_s = float(status.took_s) or self._took_s
        self._under_way = status.number + (status.phase is not Phase.MEASURING)
        if status.phase is Phase.MEASURING:
            self._disturbed.add(status.number)

    def _left(self, status: Status) -> float:
        """Return how long to leave the target alone: until the chunk should be over, 0 when it should have been."""
        if self.stopping:
            return 0.0
        return max(0.0, self._whole_s - status.age_s) if status.phase is Phase.MEASURING else self._whole_s

    @property
    def _whole_s(self) -> float:
        """How long a chunk takes from its first moment until it waits to be fetched."""
        return (self._took_s or self.order.chunk_s + self.spare_s) + self.margin_s

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
        self._tries[number] = self._tries.get(number, 0) + 1
        if self._tries[number] > _TRIES:
            raise InfrastructureError(f"chunk {number} could not be fetched in {_TRIES} attempts")
        if self._chunks.has(number):
            detached.confirm(number)
            return
        outcome = detached.fetch(number)
        if outcome.state is State.UNREADABLE and self._tries[number] < _FETCHES:
            raise TransportError(f"chunk {number} did not arrive whole: {outcome.message}")
        # For whoever wonders about a large value: questions on the console are work for the target.
        asked = {"asked": "while it measured"} if number in self._disturbed else {}
        record = self._chunks.add(number, outcome, self._connection.taken(), {**self.target.machine, **asked})
        detached.confirm(number)
        self.seen(record, len(self._chunks.missing()) * (self._took_s or self.order.chunk_s))

    def _ended(self, detached: Detached, why: str) -> str:
        """Remove the soak from the target; write down why chunks are missing."""
        missing = self._chunks.missing()
        if missing and why not in {STOPPED, SKIPPED}:
            why = "the target knows nothing of it any more" if why == COMPLETE else why
            self._seen_dead(missing[0], Outcome(state=State.LAB, message=f"the soak ended early: {why}"))
        with suppress(TransportError, HangError):
            if not detached.clean():
                self.say(f"the target still has files of the soak in {self.soak.plan.work_directory}")
        if why in {STOPPED, SKIPPED}:
            self._chunks.give_up()
        forget(self.records)
        return why

    def _died(self, state: State, message: str) -> str:
        """Write the record of the chunk in which the target died."""
        missing = self._chunks.missing()
        if not missing:
            self.say(f"after the last chunk: {message}")
            forget(self.records)
            return COMPLETE
        number = max(missing[0], min(self._under_way, self.order.last))
        lost = [str(one) for one in missing if one < number]
        message += f" (chunks that nobody had fetched: {', '.join(lost)})" if lost else ""
        self._seen_dead(number, Outcome(state=state, message=message))
        if state is not State.HANG:
            forget(self.records)
        return message

    def _seen_dead(self, number: int, outcome: Outcome) -> None:
        self.seen(self._chunks.add(number, outcome, self._connection.taken(), self.target.machine), 0.0)

    def _without_console(self, error: Exception) -> str:
        """Wait a while before the console is opened again; return why the soak has ended, empty if it has not.

        Raises:
            InfrastructureError: nobody can reach the target.
        """
        if self.target.boots:
            return self._machine_gone(error)
        if self._is_new:
            self._chunks.give_up()
            raise InfrastructureError(f"the target was not reached: {error}") from error
        if self._lost is None:
            self._lost = Deadline.after(self.patience_s)
            self.say(f"the console is lost: {error}; trying again for {self.patience_s:.0f} s")
        if not self._lost.expired:
            self.target.stop.wait(self._lost.sooner(self.open_again_s))
            return ""
        if isinstance(error, HangError):
            message = f"the target hung: {error}; last lines:\n{last_lines(self._connection.said)}"
            return self._died(State.HANG, f"{message}\nIf it goes on after all: {_again(self.records)}")
        raise InfrastructureError(f"{error}; the soak may go on by itself: {_again(self.records)}") from error

    def _machine_gone(self, error: Exception) -> str:
        if isinstance(error, EndedError) and error.code != 0:
            forget(self.records)
            raise InfrastructureError(str(error)) from error
        state = State.HANG if isinstance(error, HangError) else State.FAULT
        message = f"the machine stopped during the soak: {error}; last lines:\n{last_lines(self._connection.said)}"
        return self._died(state if self.order.boot_id is not None else State.NO_BOOT, message)

    @property
    def _is_new(self) -> bool:
        """Whether nothing has begun on the target yet, as far as anybody knows."""
        return self._new and not self._begun


def _why(status: Status) -> str:
    return "something on the target ended the soak's script" if status.phase is Phase.LOST else status.why


def _again(records: Path) -> str:
    return f"rtgate soak --continue {records}"
