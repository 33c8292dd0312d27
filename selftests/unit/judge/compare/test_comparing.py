# SPDX-License-Identifier: MIT
from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import Mock

import pytest
from selftests.unit.judge.conftest import BOARD, CASE, FLAVOUR, asking, evidence, number, record, without
from selftests.unit.report.conftest import Boot, make

from rtgate.board.boot import ArmName, State, TimeBase
from rtgate.console.faults import Fault, FaultKind
from rtgate.judge.compare import on_virtual_time, usable
from rtgate.judge.compare.boot_figures import boot_figures
from rtgate.judge.compare.comparing import compare
from rtgate.judge.compare.exercise import run_exercise
from rtgate.judge.compare.inputs import ComparisonInputs, HistoryProvider, NoHistory
from rtgate.judge.compare.phases import Placebo
from rtgate.judge.compare.placebos import PlaceboModel, Placebos
from rtgate.judge.compare.triage import Reason, SelectableCase, choose
from rtgate.judge.judging import Subject
from rtgate.judge.verdict import Kind, Status, Verdict, exit_code
from rtgate.records.evidence import LoadSample
from rtgate.records.explained import CaseExplanation, Change
from rtgate.records.record import Record
from rtgate.records.schedule import Schedule
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.units import Quantity, Unit
from rtgate.validity import registry

FIGURES = (*(f"latency {name}" for name in ("mean", "p50", "p90", "p99", "maximum")), "wakeups", "wakeups.lost")
COMMAND = " ".join(record().argv)
PLACEBOS = Placebos(
    {
        (BOARD, FLAVOUR, CASE): (
            PlaceboModel(
                command=COMMAND,
                source="30 kernels",
                figures=dict.fromkeys(FIGURES, Placebo(move=0.01, spike=1.5, kernels=30, boots=12)),
            ),
        )
    }
)


def arm(name: str, *, slower: float = 1.0, boots: int = 12, rare: int = 0) -> list[Record]:
    """Return boots of 2000 wake-ups, each with its own phase; `rare` of them have one very late."""
    made = []
    for seed in range(1, boots + 1):
        chance = random.Random(f"{name} {seed}")
        values = [int(slower * (28_800 + 16 * chance.randrange(8))) for _ in range(1990)]
        values += [int(slower * chance.uniform(35_000, 45_000)) for _ in range(10)]
        if seed <= rare:
            values[-1] = 120_000
        counts = {value: values.count(value) for value in sorted(set(values))}
        one = record(counts, seed=seed, arm=name)
        made.append(imaged(one, name))
    return made


def imaged(one: Record, image: str) -> Record:
    """Return the record of a boot of another image."""
    return replace(one, kernel=replace(one.kernel, image_sha256=image), machine={**one.machine, "image_sha256": image})


def with_wakeups(number: int, one: Record) -> Record:
    """Return the record of a boot that measured only so many wake-ups, as one that stalled."""
    measurements = [
        replace(entry, histogram=replace(entry.histogram, counts={28_800: number})) if entry.histogram else entry
        for entry in one.measurements
    ]
    return replace(one, measurements=tuple(measurements))


def told(
    candidate: Sequence[Record], baseline: Sequence[Record] | None = None, placebos: Placebos = PLACEBOS
) -> list[Verdict]:
    subject = Subject(
        case=CASE,
        board=BOARD,
        arm="candidate",
        flavour=FLAVOUR,
        records=candidate,
        baseline=arm("baseline") if baseline is None else baseline,
    )
    return list(compare([subject], ComparisonInputs(placebos=placebos)))


def test_a_harmless_kernel_is_no_worse_and_says_what_is_ruled_out() -> None:
    (verdict,) = with_trace(arm("candidate"), AWAKE)
    assert (verdict.status, verdict.kind) == (Status.PASS, Kind.NO_WORSE)
    assert "7 figures of 12 boots" in verdict.sentence
    assert "of latency maximum in all boots is ruled out (each at 95 %)" in verdict.sentence
    assert "of 1 differing function 1 ran: hrtimer_wakeup" in verdict.sentence
    assert "would be found in 9 of 10 such runs: every wake-up from +2 %, the tail alone from +" in verdict.sentence
    assert [one["change"] for one in verdict.detectable] == ["every wake-up", "the tail alone"]


def test_a_slower_kernel_regresses_figure_by_figure() -> None:
    found = told(arm("candidate", slower=1.05))
    body = next(one for one in found if one.measurement == "latency p50")
    assert (body.status, body.kind) == (Status.FAIL, Kind.REGRESSION)
    assert body.sentence.startswith("latency p50 +5.0%: 28.9 virtual us (3608 instructions) before, 30.3 virtual us")
    assert "12 boots of each kernel" in body.sentence
    assert body.value is not None
    assert body.value.quantity is not None
    assert body.value.quantity.unit is Unit.VIRTUAL_NS
    assert "virtual us" in body.value.text
    assert "instructions" in body.value.text


def test_a_rare_slow_wake_up_is_a_regression_that_names_the_boots() -> None:
    found = [one for one in told(arm("candidate", rare=4)) if one.status is Status.FAIL]
    assert [one.measurement for one in found] == ["latency maximum"]
    assert "4 of 12 boots" in found[0].sentence


def test_a_rare_slow_wake_up_has_the_figure_of_its_worst_boot() -> None:
    (failed,) = [verdict for verdict in told(arm("candidate", rare=4)) if verdict.status is Status.FAIL]
    worst = max(boot_figures(record)["latency maximum"].value for record in arm("candidate", rare=4))
    assert failed.value is not None
    assert failed.value.number == worst
    assert f", up to {failed.value}; median" in failed.sentence
    for bound in (failed.limit, failed.baseline):
        assert bound is not None
        assert bound.number is not None
        assert bound.number < worst


def test_without_placebos_figures_are_shown_and_nothing_is_judged() -> None:
    (verdict,) = told(arm("candidate", slower=2), placebos=Placebos())
    assert (verdict.status, verdict.kind) == (Status.DONE, Kind.NOT_COMPARED)
    assert "latency p50 +100.0%" in verdict.sentence


def test_each_boot_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = arm("baseline"), arm("candidate")
    checked = Mock(side_effect=registry.checks)
    monkeypatch.setattr(usable, "checks", checked)
    assert told(after, before)
    assert [call.args[0] for call in checked.call_args_list] == [*before, *after]


def _ending_with_failures(name: str, *, failures: float = 1, elapsed_s: float = 1.1, seen: bool = True) -> list[Record]:
    """Return 12 boots of a tool that ends with the first failure that it finds, and else after 2 s."""
    boots = []
    for one in arm(name):
        made = asking(one, duration_s=2.0, ends_with="failures")
        made = evidence(made, elapsed_s=elapsed_s, threads=made.evidence.threads if seen else ())
        boots.append(replace(made, measurements=(*made.measurements, number("failures", failures, Unit.COUNT))))
    return boots


@pytest.mark.parametrize("seen", [True, False])
def test_a_baseline_whose_own_failure_ended_every_run_is_no_error_of_the_fix(*, seen: bool) -> None:
    fix = _ending_with_failures("candidate", failures=0, elapsed_s=2.0)
    (verdict,) = told(fix, _ending_with_failures("baseline", seen=seen))
    assert (verdict.status, verdict.kind) == (Status.DONE, Kind.NOT_COMPARED)
    assert verdict.sentence == "not compared: the runs of the baseline ended with its own failure"


def test_a_candidate_whose_own_failure_ended_every_run_unseen_is_no_error() -> None:
    broken = _ending_with_failures("candidate", seen=False)
    (verdict,) = told(broken, _ending_with_failures("baseline", failures=0, elapsed_s=2.0))
    assert (verdict.status, verdict.kind) == (Status.DONE, Kind.NOT_COMPARED)
    assert verdict.sentence == "not compared: the runs of the candidate ended with its own failure"


def test_a_failure_that_ended_the_runs_explains_nothing_else_that_is_wrong_with_them() -> None:
    fix, short = _ending_with_failures("candidate", failures=0, elapsed_s=2.0), _ending_with_failures("baseline")
    without_failure = _ending_with_failures("baseline", failures=0)
    unproven = [evidence(one, writes={"/proc/sys/kernel/sched_rt_runtime_us": "-1"}) for one in short]
    for baseline in (without_failure, [*short[:11], without_failure[11]], unproven):
        (verdict,) = told(fix, baseline)
        assert (verdict.status, verdict.kind) == (Status.ERROR, Kind.VALIDITY)
        assert verdict.sentence.startswith("not compared: no boot of baseline is valid: ")
    # The baseline's lack is told before the candidate's failure: judging tells the one, and nothing else the other.
    (verdict,) = told(_ending_with_failures("candidate", seen=False), without_failure)
    assert verdict.status is Status.ERROR


def test_few_boots_do_not_decide() -> None:
    (verdict,) = told(arm("candidate", boots=3), arm("baseline", boots=3))
    assert (verdict.status, verdict.kind) == (Status.DONE, Kind.INCONCLUSIVE)


def test_boots_that_cannot_be_used_take_good_news_away() -> None:
    candidate = arm("candidate")
    lost = [replace(candidate[0], state=State.HANG, measurements=()), *candidate[1:]]
    (verdict,) = told(lost)
    assert (verdict.status, verdict.kind) == (Status.DONE, Kind.NOT_COMPARED)
    assert "not every check held in 1 boot" in verdict.sentence


@pytest.mark.parametrize("arms", ["none", "one", "other seeds"])
def test_what_must_not_be_compared_is_not(arms: str) -> None:
    candidate = arm("candidate") if arms != "none" else []
    baseline = arm("baseline", boots=11) if arms == "other seeds" else []
    assert told(candidate, baseline) == []


def test_a_slow_kernel_under_a_load_that_died_is_slow_all_the_same() -> None:
    died = (LoadSample(moment="start", processes=1, ticks=0), LoadSample(moment="middle", processes=0, ticks=5))
    slow = [evidence(one, load="hackbench", load_seen=died) for one in arm("candidate", slower=1.3)]
    base = [evidence(one, load="hackbench") for one in arm("baseline")]
    assert any(one.status is Status.FAIL for one in told(slow, base))


class Qualified(NoHistory):
    """A board that somebody has qualified."""

    def disqualification(self, like: Record) -> str:
        return "" if like.board == "rk3568-evb1" else "not this one"


def on_a_board(name: str, *, slower: float = 1.0, boots: int = 12) -> list[Record]:
    """Return boots of a board whose body wanders by a percent between boots, in both kernels alike."""
    return [_boot_of_a_board(name, slower, number) for number in range(1, boots + 1)]


@cache
def _boot_of_a_board(name: str, slower: float, number: int) -> Record:
    chance = random.Random(f"{name} {number}")
    factor = slower * chance.lognormvariate(0, 0.01)
    counts: dict[int, int] = {}
    for _ in range(20_000):
        value = int(factor * (chance.gauss(30, 2) + (chance.random() < 0.02) * chance.expovariate(1 / 4)))
        counts[value] = counts.get(value, 0) + 1
    histogram = Histogram(unit=Unit.US, counts=dict(sorted(counts.items())), overflow=0, limit=1000)
    arm = name if name in set(ArmName) else ArmName.CANDIDATE
    one = make(Boot(board="rk3568-evb1", seed=None, arm=arm, samples=20_000))
    changed: dict[str, Any] = {
        "latency": {"histogram": histogram},
        "latency.max": {"quantity": Quantity(max(counts), Unit.US)},
    }
    kept = tuple(replace(each, **changed.get(each.name, {})) for each in one.measurements)
    return replace(one, measurements=kept, boot_id=f"{name} {number}")


def told_of_a_board(
    candidate: list[Record], past: HistoryProvider, baseline: list[Record] | None = None
) -> list[Verdict]:
    subject = Subject(
        case=CASE,
        board="rk3568-evb1",
        arm="candidate",
        flavour=FLAVOUR,
        records=candidate,
        baseline=baseline or on_a_board("baseline"),
        not_applicable=dict.fromkeys(("counts", "cycles", "duration"), "synthetic"),
    )
    return list(compare([subject], ComparisonInputs(history=past)))


@pytest.mark.parametrize(("slower", "kind"), [(1.0, Kind.NO_WORSE), (1.15, Kind.REGRESSION)])
def test_boards_are_compared_by_pairs_of_boots(slower: float, kind: Kind) -> None:
    (verdict,) = told_of_a_board(on_a_board("candidate", slower=slower), Qualified())
    assert verdict.kind is kind, verdict.sentence


def test_a_board_that_nobody_qualified_judges_nothing() -> None:
    (verdict,) = told_of_a_board(on_a_board("candidate", slower=1.15), NoHistory())
    assert (verdict.status, verdict.kind) == (Status.DONE, Kind.NOT_COMPARED)
    assert "rtgate qualify" in verdict.sentence
    assert "worse than the baseline" in verdict.sentence


class ByBoot(Qualified):
    """Knows the board by what a boot tells of it; one that came to nothing tells nothing."""

    def disqualification(self, like: Record) -> str:
        good = like.has_results and not like.environment.nohz_full
        return super().disqualification(like) if good else "in another environment"


def test_a_lost_first_boot_hides_no_regression() -> None:
    arms = {"baseline": on_a_board("baseline"), "candidate": on_a_board("candidate", slower=1.15)}
    for boots in arms.values():
        boots[0] = replace(boots[0], state=State.LAB, measurements=())
    (verdict,) = told_of_a_board(arms["candidate"], ByBoot(), arms["baseline"])
    assert verdict.kind is Kind.REGRESSION, verdict.sentence


def test_a_configuration_that_changes_what_is_read_back_is_judged_by_the_history_of_the_baseline() -> None:
    def configured(boots: list[Record], digest: str, nohz_full: str = "") -> list[Record]:
        return [
            replace(boot, environment=replace(boot.environment, config_sha256=digest, nohz_full=nohz_full))
            for boot in boots
        ]

    old = configured(on_a_board("baseline"), "b" * 64)
    new = configured(on_a_board("candidate", slower=1.15), "c" * 64, nohz_full="2-3")
    (verdict,) = told_of_a_board(new, ByBoot(), old)
    assert verdict.kind is Kind.REGRESSION, verdict.sentence


def test_host_time_is_compared_by_pairs_and_judged_where_somebody_qualified_it() -> None:
    def host(records: list[Record]) -> list[Record]:
        return [replace(one, environment=replace(one.environment, time=TimeBase.HOST)) for one in records]

    (verdict,) = told(host(arm("candidate", slower=2)), host(arm("baseline")))
    assert (verdict.status, verdict.kind) == (Status.DONE, Kind.NOT_COMPARED)
    assert "worse than the baseline in 12 pairs" in verdict.sentence
    assert "rtgate qualify" in verdict.sentence


def traced(executed: dict[str, int], *, resting: tuple[str, ...] = (), sentence: str = "") -> CaseExplanation:
    return CaseExplanation(
        baseline_image="baseline",
        candidate_image="candidate",
        seed=1,
        executed=executed,
        resting=resting,
        sentence=sentence,
    )


ASLEEP = traced({}, resting=("nfs_lookup", "nfs_open"))
AWAKE = traced({"hrtimer_wakeup": 900}, sentence="+90 instructions in hrtimer_wakeup")


def subject_of(candidate: list[Record], explained: CaseExplanation) -> Subject:
    return Subject(
        case=CASE,
        board=BOARD,
        arm="candidate",
        flavour=FLAVOUR,
        records=candidate,
        baseline=arm("baseline"),
        explained=explained,
    )


def with_trace(candidate: list[Record], explained: CaseExplanation, placebos: Placebos = PLACEBOS) -> list[Verdict]:
    return list(compare([subject_of(candidate, explained)], ComparisonInputs(placebos=placebos)))


def test_a_change_that_did_not_run_is_never_good() -> None:
    (verdict,) = with_trace(arm("candidate"), ASLEEP)
    assert (verdict.status, verdict.kind) == (Status.SKIP, Kind.NOT_EXERCISED)
    assert "boards or other loads needed" in verdict.sentence
    assert "nfs_lookup" in verdict.sentence


WARNING = Fault(
    kind=FaultKind("warning"),
    line="WARNING: CPU: 0 PID: 0 at kernel/time/hrtimer.c:1989 hrtimer_wakeup+0x84/0xb0",
    text="WARNING: CPU: 0 PID: 0 at kernel/time/hrtimer.c:1989 hrtimer_wakeup+0x84/0xb0\nCall trace:",
    reason="wake-up 1000 of swapper",
)


def test_a_warning_and_the_latency_that_it_costs_are_one_cause() -> None:
    slow = arm("candidate", slower=2)
    slow[2] = replace(slow[2], faults=(WARNING,))
    seen = replace(AWAKE, warning_function="hrtimer_wakeup")
    told = [one.cause for one in with_trace(slow, seen) if one.kind is Kind.REGRESSION]
    cause = "WARNING at kernel/time/hrtimer.c:1989: hrtimer_wakeup+0x84/0xb0 (first in seed 3: wake-up 1000 of swapper)"
    assert told[0] == f"{cause} costs the time: +90 instructions in hrtimer_wakeup"
    assert not any(told[1:])


def test_a_warning_of_another_function_is_not_the_cause() -> None:
    slow = [replace(one, faults=(WARNING,)) for one in arm("candidate", slower=2)]
    for function in ("", "set_task_cpu"):
        assert with_trace(slow, replace(AWAKE, warning_function=function))[0].cause == AWAKE.sentence


def test_what_ran_on_one_board_of_a_run_counts_on_all_of_them() -> None:
    """A change of the timer's path does not run in signals between two CPUs: that leaves the run no less good."""
    ran = replace(AWAKE, changes=(Change(function="hrtimer_wakeup", instructions=9, times=400),))
    why_not_exercised = replace(ASLEEP, changes=(Change(function="hrtimer_wakeup", instructions=9, times=0),))
    one = subject_of(arm("candidate"), ran)
    known = {**PLACEBOS.cases, ("another", FLAVOUR, CASE): next(iter(PLACEBOS.cases.values()))}
    both = [one, replace(one, board="another", explained=why_not_exercised)]
    here, there = compare(both, ComparisonInputs(placebos=Placebos(known)))
    assert (here.status, here.kind) == (Status.PASS, Kind.NO_WORSE)
    assert (there.status, there.kind) == (Status.DONE, Kind.NO_WORSE)
    assert "nothing of it ran in this case" in there.sentence
    (alone,) = compare(both[1:], ComparisonInputs(placebos=Placebos(known)))
    assert (alone.status, alone.kind) == (Status.SKIP, Kind.NOT_EXERCISED)


HELD = Change(function="hrtimer_wakeup", instructions=9, times=400, missed=("hrtimer_wakeup+0x24",))


@pytest.mark.parametrize("change", [replace(HELD, times=0), replace(HELD, slow=HELD.missed)])
def test_a_function_that_ran_without_its_changed_branch_is_not_good(change: Change) -> None:
    """As a raw lock that is held longer in 1 of 500 calls of a function that ran 400 times."""
    (verdict,) = with_trace(arm("candidate"), replace(AWAKE, changes=(change,)))
    assert (verdict.status, verdict.kind, exit_code([verdict])) == (Status.SKIP, Kind.NOT_EXERCISED, 5)
    assert "hrtimer_wakeup+0x24" in verdict.sentence


def test_a_load_that_reaches_it_is_said_and_makes_nothing_good() -> None:
    change = replace(HELD, times=0)
    seen = replace(AWAKE, changes=(change,), other_loads={"network": "paths"})
    by_network = replace(seen, reached_by={"hrtimer_wakeup": ("network",)})
    by_none = replace(seen, reached_by={"hrtimer_wakeup": ()})
    gap = "in no traced case ran what changed in hrtimer_wakeup (from hrtimer_wakeup+0x24)"
    why = f"while {BOARD} measured, {gap}; changed "
    for explained, needed in (
        (by_network, "network reaches it (gate with --profile paths -k network)"),
        (by_none, "nor beside network, boards needed"),
    ):
        (verdict,) = with_trace(arm("candidate"), explained)
        assert (verdict.status, verdict.kind, exit_code([verdict])) == (Status.SKIP, Kind.NOT_EXERCISED, 5)
        assert verdict.sentence.startswith(f"not exercised here, {needed}: {why}")


@pytest.mark.parametrize("board", [BOARD, "another"])
def test_of_a_case_that_was_not_traced_nobody_says_that_the_change_did_not_run_there(board: str) -> None:
    seen = replace(
        AWAKE,
        changes=(replace(HELD, times=0),),
        other_loads={"network": "paths"},
        reached_by={"hrtimer_wakeup": ()},
    )
    idle = subject_of(arm("candidate"), seen)
    loaded = replace(idle, case="latency/cyclictest:hackbench", board=board, explained=None)
    where = "latency/cyclictest:hackbench" + (f" on {board}" if board != BOARD else "")
    (verdict,) = [one for one in compare([idle, loaded], ComparisonInputs(placebos=PLACEBOS)) if one.case == CASE]
    assert (verdict.status, verdict.kind) == (Status.SKIP, Kind.NOT_EXERCISED)
    assert verdict.sentence.startswith(
        f"not exercised here, nor beside network, boards or other loads needed: while {BOARD} measured, in no traced "
        f"case ran what changed in hrtimer_wakeup (from hrtimer_wakeup+0x24); what ran in {where} is not known; changed"
    )


def test_what_ran_of_a_change_is_told_by_instruction() -> None:
    (verdict,) = with_trace(arm("candidate"), replace(AWAKE, changes=(HELD,)))
    assert (verdict.status, verdict.kind) == (Status.PASS, Kind.NO_WORSE)
    assert verdict.sentence.endswith("changed instructions: 8 of 9 ran, 400 times (idle 400)")


def test_where_nobody_knows_harmless_kernels_a_change_that_did_not_run_is_said_too() -> None:
    """As on virt-x86_64, of which placebos.yaml says nothing."""
    unknown, why_not_exercised = with_trace(
        arm("candidate"), replace(AWAKE, changes=(replace(HELD, slow=HELD.missed),)), Placebos()
    )
    assert (unknown.status, unknown.kind) == (Status.DONE, Kind.NOT_COMPARED)
    assert unknown.sentence.endswith("changed instructions: 8 of 9 ran, 400 times (idle 400)")
    assert (why_not_exercised.status, why_not_exercised.kind, exit_code([unknown, why_not_exercised])) == (
        Status.SKIP,
        Kind.NOT_EXERCISED,
        5,
    )
    assert "the new code at hrtimer_wakeup+0x24" in why_not_exercised.sentence
    (ran,) = with_trace(arm("candidate"), replace(AWAKE, changes=(HELD,)), Placebos())
    assert ran.kind is Kind.NOT_COMPARED


def test_what_ran_is_added_up_once_for_each_case(monkeypatch: pytest.MonkeyPatch) -> None:
    added = Mock(wraps=run_exercise)
    monkeypatch.setattr(on_virtual_time, "run_exercise", added)
    with_trace(arm("candidate"), replace(AWAKE, changes=(HELD,)))
    assert added.call_count == 1


def test_the_same_image_needs_no_trace() -> None:
    again = [replace(one, arm=ArmName.CANDIDATE) for one in arm("baseline")]
    (verdict,) = with_trace(again, ASLEEP)
    assert (verdict.status, verdict.kind) == (Status.PASS, Kind.NO_WORSE)


def once(records: Sequence[Record]) -> list[Record]:
    """Return the candidate's records of boots that were made for a baseline with the same image."""
    return [replace(one, arm=ArmName.CANDIDATE, machine={**one.machine, "shared": "yes"}) for one in records]


@pytest.mark.parametrize("boots", [3, 12])
def test_one_image_that_was_booted_once_is_no_worse_than_itself(boots: int) -> None:
    (verdict,) = told(once(arm("baseline", boots=boots)), arm("baseline", boots=boots))
    assert (verdict.status, verdict.kind) == (Status.PASS, Kind.NO_WORSE)
    assert verdict.sentence.startswith(
        f"both kernels are one image, built from one source: each of {boots} boots was made once and stands for both"
    )


def test_one_image_whose_boots_are_lost_is_not_good() -> None:
    whole = arm("baseline")
    both = [replace(whole[0], state=State.HANG, measurements=()), *whole[1:]]
    (verdict,) = told(once(both), both)
    assert verdict.status is not Status.PASS


@pytest.mark.parametrize(
    ("kernel", "told"),
    [
        ({"source": "v6.12-1-gdeadbeef"}, "built from tree at candidate and v6.12-1-gdeadbeef"),
        ({"name": "virt-arm64-pcie"}, "built from kernel-candidate and virt-arm64-pcie"),
    ],
)
def test_a_change_that_is_not_in_the_image_is_for_boards(kernel: dict[str, str], told: str) -> None:
    """As one of a module, or of a driver that is not built in: its figures are the baseline's, bit by bit."""
    again = [replace(one, arm=ArmName.CANDIDATE, kernel=replace(one.kernel, **kernel)) for one in arm("baseline")]
    (verdict,) = with_trace(again, AWAKE)
    assert (verdict.status, verdict.kind) == (Status.SKIP, Kind.NOT_EXERCISED)
    assert "what differs is not in this kernel's image" in verdict.sentence
    assert verdict.sentence.endswith(told)
    (wanted,) = choose([verdict], [SelectableCase(case=CASE, minutes=1.0)], [], 10.0)
    assert (wanted.reason, wanted.because) == (Reason.UNSEEN, verdict.sentence)


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [("a", "b", "patches, configuration, compiler, or how they were built"), ("", "b", "nobody knows what it was")],
)
def test_one_image_of_other_inputs_may_differ_in_a_module(before: str, now: str, why: str) -> None:
    kernels = [
        [replace(one, kernel=replace(one.kernel, inputs=inputs)) for one in arm("baseline")] for inputs in (before, now)
    ]
    (verdict,) = told([replace(one, arm=ArmName.CANDIDATE) for one in kernels[1]], kernels[0])
    assert (verdict.status, verdict.kind) == (Status.SKIP, Kind.NOT_EXERCISED)
    assert why in verdict.sentence


@pytest.mark.parametrize("booted", ["twice", "once"])
def test_one_image_of_which_nobody_knows_the_source_may_differ_and_nothing_says_that_it_does(booted: str) -> None:
    unknown = [replace(one, kernel=replace(one.kernel, provenance="unknown")) for one in arm("baseline")]
    again = once(unknown) if booted == "once" else [replace(one, arm=ArmName.CANDIDATE) for one in unknown]
    (verdict,) = told(again, unknown)
    assert (verdict.status, verdict.kind) == (Status.SKIP, Kind.NOT_EXERCISED)
    assert "what differs" not in verdict.sentence
    assert (
        "nobody knows what it was built from, so a module or a driver that is not in it may differ" in verdict.sentence
    )
    assert ("each boot was made once and stands for both" in verdict.sentence) == (booted == "once")


def test_one_image_with_few_boots_needs_no_more_of_them() -> None:
    again = [
        replace(one, arm=ArmName.CANDIDATE, kernel=replace(one.kernel, source="other"))
        for one in arm("baseline", boots=3)
    ]
    (verdict,) = told(again, arm("baseline", boots=3))
    assert verdict.kind is Kind.NOT_EXERCISED


def test_images_that_nobody_knows_are_not_compared() -> None:
    unknown = [imaged(one, "") for one in arm("baseline")]
    assert not told([replace(one, arm=ArmName.CANDIDATE) for one in unknown], unknown)


@pytest.mark.parametrize(("resting", "others"), [((), ("nvme_core_quirks",)), (("nfs_open",), ("CONFIG_NFS_FS",))])
def test_where_no_function_ran_variables_and_options_make_nothing_good(
    resting: tuple[str, ...], others: tuple[str, ...]
) -> None:
    (verdict,) = with_trace(arm("candidate"), replace(traced({}, resting=resting), others=others))
    assert (verdict.status, verdict.kind) == (Status.SKIP, Kind.NOT_EXERCISED)
    assert f"whether {others[0]} took effect is not known" in verdict.sentence


def test_a_kernel_with_another_name_alone_is_no_worse() -> None:
    (verdict,) = with_trace(arm("candidate"), replace(traced({}), others=("CONFIG_LOCALVERSION",)))
    assert (verdict.status, verdict.kind) == (Status.PASS, Kind.NO_WORSE)
    assert verdict.sentence.endswith("no function differs, but CONFIG_LOCALVERSION")


def test_what_nobody_traced_is_not_good() -> None:
    (verdict,) = told(arm("candidate"))
    assert (verdict.status, verdict.kind) == (Status.DONE, Kind.NO_WORSE)
    assert verdict.sentence.startswith(
        "not proven, as nobody looked whether what differs ran: no worse than the baseline"
    )


def test_one_image_that_gives_other_data_is_our_error() -> None:
    other = [imaged(one, "baseline") for one in arm("candidate")]
    (verdict,) = told(other)
    assert (verdict.status, verdict.kind) == (Status.ERROR, Kind.VALIDITY)
    assert "virtual time did not repeat" in verdict.sentence


@pytest.mark.parametrize("odd", ["one of the baseline", "one of the candidate", "all of the baseline"])
def test_where_a_boot_did_not_repeat_nothing_is_compared(odd: str) -> None:
    """However clear the other boots are: what they are compared with may be as wrong."""
    arms = {"baseline": arm("baseline"), "candidate": arm("candidate", slower=1.5)}
    name = odd.rpartition(" ")[2]
    message = "virtual time did not repeat: it printed other bytes"
    broken = [replace(one, state=State.UNREPEATED, message=message, measurements=()) for one in arms[name]]
    arms[name] = broken if odd.startswith("all") else [broken[0], *arms[name][1:]]
    (verdict,) = told(arms["candidate"], arms["baseline"])
    assert (verdict.status, verdict.kind) == (Status.ERROR, Kind.VALIDITY)
    assert verdict.sentence.startswith(f"not compared: {name}, seed 1: virtual time did not repeat")


def test_copies_of_a_boot_are_no_boots() -> None:
    copies = [replace(arm("candidate")[0], seed=seed) for seed in range(1, 13)]
    (verdict,) = told(copies)
    assert verdict.status is Status.ERROR
    assert "12 seeds gave 1 different results" in verdict.sentence


def test_a_baseline_that_never_measured_is_missed() -> None:
    dead = [replace(one, state=State.NO_BOOT, measurements=()) for one in arm("baseline")]
    (verdict,) = told(arm("candidate"), dead)
    assert (verdict.status, verdict.kind) == (Status.MISS, Kind.MISSING)


def test_a_baseline_without_a_record_is_missed() -> None:
    alone = Subject(case=CASE, board=BOARD, arm="candidate", flavour=FLAVOUR, records=arm("candidate"))
    assert compare([alone], ComparisonInputs(placebos=PLACEBOS)) == ()
    for unpaired, said in (
        ((), "there is no record of it"),
        (("seed 1", "seed 2"), "seed 1 left no record, seed 2 left"),
    ):
        lost = replace(alone, paired=True, unpaired=unpaired)
        (verdict,) = compare([lost], ComparisonInputs(placebos=PLACEBOS))
        assert (verdict.status, verdict.kind) == (Status.MISS, Kind.MISSING)
        assert f"no boot of the baseline measured ({said}" in verdict.sentence


def test_a_screened_candidate_needs_no_baseline() -> None:
    boots = [replace(one, machine={**one.machine, "stage": "screen"}) for one in on_a_board("candidate", boots=3)]
    screened = Subject(
        case=CASE,
        board="rk3568-evb1",
        arm="candidate",
        flavour=FLAVOUR,
        records=boots,
        paired=True,
        unpaired=("1 of 3",),
    )
    assert Kind.MISSING not in {verdict.kind for verdict in compare([screened], ComparisonInputs(history=Qualified()))}


def test_a_baseline_of_another_board_or_tuning_is_refused_by_name() -> None:
    mine = Subject(case=CASE, board=BOARD, arm="candidate", flavour=FLAVOUR, records=arm("candidate"))
    theirs = [replace(one, board="virt-arm64-smp2") for one in arm("baseline")]
    board = Subject(case=CASE, board="virt-arm64-smp2", arm="baseline", flavour=FLAVOUR, records=theirs)
    tuned = replace(mine, case=f"{CASE}+isolated", records=(), paired=True, baseline=arm("baseline"))
    for subjects, difference in (
        ([mine, board], "board: 'virt-arm64-smp2' against 'virt-arm64'"),
        ([replace(mine, paired=True), tuned], "tuning: 'isolated' against 'default'"),
    ):
        (verdict,) = compare(subjects, ComparisonInputs(placebos=PLACEBOS))
        assert (verdict.status, verdict.kind) == (Status.ERROR, Kind.VALIDITY)
        assert verdict.sentence == f"baseline and candidate cannot be compared: {difference}"


def test_a_baseline_that_is_not_valid_proves_nothing() -> None:
    died = (LoadSample(moment="start", processes=1, ticks=0), LoadSample(moment="middle", processes=0, ticks=5))
    base = [evidence(one, load="hackbench", load_seen=died) for one in arm("baseline")]
    (verdict,) = told([evidence(one, load="hackbench") for one in arm("candidate")], base)
    assert (verdict.status, verdict.kind) == (Status.ERROR, Kind.VALIDITY)


def test_a_figure_that_one_boot_lacks_is_no_good_news() -> None:
    candidate = arm("candidate")
    candidate[4] = without("wakeups", candidate[4])
    found = told(candidate)
    assert {one.kind for one in found} == {Kind.NOT_COMPARED}
    assert "not every boot has wakeups" in found[0].sentence


def test_a_boot_with_too_few_wake_ups_for_a_quantile_is_no_good_news() -> None:
    candidate = arm("candidate")
    few = with_wakeups(300, candidate[4])
    found = told([*candidate[:4], few, *candidate[5:]])
    assert {one.kind for one in found} == {Kind.NOT_COMPARED}
    assert "not every boot has latency p99" in found[0].sentence


def test_a_regression_says_once_where_the_instructions_went() -> None:
    assert with_trace(arm("candidate"), AWAKE)[0].kind is Kind.NO_WORSE
    regressions = [one for one in with_trace(arm("candidate", slower=1.1), AWAKE) if one.status is Status.FAIL]
    assert len(regressions) > 1
    assert [one.cause for one in regressions] == [AWAKE.sentence, *[""] * (len(regressions) - 1)]
    assert regressions[0].full_sentence == f"{regressions[0].sentence}; {AWAKE.sentence}"


def test_a_change_that_did_not_run_and_shows_is_a_regression_all_the_same() -> None:
    assert with_trace(arm("candidate", slower=1.1), ASLEEP)[0].kind is Kind.REGRESSION


def test_another_qemu_than_the_placebos_is_told_and_takes_good_news_away() -> None:
    mismatch = Placebos({key: (replace(one, qemu="1.0"),) for key, (one,) in PLACEBOS.cases.items()})
    (verdict,) = with_trace(arm("candidate"), AWAKE, mismatch)
    assert (verdict.status, verdict.kind) == (Status.DONE, Kind.NO_WORSE)
    assert verdict.sentence.endswith(", harmless changes were measured on 1.0")
    worse = with_trace(arm("candidate", slower=1.1), AWAKE, mismatch)
    assert any(one.status is Status.FAIL for one in worse)
    assert all("measured with QEMU " in one.sentence for one in worse)


def test_a_candidate_without_preempt_rt_is_a_change_of_the_baseline() -> None:
    def generic(slower: float) -> list[Record]:
        ran = [(one, replace(one.environment, flavour="generic")) for one in arm("candidate", slower=slower)]
        return [replace(one, kernel=replace(one.kernel, flavour="generic"), environment=it) for one, it in ran]

    worse = with_trace(generic(1.1), AWAKE)
    assert any((one.status, one.kind) == (Status.FAIL, Kind.REGRESSION) for one in worse)
    assert all("a candidate of another flavour (generic, not preempt_rt)" in one.sentence for one in worse)
    # No placebo had another flavour, so good news are none.
    (same,) = with_trace(generic(1.0), AWAKE)
    assert (same.status, same.kind) == (Status.DONE, Kind.NO_WORSE)


def test_a_third_look_on_virtual_time_is_refused() -> None:
    def looked(*taken: int) -> Verdict:
        subject = Subject(
            case=CASE,
            board=BOARD,
            arm="candidate",
            flavour=FLAVOUR,
            records=arm("candidate", slower=1.1),
            baseline=arm("baseline"),
            schedule=Schedule(taken=taken),
        )
        return compare([subject], ComparisonInputs(placebos=PLACEBOS))[0]

    assert looked(6, 12).status is Status.FAIL
    third = looked(4, 8, 12)
    assert (third.status, third.kind) == (Status.DONE, Kind.NOT_COMPARED)
    assert "the false alarms allowed are for 2 interim analyses" in third.sentence


def throughput(records: list[Record], factor: float) -> list[Record]:
    def made(one: Record) -> Record:
        number = Measurement(
            name="loops", better=Better.HIGHER, quantity=Quantity(factor * (1000 + (one.seed or 0)), Unit.PER_S)
        )
        return replace(one, measurements=(*one.measurements, number))

    return [made(one) for one in records]


def test_a_throughput_that_falls_has_a_minus() -> None:
    learnt = {"loops": Placebo(move=0.01, spike=1.5, kernels=30, boots=12)}
    known = {key: (replace(one, figures={**one.figures, **learnt}),) for key, (one,) in PLACEBOS.cases.items()}
    found = told(throughput(arm("candidate"), 0.9), throughput(arm("baseline"), 1.0), Placebos(known))
    (worse,) = [one for one in found if one.status is Status.FAIL]
    assert worse.sentence.startswith("loops -10.0%: 1006.5 /s before, 905.85 /s now"), worse.sentence
    assert "tolerance -5.0%" in worse.sentence
    assert not str(worse.value).startswith("-")


def test_what_two_configurations_made_of_the_board_is_in_the_sentence() -> None:
    other = [
        replace(one, environment=replace(one.environment, idle_states="C1", config_sha256="d" * 64))
        for one in on_a_board("candidate")
    ]
    (verdict,) = told_of_a_board(other, Qualified())
    assert verdict.kind is Kind.NO_WORSE
    assert verdict.sentence.endswith("; differs: idle_states: 'unknown' against 'C1'")
