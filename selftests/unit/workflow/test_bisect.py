# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.unit.kernel.test_merge import Repository

from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.kernel.merge import prepare_merge
from rtgate.workflow import bisect as bisection
from rtgate.workflow import kernels
from rtgate.workflow.bisect import MOST_COMMITS, MOST_TRIES, FirstBadCommit, bisect, first_bad_range, passes_without
from rtgate.workflow.policy import Policy, Screen

SERIES = tuple(letter * 40 for letter in "abcde")


@given(st.integers(1, MOST_COMMITS).flatmap(lambda count: st.tuples(st.just(count), st.integers(0, count - 1))))
def test_the_first_bad_commit_is_found_with_few_gates(series: tuple[int, int]) -> None:
    count, guilty = series
    tried: list[int] = []

    def is_bad(index: int) -> bool:
        tried.append(index)
        return index >= guilty

    assert first_bad_range(count, is_bad) == (range(guilty, guilty + 1), len(tried))
    assert len(tried) <= math.ceil(math.log2(count + 1))
    assert len(tried) == len(set(tried))
    assert count - 1 not in tried  # that the whole fails is known


@given(
    st.integers(1, MOST_COMMITS).flatmap(
        lambda count: st.tuples(st.just(count), st.integers(0, count - 1), st.frozensets(st.integers(0, count - 1)))
    )
)
def test_what_cannot_be_tried_is_no_failure_and_the_guilty_one_stays_a_suspect(
    series: tuple[int, int, frozenset[int]],
) -> None:
    count, guilty, untestable = series
    tried: list[int] = []

    def is_bad(place: int) -> bool | None:
        tried.append(place)
        return None if place in untestable else place >= guilty

    suspects, _ = first_bad_range(count, is_bad)
    assert guilty in suspects
    assert len(tried) <= MOST_TRIES  # however many are skipped: each costs a build, and maybe a gate
    assert set(suspects[:-1]) <= untestable or len(tried) == MOST_TRIES  # all that could be told apart is
    assert suspects[-1] not in untestable or suspects[-1] == count - 1


def test_what_was_found_is_one_line() -> None:
    found = FirstBadCommit(series=SERIES[:3], subject="timers: be late", suspects=range(1, 2), gates=1)
    assert found.sentence == "bbbbbbbbbbbb timers: be late (commit 2 of 3, found by 1 further gate)"


def test_commits_that_were_not_tried_are_said() -> None:
    skipped = {1: "conflicts with the target branch", 2: "cannot be built"}
    found = FirstBadCommit(series=SERIES, subject="be late", suspects=range(1, 4), gates=1, skipped=skipped)
    assert found.sentence == (
        "dddddddddddd be late (commit 4 of 5, found by 1 further gate), or commit 2 to 3; "
        "not tried: commit 2 conflicts with the target branch, commit 3 cannot be built"
    )
    assert found.blame.suspects == SERIES[1:4]
    assert found.blame.innocents == ()


def test_those_below_are_innocent_where_nothing_else_failed() -> None:
    found = FirstBadCommit(series=SERIES, subject="x", suspects=range(2, 3), gates=2, alone=True)
    assert (found.blame.suspects, found.blame.innocents) == (SERIES[2:3], SERIES[:2])
    without = replace(found, skipped={0: "cannot be built"})
    assert without.blame.innocents == SERIES[1:2]


def _verdict(status: Status, kind: Kind, case: str) -> Verdict:
    return Verdict(
        status=status, kind=kind, sentence="", board="virt-arm64", arm="candidate", flavour="preempt_rt", case=case
    )


@pytest.mark.parametrize(
    ("status", "kind", "passes"),
    [
        (Status.PASS, Kind.NO_WORSE, True),
        (Status.FAIL, Kind.REGRESSION, False),
        (Status.ERROR, Kind.VALIDITY, False),
        (Status.MISS, Kind.LAB, False),
        (Status.DONE, Kind.INCONCLUSIVE, False),
    ],
)
def test_what_else_was_not_measured_or_is_open_makes_nobody_innocent(status: Status, kind: Kind, passes: bool) -> None:
    """Gerrit votes +1 on the changes below: of these cases nothing was looked for there."""
    bisected = _verdict(Status.FAIL, Kind.REGRESSION, "latency/cyclictest:idle")
    verdicts = [bisected, _verdict(status, kind, "latency/cyclictest:hackbench")]
    assert passes_without(verdicts, lambda verdict: verdict is bisected, allow_unjudged=False) is passes


@pytest.mark.parametrize(
    ("status", "kind", "votes", "innocents"),
    [
        (Status.PASS, Kind.NO_WORSE, True, 1),
        (Status.SKIP, Kind.NOT_EXERCISED, True, 0),
        (Status.DONE, Kind.NO_WORSE, True, 0),
        (Status.DONE, Kind.INCONCLUSIVE, True, 0),
        (Status.PASS, Kind.NO_WORSE, False, 0),
    ],
)
def test_a_failure_of_a_board_that_the_profile_adds_is_bisected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: Status, kind: Kind, *, votes: bool, innocents: int
) -> None:
    """The default policy measures virt-arm64-smp2, too. The first commit is innocent if it passes by itself.

    Whether it does takes a gate that only Gerrit needs, which votes on each commit.
    """
    repository = Repository(tmp_path)
    repository.branch("mine")
    repository.commit("be tidy", **{"kernel/time.c": "two"})
    guilty = repository.commit("be late", **{"kernel/time.c": "slow"})
    repository.commit("be tidy again", README="x")
    failure = replace(_verdict(Status.FAIL, Kind.REGRESSION, "latency/signaltest:idle"), board="virt-arm64-smp2")
    unproven = replace(failure, status=Status.DONE, kind=Kind.NO_WORSE)

    def build(_build: str, tree: Path, commit: str, *_: Any) -> Path:
        return tmp_path / repository.git("show", f"{commit}:kernel/time.c").strip()

    traced: list[str] = []

    def gate(arms: Mapping[str, Path], *_: Any, explain: bool, **__: Any) -> Any:
        traced.extend([arms["candidate"].name] if explain else [])
        good = replace(failure, status=status, kind=kind) if explain else unproven
        verdicts = [failure if arms["candidate"].name == "slow" else good]
        return SimpleNamespace(judging=SimpleNamespace(verdicts=verdicts), whole=True)

    monkeypatch.setattr(kernels, "build_commit", build)
    monkeypatch.setattr(bisection, "prepare_suites", lambda _, arms, __: arms)
    monkeypatch.setattr(bisection, "run_gate", gate)
    policy = Policy(screens=(Screen(board="virt-arm64", build="virt-arm64-preempt_rt"),))
    commits = prepare_merge(tmp_path, "main", "mine")
    bad = bisect(kernels.CommitBuilds(tmp_path), commits, policy, [failure], tmp_path, votes=votes)
    assert bad is not None
    assert bad.blame.suspects == (guilty,)
    assert len(bad.blame.innocents) == innocents
    assert traced == (["two"] if votes else [])
