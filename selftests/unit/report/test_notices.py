# SPDX-License-Identifier: MIT
"""Whoever waits hears at least every three seconds what goes on, and everything once."""

from __future__ import annotations

import io
import sys
import time
from types import SimpleNamespace

import pytest

from rtgate.report import build_progress, notices
from rtgate.report.notices import reminder, say, silence, step, step_printer


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "SILENCE_S", 0.05)
    monkeypatch.delenv("CI", raising=False)


def test_a_slow_step_is_named_again_while_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with step_printer() as tell:
        tell("fetching packages")
        time.sleep(0.3)
    first, *lines = capsys.readouterr().err.splitlines()
    assert first == "fetching packages"
    assert set(lines) == {"fetching packages ... 0 s"}


def test_a_ci_job_hears_less_and_less_of_one_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every 2.5 s made nine of ten lines of a job's log; of the next step it hears as soon as of the first."""
    monkeypatch.setenv("CI", "true")
    with step_printer() as tell:
        tell("fetching packages")
        time.sleep(1.0)  # words after 0.05, 0.15, 0.35, 0.75 s
        first = capsys.readouterr().err.splitlines()
        tell("making the image")
        time.sleep(0.2)
    assert 2 <= first.count("fetching packages ... 0 s") <= 4
    assert capsys.readouterr().err.splitlines()[:2] == ["making the image", "making the image ... 0 s"]


def test_a_ci_job_hears_of_a_step_at_least_each_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(notices, "CI_SILENCE_S", 0.05)
    with step_printer("listing"):
        time.sleep(1.0)
    assert len(capsys.readouterr().err.splitlines()) > 6


def test_a_step_that_says_nothing_is_not_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with step_printer("listing"):
        time.sleep(0.3)
    assert set(capsys.readouterr().err.splitlines()) == {"listing ... 0 s"}


def test_a_step_ends_with_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    with step("judging"):
        time.sleep(0.3)
    first, *lines, last = capsys.readouterr().err.splitlines()
    assert (first, set(lines)) == ("== judging", {"== judging ... 0 s"})
    assert last.startswith("== judging: 0.")


def test_the_innermost_speaks(capsys: pytest.CaptureFixture[str]) -> None:
    with step("building"), step_printer("copying the source"):
        time.sleep(0.3)
    assert set(capsys.readouterr().err.splitlines()[1:-1]) == {"copying the source ... 0 s"}


def test_steps_that_are_short_and_say_nothing_are_no_excuse(capsys: pytest.CaptureFixture[str]) -> None:
    with reminder(lambda: "gate"):
        for _ in range(20):
            with step_printer("listing"):
                time.sleep(0.02)
    said = capsys.readouterr().err.splitlines()
    assert said
    assert set(said) <= {"gate", "listing ... 0 s"}


def test_what_was_said_before_it_began_counts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `rtgate: loading`: the time until the next word begins there."""
    monkeypatch.setattr(notices, "SILENCE_S", 100.0)
    with reminder(lambda: "gate", silent_s=99.9):
        time.sleep(1.0)
    assert set(capsys.readouterr().err.splitlines()) == {"gate"}


def test_what_speaks_by_itself_is_not_talked_over(capsys: pytest.CaptureFixture[str]) -> None:
    with reminder(lambda: "gate"), silence():
        time.sleep(0.3)
    assert not capsys.readouterr().err


def test_nobody_is_reminded_of_what_was_just_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "SILENCE_S", 1.0)
    with reminder(lambda: "gate"):
        for _ in range(14):
            say("a boot")
            time.sleep(0.1)
    assert set(capsys.readouterr().err.splitlines()) == {"rtgate: a boot"}


def test_what_is_said_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    """The subject of a merge request's commit is said, and whoever pushes one writes it."""
    say("candidate 1: \x1b[2K\x1b]0;title\x07timers: be tidy\x9b1A")
    assert capsys.readouterr().err == "rtgate: candidate 1: timers: be tidy\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_what_a_build_has_left_is_told_by_its_speed_alone(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> None:
    """Five minutes of unpacking and configuring, and what an earlier build has made, say nothing about its speed."""
    now = [1000.0]
    told: list[tuple[int, float]] = []
    monkeypatch.setattr(build_progress, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def estimate(elapsed_s: float, done: int, total: int) -> str:
        told.append((done, elapsed_s))
        return f"{total - done} left"

    monkeypatch.setattr(build_progress, "estimate", estimate)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with build_progress.show_progress("virt-arm64", quiet=False) as listener:
        now[0] += 300
        listener.progress(400, 1000, "first.o")
        now[0] += 20
        listener.progress(500, 1000, "more.o")
    assert told == [(0, 0.0), (100, 20.0)]


def test_a_quiet_build_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with reminder(lambda: "build"), build_progress.show_progress("virt-arm64", quiet=True) as listener:
        listener.notice("configuring")
        time.sleep(0.3)
    assert not capsys.readouterr().err


def test_a_build_s_progress_is_neither_markup_nor_moves_a_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Makefile says what it makes, and may say anything."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    with build_progress.show_progress("virt-arm64", quiet=False) as listener:
        listener.progress(1, 2, "[/hostile]\x1b]0;title\x07.o")
        time.sleep(0.3)
    assert "[/hostile]" in shown.getvalue()
    assert "\x1b]0;" not in shown.getvalue()
