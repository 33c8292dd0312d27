# SPDX-License-Identifier: MIT
from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.records.record import Record
from rtgate.report import terminal

if TYPE_CHECKING:
    from selftests.unit.report.conftest import World


def _shown(
    records: list[Record], verdicts: list[Verdict], exit_code: int, *, width: int = 80, tty: bool = False
) -> str:
    target = io.StringIO()
    console = Console(file=target, width=width, force_terminal=tty, color_system="standard" if tty else None)
    terminal.show(records, verdicts, exit_code, Path("report/index.html"), console)
    return target.getvalue()


def _unstyled(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_a_pass_is_short(world: World) -> None:
    text = _shown([world.record(world.boot())], [world.within_limit()], 0)
    assert re.search(r"^PASS +latency/cyclictest:idle +1 +[0-9.]+ +[0-9.]+ +61\.2 +80\.0 +0 *$", text, re.MULTILINE)
    assert "\nPASS: every limit was kept (1 PASS; exit code 0)\n" in text
    assert text.endswith("report: report/index.html\n")
    first, kernel, header, *_ = text.splitlines()
    assert first == "virt-arm64, preempt_rt, latency in virtual us"
    assert kernel == "candidate  6.12.107-rt, tree at candidate, image aaaaaaaaaaaa"
    assert header.split() == ["status", "case", "boots", "min", "mean", "max", "limit", "lost"]


def test_boots_that_were_made_before_are_counted(world: World) -> None:
    made = world.record(world.boot())
    before = replace(made, machine={**made.machine, "booted": "2026-11-21T10:00:00Z"})
    again = replace(made, machine={**made.machine, "repeated": "2026-11-21T10:00:00Z"})
    text = _shown([made, before, before, again], [world.within_limit()], 0)
    assert "\n2 of 4 boots were made before this run; 1 more was made again and printed the same bytes\n" in text
    assert "made before" not in _shown([made], [world.within_limit()], 0)


def test_boots_that_did_not_measure_are_not_counted_as_if_they_had(world: World) -> None:
    found = [world.record(world.boot()), world.record(world.boot(seed=2, state="lab", message="no QEMU"))]
    assert re.search(r"^PASS +latency/cyclictest:idle +1/2 ", _shown(found, [world.within_limit()], 0), re.MULTILINE)


@pytest.mark.parametrize(
    ("status", "kind", "code", "outcome"),
    [
        (Status.FAIL, Kind.LIMIT, 1, "FAIL: the kernel breaks a limit (1 FAIL; exit code 1)"),
        (Status.FAIL, Kind.HANG, 1, "FAIL: the kernel hangs (1 FAIL; exit code 1)"),
        (Status.FAIL, Kind.LAB, 1, "FAIL: the kernel failed (1 FAIL; exit code 1)"),
        (Status.ERROR, Kind.VALIDITY, 4, "ERROR: a measurement was invalid, or output could not be read (1 ERROR;"),
        (Status.MISS, Kind.LAB, 3, "MISS: the lab failed, or something was not measured (1 MISS; exit code 3)"),
        (Status.DONE, Kind.UNJUDGED, 5, "DONE: nothing was judged (1 DONE; exit code 5)"),
        (Status.DONE, Kind.INCONCLUSIVE, 5, "DONE: inconclusive: not enough samples to decide (1 DONE; exit code 5)"),
        (Status.DONE, Kind.UNJUDGED, 0, "DONE: nothing was judged, as asked (1 DONE; exit code 0)"),
    ],
)
def test_what_is_not_good_is_told_whole(world: World, status: Status, kind: Kind, code: int, outcome: str) -> None:
    sentence = (
        "latency.max was 131.4 virtual us (16425 instructions) on CPU 0, " + "and more words " * 12 + "to the end"
    )
    text = _shown([world.record(world.boot())], [world.verdict(status, kind, sentence)], code)
    assert outcome in text
    line = f"{status.value} latency/cyclictest:idle candidate virt-arm64: {kind.value}: {sentence}"
    assert line in text.splitlines()
    assert "\x1b" not in text


def test_what_boots_say_alike_is_said_once_and_who_must_act_at_the_end(world: World) -> None:
    verdicts = [
        world.verdict(Status.MISS, Kind.LAB, f"seed {seed}: QEMU is not there", boot=f"seed {seed}") for seed in (1, 2)
    ]
    text = _shown([world.record(world.boot())], verdicts, 3)
    assert text.count("QEMU is not there") == 1
    assert "lab: seed 1: QEMU is not there (the same 2 times)\n" in text
    assert text.splitlines()[-2].startswith("next: whoever runs the lab must act")


def test_what_is_about_no_case_is_about_the_run(world: World) -> None:
    nothing = {"board": "", "arm": "", "flavour": "", "case": ""}
    text = _shown([], [world.verdict(Status.FAIL, Kind.BUILD, "make ended with 2\nno rule", **nothing)], 1)
    assert text.startswith("FAIL the run: build: make ended with 2\n     no rule\n")


def test_a_terminal_gets_colours_and_wrapped_sentences(world: World) -> None:
    styled = _shown([world.record(world.boot())], [world.over_limit()], 1, tty=True)
    text = _unstyled(styled)
    assert "\x1b[1;31mFAIL\x1b[0m" in styled
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "over the limit of 80.0 virtual us (10000 instructions)" in " ".join(text.split())


def test_both_arms_fit_into_eighty_columns(world: World) -> None:
    case = "latency/cyclictest:stress-ng"
    highs = {"baseline": 131.4, "candidate": 144.54}
    records = [world.record(world.boot(case=case, arm=arm, high_us=high)) for arm, high in highs.items()]
    text = _unstyled(_shown(records, [world.within_limit(case=case)], 0, tty=True))
    assert re.search(rf"^PASS +{case} +mean +[0-9.]+ +[0-9.]+ +[-+][0-9.]+% +- +1", text, re.MULTILINE)
    assert re.search(rf"^ +{case} +max +131\.4 +144\.5 +\+10\.0% +80\.0", text, re.MULTILINE)
    assert re.search(r"^status +case +figure +baseline +candidate +change +limit +boots", text, re.MULTILINE)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80


def test_both_kernels_are_told_apart(world: World) -> None:
    records = [world.record(world.boot(arm=arm)) for arm in ("baseline", "candidate")]
    told = ("v6.12 0123456789ab: Linux 6.12", "my-branch ba9876543210: sched: \x1b[1mfaster")
    records = [replace(one, kernel=replace(one.kernel, source=by)) for one, by in zip(records, told, strict=True)]
    text = _shown(records, [world.within_limit()], 0)
    assert "\nbaseline   6.12.107-rt, v6.12 0123456789ab: Linux 6.12, image dddddddddddd\n" in text
    assert "\ncandidate  6.12.107-rt, my-branch ba9876543210: sched: faster, image aaaaaaaaaaaa\n" in text


def test_one_cause_is_said_once(world: World) -> None:
    records = [world.record(world.boot(arm=arm)) for arm in ("baseline", "candidate")]
    verdicts = [
        world.verdict(
            Status.FAIL,
            Kind.REGRESSION,
            f"latency {name} {change}: 25.0 virtual us before, 26.5 virtual us now",
            measurement=f"latency {name}",
            value="26.5 virtual us",
            baseline="25.0 virtual us",
            limit="25.5 virtual us",
            change=change,
        )
        for name, change in (("mean", "+6.1%"), ("p50", "+6.3%"), ("p99", ""))
    ]
    text = _shown(records, verdicts, 1)
    assert text.count("regression: ") == 1
    assert "25.0 virtual us before, 26.5 virtual us now; also p50 +6.3%, p99 in single boots\n" in text
    # The table has the numbers and the change that were judged.
    assert re.search(r"^FAIL +\S+ +mean +25\.0 +26\.5 +\+6\.1% +- +1", text, re.MULTILINE)


def test_a_regression_that_is_told_twice_is_one(world: World) -> None:
    worse = world.verdict(Status.FAIL, Kind.REGRESSION, "worse", measurement="latency mean", change="+6.1%")
    text = _shown([world.record(world.boot())], [worse, worse], 1)
    assert "regression: worse; also mean +6.1%\n" in text
    assert text.count("regression: ") == 1


def test_signals_have_figures_too(world: World) -> None:
    record = world.record(world.boot(case="signal/signaltest:idle"))
    measurements = [one for one in record.measurements if one.quantity and one.name.startswith("latency.")]
    renamed = tuple(replace(one, name=one.name.replace("latency", "roundtrip")) for one in measurements)
    case = "signal/signaltest:idle"
    text = _shown([replace(record, measurements=renamed)], [world.within_limit(case=case)], 0)
    assert re.search(rf"^PASS +{case} +1 +[0-9.]+ +[0-9.]+ +61\.2 ", text, re.MULTILINE)
    assert "virt-arm64, preempt_rt, times in virtual us" in text


@pytest.mark.parametrize("tty", [False, True])
def test_a_narrow_place_loses_no_character(world: World, tty: bool) -> None:
    case = "latency/cyclictest:stress-ng"
    text = _unstyled(_shown([world.record(world.boot(case=case))], [world.over_limit(case=case)], 1, width=40, tty=tty))
    squeezed = re.sub(r"\s", "", text)
    assert "overthelimitof80.0virtualus(10000instructions)" in squeezed
    assert "thresholds.yaml:14" in squeezed
    if not tty:
        assert re.search(rf"^FAIL +{case} +1 ", text, re.MULTILINE)


def test_a_case_that_was_not_measured(world: World) -> None:
    missing = world.verdict(Status.MISS, Kind.MISSING, "the case has no record: nothing was measured")
    text = _shown([], [missing], 3)
    assert re.search(r"^MISS +latency/cyclictest:idle +0 +- +- +- +- +-", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        ([Kind.REGRESSION], "the kernel became worse than the baseline; it keeps every limit"),
        ([Kind.REGRESSION, Kind.SHARE], "the kernel breaks a limit, and became worse than the baseline"),
        ([Kind.BOOT, Kind.REGRESSION, Kind.FAULT], "the kernel does not boot and reports a fault of its own"),
    ],
)
def test_a_failure_is_told_by_what_is_worst(world: World, kinds: list[Kind], told: str) -> None:
    verdicts = [world.verdict(Status.FAIL, kind, "why") for kind in kinds]
    assert f"\nFAIL: {told} (1 FAIL; exit code 1)\n" in _shown([world.record(world.boot())], verdicts, 1)


def test_nothing_at_all() -> None:
    assert "MISS: the lab failed, or something was not measured (no case; exit code 3)" in _shown([], [], 3)


def test_a_board_s_last_lines_follow_indented_and_clean(world: World) -> None:
    hang = world.verdict(
        Status.FAIL, Kind.HANG, "seed 1: it hung; last lines:\n\x1b[2J[bold]one[/bold]\r\ntwo", boot="seed 1"
    )
    text = _shown([world.record(world.boot(state="hang", message="it hung"))], [hang], 1)
    assert "hang: seed 1: it hung; last lines:\n     [bold]one[/bold]" in text
    assert "\x1b" not in text


def test_two_boards_have_a_table_each(world: World) -> None:
    records = [world.record(world.boot()), world.record(world.boot(board="rk3568-evb1", seed=None, high_us=95))]
    verdicts = [world.within_limit(), world.within_limit(board="rk3568-evb1", limit="150 us")]
    text = _shown(records, verdicts, 0)
    assert "rk3568-evb1, preempt_rt, latency in us\n" in text
    assert re.search(r"95\.0 +150\.0", text)
