# SPDX-License-Identifier: MIT
from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from selftests.unit.judge.conftest import record

from rtgate.errors import ConfigError
from rtgate.judge.compare import looks
from rtgate.judge.compare.boot_figures import BootFigure, Part
from rtgate.judge.compare.looks import compare
from rtgate.judge.compare.paired import Prior, Series
from rtgate.judge.compare.pairing import findings as paired_findings
from rtgate.judge.compare.phase_findings import PhaseComparison, findings
from rtgate.judge.compare.phases import Placebo, decide, shifts
from rtgate.judge.verdict import Figure, Finding, Kind, Status, Verdict, exit_code
from rtgate.records.record import Record
from rtgate.units import Quantity, Unit
from rtgate.workflow import judging as workflow_judging
from rtgate.workflow.waivers import Waiver, read, waive, waiver_notes

ENTRY = """\
- board: virt-arm64
  case: latency/cyclictest:idle
  measurement: latency.max
  kernels: ">= 6.12 and < 6.19"
  largest: 120 virtual us
  owner: A. Person <a@example.org>
  reason: known since the timer rework
  link: https://example.org/1
  expires: 2027-03-31
"""
DAY = datetime.date(2027, 3, 31)
CASE = "latency/cyclictest:idle"
PASSED = Verdict(
    status=Status.PASS, kind=Kind.LIMIT, sentence="kept", board="virt-arm64", arm="candidate", flavour="", case=CASE
)


@pytest.fixture
def waivers(tmp_path: Path) -> tuple[Waiver, ...]:
    (tmp_path / "waivers.yaml").write_text(ENTRY)
    return read(tmp_path / "waivers.yaml")


def _failed(value: str = "110 virtual us", kind: Kind = Kind.LIMIT, measurement: str = "latency.max") -> Verdict:
    return Verdict(
        status=Status.FAIL,
        kind=kind,
        sentence="over the limit\nmore",
        board="virt-arm64",
        arm="candidate",
        flavour="preempt_rt",
        case=CASE,
        measurement=measurement,
        value=Figure.of(Quantity.parse(value), value) if value else None,
    )


def _waive(
    verdict: Verdict, waivers: tuple[Waiver, ...], day: datetime.date = DAY, release: str = "6.12.117"
) -> Verdict:
    (found,) = waive([verdict], waivers, day, [_booted(release)])
    return found


def _booted(release: str, **changes: Any) -> Record:
    """Return a boot of a kernel of this release."""
    measured = record(**changes)
    environment = replace(measured.environment, kernel_release=release)
    return replace(measured, environment=environment, kernel=replace(measured.kernel, release=""))


def test_a_waived_failure_blocks_nothing_and_says_who_answers_for_it(waivers: tuple[Waiver, ...]) -> None:
    found = _waive(_failed(), waivers)
    assert (found.status, found.kind) == (Status.DONE, Kind.WAIVED)
    assert found.sentence == (
        "known since the timer rework (A. Person <a@example.org>, until 2027-03-31, https://example.org/1; "
        "waivers.yaml:1): over the limit\nmore"
    )
    assert found.value == _failed().value
    assert exit_code([found]) == 0
    assert exit_code([found, _failed()]) == 1


@pytest.mark.parametrize(
    ("verdict", "day", "sentence"),
    [
        (_failed(), DAY + datetime.timedelta(days=1), "over the limit; its waiver has expired (A. Person"),
        (_failed("120.1 virtual us"), DAY, "over the limit; its waiver allows no more than 120 virtual us (A. Person"),
        (_failed("110 us"), DAY, "over the limit; its waiver allows no more than 120 virtual us"),
        (_failed(""), DAY, "over the limit; its waiver allows no more than"),
    ],
    ids=["expired", "worse", "another clock", "no figure"],
)
def test_a_waiver_that_does_not_help_says_why(
    waivers: tuple[Waiver, ...], verdict: Verdict, day: datetime.date, sentence: str
) -> None:
    found = _waive(verdict, waivers, day)
    assert found.status is Status.FAIL
    assert found.sentence.startswith(sentence)
    assert found.sentence.endswith("\nmore")


@pytest.mark.parametrize(
    ("verdict", "release"),
    [
        (_failed(kind=Kind.HANG), "6.12.117"),
        (_failed(kind=Kind.FAULT), "6.12.117"),
        (_failed(measurement="wakeups.lost"), "6.12.117"),
        (_failed(), "6.19.0-rt1"),
        (_failed(), "6.6.1"),
        (_failed(), ""),
        (_failed(), "next"),
        (PASSED, "6.12.117"),
    ],
    ids=["hang", "fault", "another figure", "newer", "older", "no release", "no version", "passed"],
)
def test_what_a_waiver_does_not_speak_of_is_left_alone(
    waivers: tuple[Waiver, ...], verdict: Verdict, release: str
) -> None:
    assert _waive(verdict, waivers, release=release) == verdict


@pytest.mark.parametrize(("named", "waived"), [("latency", False), ("latency.bound", True)])
def test_who_answers_for_latencies_does_not_answer_for_their_bound(tmp_path: Path, named: str, *, waived: bool) -> None:
    (tmp_path / "waivers.yaml").write_text(ENTRY.replace("latency.max", named))
    found = _waive(_failed(measurement="latency.bound"), read(tmp_path / "waivers.yaml"))
    assert (found.status is not Status.FAIL) is waived


@pytest.mark.parametrize(
    ("keys", "waived"),
    [
        ("measurement: preemptoff\n  function: copy_process", True),
        ("measurement: preemptoff\n  function: schedule", False),
        ("measurement: preemptoff", False),
    ],
)
def test_who_answers_for_one_function_does_not_answer_for_another(tmp_path: Path, keys: str, *, waived: bool) -> None:
    (tmp_path / "waivers.yaml").write_text(ENTRY.replace("measurement: latency.max", keys))
    found = _waive(_failed(measurement="preemptoff copy_process"), read(tmp_path / "waivers.yaml"))
    assert (found.status is not Status.FAIL) is waived


@pytest.mark.parametrize(
    ("keys", "waived"),
    [
        ("measurement: rawlock\n  lock: tick_broadcast_lock", True),
        ("measurement: rawlock\n  lock: jiffies_lock", False),
        ("measurement: rawlock", False),
    ],
)
def test_who_answers_for_one_lock_does_not_answer_for_another(tmp_path: Path, keys: str, *, waived: bool) -> None:
    (tmp_path / "waivers.yaml").write_text(ENTRY.replace("measurement: latency.max", keys))
    found = _waive(_failed(measurement="rawlock tick_broadcast_lock"), read(tmp_path / "waivers.yaml"))
    assert (found.status is not Status.FAIL) is waived


def test_a_waiver_of_a_section_is_of_no_lock(tmp_path: Path) -> None:
    (tmp_path / "waivers.yaml").write_text(ENTRY.replace("latency.max", "irqsoff\n  lock: jiffies_lock"))
    with pytest.raises(ConfigError, match="only rawlock is of a lock"):
        read(tmp_path / "waivers.yaml")


def test_a_waiver_of_a_latency_is_of_no_function(tmp_path: Path) -> None:
    (tmp_path / "waivers.yaml").write_text(ENTRY.replace("latency.max", "latency.max\n  function: schedule"))
    with pytest.raises(ConfigError, match="only irqsoff, preemptoff, preemptirqsoff are of a function"):
        read(tmp_path / "waivers.yaml")


@pytest.mark.parametrize("release", ["6.12.117", "6.18.3-rt2", "6.12.0+", "6.13"])
def test_a_release_is_in_the_range_by_its_version(waivers: tuple[Waiver, ...], release: str) -> None:
    assert _waive(_failed(), waivers, release=release).kind is Kind.WAIVED


def test_a_boot_that_died_before_it_said_its_kernel_has_that_of_the_others(waivers: tuple[Waiver, ...]) -> None:
    dead = _booted("", state="no boot", message="no prompt")
    baseline = _booted("6.1.1", arm="baseline")
    (found,) = waive([_failed()], waivers, DAY, [dead, _booted("6.12.117", seed=2), baseline])
    assert found.kind is Kind.WAIVED
    assert waive([_failed()], waivers, DAY, [dead]) == [_failed()]


def test_a_dead_boot_before_the_others_takes_no_waiver_away(
    waivers: tuple[Waiver, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = "{measurement: latency.max, kind: max, limit: 90 virtual us, source: x}"
    limits = tmp_path / "limits.yaml"
    limits.write_text(f"virt-arm64:\n  preempt_rt:\n    {CASE}:\n      - {limit}\n")
    monkeypatch.setattr(workflow_judging, "load_waivers", lambda: waivers)
    judging = workflow_judging.Judging(workflow_judging.Criteria(thresholds=limits))
    boots = [_booted("", state="lab", message="lost"), _booted("6.12.117", seed=2, maximum=110_000)]
    found = judging.case(CASE, boots, {"virt-arm64": {"candidate"}}, lambda *_: ())
    assert {one.kind for one in found} == {Kind.LAB, Kind.WAIVED}


def test_a_waiver_that_nothing_needs_any_more_is_said(waivers: tuple[Waiver, ...]) -> None:
    boots = [_booted("6.12.117")]
    passed = replace(PASSED, measurement="latency.max")
    (sentence,) = waiver_notes([passed], waivers, boots)
    assert sentence == (
        "a waiver is no longer needed: virt-arm64 latency/cyclictest:idle is good without it (A. Person "
        "<a@example.org>, until 2027-03-31, https://example.org/1; waivers.yaml:1)"
    )
    assert [*waiver_notes([passed, _waive(_failed(), waivers)], waivers, boots)] == []
    assert [*waiver_notes([passed, _failed()], waivers, boots)] == []
    assert [*waiver_notes([], waivers, boots)] == []


def test_a_waiver_that_nothing_tested_may_be_needed(waivers: tuple[Waiver, ...]) -> None:
    boots = [_booted("6.12.117")]
    for said in ("", "wakeups.lost", "latency.bound"):
        assert [*waiver_notes([replace(PASSED, measurement=said)], waivers, boots)] == []
    passed = replace(PASSED, measurement="latency.max")
    assert [*waiver_notes([passed], waivers, [_booted("6.1.9")])] == []
    inconclusive = replace(passed, status=Status.DONE, kind=Kind.INCONCLUSIVE)
    assert [*waiver_notes([passed, inconclusive], waivers, boots)] == []
    of_another_figure = replace(inconclusive, measurement="wakeups.lost")
    assert len([*waiver_notes([passed, of_another_figure], waivers, boots)]) == 1


@pytest.mark.parametrize(
    ("status", "kind", "needed"),
    [
        (Status.PASS, Kind.NO_WORSE, False),
        (Status.DONE, Kind.UNJUDGED, False),
        (Status.MISS, Kind.MISSING, True),
        (Status.ERROR, Kind.VALIDITY, True),
        (Status.DONE, Kind.INCONCLUSIVE, True),
        (Status.DONE, Kind.NO_WORSE, True),
        (Status.SKIP, Kind.NOT_EXERCISED, True),
    ],
)
def test_a_waiver_of_a_whole_case_may_be_needed_where_anything_of_it_is_open(
    waivers: tuple[Waiver, ...], status: Status, kind: Kind, *, needed: bool
) -> None:
    waiver, boots = replace(waivers[0], measurement=""), [_booted("6.12.117")]
    other = replace(PASSED, status=status, kind=kind)
    assert ([*waiver_notes([PASSED, other], [waiver], boots)] == []) is needed
    guarantee = replace(PASSED, kind=Kind.GUARANTEE)
    assert [*waiver_notes([guarantee], [waiver], boots)] == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  expires: 2027-03-31\n", "", "1:3: missing key 'expires'"),
        ("  owner: A. Person <a@example.org>\n", "", "missing key 'owner'"),
        ("2027-03-31", "in spring", "9:12: 'in spring' is not a date"),
        ("120 virtual us", "much", "5:12: 'much' is not a number with a unit"),
        (">= 6.12 and < 6.19", "new", "is not a condition"),
        ("virt-arm64", "nobody", "1:10: unknown value 'nobody'"),
        ("latency/cyclictest:idle", "latency/nothing:idle", "unknown tool 'nothing'"),
        ("latency.max", "latency.most", "3:16: unknown value 'latency.most'"),
        ("owner:", "owners:", "unknown key 'owners'"),
    ],
)
def test_a_mistake_is_said_with_its_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "waivers.yaml"
    path.write_text(ENTRY.replace(old, new))
    with pytest.raises(ConfigError) as raised:
        read(path)
    assert message in str(raised.value)
    assert str(raised.value).startswith(f"{path}:")


@pytest.mark.parametrize(("kind", "bound"), [(Kind.LIMIT, "limit"), (Kind.REGRESSION, "baseline")])
def test_a_rate_that_breaks_down_is_not_waived(waivers: tuple[Waiver, ...], kind: Kind, bound: str) -> None:
    """`largest` would allow every rate below it, down to nothing."""
    waiver = replace(waivers[0], largest=Quantity.parse("200 virtual MB/s"))
    least = Figure.of(Quantity.parse("240 virtual MB/s"), "")
    failed = _failed("1 virtual MB/s", kind)
    verdict = replace(failed, limit=least) if bound == "limit" else replace(failed, baseline=least)
    found = _waive(verdict, (waiver,))
    assert (found.status, found.kind) == (Status.FAIL, kind)
    assert "and this one is too small" in found.sentence


def _spiked(*boots_us: float) -> Verdict:
    """Return the regression of boots among 12 of which the others are 0.1 us faster than the baseline."""
    (told,) = _slower([*boots_us, *[45.5] * (12 - len(boots_us))])
    return told


def _slower(candidate_us: Sequence[float]) -> list[Verdict]:
    """Return the regressions of boots against 12 ordinary ones of 45.6 us."""

    def boots(values_us: Sequence[float]) -> list[dict[str, BootFigure]]:
        return [
            {"latency maximum": BootFigure(name="", part=Part.EXTREME, value=1000 * us, unit=Unit.VIRTUAL_NS)}
            for us in values_us
        ]

    placebos = {"latency maximum": Placebo(move=0.01, spike=1.3, kernels=30, boots=12)}
    decided = decide(shifts(boots([45.6] * 12), boots(candidate_us), placebos))
    case = PhaseComparison(board="virt-arm64", shifts=decided, lost=0, instruction_ns="8", boot_s=7.0)
    return [_verdict_of(told) for told in findings(case, decided)]


def _verdict_of(told: Finding) -> Verdict:
    return Verdict.of(told, board="virt-arm64", arm="candidate", flavour="preempt_rt", case=CASE)


def test_few_boots_above_the_largest_are_not_waived_by_the_median_of_all(waivers: tuple[Waiver, ...]) -> None:
    waiver = replace(waivers[0], measurement="")
    found = _waive(_spiked(*[5000.0] * 4), (waiver,))
    assert (found.status, found.kind) == (Status.FAIL, Kind.REGRESSION)
    assert "its waiver allows no more than 120 virtual us" in found.sentence


def test_few_boots_above_the_largest_are_not_waived_where_the_others_are_slower(waivers: tuple[Waiver, ...]) -> None:
    waiver, boots = replace(waivers[0], measurement=""), [_booted("6.12.117")]
    told = _slower([*[5000.0] * 4, *[58.0] * 8])
    all_boots, few = waive(told, (waiver,), DAY, boots)
    assert (all_boots.kind, str(all_boots.change)) == (Kind.WAIVED, "+27.2%")
    assert (few.status, few.kind, few.change) == (Status.FAIL, Kind.REGRESSION, None)
    assert "of 12 boots had one more than 15% beyond" in few.sentence
    assert f", up to {few.value}; median" in few.sentence
    assert "its waiver allows no more than 120 virtual us" in few.sentence
    wider = replace(waiver, largest=Quantity.parse("6 virtual ms"))
    assert exit_code(waive(told, (wider,), DAY, boots)) == 0


def test_boots_that_all_became_slower_alike_are_one_regression() -> None:
    """All of them lie beyond what harmless kernels showed, and the median says as much."""
    (told,) = _slower([99.0, *[98.0] * 11])
    assert str(told.change) == "+114.9%"


def test_few_boots_below_the_largest_are_waived_where_the_others_are_faster(waivers: tuple[Waiver, ...]) -> None:
    waiver = replace(waivers[0], measurement="")
    assert _waive(_spiked(*[110.0] * 4), (waiver,)).kind is Kind.WAIVED


@pytest.mark.parametrize(("largest", "waived"), [("1.5 ratio", False), ("2.5 ratio", True)])
def test_the_largest_ratio_of_a_board_must_be_waived(
    waivers: tuple[Waiver, ...], largest: str, *, waived: bool
) -> None:
    clear = Series(case=CASE, metric="1 h return level", differences=(0.3,) * 6, prior=Prior(1e-6, 12))
    large = Series(case=CASE, metric="exceedance rate", differences=(0.75,) * 6, prior=Prior(0.01, 12))
    (told,) = _paired(clear, large)
    assert told.sentence.startswith("worse than the baseline in 6 pairs: 1 h return level x1.35")
    assert told.measurement == "exceedance rate"
    found = _waive(told, (replace(waivers[0], largest=Quantity.parse(largest), measurement=""),))
    assert (found.kind is Kind.WAIVED) is waived


def _paired(*series: Series) -> list[Verdict]:
    """Return what a lab's board says of some metrics after six pairs."""
    return [_verdict_of(told) for told in paired_findings(compare(series, looks.once(6))[0])]


def test_a_rate_among_what_became_worse_on_a_board_is_not_waived(waivers: tuple[Waiver, ...]) -> None:
    level = Series(case=CASE, metric="1 h return level", differences=(0.3,) * 6, prior=Prior(1e-6, 12))
    rate = Series(case=CASE, metric="throughput bandwidth", differences=(0.2,) * 6, prior=Prior(1e-4, 12))
    waiver = replace(waivers[0], largest=Quantity.parse("2 ratio"), measurement="")
    waived, failed = waive(_paired(level, rate), (waiver,), DAY, [_booted("6.12.117")])
    assert (waived.kind, waived.measurement) == (Kind.WAIVED, "1 h return level")
    assert (failed.status, failed.measurement) == (Status.FAIL, "throughput bandwidth")
    assert "and this one is too small" in failed.sentence
    assert exit_code([waived, failed]) == 1


@pytest.mark.parametrize("response", [0.5, 0.7])
def test_a_waiver_of_one_measurement_does_not_waive_another_one_s_regression(
    waivers: tuple[Waiver, ...], response: float
) -> None:
    """On a lab's board one comparison is of all measurements of a case; whichever has the larger ratio."""
    latency = Series(case=CASE, metric="latency exceedance rate", differences=(0.6,) * 6, prior=Prior(0.01, 12))
    other = Series(case=CASE, metric="response winsorised mean", differences=(response,) * 6, prior=Prior(1e-6, 12))
    waiver = replace(waivers[0], largest=Quantity.parse("2.5 ratio"), measurement="latency")
    after = waive(_paired(latency, other), (waiver,), DAY, [_booted("6.12.117")])
    assert {(found.measurement, found.kind) for found in after} == {
        ("latency exceedance rate", Kind.WAIVED),
        ("response winsorised mean", Kind.REGRESSION),
    }
    assert exit_code(after) == 1
    both = (waiver, replace(waiver, measurement="response"))
    assert {found.kind for found in waive(_paired(latency, other), both, DAY, [_booted("6.12.117")])} == {Kind.WAIVED}


def test_a_throughput_that_breaks_down_on_a_board_is_not_waived_by_a_ratio(waivers: tuple[Waiver, ...]) -> None:
    series = Series(
        case=CASE,
        metric="throughput bandwidth",
        differences=(2.3, 2.31, 2.29, 2.3, 2.31, 2.29),
        prior=Prior(0.0001, 12),
    )
    (told,) = _paired(series)
    verdict = replace(_failed(), kind=told.kind, value=told.value, baseline=told.baseline, measurement=told.measurement)
    waiver = replace(waivers[0], largest=Quantity.parse("1.3 ratio"), measurement="")
    assert "and this one is too small" in _waive(verdict, (waiver,)).sentence
