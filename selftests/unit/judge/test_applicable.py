# SPDX-License-Identifier: MIT
"""A limit holds for the options and kernels that it is for; one that does not is said, and is never a PASS."""

from __future__ import annotations

from dataclasses import replace

import pytest
from selftests.unit.judge.conftest import BOARD, CASE, FLAVOUR, asking, fault_policy, maximum, record, share

from rtgate.judge.applicable import applicable
from rtgate.judge.judging import Subject, judge
from rtgate.judge.thresholds import Threshold, Thresholds
from rtgate.judge.verdict import Kind, Status, Verdict, exit_code
from rtgate.kernel.version import VersionRange
from rtgate.records.record import OTHER_BUILD, Record

OPTIONS = {"threads": 4, "stress-ng cpu": 4}
OWN = asking(record(), options=OPTIONS)
BROKEN = "10 virtual us"


def _for(limit: Threshold, **options: int) -> Threshold:
    return replace(limit, profile="report", options=options or OPTIONS)


def _kernels(text: str, limit: Threshold | None = None) -> Threshold:
    return replace(limit or maximum(), kernels=VersionRange.parse(text))


def _release(measured: Record, release: str, built: str = "") -> Record:
    environment = replace(measured.environment, kernel_release=release)
    return replace(measured, environment=environment, kernel=replace(measured.kernel, release=built))


def _judged(records: list[Record], *limits: Threshold) -> tuple[Verdict, ...]:
    subject = Subject(case=CASE, board=BOARD, arm="candidate", flavour=FLAVOUR, records=records)
    return judge(subject, Thresholds(limits))


def test_a_profile_is_judged_by_the_limits_of_its_options_alone() -> None:
    suites, profile = maximum(BROKEN), _for(maximum())
    (found,) = _judged([OWN], suites, profile)
    assert (found.status, found.kind) == (Status.PASS, Kind.LIMIT)
    (found,) = _judged([record()], suites, profile)
    assert (found.status, found.kind) == (Status.FAIL, Kind.LIMIT)
    (found,) = _judged([OWN], _for(maximum(BROKEN)))
    assert found.status is Status.FAIL


def test_a_limit_for_a_profile_stands_for_no_limit_of_another_measurement() -> None:
    """Else one of little worth would take all the others away, and nobody would be told."""
    average = maximum(measurement="latency.avg")
    limits = (maximum(BROKEN), average, _for(average))
    kept, not_applied = _judged([OWN], *limits)
    assert (kept.status, kept.measurement) == (Status.PASS, "latency.avg")
    assert (not_applied.status, not_applied.kind) == (Status.DONE, Kind.NOT_APPLIED)
    assert not_applied.sentence == (
        "1 limit is for the tool's own options (calibration; thresholds.yaml:7); "
        "measured with threads 4, stress-ng cpu 4"
    )
    assert exit_code([kept, not_applied]) == 5


def test_limits_for_another_profile_are_not_expected() -> None:
    (found,) = _judged([OWN], _for(maximum()), _for(maximum(measurement="latency.avg"), threads=8))
    assert found.status is Status.PASS
    (found,) = _judged([record()], maximum(), _for(maximum(measurement="latency.avg")))
    assert found.status is Status.PASS


def test_a_limit_for_a_profile_stands_for_no_limit_of_another_class_or_level() -> None:
    """They would be gone, and nobody would be told."""
    big, little = replace(maximum(BROKEN), cpu_class="big"), replace(maximum(BROKEN), cpu_class="little")
    assert applicable([big, _for(big)], [OWN]).left_out == ()
    (sentence,) = applicable([maximum(BROKEN), big, little, _for(big)], [OWN]).left_out
    assert sentence.startswith("2 limits are for the tool's own options (")
    low, high = share(over="50 virtual us"), share(over="90 virtual us")
    (sentence,) = applicable([low, high, _for(low)], [OWN]).left_out
    assert sentence.startswith("1 limit is for the tool's own options (")


def test_an_option_that_says_what_the_tool_does_anyway_is_none() -> None:
    """Records of before have those of a profile, as `step_us: 500` of nuc."""
    (found,) = _judged([asking(record(), options={**OPTIONS, "interval_us": 1000})], _for(maximum()))
    assert (found.status, found.kind) == (Status.PASS, Kind.LIMIT)
    (found,) = _judged([asking(record(), options={"interval_us": 1000})], maximum())
    assert (found.status, found.kind) == (Status.PASS, Kind.LIMIT)


@pytest.mark.parametrize("options", [{}, {"threads": 4}, {**OPTIONS, "priority": 80}, {**OPTIONS, "threads": 8}])
def test_options_must_be_the_same_all_of_them(options: dict[str, int]) -> None:
    (found,) = _judged([asking(record(), options=options)], _for(maximum(BROKEN)))
    assert (found.status, found.kind) == (Status.DONE, Kind.NOT_APPLIED)
    assert "1 limit is for those of the profile report (calibration; thresholds.yaml:7)" in found.sentence
    assert found.sentence.endswith(", ".join(f"{name} {value}" for name, value in options.items()) or "own options")


def test_boots_with_different_options_are_judged_by_no_limit() -> None:
    (found,) = _judged([OWN, record(seed=2)], maximum(), _for(maximum()))
    assert found.kind is Kind.NOT_APPLIED
    assert "2 limits are for the tool's own options, and for those of the profile report" in found.sentence


def test_a_boot_that_died_takes_no_limit_away_from_those_that_measured() -> None:
    dead = record(seed=2, state="no boot", message="no prompt")
    found = _judged([OWN, dead], _for(maximum(BROKEN)))
    assert [one.kind for one in found] == [Kind.BOOT, Kind.LIMIT]
    assert found[1].status is Status.FAIL
    assert [one.kind for one in _judged([dead], _for(maximum(BROKEN)))] == [Kind.BOOT]


def test_a_limit_that_was_not_applied_is_no_pass_whatever_else_passed() -> None:
    kept, not_applied = _judged([record()], maximum(), _kernels("< 5.0", maximum(measurement="latency.avg")))
    assert (kept.status, not_applied.kind) == (Status.PASS, Kind.NOT_APPLIED)
    assert exit_code([kept]) == 0
    assert exit_code([kept, not_applied]) == 5
    assert exit_code([kept, not_applied], allow_unjudged=True) == 0


@pytest.mark.parametrize(
    ("release", "built", "text", "fits"),
    [
        ("6.12.117-rt1", "", ">= 6.12", True),
        ("6.12.117", "", ">= 6.12 and < 6.12.117", False),
        ("6.1.0+", "", ">= 6.12", False),
        ("", "6.12.3", ">= 6.12", True),
        ("", "", ">= 6.12", False),
        ("next", "", ">= 6.12", False),
    ],
)
def test_a_limit_for_kernels_is_for_no_others(release: str, built: str, text: str, *, fits: bool) -> None:
    found = applicable([_kernels(text)], [_release(record(), release, built)])
    assert (len(found.limits), len(found.left_out)) == ((1, 0) if fits else (0, 1))
    assert all(f"not {release or 'unknown'} (calibration; " in sentence for sentence in found.left_out)


def test_a_boot_that_did_not_say_its_kernel_takes_no_limit_away_from_those_that_did() -> None:
    silent = _release(record(seed=2, state="no boot", message="no prompt"), "")
    found = applicable([_kernels(">= 6.12", maximum(BROKEN))], [_release(record(), "6.12.1"), silent])
    assert (len(found.limits), found.left_out) == (1, ())
    assert [one.kind for one in _judged([_release(record(), "6.12.1"), silent], *found.limits)] == [
        Kind.BOOT,
        Kind.LIMIT,
    ]


def test_what_was_skipped_has_its_limits_not_applied_and_is_not_good() -> None:
    skipped = _release(record(state="skipped", message="needs tracing"), "")
    for limit in (_kernels(">= 6.12"), _for(maximum())):
        found = _judged([skipped, replace(skipped, seed=2)], limit)
        assert [one.kind for one in found] == [Kind.UNJUDGED, Kind.UNJUDGED, Kind.NOT_APPLIED]
        assert exit_code([*_judged([record()], maximum()), *found]) == 5
    undriven = replace(skipped, machine={OTHER_BUILD: "virt-arm64-pcie"})
    assert {one.kind for one in _judged([undriven], _kernels(">= 6.12"))} == {Kind.UNJUDGED}


def test_limits_for_kernels_of_one_measurement_take_turns() -> None:
    old, new = _kernels("< 6.0", maximum(BROKEN)), _kernels(">= 6.0")
    found = applicable([old, new], [_release(record(), "6.12.1")])
    assert found.limits == (new,)
    assert found.left_out == ()


def test_a_tail_limit_over_one_level_does_not_stand_for_that_over_another() -> None:
    kept, other = share(over="50 virtual us"), _kernels("< 6.0", share(over="90 virtual us"))
    found = applicable([kept, other], [_release(record(), "6.12.1")])
    assert found.limits == (kept,)
    (sentence,) = found.left_out
    assert sentence.startswith("the limit of latency over 90 virtual us is for kernels < 6.0.0, not 6.12.1 (")


@pytest.mark.parametrize("measurement", ["irqsoff", "rawlock"])
def test_a_limit_of_another_function_or_lock_is_not_applied_and_that_is_said(measurement: str) -> None:
    def limit(name: str) -> Threshold:
        of = maximum(measurement=measurement)
        return replace(of, function=name) if measurement == "irqsoff" else replace(of, lock=name)

    kept, other = limit("A"), _kernels("< 6.12", limit("B"))
    found = applicable([kept, other], [_release(record(), "6.12.1")])
    assert found.limits == (kept,)
    (sentence,) = found.left_out
    assert sentence.startswith(f"the limit of {measurement} B is for kernels < 6.12")


@pytest.mark.parametrize(("seconds", "fits"), [(60.0, True), (60.4, True), (10.0, False), (3600.0, False)])
def test_a_count_of_a_whole_run_is_for_runs_of_that_length(seconds: float, *, fits: bool) -> None:
    """Ninety times as slow a kernel has as many inversions in an hour and a half as a good one in a minute."""
    limit = replace(_for(maximum(BROKEN)), duration_s=60.0)
    found = applicable([limit], [asking(OWN, duration_s=seconds)])
    assert found.limits == ((limit,) if fits else ())
    why = f"the limit of latency.max is for runs of 60 s, not {seconds:g} s (calibration; thresholds.yaml:7)"
    assert found.left_out == (() if fits else (why,))


def test_policies_on_faults_hold_for_all_options() -> None:
    policy = fault_policy("oops", fails=False)
    assert applicable([policy, _for(maximum())], [record()]).limits == (policy,)
    assert applicable([policy], [OWN]).left_out == ()
