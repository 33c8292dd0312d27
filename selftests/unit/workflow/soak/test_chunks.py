# SPDX-License-Identifier: MIT
"""Soaks of a target that does what is written down; `selftests/faults` has whole soaks in every shell."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest
from selftests.fake_target import FakeTarget, arm, facts, measured_outcome, skipped_outcome

from rtgate.console.faults import scan
from rtgate.errors import ConfigError, InfrastructureError, Interrupted
from rtgate.measure.case import Arm, Case
from rtgate.measure.observations import LOG_GOES_ON
from rtgate.records.planned import missing
from rtgate.records.record import Place, read_all
from rtgate.target.live import NO_SHELL, LiveTarget
from rtgate.target.outcome import Outcome, State
from rtgate.target.plan import Plan
from rtgate.target.session import BOOT_ID
from rtgate.tools.cyclictest import Cyclictest
from rtgate.workflow.soak import spec as orders
from rtgate.workflow.soak.chunks import COMPLETE, SKIPPED, Chunks

CASE = Case(suite="latency", tool=Cyclictest(), load="idle")
LOST = Outcome(state=State.LAB, message="the console closed")
SILENT = Outcome(state=State.LAB, message=f"{NO_SHELL}: nothing answers")
FIRST, SECOND = (f"[    {number}.000000] said" for number in (1, 2))


@dataclass
class Target:
    """Does what it is told, one plan after the other, and measures as ever when there is nothing left to do."""

    acts: list[Outcome | BaseException]
    boots: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    plans: list[Plan] = field(default_factory=list)

    def run(self, plan: Plan) -> Outcome:
        self.plans.append(plan)
        act = self.acts.pop(0) if self.acts else measured_outcome()
        if isinstance(act, BaseException):
            raise act
        return act


@pytest.fixture
def live() -> Arm:
    return arm(FakeTarget(), time="real")


@dataclass
class Bench:
    """A directory of records, and the arm that is measured."""

    records: Path
    arm: Arm
    said: list[str] = field(default_factory=list)

    def chunks(self, count: int, *acts: Outcome | BaseException, **changes: object) -> Chunks:
        """Return the chunks of the soak that is under way, or of a new one."""
        if not orders.exists(self.records):
            orders.begin(CASE, self.arm, "tcp:h:1", count, self.records)
        target = cast("LiveTarget", Target(list(acts), **changes))  # type: ignore[arg-type]
        return Chunks(
            order=orders.read(self.records),
            case=CASE,
            arm=self.arm,
            target=target,
            records=self.records,
            on_chunk=lambda record, left: self.said.append(f"{record.boot}, {left:.1f} s left"),
            say=self.said.append,
            patience_s=0.3,
            open_again_s=0.01,
        )

    @property
    def states(self) -> list[tuple[str, str]]:
        return [(record.boot, record.state) for record in read_all(self.records)]

    @property
    def missing(self) -> tuple[str, ...]:
        place = Place(records=self.records, board="virt-arm64", arm="candidate", case=CASE.name)
        return missing(place, list(read_all(self.records)))


@pytest.fixture
def bench(live: Arm, tmp_path: Path) -> Bench:
    return Bench(tmp_path / "soak", live)


def test_every_chunk_becomes_a_record(bench: Bench) -> None:
    chunks = bench.chunks(3)
    assert chunks.measure() == COMPLETE
    assert bench.states == [(f"chunk {number}", "measured") for number in (1, 2, 3)]
    assert bench.said == ["chunk 1, 3.0 s left", "chunk 2, 1.5 s left", "chunk 3, 0.0 s left"]
    assert bench.missing == ()
    assert {record.machine["soak"] for record in read_all(bench.records)} == {chunks.order.nonce}
    assert not orders.exists(bench.records)
    # A later soak of the same directory goes on counting.
    assert bench.chunks(1).measure() == COMPLETE
    assert bench.states[-1] == ("chunk 4", "measured")


def test_a_soak_is_gone_on_with_where_it_was(bench: Bench) -> None:
    with pytest.raises(Interrupted):
        bench.chunks(3, measured_outcome(), Interrupted("stopped")).measure()
    assert bench.states == [("chunk 1", "measured")]
    assert bench.missing == ("2 of 3 boots",)
    again = bench.chunks(9)
    assert orders.missing(again.order, bench.records) == [2, 3]
    assert again.measure() == COMPLETE
    assert len(bench.states) == 3


def test_other_files_than_those_it_was_begun_with_are_refused(bench: Bench) -> None:
    bench.chunks(3)
    bench.arm = replace(bench.arm, board=replace(bench.arm.board, work_directory="/elsewhere"))
    with pytest.raises(ConfigError, match="not those that the soak was begun with"):
        bench.chunks(3).measure()


def test_a_soak_that_is_given_up_misses_nothing(bench: Bench) -> None:
    with pytest.raises(Interrupted):
        bench.chunks(3, measured_outcome(), Interrupted("stopped")).measure()
    orders.give_up(orders.read(bench.records), bench.records)
    assert bench.missing == ()
    assert not orders.exists(bench.records)


def test_a_target_that_was_never_reached_leaves_nothing_behind(bench: Bench) -> None:
    with pytest.raises(InfrastructureError, match="the target was not reached: the console closed"):
        bench.chunks(3, LOST).measure()
    assert not orders.exists(bench.records)
    assert bench.missing == ()


def test_a_target_out_of_reach_is_tried_again(bench: Bench) -> None:
    assert bench.chunks(2, measured_outcome(), LOST, SILENT).measure() == COMPLETE
    assert bench.states == [("chunk 1", "measured"), ("chunk 2", "measured")]
    assert bench.said[1:3] == [
        "the target is out of reach: the console closed; trying again for 0 s",
        "the target is back",
    ]


def test_a_console_that_does_not_come_back_is_the_lab_s_and_the_soak_stays(bench: Bench) -> None:
    with pytest.raises(InfrastructureError, match=r"the console closed; go on later: rtgate soak --continue"):
        bench.chunks(2, measured_outcome(), *[LOST] * 1000).measure()
    assert bench.states == [("chunk 1", "measured")]
    # Another worker waits, too, although it has measured nothing itself.
    assert bench.chunks(2, LOST).measure() == COMPLETE


def test_a_board_in_qemu_that_fails_is_not_waited_for(bench: Bench) -> None:
    chunks = bench.chunks(2, measured_outcome(), LOST, boots=True)
    chunks.patience_s = 600.0
    with pytest.raises(InfrastructureError, match=r"the console closed; go on later"):
        chunks.measure()
    assert bench.states == [("chunk 1", "measured")]


def test_a_target_that_does_not_answer_on_an_open_console_hung(bench: Bench) -> None:
    assert "hung in chunk 2" in bench.chunks(3, measured_outcome(), *[SILENT] * 1000).measure()
    assert bench.states == [("chunk 1", "measured"), ("chunk 2", "hang")]
    assert bench.missing == ("1 of 3 boots",)


def test_waiting_for_a_target_ends_at_once_when_it_is_stopped(bench: Bench) -> None:
    chunks = bench.chunks(2, measured_outcome(), *[LOST] * 1000)
    chunks.open_again_s = chunks.patience_s = 60.0
    threading.Timer(0.2, chunks.target.stop.set).start()
    with pytest.raises(Interrupted):
        chunks.measure()


@pytest.mark.parametrize(("state", "word"), [(State.FAULT, "failed"), (State.HANG, "hung")])
def test_a_kernel_that_dies_ends_its_soak(bench: Bench, state: State, word: str) -> None:
    panic = scan("[   13.0] Kernel panic - not syncing: x\r\n")
    why = bench.chunks(9, measured_outcome(), Outcome(state=state, message="it did", faults=panic)).measure()
    assert why == f"the target {word} in chunk 2: it did"
    assert bench.states == [("chunk 1", "measured"), ("chunk 2", state.value)]
    assert [fault.kind for record in read_all(bench.records) for fault in record.faults] == ["panic"]
    assert not orders.exists(bench.records)


def booted(boot_id: str, *log: str) -> Outcome:
    """Return a measurement in this boot, with these lines in the kernel's log."""
    changes = {BOOT_ID: boot_id.encode()}
    return measured_outcome(facts=facts("facts", changes), dmesg="".join(f"{line}\n" for line in log).encode())


def test_a_target_that_starts_again_between_two_chunks_failed(bench: Bench) -> None:
    why = bench.chunks(9, booted("one", FIRST), booted("two", FIRST)).measure()
    assert "another boot_id" in why
    assert bench.states == [("chunk 1", "measured"), ("chunk 2", "kernel fault")]


def test_also_between_two_workers(bench: Bench) -> None:
    with pytest.raises(Interrupted):
        bench.chunks(3, booted("one", FIRST), Interrupted("stopped")).measure()
    assert "another boot_id" in bench.chunks(3, booted("two", FIRST)).measure()


def test_a_board_that_boots_for_each_chunk_has_not_started_again(bench: Bench) -> None:
    acts = (booted("one", FIRST), booted("two", FIRST))
    assert bench.chunks(2, *acts, boots=True).measure() == COMPLETE
    assert [_log(bench, number) for number in (1, 2)] == [f"{FIRST}\n", f"{FIRST}\n"]


def test_a_chunk_has_what_the_kernel_said_since_the_one_before(bench: Bench) -> None:
    with pytest.raises(Interrupted):
        bench.chunks(3, booted("b", FIRST), booted("b", FIRST, SECOND), Interrupted("stopped")).measure()
    assert bench.chunks(3, booted("b", FIRST, SECOND)).measure() == COMPLETE
    logs = [_log(bench, number) for number in (1, 2, 3)]
    assert logs == [f"{FIRST}\n", f"{LOG_GOES_ON}\n{SECOND}\n", f"{LOG_GOES_ON}\n"]
    assert [record.evidence.log for record in read_all(bench.records)][1:] == ["new", "new"]


def test_a_case_that_the_target_cannot_run_is_tried_once(bench: Bench) -> None:
    assert bench.chunks(3, skipped_outcome()).measure() == SKIPPED
    assert len(bench.states) == 1
    assert bench.missing == ()


def _log(bench: Bench, number: int) -> str:
    (path,) = bench.records.rglob(f"{number:03d}/raw/dmesg")
    return path.read_text()
