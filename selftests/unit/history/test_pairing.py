# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.unit.history.conftest import Fill, origin, record
from selftests.unit.report.conftest import Boot as Made
from selftests.unit.report.conftest import make

from rtgate.history import queries
from rtgate.history.database import History
from rtgate.history.pairing import borrow, pairs
from rtgate.history.queries import Boot, BootFilter
from rtgate.history.store import add
from rtgate.judge.compare.paired import priors
from rtgate.judge.compare.pairing import CaseHistory
from rtgate.judge.compare.procedures import suspicions
from rtgate.judge.compare.summaries import levels, spikes, summaries


def boot(number: int, *, run: str = "r", arm: str = "baseline", image: str = "a", comparable: str = "c") -> Boot:
    return Boot(
        **dict.fromkeys(("board", "device", "case", "profile", "kernel", "kernel_name", "source"), ""),
        **dict.fromkeys(("stored_at", "state", "why_invalid", "kernel_release"), ""),
        id=hash((number, run, arm)) % 10**6,
        arm=arm,
        run=run,
        number=number,
        image=image,
        comparable=comparable,
        seed=None,
        valid=True,
        good_kernel=True,
        faults=0,
    )


def named(found: tuple[tuple[Boot, Boot], ...]) -> set[tuple[str, str]]:
    return {(f"{a.arm[0]}{a.number}", f"{b.arm[0]}{b.number}") for a, b in found}


def test_neighbours_of_one_run_are_pairs() -> None:
    boots = [boot(number) for number in (5, 3, 1, 2, 4)]
    assert named(pairs(boots)) == {("b1", "b2"), ("b3", "b4")}


def test_both_arms_of_one_kernel_are_paired_as_a_comparison_would() -> None:
    boots = [boot(number, arm=arm) for arm in ("baseline", "candidate") for number in (1, 2)]
    boots += [boot(number) for number in (3, 4)]
    assert named(pairs(boots)) == {("b1", "c1"), ("b2", "c2"), ("b3", "b4")}


@pytest.mark.parametrize("other", [{"run": "s"}, {"image": "b"}, {"comparable": "d"}])
def test_boots_that_differ_are_no_pair(other: dict[str, str]) -> None:
    assert not pairs([boot(1), boot(2, **other)])


def test_kernels_that_nobody_knew_are_one_kernel_only_within_an_arm() -> None:
    boots = [boot(number, arm=arm, image="") for arm in ("baseline", "candidate") for number in (1, 2)]
    assert named(pairs(boots)) == {("b1", "b2"), ("c1", "c2")}


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("rs"), st.sampled_from("bc"), st.sampled_from("xy"))))
def test_no_boot_is_in_two_pairs(drawn: list[tuple[int, str, str, str]]) -> None:
    boots = [
        replace(boot(number, run=run, arm=arm, image=image), id=i) for i, (number, run, arm, image) in enumerate(drawn)
    ]
    found = pairs(boots)
    used = [one.id for pair in found for one in pair]
    assert len(used) == len(set(used))
    assert all((a.run, a.image) == (b.run, b.image) for a, b in found)


def test_the_variance_is_the_mean_square_of_the_differences(fill: Fill, history: History) -> None:
    fill("night-1", [1.0, 1.0, 1.2, 1.0])
    fill("night-2", [1.0], first=5)  # no neighbour
    made = [record(number, scale=scale) for number, scale in enumerate([1.0, 1.0, 1.2, 1.0], 1)]
    fixed = levels(made)
    logs = [summaries(one, fixed)["winsorised mean"] for one in made]
    expected = ((logs[1] - logs[0]) ** 2 + (logs[3] - logs[2]) ** 2) / 2
    found = borrow(history, record(99)).priors
    assert found["winsorised mean"].variance == pytest.approx(expected)
    assert found["winsorised mean"].degrees == 2
    assert math.sqrt(expected) > 0.1


def test_only_the_newest_pairs_count_and_thirty_at_most(fill: Fill, history: History) -> None:
    fill("old", [1.0, 3.0])
    for night in range(31):
        fill(f"night-{night}", [1.0, 1.0], first=10 * night + 10)
    found = borrow(history, record(99)).priors
    assert found["winsorised mean"].degrees == 30
    assert found["winsorised mean"].variance < 0.01


def test_a_summary_that_one_boot_lacks_counts_where_it_is() -> None:
    whole, lacking = {"winsorised mean": 0.0, "exceedance rate": 1.0}, {"winsorised mean": 0.0}
    found = priors([(lacking, whole), (whole, whole)])
    assert {name: prior.degrees for name, prior in found.items()} == {"winsorised mean": 2, "exceedance rate": 1}


def test_nothing_is_borrowed_from_nothing_or_on_virtual_time(history: History) -> None:
    assert borrow(history, record(1)) == CaseHistory()
    virtual = [make(Made(seed=seed)) for seed in (1, 2)]
    add(history, virtual, origin())
    assert len(queries.find(history, BootFilter(usable=True))) == 2
    assert borrow(history, virtual[0]) == CaseHistory()


def test_a_comparison_borrows_levels_variance_spikes_and_sessions(fill: Fill, history: History) -> None:
    for night in range(6):
        fill(f"night-{night}", [1.0 + night / 100, 1.0, 1.1, 1.0], first=10 * night + 1)
    fill("bad", [9.0, 9.0], first=90, good=False, arm="candidate", image="e" * 64)
    lent = borrow(history, record(999))
    assert lent.levels is not None
    assert lent.priors["winsorised mean"].degrees == 12
    assert 0.001 < lent.priors["winsorised mean"].variance < 0.02
    assert len(lent.spikes) == 24
    assert len(lent.sessions["winsorised mean"]) == 6
    fixed, past = lent.levels, CaseHistory(sessions=lent.sessions, spikes=lent.spikes)
    suspicion = suspicions([summaries(record(999, scale=1.5), fixed)], [spikes(record(999, scale=1.5), fixed)], past)
    calm = suspicions([summaries(record(998), fixed)], [spikes(record(998), fixed)], past)
    assert suspicion["winsorised mean"] < 0.01 < calm["winsorised mean"]


def test_a_run_that_is_judged_again_lends_itself_nothing(fill: Fill, history: History) -> None:
    fill("night-1", [1.0, 1.0, 1.1, 1.0])
    fill("mine", [1.0, 1.4], first=50)
    mine = [record(number, scale=scale) for number, scale in ((50, 1.0), (51, 1.4))]
    lent = [borrow(history, mine[0], judged).priors["winsorised mean"] for judged in ((), mine[1:], [record(77)])]
    assert [prior.degrees for prior in lent] == [3, 2, 3]
