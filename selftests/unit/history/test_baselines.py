# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.unit.history.conftest import CASE, NOW, Fill, make_good, origin, promotion, record

from rtgate.errors import ConfigError, TargetError
from rtgate.history import queries
from rtgate.history.baselines import (
    Revocation,
    RevocationEffect,
    _names,
    kernels_on_boards,
    promote,
    revocations_of,
    revoke,
    short,
)
from rtgate.history.database import History
from rtgate.history.pairing import borrow
from rtgate.history.prior import HistoryPrior
from rtgate.history.qualifying import examine, standing_of
from rtgate.history.qualifying import keep as keep_qualification
from rtgate.history.queries import BootFilter
from rtgate.history.screens import keep as keep_screen
from rtgate.history.screens import level
from rtgate.history.store import add
from rtgate.judge.learn.screening import ScreenProposal
from rtgate.records.record import Record

GOOD, BAD = "a" * 64, "b" * 64


def bad(history: History, name: str = BAD) -> RevocationEffect:
    """Revoke a kernel."""
    return revoke(history, name, Revocation(kernel="", revoked_at="2026-12-01", revoked_by="joe", reason="it is slow"))


def lent(history: History) -> list[str]:
    return [boot.run for boot in queries.comparable_boots(history, record(99))]


def test_a_kernel_is_good_on_the_board_that_it_was_promoted_on(history: History) -> None:
    one = record(1)
    other = replace(one, board="desk", environment=replace(one.environment, board="desk"))
    add(history, [one, other], origin())
    make_good(history, [one])
    assert {boot.board: boot.good_kernel for boot in queries.find(history, BootFilter())} == {
        "bench": True,
        "desk": False,
    }


def test_boots_of_a_revoked_kernel_stay_and_lend_nothing(fill: Fill, history: History) -> None:
    fill("night-1", [1.0, 1.0])
    fill("night-2", [3.0, 1.0], first=3, image=BAD)
    before = borrow(history, record(99)).priors
    assert bad(history).kernels == (BAD,)
    assert lent(history) == ["night-1", "night-1"]
    assert len(queries.find(history, BootFilter())) == 4
    after = borrow(history, record(99)).priors
    assert after["winsorised mean"].degrees == before["winsorised mean"].degrees - 1
    assert after["winsorised mean"].variance < before["winsorised mean"].variance / 10
    assert [line.of_good_kernels for line in queries.contents(history, BootFilter())] == [2, 0]


def test_boots_that_come_after_a_revocation_lend_nothing_either(fill: Fill, history: History) -> None:
    fill("night-1", [1.0], image=BAD)
    bad(history)
    fill("night-2", [1.0], first=2, good=False, image=BAD)
    assert lent(history) == []


def test_a_revoked_kernel_is_never_promoted_again(fill: Fill, history: History) -> None:
    fill("night-1", [1.0], image=BAD)
    bad(history)
    for unjudged in ("", "I like it"):
        again = promotion(record(1, image=BAD), unjudged=unjudged)
        with pytest.raises(TargetError, match="bbbbbbbbbbbb was revoked on 2026-12-01 by joe: it is slow"):
            promote(history, [promotion(record(1, image=GOOD)), again])
    assert [one.kernel for one in kernels_on_boards(history)] == [BAD]  # all or none


def test_the_first_promotion_stays_unless_it_was_not_judged(history: History) -> None:
    add(history, [record(1)], origin())
    unjudged = promotion(record(1), "night-1", verdict="", unjudged="the vendor's")
    assert promote(history, [unjudged]) == (unjudged,)
    judged = promotion(record(1), "night-2")
    assert promote(history, [judged]) == (judged,)
    assert promote(history, [promotion(record(1), "night-3")]) == ()
    assert promote(history, [unjudged]) == ()
    (one,) = kernels_on_boards(history)
    assert one.promotion == judged


def test_what_is_known_of_good_and_of_revoked_kernels(fill: Fill, history: History) -> None:
    fill("night-1", [1.0, 1.0])
    fill("night-2", [1.0], first=3, online="")
    fill("mr-7", [1.0], first=4, good=False, image=BAD)
    fill("mr-8", [1.0], first=5, good=False, image="c" * 64)
    bad(history)
    good, revoked = kernels_on_boards(history)
    assert (good.kernel, good.devices, good.runs, good.cases) == (GOOD, ("bench-01",), ("night-1", "night-2"), (CASE,))
    assert (good.boots, good.valid, good.release) == (3, 2, "6.12.107-rt")
    assert good.promotion is not None
    assert good.promotion.run == "night-1"
    assert good.revocation is None
    assert (revoked.kernel, revoked.promotion) == (BAD, None)
    assert revoked.revocation is not None
    assert revoked.revocation.reason == "it is slow"
    assert kernels_on_boards(history, "desk") == ()


def test_revoking_twice_changes_nothing_and_a_kernel_must_be_there(fill: Fill, history: History) -> None:
    fill("night-1", [1.0], image=BAD)
    assert bad(history, BAD[:8]).kernels == (BAD,)
    assert bad(history, BAD).kernels == ()
    for name in (BAD[:7], "c" * 12, ""):
        with pytest.raises(ConfigError, match="the history has no kernel"):
            bad(history, name)


def of_commit(number: int, commit: str, image: str) -> Record:
    one = record(number, image=image)
    return replace(one, kernel=replace(one.kernel, commit=commit))


def test_a_commit_names_its_kernels_of_all_boards(history: History) -> None:
    commit, other = "abcdef12" * 5, "fedcba98" * 5
    made = [of_commit(number, which, str(number) * 64) for number, which in enumerate((commit, commit, other, ""), 1)]
    add(history, made, origin())
    assert bad(history, "abcdef12").kernels == ("1" * 64, "2" * 64)
    assert bad(history, other).kernels == ("3" * 64,)


def test_a_name_of_several_kernels_is_refused(history: History) -> None:
    add(history, [record(1, image="12345678" + "a" * 56), record(2, image="12345678" + "b" * 56)], origin())
    add(history, [of_commit(3, "abcdef120000", "5" * 64), of_commit(4, "abcdef121111", "6" * 64)], origin())
    with pytest.raises(ConfigError, match="is several kernels: 12345678aaaa, 12345678bbbb"):
        bad(history, "12345678")
    with pytest.raises(ConfigError, match="is several kernels: abcdef120000, abcdef121111"):
        bad(history, "abcdef12")
    assert revocations_of(history, ["5" * 64, "6" * 64]) == ()


def test_a_whole_name_is_no_beginning_of_another_one(history: History) -> None:
    """Where nobody knows the image it is release and version."""
    boots = []
    for number, version in enumerate(("#1", "#12"), 1):
        one = record(number, image="")
        environment = replace(one.environment, kernel_version=version, build_id="")
        boots.append(replace(one, environment=environment, kernel=replace(one.kernel, build_id="")))
    first, second = (boot.kernel_id for boot in boots)
    assert second == f"{first}2"
    add(history, boots, origin())
    assert bad(history, first).kernels == (first,)
    assert bad(history, second).kernels == (second,)


@given(st.text("0123456789abcdef", min_size=1, max_size=64), st.integers(0, 64))
def test_eight_digits_or_more_name_a_digest(digest: str, length: int) -> None:
    name = digest[:length]
    assert _names(name, digest) == (name == digest or len(name) >= 8)
    assert not _names(name + "x", digest)


def test_what_rests_on_a_revoked_kernel_counts_no_more_and_is_named(fill: Fill, history: History) -> None:
    fill("night-1", [1 + number % 5 / 1000 for number in range(24)], image=BAD)
    fill("gate-2", [1.0], first=50, arm="baseline", image=BAD)
    fill("gate-2", [1.0], first=50, arm="candidate", image=GOOD)
    boots = [boot for boot in queries.find(history, BootFilter()) if boot.image == BAD]
    examined = examine(history, boots)
    assert examined is not None
    keep_qualification(history, boots, *examined, NOW)
    proven = ScreenProposal(level=0.02, flagged=1, sessions=12, upper=0.3, problem="")
    keep_screen(history, boots, record(1), proven, NOW)
    assert level(history, record(1)) == 0.02
    assert "bbbbbbbbbbbb" not in standing_of(history, record(1)).reason
    effect = bad(history)
    assert effect.boots == 25
    assert list(effect.uses) == [
        "aaaaaaaaaaaa on bench was promoted by a comparison with it (run gate-2): look at it",
        f"the qualification of bench bench-01 for {CASE} (2026-11-22T03:00:00Z) rests on it: rtgate qualify",
        f"the level of the screen of bench bench-01 for {CASE} (2026-11-22T03:00:00Z) rests on it: rtgate calibrate",
        "limits of bench that `rtgate calibrate` proposed since 2026-11-22T03:00:00Z may rest on it: calibrate again",
    ]
    assert level(history, record(1)) is None
    standing = standing_of(history, record(1))
    assert not standing.qualified
    assert "with a kernel that is not good: bbbbbbbbbbbb was revoked" in standing.reason


def test_what_rests_on_a_revoked_kernel_in_an_older_environment_is_named_too(fill: Fill, history: History) -> None:
    proven = ScreenProposal(level=0.02, flagged=1, sessions=12, upper=0.3, problem="")
    for run, image, tuning in (("night-1", BAD, "isolated"), ("night-2", GOOD, "plain")):
        fill(run, [1.0, 1.0], image=image, tuning=tuning)
        boots = queries.find(history, BootFilter(runs=[run]))
        examined = examine(history, boots)
        assert examined is not None
        keep_qualification(history, boots, *examined, NOW)
        keep_screen(history, boots, record(1, tuning=tuning), proven, NOW)
    assert sum("bench-01" in use for use in bad(history).uses) == 2


def test_a_comparison_says_whose_boots_it_did_not_use(fill: Fill, history: History) -> None:
    fill("night-1", [1.0, 1.0])
    fill("night-2", [1.0, 1.0], first=3, image=BAD)
    fill("mr-7", [1.0], first=5, good=False, image="c" * 64)
    bad(history)
    bad(history, "c" * 64)  # never promoted: nobody would have used it
    prior = HistoryPrior(history)
    prior.case_history(record(99), ())
    prior.case_history(record(98), ())
    assert prior.left_out == ("left out, boots: 2: bbbbbbbbbbbb was revoked on 2026-12-01 by joe: it is slow",)


def test_a_kernel_without_an_image_is_known_by_its_build_id_or_its_version() -> None:
    one = record(1, image="")
    assert one.kernel_id == "6.12.107-rt #1 SMP PREEMPT_RT Thu Jan 1 00:00:00 UTC 1970" == short(one.kernel_id)
    assert replace(one, environment=replace(one.environment, build_id="e" * 40)).kernel_id == "e" * 40
    assert record(1).kernel_id == GOOD
