# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

from selftests.unit.history.conftest import NOW, record

from rtgate.history.database import History
from rtgate.history.prior import HistoryPrior
from rtgate.history.screens import keep, level
from rtgate.judge.learn.screening import ScreenProposal

PROVEN = ScreenProposal(level=0.02, flagged=1, sessions=12, upper=0.3, problem="")


def test_a_proven_level_is_for_its_device_case_and_environment(history: History) -> None:
    assert level(history, record(1)) is None
    keep(history, [], record(1), PROVEN, NOW)
    assert level(history, record(2)) == 0.02
    assert HistoryPrior(history).case_history(record(2), ()).screen == 0.02
    assert level(history, record(2, device="bench-02")) is None
    assert level(history, record(2, firmware="newer")) is None
    assert level(history, record(2, case="latency/cyclictest:hackbench")) is None


def test_the_newest_level_counts_and_too_few_sessions_say_nothing(history: History) -> None:
    keep(history, [], record(1), PROVEN, NOW)
    few = replace(PROVEN, sessions=4, problem="4 sessions are too few")
    for proposed in (0.12, None):
        keep(history, [], record(1), replace(few, level=proposed), NOW)
        assert level(history, record(1)) == 0.02
    keep(history, [], record(1), replace(PROVEN, level=0.05), NOW)
    assert level(history, record(1)) == 0.05


def test_a_past_that_shows_no_level_ends_the_older_one(history: History) -> None:
    keep(history, [], record(1), PROVEN, NOW)
    keep(history, [], record(1), replace(PROVEN, level=None, flagged=9, problem="noisy"), NOW)
    assert level(history, record(1)) is None
    assert HistoryPrior(history).case_history(record(2), ()).screen is None
