# SPDX-License-Identifier: MIT
"""Whose a fault is: the baseline's, an earlier measurement's, or this one's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.unit.judge.conftest import BOARD, CASE, FLAVOUR, record

from rtgate.board.boot import ArmName, TimeBase
from rtgate.console.faults import Fault, FaultKind, scan
from rtgate.judge import faults
from rtgate.judge.faults import Signature
from rtgate.judge.judging import Subject, judge
from rtgate.judge.thresholds import Thresholds
from rtgate.judge.verdict import Finding, Kind, Status, Verdict
from rtgate.measure import observations
from rtgate.records.record import Record
from rtgate.target.outcome import Outcome, State
from rtgate.validity.readings import UPTIME, began_s

# Written from kernel/sched/core.c and lib/dump_stack.c of 6.12.
SPLAT = """\
[{0:12.6f}] BUG: sleeping function called from invalid context at kernel/locking/spinlock_rt.c:48
[{0:12.6f}] Call trace:
[{0:12.6f}]  dump_backtrace+0x98/0x120
[{0:12.6f}]  dump_stack_lvl+0x78/0x90
[{0:12.6f}]  __might_resched+0x15c/0x180
[{0:12.6f}]  rt_spin_lock+0x48/0x120
[{0:12.6f}]  {1}+0x30/0x100
[{0:12.6f}] ordinary
"""
OTHER = "latency/cyclictest:hackbench"


def seen(log: str) -> tuple[Fault, ...]:
    """Return what a record has of a kernel's log."""
    return observations.faults(Outcome(state=State.MEASURED, files={"dmesg": log.encode()}), {})


def splat(function: str, at: float = 10.0) -> tuple[Fault, ...]:
    return seen(SPLAT.format(at, function))


def arm(total: int, faulty: int, found: Sequence[Fault], name: str = "candidate") -> list[Record]:
    """Return boots of which the first ones show faults."""
    return [record(seed=seed, arm=name, faults=tuple(found) if seed <= faulty else ()) for seed in range(1, total + 1)]


def judged(records: Sequence[Record], baseline: Sequence[Record] = (), beside: Sequence[Record] = ()) -> list[Verdict]:
    subject = Subject(
        case=CASE, board=BOARD, arm="candidate", flavour=FLAVOUR, records=records, baseline=baseline, beside=beside
    )
    return list(judge(subject, Thresholds()))


def statuses(records: Sequence[Record], baseline: Sequence[Record]) -> set[Status]:
    return {one.status for one in judged(records, baseline)}


# --- the baseline's


def test_another_splat_with_the_same_first_line_is_not_pre_existing() -> None:
    baseline = arm(3, 3, splat("vendor_gpio_irq"), "baseline")
    assert statuses(arm(3, 3, splat("vendor_gpio_irq", 77.0)), baseline) == {Status.DONE}
    assert statuses(arm(3, 3, splat("new_bug")), baseline) == {Status.FAIL}
    both = splat("vendor_gpio_irq") + splat("new_bug", 20.0)
    assert [one.status for one in judged(arm(3, 3, both), baseline)] == [Status.DONE, Status.FAIL]


@pytest.mark.parametrize("function", ["dump_stack", "_raw_spin_lock"])
def test_a_fault_without_a_place_has_no_excuse(function: str) -> None:
    (found,) = judged(arm(2, 2, splat(function)), arm(2, 2, splat(function), "baseline"))
    assert found.status is Status.FAIL
    assert "(the baseline shows one with this line, but neither log says where it happened)" in found.sentence


def test_a_death_of_which_nobody_knows_the_place_has_no_excuse() -> None:
    def died(text: str, name: str) -> list[Record]:
        return [record(state="kernel fault", message="it died", faults=seen(text), arm=name)]

    line = "[    1.000000] Kernel panic - not syncing: VFS: Unable to mount root fs\n"
    trace = "[    1.000000] Call trace:\n[    1.000000]  panic+0x1/0x2\n[    1.000000]  mount_root+0x1/0x2\n"
    assert statuses(died(line, "candidate"), died(line, "baseline")) == {Status.FAIL}
    assert statuses(died(line + trace, "candidate"), died(line + trace, "baseline")) == {Status.MISS}


@pytest.mark.parametrize(
    ("state", "log", "excused"),
    [
        ("lab", "whole", False),
        ("lab", "", False),
        ("skipped", "whole", False),
        ("device lost", "whole", False),
        ("not repeated", "", False),
        ("unreadable", "whole", True),
        ("hang", "", True),
        ("measured", "whole", True),
    ],
)
def test_a_death_is_not_excused_by_boots_that_did_not_run(state: str, log: str, excused: bool) -> None:
    died = replace(record(state="kernel fault", message="it died", faults=splat("vendor_gpio_irq")), measurements=())
    rest = [record(seed=seed, state=state, message="no power") for seed in (2, 3, 4)]
    rest = [replace(one, evidence=replace(one.evidence, log=log)) for one in rest]
    baseline = [replace(died, arm=ArmName.BASELINE), *arm(4, 0, (), "baseline")[1:]]
    (told,) = (one for one in judged([died, *rest], baseline) if one.boot == "seed 1")
    assert told.status is (Status.MISS if excused else Status.FAIL)
    # Nor is a baseline's death made rare, or common, by those of its own.
    theirs = [replace(one, arm=ArmName.BASELINE) for one in (died, *rest)]
    (told,) = (one for one in judged([died, *arm(2, 0, ())[1:]], theirs) if one.boot == "seed 1")
    assert told.status is (Status.FAIL if excused else Status.MISS)


@pytest.mark.parametrize(
    ("theirs", "mine", "excused"),
    [
        ((1, 1), (3, 3), True),
        ((3, 3), (1, 3), True),
        ((1, 10), (1, 10), True),
        ((1, 10), (10, 10), False),
        ((9, 10), (10, 10), False),
        ((2, 10), (1, 5), True),
        ((2, 10), (2, 5), False),
        ((0, 10), (1, 10), False),
        ((0, 0), (1, 1), False),
    ],
)
def test_pre_existing_is_in_no_smaller_a_share_of_the_boots(
    theirs: tuple[int, int], mine: tuple[int, int], excused: bool
) -> None:
    found = splat("vendor_gpio_irq")
    candidate = arm(mine[1], mine[0], found)
    baseline = arm(theirs[1], theirs[0], found, "baseline")
    # On virtual time arms with other seeds are not compared, which is told beside.
    (told,) = (one for one in judged(candidate, baseline) if one.kind is Kind.FAULT)
    assert told.status is (Status.DONE if excused else Status.FAIL)
    if theirs[0] and not excused:
        share = f"{theirs[0]} of {theirs[1]}, not {mine[0]} of {mine[1]}"
        assert f"(the baseline shows it in a smaller share of its boots: {share})" in told.sentence


def counted(errors: int, where: str = "nvme (0000:01:00.0)", kind: str = "RxErr") -> tuple[Fault, ...]:
    """Return the fault of error counters that rose, as `rtgate.validity.links` writes it."""
    line = f"{errors} new correctable AER errors of {where} ({kind} {errors})"
    return (Fault(kind=FaultKind.AER, line=line, text=line),)


def with_errors(name: str, *errors: int) -> list[Record]:
    return [record(seed=seed, arm=name, faults=counted(number)) for seed, number in enumerate(errors, 1)]


def test_errors_of_a_slot_that_the_baseline_has_too_are_pre_existing_whatever_their_number() -> None:
    baseline = with_errors("baseline", 2, 5, 1)
    (found,) = judged(with_errors("candidate", 3, 4, 50), baseline)
    assert found.status is Status.DONE
    assert "(pre-existing: the baseline shows it too)" in found.sentence
    (worse,) = judged(with_errors("candidate", 3, 4, 51), baseline)
    assert worse.status is Status.FAIL
    assert "(the baseline's boots count 5 RxErr at most, and these 51)" in worse.sentence


def test_which_types_of_errors_come_together_is_chance() -> None:
    def boots(name: str, single: int, both: int) -> list[Record]:
        two = "2 new correctable AER errors of nvme (0000:01:00.0) (RxErr 1, BadTLP 1)"
        faults_by_boot = [counted(1)] * single + [(Fault(kind=FaultKind.AER, line=two, text=two),)] * both
        return [record(seed=seed, arm=name, faults=found) for seed, found in enumerate(faults_by_boot, 1)]

    assert statuses(boots("candidate", 4, 2), boots("baseline", 3, 3)) == {Status.DONE}
    (other,) = judged(boots("candidate", 4, 2), boots("baseline", 6, 0))
    assert other.status is Status.FAIL
    assert "(the baseline's boots count 0 BadTLP at most, and these 1)" in other.sentence


@pytest.mark.parametrize("other", [counted(2, "nvme (0000:02:00.0)"), counted(2, kind="BadTLP")])
def test_errors_of_another_function_or_type_are_no_excuse(other: tuple[Fault, ...]) -> None:
    assert statuses(arm(3, 3, counted(3)), arm(3, 3, other, "baseline")) == {Status.FAIL}


def test_boots_whose_log_nobody_read_are_no_boots_without_a_fault() -> None:
    found = splat("vendor_gpio_irq")
    lost = [record(seed=seed, arm="baseline", state="lab") for seed in (4, 5)]
    lost = [replace(one, evidence=replace(one.evidence, log="")) for one in lost]
    assert Status.FAIL not in statuses(arm(3, 3, found), [*arm(3, 3, found, "baseline"), *lost])
    assert Status.FAIL in statuses(arm(3, 3, found), arm(5, 3, found, "baseline"))


def test_two_measurements_of_one_boot_are_one_boot() -> None:
    boots = [replace(one, seed=None, boot_id=name) for one, name in zip(arm(3, 2, splat("f")), "aab", strict=True)]
    baseline = [replace(one, seed=None, boot_id=name) for one, name in zip(arm(2, 1, splat("f")), "cd", strict=True)]
    assert [one.status for one in faults.findings(boots, baseline, (), {})] == [Status.DONE]
    assert [one.status for one in faults.findings(boots[:2], baseline, (), {})] == [Status.FAIL]


# --- an earlier measurement's


def measured(case: str, began: float | None, log: str, boot: str = "boot-1", seed: int | None = None) -> Record:
    """Return the record of a live board; several measurements share a boot."""
    made = record(case=case, faults=seen(log))
    readings = {} if began is None else {UPTIME: (f"{began:.2f} 1.00", f"{began + 50:.2f} 1.00")}
    return replace(
        made,
        seed=seed,
        boot_id=boot,
        environment=replace(made.environment, time=TimeBase.REAL),
        evidence=replace(made.evidence, log="some", readings=readings),
    )


def told(one: Record, *beside: Record) -> list[str]:
    return [found.sentence for found in _findings(one, beside)]


def _findings(one: Record, beside: Sequence[Record]) -> list[Finding]:
    return list(faults.findings([one], (), beside, {}))


LINE = "atomic-sleep: BUG: sleeping function called from invalid context at kernel/locking/spinlock_rt.c:48"


def test_a_fault_is_of_the_measurement_in_which_it_happened() -> None:
    log = SPLAT.format(50, "foo")
    first, second = measured(CASE, 30, log), measured(OTHER, 100, log)
    assert told(first, second) == [f"boot boot-1: {LINE}"]
    assert told(second, first) == []


def test_what_happened_before_all_measurements_is_told_by_the_first_and_marked() -> None:
    log = SPLAT.format(20, "foo")
    first, second = measured(CASE, 30, log), measured(OTHER, 100, log)
    assert told(first, second) == [f"boot boot-1: {LINE} (said 10.0 s before the measurement began)"]
    assert told(second, first) == []


def test_what_happens_again_is_told_again() -> None:
    log = SPLAT.format(50, "foo")
    first, second = measured(CASE, 30, log), measured(OTHER, 100, log + SPLAT.format(120, "foo"))
    third = measured("latency/cyclictest:stress", 200, log + SPLAT.format(120, "foo"))
    assert [len(told(one, first, second, third)) for one in (first, second, third)] == [1, 1, 0]


def test_another_fault_at_the_same_place_of_the_log_is_another() -> None:
    first = measured(CASE, 30, SPLAT.format(50, "foo"))
    second = measured(OTHER, 100, SPLAT.format(50, "foo").replace("spinlock_rt.c:48", "spinlock_rt.c:49"))
    assert len(told(second, first)) == 1


@pytest.mark.parametrize(
    "first",
    [
        measured(OTHER, 30, SPLAT.format(50, "foo"), boot="boot-2"),
        measured(OTHER, None, SPLAT.format(50, "foo")),
        measured(OTHER, 30, ""),
        measured(OTHER, 100, SPLAT.format(50, "foo")),
        replace(measured(OTHER, 30, SPLAT.format(50, "foo")), arm=ArmName.BASELINE),
        replace(measured(OTHER, 30, SPLAT.format(50, "foo")), board="another"),
        # It is judged by its death alone.
        replace(measured(OTHER, 30, SPLAT.format(50, "foo")), state=State.FAULT),
    ],
    ids=["another boot", "unknown time", "it saw nothing", "at the same time", "arm", "board", "it died"],
)
def test_a_fault_is_not_left_to_a_record_that_does_not_tell_it(first: Record) -> None:
    assert len(told(measured(CASE, 100, SPLAT.format(50, "foo")), first)) == 1


def test_without_a_time_or_a_boot_every_record_tells() -> None:
    plain = SPLAT.format(50, "foo").replace("[   50.000000] ", "")
    assert len(told(measured(CASE, 100, plain), measured(OTHER, 30, plain))) == 1
    first, second = (measured(case, at, SPLAT.format(50, "foo"), boot="") for case, at in ((OTHER, 30), (CASE, 100)))
    assert len(told(second, first)) == 1
    second = measured(CASE, None, SPLAT.format(50, "foo"))
    assert len(told(second, measured(OTHER, 30, SPLAT.format(50, "foo")))) == 1


_EVENTS = st.lists(st.tuples(st.integers(0, 399), st.sampled_from("abc")), max_size=12, unique_by=lambda one: one[0])


@given(_EVENTS, st.lists(st.integers(0, 350), min_size=1, max_size=4, unique=True), st.integers(0, 8), st.data())
def test_no_fault_that_a_record_has_is_lost(
    events: list[tuple[int, str]], starts: list[int], wrapped: int, data: st.DataObject
) -> None:
    """Whatever of the log is overwritten, every kind of fault is told, and by each measurement in which it happened."""
    records = []
    for number, start in enumerate(sorted(starts)):
        log = sorted(one for one in events if one[0] < start + 50)
        gone = data.draw(st.integers(0, wrapped))
        shown = log[gone:]
        records.append(measured(f"latency/case-{number}:idle", start, "".join(SPLAT.format(*one) for one in shown)))
    found = {one.case: {Signature.of(fault) for fault in _own(one, records)} for one in records}
    assert set().union(*found.values()) == {Signature.of(fault) for one in records for fault in one.faults}
    earlier: set[str] = set()
    for one in records:
        began = began_s(one.evidence.readings)
        assert began is not None
        texts = {fault.text.split("\n")[0] + Signature.of(fault).place[0]: fault for fault in one.faults}
        for text, fault in texts.items():
            mine = Signature.of(fault) in found[one.case]
            assert mine == (text not in earlier)
        earlier |= set(texts)


def _own(one: Record, records: Sequence[Record]) -> list[Fault]:
    """Return the faults that a record tells, asked one by one."""
    return [fault for fault in one.faults if _findings(replace(one, faults=(fault,)), records)]


def test_scan_and_signature_agree_on_what_is_one_fault() -> None:
    log = SPLAT.format(10, "foo") + SPLAT.format(20, "bar")
    assert len(scan(log)) == len(seen(log)) == 2
