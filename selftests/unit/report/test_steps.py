# SPDX-License-Identifier: MIT
from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.records.record import Record
from rtgate.report.cases import cases
from rtgate.report.steps import Step, steps
from rtgate.target.outcome import State

if TYPE_CHECKING:
    from selftests.unit.report.conftest import World


def _steps(
    records: list[Record], verdicts: list[Verdict], not_applicable: dict[str, str] | None = None
) -> tuple[Step, ...]:
    (case,) = cases(records, verdicts)
    return steps(case, not_applicable or {})


def _named(found: tuple[Step, ...], beginning: str) -> Step:
    (step,) = (step for step in found if step.name.startswith(beginning))
    return step


def test_a_boot_says_how_long_and_how_bad(world: World, tmp_path: Path) -> None:
    found = _steps([world.stored(world.boot(seed=3), tmp_path)], [world.within_limit()])
    boot = _named(found, "seed 3")
    assert boot.name == "seed 3: boot 0.9 s, measured 2.2 virtual s, max 61.2 virtual us (7650 instructions)"
    assert boot.status is Status.PASS
    booted, measured = boot.steps
    assert booted.start is not None
    assert booted.stop is not None
    assert abs(booted.stop - booted.start - 0.912) < 0.001
    assert boot.stop == measured.stop
    assert measured.parameters["latency.max CPU 0"] == "61.2 virtual us"
    names = [attachment.name for attachment in boot.attachments]
    assert names == ["seed 3: console", "seed 3: cyclictest.json", "seed 3: tool.out", "seed 3: record.json"]


def test_the_boot_that_a_verdict_names_has_its_status(world: World) -> None:
    records = [world.record(world.boot(seed=seed)) for seed in (1, 2)]
    found = _steps(records, [world.over_limit()])
    assert _named(found, "seed 1").status is Status.PASS
    assert _named(found, "seed 2").status is Status.FAIL
    (verdict,) = _named(found, "verdict").steps
    assert verdict.name.startswith("FAIL limit: latency.max was 131.4")
    assert verdict.parameters["limit"] == "80.0 virtual us (10000 instructions)"


def test_validity_tells_boots_apart_only_where_they_differ(world: World) -> None:
    good, bad = (world.record(world.boot(seed=seed)) for seed in (1, 2))
    bad = replace(bad, evidence=replace(bad.evidence, elapsed_s=0.5))
    validity = _named(_steps([good, bad], [world.within_limit()]), "validity")
    assert validity.name == "validity: duration failed"
    assert validity.status is Status.ERROR
    duration = _named(validity.steps, "duration")
    assert duration.name == "duration: failed in seed 2"
    assert [step.status for step in duration.steps] == [Status.PASS, Status.ERROR]
    assert _named(validity.steps, "flavour").name == "flavour: ok in 2 boots: preempt_rt by uname -v"


def test_a_check_that_the_board_declares_not_applicable(world: World) -> None:
    record = replace(world.record(world.boot()), evidence=replace(world.record(world.boot()).evidence, elapsed_s=0.5))
    validity = _named(_steps([record], [world.within_limit()], {"duration": "no clock"}), "validity")
    assert validity.status is Status.PASS
    assert _named(validity.steps, "duration").name == "duration: not applicable in 1 boot: no clock"


def test_a_kernel_that_died(world: World, tmp_path: Path) -> None:
    boot = world.boot(state="kernel fault", message=f"the kernel died: {world.oops.line}", faults=(world.oops,))
    verdict = world.verdict(Status.FAIL, Kind.FAULT, f"seed 1: the kernel died: {world.oops.line}", boot="seed 1")
    step = _named(_steps([world.stored(boot, tmp_path)], [verdict]), "seed 1")
    assert step.status is Status.FAIL
    fault = _named(step.steps, "oops")
    assert fault.status is Status.FAIL
    assert "demo_break" in fault.message
    assert "seed 1: kernel log" in [attachment.name for attachment in step.attachments]


def test_a_fault_that_failed_nobody_is_shown_as_that(world: World) -> None:
    record = world.record(world.boot(faults=(world.oops,)))
    excused = world.verdict(Status.DONE, Kind.FAULT, f"seed 1: oops: {world.oops.line} (pre-existing)", boot="seed 1")
    step = _named(_steps([record], [world.within_limit(), excused]), "seed 1")
    assert step.status is Status.PASS
    assert _named(step.steps, "oops").status is Status.DONE


def test_a_kernel_that_does_not_boot(world: World) -> None:
    record = replace(world.record(world.boot(state="no boot", message="it hung\nlast lines")), seconds={"total": 60.0})
    verdict = world.verdict(Status.FAIL, Kind.BOOT, "seed 1: it hung", boot="seed 1")
    step = _named(_steps([record], [verdict]), "seed 1")
    assert step.name == "seed 1: no boot: it hung"
    assert [inner.name for inner in step.steps] == ["boot: it did not come to the plan"]
    assert step.steps[0].status is Status.FAIL


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ({}, "on the host's clock"),
        ({"booted": "2026-11-21T10:00:00Z"}, "on the host's clock, at 2026-11-21T10:00:00Z: not made again"),
        (
            {"repeated": "2026-11-21T10:00:00Z"},
            "on the host's clock, made again: the same bytes as at 2026-11-21T10:00:00Z",
        ),
    ],
)
def test_a_boot_tells_whether_it_was_made_before(world: World, machine: dict[str, str], expected: str) -> None:
    record = replace(world.record(world.boot()), machine=machine, seconds={"boot": 1.0})
    step = _named(_steps([record], [world.within_limit()]), "seed 1")
    assert step.steps[0].name.endswith(expected)


STATES = {
    State.MEASURED: Status.PASS,
    State.SKIPPED: Status.SKIP,
    State.NO_BOOT: Status.FAIL,
    State.FAULT: Status.FAIL,
    State.HANG: Status.FAIL,
    State.UNREADABLE: Status.ERROR,
    State.UNREPEATED: Status.ERROR,
    State.LAB: Status.MISS,
    State.LOST: Status.MISS,
}


@pytest.mark.parametrize("state", State)
def test_a_boot_s_step_has_the_status_of_its_state(world: World, state: State) -> None:
    record = world.record(world.boot(state=state.value, message="" if state is State.MEASURED else "because"))
    verdict = world.verdict(STATES[state], Kind.UNJUDGED, "seed 1: because", boot="seed 1")
    step = _named(_steps([record], [verdict]), "seed 1")
    assert step.status is STATES[state]
    if state is not State.MEASURED:
        assert step.name == f"seed 1: {state.value}: because"


def test_a_skipped_boot_that_should_have_run_has_the_verdict_s_status(world: World) -> None:
    record = world.record(world.boot(state="skipped", message="needs two CPUs"))
    verdict = world.verdict(Status.MISS, Kind.MISSING, "seed 1: needs two CPUs, and there are limits", boot="seed 1")
    step = _named(_steps([record], [verdict]), "seed 1")
    assert step.status is Status.MISS
    assert step.name == "seed 1: skipped: needs two CPUs"


def test_of_many_boots_only_those_that_matter_keep_their_files(world: World, tmp_path: Path) -> None:
    records = [world.stored(world.boot(seed=seed, samples=300, high_us=50 + seed), tmp_path) for seed in range(1, 12)]
    found = _steps(records, [world.over_limit()])
    kept = [step.name.partition(":")[0] for step in found if step.name.startswith("seed") and step.attachments]
    assert kept == ["seed 2", "seed 11"]


def test_the_baseline_is_inside_one_step(world: World, tmp_path: Path) -> None:
    arms = ("baseline", "candidate")
    records = [world.stored(world.boot(arm=arm, seed=seed), tmp_path) for arm in arms for seed in (1, 2)]
    baseline = _named(_steps(records, [world.within_limit()]), "baseline")
    assert baseline.name == "baseline: 2 boots to compare with"
    assert [bool(step.attachments) for step in baseline.steps] == [True, False]


def test_a_long_console_is_compressed(world: World, tmp_path: Path) -> None:
    record = world.stored(world.boot(), tmp_path, console=b"line \x07\n" * 50_000)
    console = _named(_steps([record], [world.within_limit()]), "seed 1").attachments[0]
    assert (console.name, console.suffix) == ("seed 1: console (compressed)", "gz")
    assert gzip.decompress(console.data).startswith("line \u2407\n".encode())
