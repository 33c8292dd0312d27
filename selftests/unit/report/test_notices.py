# SPDX-License-Identifier: MIT
"""Whoever waits hears at least every three seconds what goes on, and everything once."""

from __future__ import annotations

import time

import pytest

from rtgate.report import notices
from rtgate.report.notices import reminder, say, silence, spoken, step


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "SILENCE_S", 0.05)


def test_a_slow_step_is_named_again_while_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with spoken() as tell:
        tell("fetching packages")
        time.sleep(0.3)
    first, *lines = capsys.readouterr().err.splitlines()
    assert first == "fetching packages"
    assert set(lines) == {"fetching packages ... 0 s"}


def test_a_step_that_says_nothing_is_not_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with spoken("listing"):
        time.sleep(0.3)
    assert set(capsys.readouterr().err.splitlines()) == {"listing ... 0 s"}


def test_a_step_ends_with_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    with step("judging"):
        time.sleep(0.3)
    first, *lines, last = capsys.readouterr().err.splitlines()
    assert (first, set(lines)) == ("== judging", {"== judging ... 0 s"})
    assert last.startswith("== judging: 0.")


def test_the_innermost_speaks(capsys: pytest.CaptureFixture[str]) -> None:
    with step("building"), spoken("copying the source"):
        time.sleep(0.3)
    assert set(capsys.readouterr().err.splitlines()[1:-1]) == {"copying the source ... 0 s"}


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
