# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples
from selftests.unit.judge.conftest import (
    BOARD,
    CASE,
    FLAVOUR,
    asking,
    evidence,
    fault_policy,
    maximum,
    number,
    record,
    share,
    without,
)
from selftests.unit.report.conftest import SETTINGS

from rtgate.board.boot import ArmName, State, TimeBase
from rtgate.console.faults import Fault, FaultKind
from rtgate.judge.judging import Subject, judge
from rtgate.judge.thresholds import Threshold, Thresholds
from rtgate.judge.verdict import Kind, Status, Verdict, exit_code, worst
from rtgate.records.evidence import LoadSample, Thread
from rtgate.records.record import Record
from rtgate.tools import Count
from rtgate.tools.threads import Threads
from rtgate.units import Unit
from rtgate.validity.check import CheckResult, Invalidates
from rtgate.validity.registry import checks

STRESS = "scheduling/pi_stress:idle"
LOADED = "latency/cyclictest:hackbench"
DEAD = (LoadSample(moment="start", processes=1, ticks=0), LoadSample(moment="middle", processes=0, ticks=5))
SLOW = {30_000: 1999, 150_000: 1}
CHANGED = {**SETTINGS, "/proc/sys/kernel/printk": ("1\t4\t1\t7", "7\t4\t1\t7")}


def _judge(
    records: Sequence[Record],
    limits: Sequence[Threshold] = (),
    baseline: Sequence[Record] = (),
    not_applicable: dict[str, str] | None = None,
) -> list[Verdict]:
    subject = Subject(
        case=STRESS if records and records[0].case == STRESS else CASE,
        board=BOARD,
        arm="candidate",
        flavour=FLAVOUR,
        records=records,
        baseline=baseline,
        not_applicable=not_applicable or {},
    )
    return list(judge(subject, Thresholds(tuple(limits))))


def _only(found: list[Verdict]) -> Verdict:
    (one,) = found
    return one


def _oops(line: str = "WARNING: CPU: 0 PID: 12 at kernel/x.c:3", kind: FaultKind = FaultKind.WARNING) -> Fault:
    return Fault(kind=kind, line=line, text=line)


def test_a_limit_that_is_kept_passes() -> None:
    found = _only(_judge([record(), record(seed=2)], [maximum()]))
    assert (found.status, found.kind) == (Status.PASS, Kind.LIMIT)
    assert (found.board, found.arm, found.flavour, found.case) == (BOARD, "candidate", FLAVOUR, CASE)
    assert found.source == "calibration; thresholds.yaml:7"
    assert exit_code([found]) == 0


def test_a_limit_that_the_baseline_breaks_too_is_a_limit_all_the_same_and_says_so() -> None:
    late = {30_000: 1999, 131_400: 1}
    before = record({30_000: 1999, 120_000: 1}, arm="baseline")
    found = _only(_judge([record(late)], [maximum()], baseline=[before]))
    assert (found.status, found.kind) == (Status.FAIL, Kind.LIMIT)
    assert found.sentence.endswith("; the baseline breaks this limit too with 120.0 virtual us (15000 instructions)")
    fine = _only(_judge([record(late)], [maximum()], baseline=[record(arm="baseline")]))
    assert "baseline" not in fine.sentence
    dead = _only(_judge([record(late)], [maximum()], baseline=[record(arm="baseline", state="hang")]))
    assert "baseline" not in dead.sentence
    unsound = evidence(before, threads=(replace(before.evidence.threads[0], policy=0),))
    unsure = _only(_judge([record(late)], [maximum()], baseline=[unsound]))
    assert unsure.status is Status.FAIL
    assert "the baseline breaks" not in unsure.sentence
    kept = _only(_judge([record()], [maximum()], baseline=[before]))
    assert kept.status is Status.PASS
    assert "baseline" not in kept.sentence


def test_a_share_that_the_baseline_breaks_too_says_so() -> None:
    late = {30_000: 1000, 120_000: 1000}
    found = _only(_judge([record(late)], [share()], baseline=[record(late, arm="baseline")]))
    assert (found.status, found.kind) == (Status.FAIL, Kind.SHARE)
    assert "the baseline breaks this limit too with 1000 of 2000 over 50 virtual us" in found.sentence


def test_every_limit_has_a_verdict() -> None:
    found = _judge([record()], [maximum(), maximum("10 virtual us"), share()])
    assert [one.status for one in found] == [Status.PASS, Status.FAIL, Status.PASS]
    assert worst(found) is Status.FAIL


def test_without_limits_it_is_done_and_nothing_was_judged() -> None:
    found = _only(_judge([record(), record(seed=2)]))
    assert (found.status, found.kind) == (Status.DONE, Kind.UNJUDGED)
    assert "measured in 2 boots, all valid; thresholds.yaml has no limit for virt-arm64, preempt_rt" in found.sentence
    assert exit_code([found]) == 5
    assert exit_code([found], allow_unjudged=True) == 0


def test_limits_do_not_hold_for_options_of_a_profile_but_policies_on_faults_do() -> None:
    own = asking(record(SLOW), options={"threads": 4})
    found = _only(_judge([own], [maximum()]))
    assert (found.status, found.kind) == (Status.DONE, Kind.NOT_APPLIED)
    assert found.sentence == (
        "1 limit is for the tool's own options (calibration; thresholds.yaml:7); measured with threads 4"
    )
    suites = asking(record(SLOW), options={})
    assert _only(_judge([suites], [maximum()])).status is Status.FAIL
    broken = replace(own, faults=(_oops(),))
    assert Status.FAIL in {one.status for one in _judge([broken], [maximum()])}


def test_limits_of_another_flavour_do_not_apply() -> None:
    assert _only(_judge([record()], [replace(maximum(), flavour="generic")])).kind is Kind.UNJUDGED


@pytest.mark.parametrize("limits", [[], [maximum()]])
def test_no_record_is_a_miss(limits: list[Threshold]) -> None:
    found = _only(_judge([], limits))
    assert (found.status, found.kind) == (Status.MISS, Kind.MISSING)
    assert exit_code([found]) == 3


NOT_MEASURED = [
    ("no boot", Status.FAIL, Kind.BOOT, 1),
    ("kernel fault", Status.FAIL, Kind.FAULT, 1),
    ("hang", Status.FAIL, Kind.HANG, 1),
    ("unreadable", Status.ERROR, Kind.OUTPUT, 4),
    ("not repeated", Status.ERROR, Kind.VALIDITY, 4),
    ("lab", Status.MISS, Kind.LAB, 3),
    ("device lost", Status.MISS, Kind.LAB, 3),
]


def test_no_state_is_passed_over() -> None:
    assert {state for state, *_ in NOT_MEASURED} == {*State} - {State.MEASURED, State.SKIPPED}


@pytest.mark.parametrize(("state", "status", "kind", "code"), NOT_MEASURED)
def test_a_boot_that_did_not_measure_takes_the_pass_away(state: str, status: Status, kind: Kind, code: int) -> None:
    found = _only(_judge([record(), record(seed=2, state=state, message="because")], [maximum()]))
    assert (found.status, found.kind, found.boot) == (status, kind, "seed 2")
    assert found.sentence.startswith("seed 2: ")
    assert exit_code([found]) == code


@pytest.mark.parametrize("state", ["no boot", "kernel fault", "hang", "unreadable", "not repeated", "lab"])
def test_a_boot_that_did_not_measure_does_not_hide_a_broken_limit(state: str) -> None:
    found = _judge([record(SLOW), record(seed=2, state=state)], [maximum()])
    assert (Status.FAIL, Kind.LIMIT) in {(one.status, one.kind) for one in found}


SPOILED_GOOD_NEWS = {
    "lost cycles": record({30_000: 900, 150_000: 1}),
    "short": evidence(record(SLOW), elapsed_s=0.5),
    "dead load": evidence(record(SLOW, case=LOADED), load_seen=DEAD),
    "settings": evidence(record(SLOW), settings=CHANGED),
    "unread settings": evidence(record(SLOW), settings={"/proc/sys/kernel/printk": ("", "")}),
    "a write that did not stay": evidence(record(SLOW), writes={"/proc/sys/kernel/timer_migration": "0"}),
    "too little counted": asking(record(SLOW), counts=[Count(measurement="wakeups", least=2001)]),
    "the clock was set": evidence(asking(record(SLOW), clock=True), processes=("init", "chronyd")),
    "all at once": evidence(
        asking(record({150_000: 1}, case=LOADED), clock=True, counts=[Count(measurement="wakeups", least=2)]),
        load_seen=(),
        elapsed_s=None,
        settings=CHANGED,
        processes=(),
    ),
}


@pytest.mark.parametrize("name", SPOILED_GOOD_NEWS)
def test_a_maximum_over_its_limit_fails_whatever_else_is_wrong(name: str) -> None:
    found = _judge([SPOILED_GOOD_NEWS[name]], [maximum()])
    assert Status.ERROR in {one.status for one in found}
    (broken,) = (one for one in found if one.kind is Kind.LIMIT)
    assert broken.status is Status.FAIL
    assert exit_code(found) == 1


@pytest.mark.parametrize("name", SPOILED_GOOD_NEWS)
def test_an_invalid_measurement_never_passes(name: str) -> None:
    found = _judge([SPOILED_GOOD_NEWS[name], record(seed=2)], [maximum("190 virtual us")])
    assert {one.status for one in found} == {Status.ERROR}
    assert {one.kind for one in found} == {Kind.VALIDITY}
    assert all(one.sentence.startswith("invalid measurement in seed 1 (") for one in found)


def test_a_wrong_priority_spoils_everything() -> None:
    wrong = (Thread(moment="middle", name="cyclictest", policy=1, priority=1, processor=0),)
    found = _only(_judge([evidence(record(SLOW), threads=wrong)], [maximum()]))
    assert (found.status, found.kind) == (Status.ERROR, Kind.VALIDITY)
    assert "(threads)" in found.sentence


def test_a_wrong_priority_in_one_boot_leaves_the_others_broken_limit() -> None:
    found = _judge([evidence(record(), threads=()), record(SLOW, seed=2)], [maximum()])
    assert [one.status for one in found] == [Status.ERROR, Status.FAIL]
    assert found[1].boot == "seed 2"


def test_an_explained_loss_of_wake_ups_is_a_measurement() -> None:
    lost = record({30_000: 999}, overflow=1, maximum=1_000_000_000)
    lost = replace(
        lost, measurements=(*without("wakeups.lost", lost).measurements, number("wakeups.lost", 1000, Unit.COUNT))
    )
    found = _only(_judge([lost], [maximum("0 count", "wakeups.lost")]))
    assert (found.status, found.kind, str(found.value)) == (Status.FAIL, Kind.LIMIT, "1000 count")


def test_a_check_that_does_not_apply_on_the_board_takes_nothing_away() -> None:
    noise_exceeds_margin = evidence(record(), elapsed_s=None)
    assert worst(_judge([noise_exceeds_margin], [maximum()])) is Status.ERROR
    assert worst(_judge([noise_exceeds_margin], [maximum()], not_applicable={"duration": "no clock"})) is Status.PASS


def test_a_kernel_that_should_be_real_time_and_is_not() -> None:
    plain = replace(record(), environment=replace(record().environment, flavour="generic"))
    found = _only(_judge([plain], [maximum()]))
    assert (found.status, found.kind) == (Status.FAIL, Kind.FLAVOUR)
    assert found.sentence.startswith("flavour lost: seed 1: the kernel should be preempt_rt and is generic")


def test_a_flavour_that_nobody_knows_is_no_fault_of_the_kernel() -> None:
    unread = replace(record(SLOW), environment=replace(record().environment, flavour=""))
    found = _only(_judge([unread], [maximum()]))
    assert (found.status, found.kind) == (Status.ERROR, Kind.VALIDITY)


# --- boots that were planned and left nothing


def test_a_planned_boot_without_a_record_takes_the_pass_away() -> None:
    made = Subject(
        case=CASE,
        board=BOARD,
        arm="candidate",
        flavour=FLAVOUR,
        records=[record()],
        missing=("seed 2", "seed 3"),
    )
    found = _only(list(judge(made, Thresholds((maximum(),)))))
    assert (found.status, found.kind, found.boot) == (Status.MISS, Kind.MISSING, "")
    assert found.sentence.startswith("seed 2, seed 3 left no record: ")
    broken = list(judge(replace(made, records=[record(SLOW)]), Thresholds((maximum(),))))
    assert [one.status for one in broken] == [Status.MISS, Status.FAIL]
    nothing = _only(list(judge(replace(made, records=[]), Thresholds((maximum(),)))))
    assert (nothing.status, nothing.sentence) == (Status.MISS, "the case has no record: nothing was measured")


# --- boots that died, and the baseline's

_OOPS_TEXT = "Unable to handle kernel NULL pointer dereference at virtual address 0\npc : {}+0x1c/0x40\n"


def _died(function: str = "", seed: int = 1, state: str = "kernel fault", arm: str = "candidate") -> Record:
    text = _OOPS_TEXT.format(function)
    faults = (Fault(kind=FaultKind("oops"), line=text.split("\n", maxsplit=1)[0], text=text),) if function else ()
    return record(seed=seed, state=state, message="it died", faults=faults, arm=arm)


def test_a_death_that_the_baseline_dies_too_is_pre_existing() -> None:
    found = _judge([_died("driver_x")], baseline=[_died("driver_x", arm="baseline")])
    assert [(one.status, one.kind) for one in found] == [(Status.MISS, Kind.FAULT)]
    assert "pre-existing" in found[0].sentence


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ([_died("schedule")], [_died("driver_x")]),  # at another place
        ([_died(state="hang")], [_died(state="hang")]),  # nobody knows where
        ([_died("driver_x", seed) for seed in (1, 2)], [_died("driver_x"), record(seed=2)]),  # more often
        ([_died("driver_x")], [_died("driver_x"), record(seed=2)]),
    ],
    ids=["elsewhere", "silent", "more often", "always and not half of the time"],
)
def test_no_other_death_is_excused_by_the_baseline_s(mine: list[Record], theirs: list[Record]) -> None:
    found = _judge(mine, baseline=[replace(one, arm=ArmName.BASELINE) for one in theirs])
    assert {one.status for one in found} == {Status.FAIL}


# --- boots that could not run the tool


def _skipped(seed: int = 1, ran: str = FLAVOUR, arm: str = "candidate") -> Record:
    made = record(seed=seed, state="skipped", message="needs two CPUs; needs tracing", arm=arm)
    return replace(made, environment=replace(made.environment, flavour=ran))


@pytest.mark.parametrize(
    ("limits", "baseline"),
    [
        ([], []),
        ([fault_policy("warning", fails=False)], []),  # says nothing about what is measured
        ([], [_skipped(arm="baseline")]),
        ([], [record(state="lab", arm="baseline")]),
        ([replace(maximum(), flavour="generic")], []),
    ],
    ids=["alone", "a policy for faults", "the baseline too", "the baseline broke", "another flavour's limit"],
)
def test_what_cannot_run_is_skipped_with_its_reason(limits: list[Threshold], baseline: list[Record]) -> None:
    found = _judge([_skipped(), _skipped(seed=2)], limits, baseline)
    assert [(one.status, one.kind, one.boot) for one in found] == [
        (Status.SKIP, Kind.UNJUDGED, "seed 1"),
        (Status.SKIP, Kind.UNJUDGED, "seed 2"),
    ]
    assert found[0].sentence == "seed 1: needs two CPUs; needs tracing"
    assert exit_code(found) == 5
    assert exit_code(found, allow_unjudged=True) == 0


@pytest.mark.parametrize("limit", [maximum(), share()])
def test_what_has_limits_cannot_be_skipped(limit: Threshold) -> None:
    found = _only(_judge([_skipped()], [limit]))
    assert (found.status, found.kind, found.boot) == (Status.MISS, Kind.MISSING, "seed 1")
    assert found.sentence == "seed 1: needs two CPUs; needs tracing, and thresholds.yaml has limits for it"
    assert exit_code([found]) == 3


def test_a_kernel_without_drivers_is_skipped_where_another_build_has_them() -> None:
    undriven = replace(_skipped(), machine={"ran": "nothing", "other_build": "virt-arm64-pcie"})
    found = _only(_judge([undriven], [maximum()]))
    assert (found.status, found.kind) == (Status.SKIP, Kind.UNJUDGED)
    driven = record(arm="baseline")
    lost = _only(_judge([undriven], [maximum()], [driven]))
    assert (lost.status, lost.kind) == (Status.FAIL, Kind.MISSING)  # the candidate's alone


def test_a_device_that_only_the_candidate_lost_is_its_fault() -> None:
    lost = record(state="device lost", message="the kernel shows no NVMe disk")
    found = _only(_judge([lost]))
    assert (found.status, found.kind) == (Status.MISS, Kind.LAB)
    assert "look at the disk, its link, and the kernel's configuration" in found.sentence
    assert _only(_judge([lost], baseline=[replace(lost, arm=ArmName.BASELINE)])).status is Status.MISS
    found = _only(_judge([lost], baseline=[record(arm="baseline")]))
    assert (found.status, found.kind) == (Status.FAIL, Kind.MISSING)
    assert found.sentence == "seed 1: the kernel shows no NVMe disk, and the baseline has it"


@pytest.mark.parametrize("limits", [[], [maximum()]], ids=["no limits", "limits"])
def test_what_the_baseline_can_the_candidate_must(limits: list[Threshold]) -> None:
    baseline = [_skipped(arm="baseline"), record(seed=2, arm="baseline")]
    found = _only(_judge([_skipped()], limits, baseline))
    assert (found.status, found.kind, found.boot) == (Status.FAIL, Kind.MISSING, "seed 1")
    assert found.sentence == "seed 1: needs two CPUs; needs tracing, and the baseline has it"
    assert exit_code([found]) == 1


@pytest.mark.parametrize("limits", [[], [maximum()]], ids=["no limits", "limits"])
@pytest.mark.parametrize("baseline", [[], [record(arm="baseline")]], ids=["alone", "baseline"])
def test_a_lost_flavour_is_told_although_nothing_ran(limits: list[Threshold], baseline: list[Record]) -> None:
    found = _only(_judge([_skipped(ran="generic")], limits, baseline))
    assert (found.status, found.kind) == (Status.FAIL, Kind.FLAVOUR)
    assert found.sentence.startswith("flavour lost: the kernel should be preempt_rt and is generic; seed 1: needs two")


def test_a_skipped_boot_whose_flavour_nobody_knows_is_skipped() -> None:
    assert _only(_judge([_skipped(ran="")])).status is Status.SKIP
    unasked = replace(_skipped(ran="generic"), kernel=replace(_skipped().kernel, flavour=""))
    assert _only(_judge([unasked])).status is Status.SKIP


def test_a_skipped_boot_takes_the_pass_of_the_others_away() -> None:
    found = _judge([_skipped(), record(seed=2)], [maximum()])
    assert [(one.status, one.boot) for one in found] == [(Status.MISS, "seed 1")]
    found = _judge([_skipped(), record(SLOW, seed=2)], [maximum()])
    assert [(one.status, one.boot) for one in found] == [(Status.MISS, "seed 1"), (Status.FAIL, "seed 2")]


def test_a_fault_in_a_skipped_boot_fails() -> None:
    found = _judge([replace(_skipped(), faults=(_oops(),))])
    assert {one.status for one in found} == {Status.SKIP, Status.FAIL}
    assert exit_code(found) == 1


# --- kernel faults


def test_a_fault_in_a_boot_that_measured_fails_and_takes_the_pass_away() -> None:
    found = _only(_judge([record(faults=(_oops(),)), record(seed=2)], [maximum()]))
    assert (found.status, found.kind, found.boot) == (Status.FAIL, Kind.FAULT, "seed 1")
    assert found.sentence == "seed 1: warning: WARNING: CPU: 0 PID: 12 at kernel/x.c:3"


def test_one_fault_in_many_boots_is_told_once() -> None:
    boots = [
        record(seed=seed, faults=(_oops(f"BUG: bad page 0xffff{seed}a at {seed}", FaultKind("bug")),))
        for seed in (1, 2, 3)
    ]
    assert _only(_judge(boots)).boot == "seed 1"
    other = record(seed=4, faults=(_oops("BUG: other", FaultKind("bug")),))
    assert len(_judge([*boots, other])) == 2


def test_a_fault_that_the_baseline_shows_too_is_pre_existing() -> None:
    mine = record(faults=(_oops("WARNING: CPU: 0 PID: 12 at kernel/x.c:3"),))
    theirs = record(arm="baseline", faults=(_oops("WARNING: CPU: 1 PID: 99 at kernel/x.c:3"),))
    found = _judge([mine], [maximum()], [theirs])
    assert [(one.status, one.kind) for one in found] == [(Status.DONE, Kind.FAULT), (Status.PASS, Kind.LIMIT)]
    assert "(pre-existing: the baseline shows it too)" in found[0].sentence
    assert exit_code(found) == 0
    other = record(arm="baseline", faults=(_oops("WARNING: CPU: 1 PID: 99 at kernel/y.c:3"),))
    assert worst(_judge([mine], [maximum()], [other])) is Status.FAIL
    assert worst(_judge([mine], [maximum()], [replace(theirs, faults=(_oops(kind=FaultKind("oops")),))])) is Status.FAIL


def test_a_fault_may_be_only_reported() -> None:
    warned = record(faults=(_oops(),))
    found = _judge([warned], [fault_policy("warning", fails=False), maximum()])
    assert [one.status for one in found] == [Status.DONE, Status.PASS]
    assert "(reported only, by thresholds.yaml)" in found[0].sentence
    assert worst(_judge([warned], [fault_policy("oops", fails=False), maximum()])) is Status.FAIL
    assert worst(_judge([warned], [fault_policy("warning", fails=True), maximum()])) is Status.FAIL


TIMED = {FaultKind.RCU_STALL, FaultKind.HUNG_TASK, FaultKind.SOFT_LOCKUP, FaultKind.HARD_LOCKUP, FaultKind.THROTTLING}


@pytest.mark.parametrize("kind", FaultKind)
@pytest.mark.parametrize("time", ["virtual", "host", "real"])
def test_only_on_host_time_a_fault_of_time_alone_proves_nothing(kind: FaultKind, time: str) -> None:
    made = record(faults=(_oops("it happened", kind),))
    found = _only(_judge([replace(made, environment=replace(made.environment, time=TimeBase(time)))]))
    excused = time == "host" and kind in TIMED
    assert found.status is (Status.DONE if excused else Status.FAIL)
    assert ("not judged: on a host-time board" in found.sentence) == excused


def test_on_host_time_lateness_and_lost_wakeups_are_shown_not_judged() -> None:
    made = record()
    times = {Unit.VIRTUAL_NS: Unit.NS, Unit.VIRTUAL_US: Unit.US, Unit.COUNT: Unit.COUNT}
    host = replace(
        made,
        environment=replace(made.environment, time=TimeBase.HOST),
        measurements=tuple(
            replace(one, histogram=replace(one.histogram, unit=Unit.NS))
            if one.histogram
            else number(one.name, one.quantity.value if one.quantity else 0, times[one.unit])
            for one in made.measurements
        ),
    )
    found = _judge([host], [maximum("1 virtual us"), share(), maximum("0 count", "wakeups.lost")])
    assert [(one.status, one.kind) for one in found] == [(Status.DONE, Kind.NOT_APPLIED)]
    assert "3 limits left out" in found[0].sentence


def test_limits_of_virtual_time_are_not_for_a_virtual_board_on_another_clock() -> None:
    made = record()
    attached = replace(made, environment=replace(made.environment, time=TimeBase.REAL))
    lost = replace(number("wakeups.lost", 4000, Unit.COUNT), labels={})
    attached = replace(attached, measurements=(*without("wakeups.lost", attached).measurements, lost))
    counted = maximum("1 count", "wakeups.lost")
    for limits in ([maximum(), counted], [share(), counted]):
        (verdict,) = _judge([attached], limits)
        assert (verdict.status, verdict.kind) == (Status.DONE, Kind.NOT_APPLIED)
        assert "not on virtual time for which its 2 limits are: shown, not judged" in verdict.sentence
    # A limit in counts alone says nothing about a clock.
    (verdict,) = [one for one in _judge([attached], [counted]) if one.measurement == "wakeups.lost"]
    assert verdict.status is Status.FAIL


def _stressed(failures: float) -> Record:
    made = asking(record(case=STRESS), counts=[], interval_us=0)
    return replace(made, measurements=(replace(number("failures", failures, Unit.COUNT), labels={}),))


def test_a_failure_that_a_tool_found_fails_without_a_limit() -> None:
    (verdict,) = _judge([_stressed(1)])
    assert (verdict.status, verdict.kind) == (Status.FAIL, Kind.GUARANTEE)
    assert verdict.sentence == "failures was 1 count in seed 1, must be 0 count (a kernel that works has none)"


def test_no_failure_is_a_pass_without_a_limit() -> None:
    (verdict,) = _judge([_stressed(0)])
    assert verdict.status is Status.PASS


MIGRATE = "scheduling/rt-migrate-test:idle"


def _migrated(failures: float, rounds: float, time: str) -> Record:
    """Return the record of a run that ends with the first task that is late; 50 rounds and 10 s are asked for."""
    made = asking(
        record(case=MIGRATE),
        threads=[],
        interval_us=0,
        clock=False,
        duration_s=10.0,
        ends_with="failures",
        counts=[Count(measurement="rounds", least=50)],
    )
    counted = tuple(
        replace(number(name, value, Unit.COUNT), labels={})
        for name, value in (("failures", failures), ("rounds", rounds))
    )
    made = evidence(made, elapsed_s=rounds / 5)
    return replace(made, measurements=counted, environment=replace(made.environment, time=TimeBase(time)))


def _judged(made: Record, *limits: Threshold) -> list[tuple[Status, Kind]]:
    subject = Subject(case=MIGRATE, board=BOARD, arm="candidate", flavour=FLAVOUR, records=(made,))
    own = tuple(replace(limit, case=MIGRATE) for limit in limits)
    return [(one.status, one.kind) for one in judge(subject, Thresholds(own))]


@pytest.mark.parametrize(
    ("failures", "rounds", "time", "verdicts"),
    [
        (0, 50, "real", [(Status.PASS, Kind.GUARANTEE)]),
        (1, 40, "real", [(Status.FAIL, Kind.GUARANTEE)]),
        (1, 40, "virtual", [(Status.DONE, Kind.UNJUDGED)]),
        (0, 50, "virtual", [(Status.DONE, Kind.UNJUDGED)]),
        (1, 40, "host", [(Status.DONE, Kind.UNJUDGED)]),
        (0, 50, "host", [(Status.PASS, Kind.GUARANTEE)]),
        # Nothing excuses a run that was short for another reason.
        (0, 40, "real", [(Status.ERROR, Kind.VALIDITY)] * 2),
        (0, 40, "host", [(Status.ERROR, Kind.VALIDITY)] * 2),
    ],
)
def test_a_task_that_is_late_is_the_kernel_s_failure_except_where_the_host_can_make_it_late(
    failures: float, rounds: float, time: str, verdicts: list[tuple[Status, Kind]]
) -> None:
    assert _judged(_migrated(failures, rounds, time)) == verdicts


def test_lateness_on_host_time_says_who_can_cause_it() -> None:
    subject = Subject(case=MIGRATE, board=BOARD, arm="candidate", flavour=FLAVOUR, records=(_migrated(1, 4, "host"),))
    (verdict,) = judge(subject, Thresholds())
    assert verdict.sentence.startswith("failures was 1 count in ")
    assert verdict.sentence.endswith("shown, not judged, because on host time the host can cause it")


NONE_LATE, ONE_LATE = maximum("0 count", "failures"), maximum("1 count", "failures")


@pytest.mark.parametrize(
    ("limit", "failures", "time", "verdicts"),
    [
        (NONE_LATE, 1, "real", [(Status.FAIL, Kind.LIMIT)]),
        (NONE_LATE, 1, "virtual", [(Status.FAIL, Kind.LIMIT)]),
        (NONE_LATE, 1, "host", [(Status.DONE, Kind.UNJUDGED)]),
        (ONE_LATE, 1, "real", [(Status.ERROR, Kind.VALIDITY)] * 2),
        (ONE_LATE, 1, "host", [(Status.ERROR, Kind.VALIDITY)] * 2),
        (NONE_LATE, 0, "real", [(Status.ERROR, Kind.VALIDITY)] * 2),
    ],
)
def test_a_limit_of_lateness_explains_a_short_run_as_its_guarantee_does(
    limit: Threshold, failures: float, time: str, verdicts: list[tuple[Status, Kind]]
) -> None:
    assert _judged(_migrated(failures, 40, time), limit) == verdicts


def test_a_task_that_was_late_before_anybody_looked_breaks_its_limit() -> None:
    made = asking(_migrated(1, 1, "real"), threads=[Threads(count=1, policy=1, priority=2)])
    unseen = evidence(made, threads=())
    assert _judged(unseen, NONE_LATE) == [(Status.FAIL, Kind.LIMIT)]


def _with_latency(made: Record) -> Record:
    return replace(made, measurements=(*made.measurements, number("latency.max", 30, Unit.VIRTUAL_US)))


def test_what_is_shown_not_judged_lets_no_limit_be_kept_by_a_short_run() -> None:
    """On virtual time nobody knows whose fault it is that 1 round of 50 was measured."""
    assert _judged(_with_latency(_migrated(1, 1, "virtual")), maximum()) == [(Status.DONE, Kind.UNJUDGED)]
    slow = _judged(_with_latency(_migrated(1, 1, "virtual")), maximum("1 virtual us"))
    assert slow == [(Status.FAIL, Kind.LIMIT), (Status.DONE, Kind.UNJUDGED)]
    whole = _judged(_with_latency(_migrated(0, 50, "virtual")), maximum())
    assert whole == [(Status.PASS, Kind.LIMIT), (Status.DONE, Kind.UNJUDGED)]


def test_what_is_shown_not_judged_explains_no_thread_that_nobody_saw() -> None:
    made = asking(_migrated(1, 1, "virtual"), threads=[Threads(count=1, policy=1, priority=2)])
    unseen = evidence(made, threads=())
    assert _judged(unseen) == [(Status.ERROR, Kind.VALIDITY), (Status.DONE, Kind.UNJUDGED)]


MSI = "pcie/edu-msi:idle"


def _cut_short(losses: float, *, seen: bool = False) -> Record:
    """Return the record of pcie-edu that ended with the first interrupt that did not come, of 10 s asked for."""
    made = asking(record({30_000: 40}, case=MSI), duration_s=10.0, ends_with="interrupts.lost")
    made = evidence(made, elapsed_s=1.1, threads=made.evidence.threads if seen else ())
    return replace(made, measurements=(*made.measurements, number("interrupts.lost", losses, Unit.COUNT)))


def _judge_msi(records: Sequence[Record], *limits: Threshold) -> tuple[Verdict, ...]:
    subject = Subject(case=MSI, board=BOARD, arm="candidate", flavour=FLAVOUR, records=records)
    return judge(subject, Thresholds(tuple(replace(limit, case=MSI) for limit in limits)))


@pytest.mark.parametrize("seen", [True, False])
def test_what_a_failure_cut_off_is_not_told_beside_it(*, seen: bool) -> None:
    (verdict,) = _judge_msi([_cut_short(1, seen=seen)])
    assert (verdict.status, verdict.kind) == (Status.FAIL, Kind.GUARANTEE)
    assert verdict.sentence.startswith("interrupts.lost was 1 count on CPU 0 in seed 1")
    # And none of its limits was kept: 40 interrupts are not 10 s of them.
    assert {one.status for one in _judge_msi([_cut_short(1, seen=seen)], maximum())} == {Status.FAIL}
    slow, lost = _judge_msi([_cut_short(1, seen=True)], maximum("1 virtual us"))
    assert (slow.measurement, lost.measurement) == ("latency.max", "interrupts.lost")


def test_nothing_excuses_a_short_run_without_a_failure_or_with_one_that_a_limit_allows() -> None:
    errors = [(Status.ERROR, Kind.VALIDITY)] * 3
    for limits, losses in (((), 0), ((maximum("3 count", "interrupts.lost"),), 1)):
        verdicts = _judge_msi([_cut_short(losses)], *limits, maximum())
        assert [(one.status, one.kind) for one in verdicts] == errors
        assert sum("invalid measurement in seed 1" in one.sentence for one in verdicts) == 3


def test_a_boot_that_was_cut_short_by_nothing_is_told_beside_one_that_was() -> None:
    other = replace(_cut_short(0), seed=2)
    verdicts = _judge_msi([_cut_short(1), other])
    assert [one.status for one in verdicts] == [*[Status.ERROR] * 3, Status.FAIL]
    assert all("seed 2" in one.sentence for one in verdicts if one.status is Status.ERROR)


def test_what_a_failure_kept_from_being_counted_is_not_told_beside_it() -> None:
    """pi_stress is killed by its own watchdog before it writes results."""
    made = asking(_stressed(1), counts=[Count(measurement="inversions", least=1000)], ends_with="failures")
    assert [(one.status, one.kind) for one in _judge([made])] == [(Status.FAIL, Kind.GUARANTEE)]
    allowed = replace(maximum("1 count", "failures"), case=STRESS)
    assert [one.status for one in _judge([made], [allowed])] == [Status.ERROR]


def test_a_limit_takes_the_place_of_the_guarantee() -> None:
    allowed = replace(maximum("2 count", "failures"), case=STRESS)
    (verdict,) = _judge([_stressed(1)], [allowed])
    assert verdict.status is Status.PASS


@pytest.mark.parametrize(("allowed", "status"), [("0 count", Status.FAIL), ("2 count", Status.PASS)])
def test_a_limit_of_failures_holds_on_host_time_as_its_guarantee_does(allowed: str, status: Status) -> None:
    stressed = _stressed(1)
    host = replace(stressed, environment=replace(stressed.environment, time=TimeBase.HOST))
    found = _judge([host], [replace(maximum(allowed, "failures"), case=STRESS)])
    assert [(verdict.status, verdict.kind) for verdict in found] == [(status, Kind.LIMIT)]


def test_a_guarantee_that_is_kept_does_not_make_up_for_what_nobody_judged() -> None:
    kept, unjudged = _judge([_stressed(0)]), _judge([record()])
    assert exit_code(kept) == 0
    assert exit_code([*kept, *unjudged]) == 5
    assert exit_code([*kept, *unjudged, *_judge([record()], [maximum()])]) == 0


def test_a_kernel_that_lost_a_cpu_fails() -> None:
    made = record()
    one = replace(made, environment=replace(made.environment, cpus="2", online="0"))
    found = _judge([one], [maximum()])
    assert [(verdict.status, verdict.kind) for verdict in found] == [(Status.FAIL, Kind.BOOT)]
    assert "CPUs lost: seed 1: CPUs 0 were online, and the board has 2" in found[0].sentence


def test_a_tool_that_ended_early_is_believed_its_failure_and_not_its_success() -> None:
    ended = [evidence(_stressed(failures), threads=(), elapsed_s=0.1) for failures in (1, 0)]
    assert worst(_judge(ended[:1])) is Status.FAIL
    assert worst(_judge(ended[1:])) is Status.ERROR


def test_a_failure_on_host_time_fails_too() -> None:
    stressed = _stressed(1)
    host = replace(stressed, environment=replace(stressed.environment, time=TimeBase.HOST))
    assert {verdict.status for verdict in _judge([host])} == {Status.FAIL}


# --- properties

FAULTS = st.sampled_from(
    [(), (), (), (_oops(),), (_oops("rcu: stall", FaultKind("rcu-stall")),), (_oops("Oops: 1", FaultKind("oops")),)]
)
STATES = st.sampled_from(
    ["measured"] * 6 + ["no boot", "kernel fault", "hang", "unreadable", "lab", "not repeated", "skipped"]
)
SPOIL = st.sampled_from(
    [
        *("", "", "", "", "threads", "flavour", "unproven", "cycles", "duration", "load", "settings", "unread"),
        *("writes", "clock", "counts"),
    ]
)
COUNTS = st.dictionaries(st.integers(0, 199_999), st.integers(1, 2500), min_size=1, max_size=3)


def _spoiled(made: Record, how: str) -> Record:
    if how in {"flavour", "unproven"}:
        return replace(made, environment=replace(made.environment, flavour="generic" if how == "flavour" else ""))
    all_changes: dict[str, dict[str, object]] = {
        "threads": {"threads": ()},
        "duration": {"elapsed_s": 0.3},
        "load": {"load": "hackbench", "load_seen": DEAD},
        "settings": {"settings": CHANGED},
        "unread": {"settings": {}, "writes": {"/proc/sys/kernel/timer_migration": "0"}},
        "writes": {"writes": {"/proc/sys/kernel/sched_rt_runtime_us": "-1"}},
        "clock": {"expectation": replace(made.evidence.expectation, clock=True), "processes": ("ntpd",)},
        "counts": {"expectation": replace(made.evidence.expectation, counts=(Count(measurement="samples", least=1),))},
    }
    return evidence(made, **all_changes[how]) if how in all_changes else made


@st.composite
def boots(draw: st.DrawFn) -> list[Record]:
    made = []
    for seed in range(1, draw(st.integers(0, 3)) + 1):
        how = draw(SPOIL)
        counts = draw(COUNTS)
        total = sum(counts.values())
        if how != "cycles" and total < 2000:
            counts[30_000] = counts.get(30_000, 0) + 2000 - total
        state = draw(STATES)
        if state != "measured":
            made.append(record(seed=seed, state=state, message="m", faults=draw(FAULTS)))
            continue
        one = record(counts, seed=seed, overflow=draw(st.sampled_from([0, 0, 0, 2])), faults=draw(FAULTS))
        if draw(st.integers(0, 9)) == 0:
            one = without("latency.max", one)
        made.append(_spoiled(one, how))
    return made


LIMITS = st.lists(
    st.integers(0, 210_000).map(lambda value: maximum(f"{value} virtual ns"))
    | st.tuples(st.floats(1e-6, 0.9), st.integers(0, 210_000)).map(lambda two: share(two[0], f"{two[1]} virtual ns"))
    | st.sampled_from([maximum("1999 count", "wakeups"), fault_policy("warning", fails=False)]),
    max_size=3,
)


@examples(200)
@given(boots(), LIMITS, boots())
def test_exit_code_zero_means_measured_valid_and_judged(
    records: list[Record], limits: list[Threshold], baseline: list[Record]
) -> None:
    found = _judge(records, limits, baseline)
    assert found
    if exit_code(found) != 0:
        return
    assert records
    assert all(one.state == "measured" for one in records)
    assert all(check.result is not CheckResult.FAILED for one in records for check in checks(one, {}))
    assert any(one.status is Status.PASS for one in found)
    names = {limit.measurement for limit in limits if limit.measurement}
    assert all(names <= {one.name for one in made.measurements} for made in records)


@examples(200)
@given(boots(), LIMITS)
def test_a_maximum_over_its_limit_in_a_sound_boot_always_fails(records: list[Record], limits: list[Threshold]) -> None:
    over = [
        one
        for one in records
        if one.state == "measured"
        and not any(
            check.result is CheckResult.FAILED and check.invalidates is not Invalidates.GOOD_NEWS
            for check in checks(one, {})
        )
        and any(
            part.name == "latency.max" and part.quantity and part.quantity.value > 50_000 for part in one.measurements
        )
    ]
    if over:
        assert exit_code(_judge(records, [*limits, maximum("50 virtual us")])) == 1


@examples(200)
@given(boots(), LIMITS, st.randoms(use_true_random=False))
def test_the_order_of_boots_changes_no_status(records: list[Record], limits: list[Threshold], chance: object) -> None:
    mixed = list(records)
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    assert exit_code(_judge(mixed, limits)) == exit_code(_judge(records, limits))
    assert worst(_judge(mixed, limits)) is worst(_judge(records, limits))


@examples(200)
@given(boots(), LIMITS)
def test_every_verdict_has_a_sentence_and_names_the_case(records: list[Record], limits: list[Threshold]) -> None:
    for one in _judge(records, limits):
        assert re.search(r"\w", one.sentence)
        assert (one.board, one.arm, one.flavour, one.case) == (BOARD, "candidate", FLAVOUR, CASE)


def _on_host_time_losing(lost: int, measured: int) -> Record:
    made = record()
    counts = {"wakeups": measured, "wakeups.lost": lost}
    measurements = tuple(
        replace(one, quantity=replace(one.quantity, value=counts[one.name]))
        if one.name in counts and one.quantity
        else one
        for one in made.measurements
    )
    return replace(made, environment=replace(made.environment, time=TimeBase.HOST), measurements=measurements)


def test_a_host_on_which_most_wake_ups_were_lost_was_too_busy() -> None:
    found = [one for one in _judge([_on_host_time_losing(9100, 900)]) if one.kind is Kind.LAB]
    assert [one.status for one in found] == [Status.MISS]
    assert "host too busy: 91% of the wake-ups were lost (9100 of 10000); measure again" in found[0].sentence
    assert exit_code(found) == 3


@pytest.mark.parametrize(("lost", "busy"), [(7500, False), (7501, True)])
def test_three_quarters_of_the_wake_ups_lost_are_still_a_measurement(lost: int, busy: bool) -> None:
    found = _judge([_on_host_time_losing(lost, 10_000 - lost)])
    assert (Kind.LAB in {one.kind for one in found}) == busy


@pytest.mark.parametrize(
    ("time", "took", "status", "kind"),
    [
        (TimeBase.HOST, 1.0, Status.MISS, Kind.LAB),
        (TimeBase.HOST, 0.9, Status.ERROR, Kind.VALIDITY),  # it ended before its time, which no host makes it do
        (TimeBase.VIRTUAL, 1.0, Status.ERROR, Kind.VALIDITY),
        (TimeBase.REAL, 1.0, Status.ERROR, Kind.VALIDITY),
    ],
)
def test_too_little_work_may_be_a_busy_host_s(time: TimeBase, took: float, status: Status, kind: Kind) -> None:
    made = asking(record(), counts=[Count(measurement="wakeups", least=2001)])
    made = evidence(made, elapsed_s=took * made.evidence.expectation.duration_s)
    found = _judge([replace(made, environment=replace(made.environment, time=time))])
    (little,) = [one for one in found if "at least 2001 are needed" in one.sentence]
    assert (little.status, little.kind) == (status, kind)
    assert Status.PASS not in {one.status for one in found}


@pytest.mark.parametrize(
    ("time", "times_as_long", "kinds"),
    [
        (TimeBase.HOST, 1.4, {Kind.LAB}),
        (TimeBase.HOST, 1.39, {Kind.VALIDITY}),
        (TimeBase.VIRTUAL, 1.4, {Kind.VALIDITY}),
        (TimeBase.REAL, 1.4, {Kind.VALIDITY}),
    ],
)
def test_a_host_that_looked_when_the_tool_had_ended_was_too_busy(
    time: TimeBase, times_as_long: float, kinds: set[Kind]
) -> None:
    made = _on_host_time_losing(600, 1400)
    took = times_as_long * made.evidence.expectation.duration_s
    unseen = replace(
        made,
        environment=replace(made.environment, time=time),
        evidence=replace(made.evidence, threads=(), elapsed_s=took),
    )
    found = [one for one in _judge([unseen]) if "no thread of the tool was seen" in one.sentence]
    assert {one.kind for one in found} == kinds


def test_wake_ups_that_a_host_lost_stand_in_the_sentence() -> None:
    found = _judge([_on_host_time_losing(500, 1500)])
    assert not [one for one in found if one.kind is Kind.LAB]
    assert any(
        one.sentence.startswith("measured in 1 boot (25% of the wake-ups were lost (500 of 2000))") for one in found
    )


def test_wake_ups_lost_on_virtual_time_are_the_kernel_s() -> None:
    made = _on_host_time_losing(9100, 900)
    virtual = replace(made, environment=replace(made.environment, time=TimeBase.VIRTUAL))
    assert not [one for one in _judge([virtual]) if one.kind is Kind.LAB]


def _looked_late(measured: Record) -> Record:
    """Return a boot whose measuring threads had ended when page faults were looked at again."""
    return evidence(measured, threads=[one for one in measured.evidence.threads if one.moment != "late"])


@pytest.mark.parametrize(("late", "status"), [(0, Status.PASS), (2, Status.PASS), (3, Status.ERROR), (4, Status.ERROR)])
def test_boots_that_looked_too_late_rest_on_the_others_of_the_case(late: int, status: Status) -> None:
    boots = [record(seed=seed) for seed in range(1, 5)]
    found = _judge([*map(_looked_late, boots[:late]), *boots[late:]], [maximum()])
    assert worst(found) is status
    if status is Status.ERROR:
        (error,) = (one for one in found if one.status is Status.ERROR)
        assert error.sentence.startswith(f"invalid measurement in {late} of 4 boots of the candidate (page-faults): ")
        assert all(one.status is not Status.PASS for one in found)


def test_a_boot_that_looked_too_late_does_not_hide_page_faults_of_another() -> None:
    threads = record().evidence.threads
    faulting = [
        replace(one, minor_faults=(one.minor_faults or 0) + 7) if one.moment == "late" else one for one in threads
    ]
    found = _judge([_looked_late(record()), evidence(record(seed=2), threads=faulting)], [maximum()])
    assert worst(found) is Status.ERROR


def test_a_baseline_that_looked_too_late_is_not_believed_either() -> None:
    before = [_looked_late(record(seed=seed, arm="baseline")) for seed in (1, 2)]
    found = _judge([record(seed=1), record(seed=2)], [maximum()], before)
    (error,) = (one for one in found if one.status is Status.ERROR)
    assert error.sentence.startswith("invalid measurement in 2 of 2 boots of the baseline (page-faults): ")


def test_a_board_that_declares_why_page_faults_do_not_apply_is_asked_for_no_look() -> None:
    found = _judge([_looked_late(record())], [maximum()], not_applicable={"page-faults": "declared"})
    assert worst(found) is Status.PASS
