# SPDX-License-Identifier: MIT
from __future__ import annotations

import io
import sys
import time
from dataclasses import replace

import pytest
from selftests.unit.judge.conftest import number, record, without

from rtgate.records.record import Record
from rtgate.report import notices
from rtgate.report.progress import Progress, estimate, headline
from rtgate.units import Unit


def _timed(seed: int, total: float = 6.0) -> Record:
    return replace(record(seed=seed), seconds={"total": total})


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    target = io.StringIO()
    monkeypatch.setattr(sys, "__stderr__", target)
    return target


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "SILENCE_S", 0.05)


def test_a_line_per_boot_says_what_is_done_and_how_long_the_rest_takes(shown: io.StringIO) -> None:
    progress = Progress(total=31, workers=2)
    with progress.case("latency/cyclictest:idle"):
        progress.note_boot(_timed(1))
        progress.note_boot(_timed(2, 10.0))
    case = "latency/cyclictest:idle"
    assert shown.getvalue().splitlines() == [
        f"[1/31, about 90 s left] {case} seed 1 candidate: max 30.0 virtual us (3750 instructions)",
        f"[2/31, about 2 min left] {case} seed 2 candidate: max 30.0 virtual us (3750 instructions)",
    ]


def test_the_last_boot_leaves_nothing(shown: io.StringIO) -> None:
    progress = Progress(total=1, workers=4)
    with progress.case("c"):
        progress.note_boot(_timed(1))
    assert shown.getvalue().startswith("[1/1] ")


def test_long_lines_and_markup_stay_as_they_are(shown: io.StringIO) -> None:
    progress = Progress(total=1, workers=1)
    with progress.case("c"):
        progress.note_boot(record(state="hang", message="[bold]it hung[/bold] " + "x" * 300))
    assert f"hang: [bold]it hung[/bold] {'x' * 300}\n" in shown.getvalue()


def test_a_terminal_gets_a_bar_that_goes_away(shown: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    progress = Progress(total=2, workers=1)
    with progress.case("latency/cyclictest:idle"):
        progress.note_boot(_timed(1))
    assert "measuring latency/cyclictest:idle" in shown.getvalue()
    assert "seed 1 candidate: max" in shown.getvalue()


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (record(state="hang", message="it hung:\nlast line"), "hang: it hung:"),
        (record(state="lab"), "lab: "),
        (record(state="skipped", message="needs two CPUs; needs tracing"), "skipped: needs two CPUs; needs tracing"),
        (without("latency.max", record()), "measured"),
        (record({131_400: 2000}), "max 131.4 virtual us (16425 instructions)"),
    ],
)
def test_one_figure_stands_for_a_boot(measured: Record, expected: str) -> None:
    assert headline(measured) == expected


def test_the_worst_cpu_stands_for_a_boot() -> None:
    one = record()
    both = replace(one, measurements=(*one.measurements, number("latency.max", 90_000, Unit.VIRTUAL_NS, cpu=1)))
    assert headline(both) == "max 90.0 virtual us (11250 instructions)"


@pytest.mark.parametrize(
    ("elapsed_s", "done", "total", "text"),
    [
        (70.0, 3, 1331, ""),  # 8.6 hours, of a build that took four minutes: the first files waited for others
        (14.0, 600, 1331, ""),
        (30.0, 67, 1331, "about 9 min left"),
        (200.0, 1200, 1331, "about 20 s left"),
        (200.0, 1331, 1331, ""),
        (20.0, 0, 0, ""),
    ],
)
def test_an_estimate_waits_until_it_means_something(elapsed_s: float, done: int, total: int, text: str) -> None:
    assert estimate(elapsed_s, done, total) == text


def test_a_slow_boot_is_not_silent_in_a_log(shown: io.StringIO, impatient: None) -> None:
    progress = Progress(total=4, workers=1)
    with progress.case("latency/cyclictest:idle"):
        time.sleep(0.3)
        progress.note_boot(_timed(1))
    lines = shown.getvalue().splitlines()
    assert lines[0].startswith("[0/4] measuring latency/cyclictest:idle ... 0 s")
    assert lines[-1].startswith("[1/4")
