# SPDX-License-Identifier: MIT
"""What limits say of the bound of a wake-up and of the longest sections, of kernels whose boots were followed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from selftests.unit.judge.conftest import BOARD, BOUND, CASE, FLAVOUR, evidence, maximum, record

from rtgate.board.boot import ArmName
from rtgate.judge.judging import Subject, judge
from rtgate.judge.thresholds import Threshold, Thresholds
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.kernel.version import VersionRange
from rtgate.records.bound import MEASUREMENT, Bound
from rtgate.records.longer_sections import LongestHold, LongestSection, SectionComparison
from rtgate.records.record import Record

KEPT, BROKEN = maximum("99.5 virtual us", MEASUREMENT), maximum("99.3 virtual us", MEASUREMENT)
ALONE = SectionComparison(
    baseline_image="",
    candidate_image="b",
    seeds=(4, 5),
    boots_digest="",
    instruction_ns=8,
    cpus=1,
    candidate_bound=BOUND,
)
TWO = replace(ALONE, baseline_image="a", baseline_bound=BOUND)
LONGER = replace(BOUND, measured=12_422)


def judged(
    seen: SectionComparison | None,
    *limits: Threshold,
    missing: tuple[str, ...] = (),
    records: tuple[Record, ...] = (record(seed=4), record(seed=5)),
) -> tuple[Verdict, ...]:
    subject = Subject(
        case=CASE,
        board=BOARD,
        arm="candidate",
        flavour=FLAVOUR,
        records=records,
        baseline=[replace(one, arm=ArmName.BASELINE) for one in records] if seen and seen.compared else [],
        sections=seen,
        missing=missing,
    )
    return judge(subject, Thresholds(limits))


def told(seen: SectionComparison | None, *limits: Threshold, missing: tuple[str, ...] = ()) -> list[Verdict]:
    return [one for one in judged(seen, *limits, missing=missing) if one.measurement == MEASUREMENT]


@pytest.mark.parametrize("seen", [ALONE, TWO])
def test_a_bound_within_its_limit_passes(seen: SectionComparison) -> None:
    (one,) = told(seen, KEPT)
    assert (one.status, one.kind, one.boot) == (Status.PASS, Kind.LIMIT, "seed 4")
    assert one.sentence == (
        "the bound of a wake-up is 99.4 virtual us (12421 instructions) in 2 boots, "
        "within 99.5 virtual us (12438 instructions) "
        "(calibration; thresholds.yaml:7)"
    )


def test_a_bound_over_its_limit_fails_and_says_what_is_long() -> None:
    (one,) = told(ALONE, BROKEN)
    assert (one.status, one.kind) == (Status.FAIL, Kind.LIMIT)
    assert one.sentence.endswith(
        " in 2 boots, 3,844 instructions of it in cpu_do_idle, 2,816 in schedule, 4,487 in interrupts: "
        "over the limit of 99.3 virtual us (12412 instructions) (calibration; thresholds.yaml:7)"
    )
    assert one.value is not None
    assert one.limit is not None


def test_a_limit_that_the_baseline_breaks_too_says_so() -> None:
    (one,) = told(TWO, BROKEN)
    assert "; the baseline breaks this limit too with 99.4 virtual us" in one.sentence


@pytest.mark.parametrize(
    "seen", [replace(ALONE, candidate_bound=None, why_not="no trace"), replace(TWO, candidate_bound=None)]
)
def test_a_limit_without_a_bound_is_missing(seen: SectionComparison) -> None:
    (one,) = told(seen, KEPT)
    assert (one.status, one.kind) == (Status.MISS, Kind.MISSING)
    why = seen.why_not or "cyclictest's wake-ups have one, with PREEMPT_RT and on one CPU"
    assert one.sentence == f"the bound of a wake-up has a limit of 99.5 virtual us, and no boot has one: {why}"


@pytest.mark.parametrize("limits", [(), (KEPT,), (BROKEN,)])
@pytest.mark.parametrize("seen", [replace(ALONE, candidate_bound=LONGER), replace(TWO, candidate_bound=LONGER)])
def test_a_wake_up_longer_than_its_bound_is_our_error(seen: SectionComparison, limits: tuple[Threshold, ...]) -> None:
    (one,) = told(seen, *limits)
    assert (one.status, one.kind) == (Status.ERROR, Kind.VALIDITY)
    assert one.sentence == (
        "a wake-up of 12,422 instructions is longer than its bound of 12,421 (seed 4): "
        "rtgate misunderstands this kernel, please report it"
    )


def test_so_is_one_of_the_baseline() -> None:
    one, other = told(replace(TWO, baseline_bound=LONGER), KEPT)
    assert {one.status, other.status} == {Status.PASS, Status.ERROR}
    assert other.sentence.startswith("the baseline: a wake-up of 12,422 instructions")


def test_a_wake_up_as_long_as_its_bound_is_none() -> None:
    (one,) = told(replace(ALONE, candidate_bound=replace(BOUND, measured=12_421)), KEPT)
    assert one.status is Status.PASS


@pytest.mark.parametrize(
    ("bound", "begins"),
    [(BOUND, "the bound of a wake-up is 99.4 virtual us"), (None, "the bound of a wake-up is not known")],
)
def test_a_bound_that_was_asked_for_and_has_no_limit_is_shown(bound: Bound | None, begins: str) -> None:
    (one,) = told(replace(ALONE, candidate_bound=bound))
    assert (one.status, one.kind) == (Status.DONE, Kind.UNJUDGED)
    assert one.sentence.startswith(begins)


def test_two_kernels_without_a_limit_are_judged_by_their_sections_alone() -> None:
    assert told(TWO) == []


@pytest.mark.parametrize("limits", [(), (KEPT,), (BROKEN,)])
def test_nothing_is_said_where_no_boot_was_followed(limits: tuple[Threshold, ...]) -> None:
    assert told(None, *limits) == []


def test_good_news_does_not_count_where_a_boot_is_missing() -> None:
    assert told(ALONE, KEPT, missing=("boot 2",)) == []
    (one,) = told(ALONE, BROKEN, missing=("boot 2",))
    assert one.status is Status.FAIL


@pytest.mark.parametrize("state", ["no boot", "lab"])
def test_a_kernel_that_measured_nothing_has_no_bound(state: str) -> None:
    verdicts = judged(ALONE, KEPT, records=(record(state=state),))
    assert [one.measurement for one in verdicts] == [""]


def test_a_case_that_cannot_run_misses_its_limit() -> None:
    (one,) = judged(None, KEPT, records=(record(state="skipped"),))
    assert one.status is Status.MISS


def test_a_bound_says_nothing_of_boots_that_nobody_followed() -> None:
    (one,) = told(replace(ALONE, seeds=(4,)), KEPT)
    assert one.status is Status.MISS
    assert one.sentence.endswith("and seed 5 was measured and not followed")
    (one,) = told(replace(ALONE, seeds=(4,), further_seeds=(5,)), KEPT)
    assert one.status is Status.PASS


def test_nor_does_that_of_a_boot_whose_measurement_is_invalid() -> None:
    spoiled = evidence(record(seed=4), threads=())
    verdicts = judged(ALONE, BROKEN, records=(spoiled, record(seed=5)))
    assert {one.status for one in verdicts if one.measurement == MEASUREMENT} <= {Status.MISS}
    assert all(one.status is not Status.FAIL for one in verdicts)


def test_a_limit_for_other_options_is_told_beside_the_others() -> None:
    """It must not hide that another limit was not applied."""
    other = replace(maximum(), profile="report", options={"threads": 4})
    verdicts = judged(ALONE, other, KEPT)
    assert [one.status for one in verdicts] == [Status.DONE, Status.PASS]
    assert "1 limit is for those of the profile report" in verdicts[0].sentence


def test_where_only_the_bound_has_a_limit_it_says_how_it_is_judged() -> None:
    (one,) = judged(None, KEPT)
    assert (one.status, one.kind) == (Status.DONE, Kind.UNJUDGED)
    assert one.sentence.endswith("but of what only following the boots tells (--sections)")


def longest(off: str, function: str, instructions: int, seed: int = 5) -> LongestSection:
    place = f"{function} to somewhere"
    return LongestSection(
        off=off, function=function, place=place, context="softirq", instructions=instructions, seed=seed
    )


TICK, TIMERS = longest("irqsoff", "tick", 4000), longest("irqsoff", "run_timer_softirq", 2500, seed=4)
LENGTHS = replace(ALONE, candidate_longest=(TICK, longest("preemptoff", "tick", 9000), TIMERS))


def length_limit(us: float, function: str = "", off: str = "irqsoff") -> Threshold:
    return replace(maximum(f"{us} virtual us", off), function=function)


def of_limit(seen: SectionComparison, limit: Threshold) -> list[Verdict]:
    return [one for one in judged(seen, limit) if one.measurement.startswith(limit.measurement)]


@pytest.mark.parametrize(
    ("limit", "status", "measurement", "boot", "sentence"),
    [
        (
            length_limit(31),
            Status.FAIL,
            "irqsoff",
            "seed 5",
            (
                "interrupts are off for 32.0 virtual us (4000 instructions) at the longest in 2 boots, in tick to "
                "somewhere (softirq): over the limit of 31.0 virtual us (3875 instructions)"
            ),
        ),
        (
            length_limit(32),
            Status.PASS,
            "irqsoff",
            "seed 5",
            (
                "interrupts are off for 32.0 virtual us (4000 instructions) at the longest in 2 boots, within "
                "32.0 virtual us (4000 instructions)"
            ),
        ),
        (
            length_limit(19, "run_timer_softirq"),
            Status.FAIL,
            "irqsoff run_timer_softirq",
            "seed 4",
            (
                "interrupts are off for 20.0 virtual us (2500 instructions) by run_timer_softirq at the longest in "
                "2 boots, in run_timer_softirq to somewhere (softirq): over the limit of 19.0 virtual us "
                "(2375 instructions)"
            ),
        ),
        (
            length_limit(19, "run_timers"),
            Status.MISS,
            "irqsoff run_timers",
            "",
            "how long interrupts are off by run_timers has a limit of 19 virtual us, and no boot has such a section",
        ),
        (
            length_limit(19, off="preemptirqsoff"),
            Status.MISS,
            "preemptirqsoff",
            "",
            "how long interrupts or preemption are off has a limit of 19 virtual us, and no boot has such a section",
        ),
    ],
)
def test_the_longest_section_has_a_limit_that_may_be_of_one_function(
    limit: Threshold, status: Status, measurement: str, boot: str, sentence: str
) -> None:
    (one,) = of_limit(LENGTHS, limit)
    assert (one.status, one.measurement, one.boot) == (status, measurement, boot)
    assert one.sentence.removesuffix(" (calibration; thresholds.yaml:7)") == sentence


HOLDS = replace(
    ALONE,
    candidate_holds=(
        LongestHold(lock="tick_broadcast_lock", function="tick_broadcast", instructions=5000, seed=4),
        LongestHold(lock="allocated, locked by __wake_up", function="__wake_up", instructions=2500, seed=5),
    ),
)


@pytest.mark.parametrize(
    ("limit", "status", "measurement", "boot", "sentence"),
    [
        (
            length_limit(39, off="rawlock"),
            Status.FAIL,
            "rawlock",
            "seed 4",
            (
                "a raw spinlock is held for 40.0 virtual us (5000 instructions) at the longest in 2 boots, "
                "tick_broadcast_lock, locked by tick_broadcast: over the limit of 39.0 virtual us (4875 instructions)"
            ),
        ),
        (
            replace(length_limit(39, off="rawlock"), lock="tick_broadcast_lock"),
            Status.FAIL,
            "rawlock tick_broadcast_lock",
            "seed 4",
            (
                "tick_broadcast_lock is held for 40.0 virtual us (5000 instructions) at the longest in 2 boots, locked "
                "by tick_broadcast: over the limit of 39.0 virtual us (4875 instructions)"
            ),
        ),
        (
            replace(length_limit(20, off="rawlock"), lock="allocated, locked by __wake_up"),
            Status.PASS,
            "rawlock allocated, locked by __wake_up",
            "seed 5",
            (
                "allocated, locked by __wake_up is held for 20.0 virtual us (2500 instructions) at the longest in 2 "
                "boots, within 20.0 virtual us (2500 instructions)"
            ),
        ),
        (
            replace(length_limit(39, off="rawlock"), lock="jiffies_lok"),
            Status.MISS,
            "rawlock jiffies_lok",
            "",
            (
                "how long jiffies_lok is held has a limit of 39 virtual us, and no boot has such a hold (names: rtgate "
                "sections)"
            ),
        ),
    ],
)
def test_the_longest_hold_has_a_limit_that_may_be_of_one_lock(
    limit: Threshold, status: Status, measurement: str, boot: str, sentence: str
) -> None:
    (one,) = of_limit(HOLDS, limit)
    assert (one.status, one.measurement, one.boot) == (status, measurement, boot)
    assert one.sentence.removesuffix(" (calibration; thresholds.yaml:7)") == sentence


def test_holds_are_judged_as_sections_are() -> None:
    limit = length_limit(40, off="rawlock")
    for seen, end in (
        (replace(HOLDS, cpus=2), "whose lengths depend on the turns in which QEMU runs them"),
        (replace(HOLDS, seeds=(4,)), "seed 5 was measured and not followed"),
        (replace(ALONE, why_not="no trace"), "and no trace"),
    ):
        (one,) = of_limit(seen, limit)
        assert (one.status, one.sentence.endswith(end)) == (Status.MISS, True), one.sentence
    slower = replace(HOLDS.candidate_holds[0], instructions=6000)
    (one,) = of_limit(replace(HOLDS, baseline_image="a", baseline_holds=(slower,)), length_limit(39, off="rawlock"))
    assert "; the baseline breaks this limit too with 48.0 virtual us" in one.sentence


def test_sections_of_boots_that_nobody_could_follow_miss_their_limit() -> None:
    (one,) = of_limit(replace(ALONE, why_not="no trace"), length_limit(31))
    assert one.status is Status.MISS
    assert one.sentence.endswith("and no trace")
    (one,) = of_limit(replace(LENGTHS, seeds=(5,)), length_limit(32))
    assert one.status is Status.MISS
    assert one.sentence.endswith("and seed 4 was measured and not followed")


def test_a_longest_section_stands_beside_the_baseline_s() -> None:
    both = replace(LENGTHS, baseline_image="a", baseline_longest=(replace(TICK, instructions=3000),))
    (one,) = of_limit(both, length_limit(31))
    assert one.status is Status.FAIL
    assert "baseline" not in one.sentence
    assert one.baseline is not None
    assert one.baseline.quantity is not None
    assert one.baseline.quantity.value == 24_000
    (one,) = of_limit(both, length_limit(23))
    assert "; the baseline breaks this limit too with 24.0 virtual us" in one.sentence


def test_a_broken_limit_fails_though_another_boot_was_not_followed() -> None:
    """A maximum over its limit stands, whatever else is wrong."""
    (one,) = of_limit(replace(LENGTHS, seeds=(5,)), length_limit(31))
    assert one.status is Status.FAIL
    (one,) = told(replace(ALONE, seeds=(4,)), BROKEN)
    assert one.status is Status.FAIL


def test_limits_of_functions_do_not_hide_each_other() -> None:
    """One for other kernels is told, though a limit of the same kind for a function holds."""
    other = replace(length_limit(31), kernels=VersionRange.parse("< 5.0"))
    verdicts = judged(LENGTHS, other, length_limit(21, "run_timer_softirq"))
    assert {one.status for one in verdicts} == {Status.PASS, Status.DONE}
    assert any(one.sentence.startswith("the limit of irqsoff is for kernels < 5.0.0") for one in verdicts)


def test_lengths_on_several_cpus_depend_on_their_turns() -> None:
    (one,) = of_limit(replace(LENGTHS, cpus=2), length_limit(31))
    assert one.status is Status.MISS
    assert one.sentence.endswith("the board has 2 CPUs, whose lengths depend on the turns in which QEMU runs them")


@pytest.mark.parametrize(
    ("limit", "what"),
    [
        (length_limit(31), "how long interrupts are off"),
        (length_limit(19, "copy_process", "preemptoff"), "how long preemption is off by copy_process"),
        (replace(length_limit(39, off="rawlock"), lock="jiffies_lock"), "how long jiffies_lock is held"),
    ],
)
def test_a_limit_of_a_section_is_missing_where_no_boot_was_followed(limit: Threshold, what: str) -> None:
    (one,) = [one for one in judged(None, KEPT, limit) if one.kind is not Kind.UNJUDGED]
    assert (one.status, one.kind, one.measurement) == (Status.MISS, Kind.MISSING, limit.name)
    assert one.sentence == f"{what} has a limit of {limit.limit}, and no boot was followed: gate with --sections"


@pytest.mark.parametrize(
    ("scope", "why"),
    [
        ({"kernels": VersionRange.parse("< 6.0")}, "the limit of irqsoff is for kernels < 6.0.0, not "),
        ({"profile": "report", "options": {"threads": 4}}, "1 limit is for those of the profile report"),
    ],
)
def test_one_for_other_kernels_or_options_is_told_where_no_boot_was_followed(scope: dict[str, Any], why: str) -> None:
    limits = (replace(limit, **scope) for limit in (KEPT, length_limit(31)))
    (one,) = [one for one in judged(None, *limits) if one.kind is not Kind.UNJUDGED]
    assert (one.status, one.kind) == (Status.DONE, Kind.NOT_APPLIED)
    assert one.sentence.startswith(why)
