# SPDX-License-Identifier: MIT
"""What counts as the tool's threads, from what a plan read of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.tools import Expected
from rtgate.tools.threads import Threads
from rtgate.validity.threads import seen_threads

# cyclictest of 2 s, of which the second look came 2.22 s after its start: selftests/data/plan/SOURCES.md
LATE = Path(__file__).resolve().parents[2] / "data" / "plan" / "lab-virt-arm64-late-look"
FIFO_99, OTHER = (1, 99), (0, 0)
EXPECTED = Expected(threads=(Threads(count=2, policy=1, priority=99),), duration_s=2.0)


def files(**changes: str) -> dict[str, bytes]:
    """Return the captured files, some of them as they are named here (`_` stands for a dot)."""
    captured = {path.name: path.read_bytes() for path in LATE.iterdir()}
    return captured | {name.replace("_", "."): text.encode() for name, text in changes.items()}


def looks(captured: dict[str, bytes], expected: Expected = EXPECTED) -> list[tuple[str, tuple[int, int]]]:
    """Return moment, policy and priority of each thread."""
    return [(one.moment, (one.policy, one.priority)) for one in seen_threads(captured, expected)]


HALF_WAY = [("middle", OTHER), ("middle", FIFO_99), ("middle", FIFO_99)]


def test_threads_that_were_given_back_after_the_run_are_not_those_of_the_run() -> None:
    assert looks(files()) == HALF_WAY


@pytest.mark.parametrize("late", ["15.35 15.22", "", "soon"])
def test_within_the_run_or_at_nobody_knows_when_each_thread_counts(late: str) -> None:
    assert looks(files(uptime_late=late)) == [*HALF_WAY, *[("late", OTHER)] * 3]


def test_a_thread_that_still_measures_after_its_time_counts_with_the_others() -> None:
    measuring = files()["threads.middle"].decode()
    assert looks(files(threads_late=measuring)) == [*HALF_WAY, *(("late", one) for _, one in HALF_WAY)]


def test_a_tool_without_real_time_threads_has_none_to_give_back() -> None:
    ordinary = Expected(threads=(Threads(count=2, policy=0, priority=0),), duration_s=2.0)
    assert looks(files(), ordinary) == [*HALF_WAY, *[("late", OTHER)] * 3]
