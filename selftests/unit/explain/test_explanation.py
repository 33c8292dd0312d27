# SPDX-License-Identifier: MIT
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.explain.explanation import IntervalCost, KernelTrace, explain, find_exercise, gains
from rtgate.explain.path import Profile


def cost(
    own: dict[str, float], blamed: dict[str, float] | None = None, idle: float = 0, **more: dict[str, float]
) -> IntervalCost:
    total = sum(own.values())
    made = Profile(own=own, within=own, blamed=blamed or {}, total=total, **more)
    return IntervalCost(latency_ns=8 * total + idle, idle_ns=idle, unaccounted_ns=0, profile=made)


def arm(
    worst: IntervalCost, typical: IntervalCost, executed: dict[str, int] | None = None, what: str = "wake-up"
) -> KernelTrace:
    return KernelTrace(
        seed=1,
        what=what,
        proof="agree",
        intervals=10,
        agreeing=10,
        worst=worst,
        typical=typical,
        executed=executed or {},
    )


ORDINARY = cost({"f": 1000, "g": 2500}, {"f": 1000})


def test_one_slow_wake_up_is_explained_by_the_function_that_differs() -> None:
    slow = cost({"f": 1010, "delay": 8800, "g": 2500}, {"f": 9810})
    found = explain(arm(slow, ORDINARY), arm(ORDINARY, ORDINARY), frozenset({"f"}))
    assert found.view == "worst"
    assert [culprit.function for culprit in found.culprits] == ["f"]
    assert found.sentence.startswith("+8,810 instructions in f (changed and slower): the slowest wake-up")


def test_a_longer_path_is_explained_on_average() -> None:
    longer = cost({"f": 1200, "g": 2500}, {"f": 1200})
    found = explain(arm(longer, longer), arm(ORDINARY, ORDINARY), frozenset({"f"}))
    assert found.view == "typical"
    assert found.sentence.startswith("+200 instructions in f")


def test_a_late_interrupt_is_blamed_on_what_differs_and_ran() -> None:
    late = cost({"f": 1000, "g": 2500}, {"f": 1000}, idle=2000)
    found = explain(arm(late, late, {"arm_timer": 5000, "f": 9}), arm(ORDINARY, ORDINARY), frozenset({"arm_timer"}))
    assert [culprit.function for culprit in found.culprits] == ["arm_timer"]
    assert "the CPU idle" in found.sentence


def test_of_those_that_ran_the_one_that_grew_is_named_first() -> None:
    late = cost({"caller": 1000, "g": 2500}, {"caller": 1000}, idle=2000)
    was = cost({"caller": 1000, "g": 2500}, {"caller": 1000})
    old, new = arm(was, was, {"caller": 900, "set_timer": 500}), arm(late, late, {"caller": 900, "set_timer": 530})
    found = explain(new, old, frozenset({"caller", "set_timer"}))
    assert [culprit.function for culprit in found.culprits] == ["set_timer", "caller"]


def test_where_no_differing_function_ran_longer_none_is_accused_first() -> None:
    slow = cost({"f": 1000, "g": 4500}, {"f": 1000})
    found = explain(arm(slow, slow, {"f": 5}), arm(ORDINARY, ORDINARY), frozenset({"f"}))
    assert [(culprit.function, culprit.differs) for culprit in found.culprits] == [("g", False), ("f", True)]
    assert "its code is the same" in found.sentence


@pytest.mark.parametrize("differs", [True, False])
def test_a_warning_names_the_function_that_warned_and_not_what_prints(differs: bool) -> None:
    slow = cost({"f": 1000, "g": 2500, "vsnprintf": 40_000}, {"f": 41_000} if differs else {}, warning={"f": 40_000})
    found = explain(arm(slow, ORDINARY), arm(ORDINARY, ORDINARY), frozenset({"f"} if differs else ()))
    assert [(culprit.function, culprit.differs) for culprit in found.culprits] == [("f", differs)]
    assert found.warning_function == "f"
    why = "changed and warned" if differs else "it warned, its code is the same"
    assert found.sentence.startswith(f"+40,000 instructions in f ({why}): the slowest wake-up")


def test_a_function_that_writes_to_the_log_is_named_and_is_no_warning() -> None:
    slow = cost({"f": 1000, "g": 2500, "vsnprintf": 4000}, {"f": 5000}, printing={"f": 4000})
    found = explain(arm(slow, ORDINARY), arm(ORDINARY, ORDINARY), frozenset({"f"}))
    assert found.sentence.startswith("+4,000 instructions in f (changed and wrote to the log)")
    assert found.warning_function == ""


def test_a_warning_that_both_kernels_have_is_not_the_cause() -> None:
    old = cost({"f": 1000, "g": 2500, "vsnprintf": 40_000}, {"f": 1000}, warning={"h": 40_000})
    new = cost({"f": 3000, "g": 2500, "vsnprintf": 40_000}, {"f": 3000}, warning={"h": 40_000})
    found = explain(arm(new, new), arm(old, old), frozenset({"f"}))
    assert [culprit.function for culprit in found.culprits] == ["f"]


def test_a_round_trip_is_called_so() -> None:
    longer = cost({"f": 1200, "g": 2500}, {"f": 1200})
    found = explain(
        arm(longer, longer, what="round trip"), arm(ORDINARY, ORDINARY, what="round trip"), frozenset({"f"})
    )
    assert "each round trip on average took" in found.sentence


def test_without_a_baseline_the_slowest_wake_up_is_described() -> None:
    found = explain(arm(ORDINARY, ORDINARY), None, None)
    assert found.culprits == ()
    assert "3,500 instructions; most of them in g (2,500)" in found.sentence


def test_it_can_be_written() -> None:
    found = explain(arm(ORDINARY, ORDINARY), arm(ORDINARY, ORDINARY), frozenset({"f"}))
    assert json.loads(json.dumps(found.as_json()))["differing"] == ["f"]


def test_functions_that_did_not_run_prove_nothing() -> None:
    nothing = find_exercise(frozenset({"f", "g"}), {"h": 5})
    assert nothing.executed == {}
    assert nothing.sentence == "not exercised here, boards or other loads needed"
    assert "whether limit was read is not known" in find_exercise(frozenset({"f"}), {}, ["limit"]).sentence
    some = find_exercise(frozenset({"f", "g"}), {"h": 5, "g": 1})
    assert some.resting == ("f",)
    assert "1 of 2 functions that differ ran: g" in some.sentence


def test_nothing_that_differs_is_not_exercised_either() -> None:
    assert find_exercise(frozenset(), {"h": 5}).sentence == "not exercised here, boards or other loads needed"


COUNTS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 10_000))


@given(COUNTS, COUNTS)
def test_gains_add_up(old: dict[str, int], new: dict[str, int]) -> None:
    assert sum(gain for _, gain in gains(old, new)) == sum(new.values()) - sum(old.values())
