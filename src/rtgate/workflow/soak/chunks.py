# SPDX-License-Identifier: MIT
"""The chunks of a soak: one plan after the other on a live target, each an ordinary measurement and a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rtgate.durations import Deadline
from rtgate.errors import ConfigError, InfrastructureError, Interrupted
from rtgate.measure.case import Arm, Case
from rtgate.measure.case_plan import plan
from rtgate.measure.case_record import make_record
from rtgate.records import record as records_file
from rtgate.records.record import Chunk, Record
from rtgate.target.live import NO_SHELL, LiveTarget
from rtgate.target.outcome import Outcome, State
from rtgate.target.plan import Plan
from rtgate.target.session import BOOT_ID
from rtgate.workflow.soak.new_log import last_line, new_lines
from rtgate.workflow.soak.spec import SoakSpec, continue_command, forget, give_up, missing, write

COMPLETE, SKIPPED = "complete", "skipped"
_OPEN_AGAIN_S = 5.0  # between two attempts to reach a target
_DEATHS = {State.NO_BOOT: "did not boot", State.FAULT: "failed", State.HANG: "hung"}


@dataclass(slots=True, kw_only=True)
class Chunks:
    """The chunks of one soak, those that are there and those to come.

    Attributes:
        order: what the soak was begun with, and how far it is.
        on_chunk: told of every chunk's record, and of the seconds that are left after it.
        say: told in a sentence what happens to the console.
        patience_s: seconds for which a target that was reached before may be out of reach.
        open_again_s: seconds between two attempts to reach it.
    """

    order: SoakSpec
    case: Case
    arm: Arm
    target: LiveTarget
    records: Path
    on_chunk: Callable[[Record, float], None]
    say: Callable[[str], None]
    patience_s: float = 900.0
    open_again_s: float = _OPEN_AGAIN_S

    def measure(self) -> str:
        """Measure what is missing; return why it ended: COMPLETE, SKIPPED, or a sentence.

        Raises:
            ConfigError: the plan is not the one that the soak was begun with.
            InfrastructureError: the target cannot be reached, or the disk is full.
            Interrupted: `target.stop` was set; the chunk under way is gone, the others can be gone on with.
        """
        if self._plan.nonce != self.order.plan:
            raise ConfigError("the board's files, or rtgate's, are not those that the soak was begun with: take those")
        why, numbers = COMPLETE, missing(self.order, self.records)
        for rest, number in zip(reversed(range(len(numbers))), numbers, strict=True):
            outcome = self._measure_chunk()
            record = self._add(number, outcome)
            self.on_chunk(record, rest * outcome.seconds.get("total", self.order.chunk_s))
            if outcome.state in _DEATHS:
                why = f"the target {_DEATHS[outcome.state]} in chunk {number}: {outcome.message}"
                break
            if record.state == State.SKIPPED.value:
                give_up(self.order, self.records)
                why = SKIPPED
                break
        forget(self.records)
        return why

    def _measure_chunk(self) -> Outcome:
        """Carry out a chunk; where a target that was reached before is out of reach, again. Raises as `measure`."""
        deadline: Deadline | None = None
        first = ""
        while (outcome := self._run()).state is State.LAB:
            if self.order.boot_id is None:
                give_up(self.order, self.records)
                raise InfrastructureError(f"the target was not reached: {outcome.message}")
            if deadline is None:
                deadline, first = Deadline.after(self.patience_s), outcome.message
                if self.target.boots:  # a QEMU that fails is not waited for
                    return self._out_of_reach(outcome, first)
                self.say(f"the target is out of reach: {outcome.message}; trying again for {self.patience_s:.0f} s")
            if deadline.expired:
                return self._out_of_reach(outcome, first)
            if self.target.stop.wait(deadline.sooner(self.open_again_s)):
                raise Interrupted("stopped")
        if deadline is not None:
            self.say("the target is back")
        return self._since_before(outcome)

    @property
    def _plan(self) -> Plan:
        """One for all chunks: the target keeps its script."""
        return plan(self.case, self.arm, self.order.first)

    def _run(self) -> Outcome:
        try:
            return self.target.run(self._plan)
        except ConfigError:
            if self.order.boot_id is None:
                give_up(self.order, self.records)
            raise

    def _out_of_reach(self, outcome: Outcome, why: str) -> Outcome:
        """Return the outcome of a target that does not answer on a console that is open: it hung.

        Raises:
            InfrastructureError: the console or the target's disk is at fault; the soak can be gone on with.
        """
        if outcome.message.startswith(NO_SHELL):
            return replace(outcome, state=State.HANG, message=f"the target hung: {outcome.message}")
        raise InfrastructureError(f"{why}; go on later: {continue_command(self.order, self.records)}")

    def _since_before(self, outcome: Outcome) -> Outcome:
        """Return an outcome with what the kernel said since the chunk before, and note how far its log goes.

        A target that has started again since then has failed.
        """
        if self.target.boots or outcome.state is not State.MEASURED:
            self.order = replace(self.order, boot_id=self.order.boot_id or "")
            return outcome
        log, boot_id = outcome.files.get("dmesg", b""), _boot_id(outcome.files)
        before, old_line = self.order.boot_id, self.order.log_seen
        self.order = replace(self.order, boot_id=boot_id, log_seen=last_line(log))
        if before and boot_id and boot_id != before:
            message = "the target started again by itself since the chunk before: it has another boot_id"
            return replace(outcome, state=State.FAULT, message=message)
        return replace(outcome, files={**outcome.files, "dmesg": new_lines(log, old_line)})

    def _add(self, number: int, outcome: Outcome) -> Record:
        """Write the record of a chunk, and how far the soak is."""
        outcome = replace(outcome, machine={**outcome.machine, "soak": self.order.nonce})
        record = make_record(self.case, self.arm, self._plan, outcome)
        record = replace(record, chunk=Chunk(soak=self.order.nonce, number=number))
        directory = records_file.write(record, outcome.files, outcome.console, self.records)
        write(self.order, self.records)
        return records_file.read(directory)


def _boot_id(files: Mapping[str, bytes]) -> str:
    lines = files.get("facts", b"").decode("utf-8", errors="replace").splitlines()
    return next((line.partition(":")[2] for line in lines if line.startswith(f"{BOOT_ID}:")), "")
