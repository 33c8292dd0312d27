# SPDX-License-Identifier: MIT
"""What is said to be needed for a change that did not run."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.judge.compare.remedy import remedy_sentence
from rtgate.records.explained import CaseExplanation, Change

LOADS = {"stress-ng": "compare", "disk": "paths", "network": "paths", "syscalls": "paths"}


def seen(reached_by: dict[str, tuple[str, ...]], *, tried: bool = True, boots: bool = False) -> CaseExplanation:
    return CaseExplanation(
        baseline_image="a",
        candidate_image="b",
        seed=1,
        executed={},
        resting=tuple(reached_by),
        changes=tuple(Change(function=name, instructions=3, times=0, boots=boots) for name in reached_by),
        other_loads=LOADS if tried else {},
        reached_by=reached_by if tried else {},
    )


@pytest.mark.parametrize(
    ("reached_by", "needed"),
    [
        ({"f": ("network",)}, "network reaches it (gate with --profile paths -k network)"),
        ({"f": ("network", "disk")}, "disk and network reach it (gate with --profile paths -k 'disk or network')"),
        (
            {"f": ("network",), "g": ("disk",)},
            "disk and network reach it (gate with --profile paths -k 'disk or network')",
        ),
        (
            {"f": ("network",), "g": ("disk", "syscalls")},
            "disk, network and syscalls reach it (gate with --profile paths -k 'disk or network or syscalls')",
        ),
        ({"f": ("stress-ng", "network")}, "stress-ng reaches it (gate with --profile compare -k stress-ng)"),
        (
            {"f": ("stress-ng", "network"), "g": ("network",)},
            "network reaches it (gate with --profile paths -k network)",
        ),
        (
            {"f": ("network",), "g": (), "h": ("network",)},
            "network reaches 2 of 3 functions (gate with --profile paths -k network), boards needed for the rest",
        ),
        (
            {"f": ("network",), "g": ("stress-ng",)},
            (
                "stress-ng reaches 1 of 2 functions (gate with --profile compare -k stress-ng), "
                "network reaches 1 of 2 functions (gate with --profile paths -k network)"
            ),
        ),
        ({"f": (), "g": ()}, "nor beside stress-ng, disk, network or syscalls, boards needed"),
    ],
)
def test_the_loads_that_reach_it_are_named_with_their_profile(
    reached_by: dict[str, tuple[str, ...]], needed: str
) -> None:
    assert remedy_sentence(seen(reached_by), set(reached_by)) == needed


def test_where_nothing_was_tried_nobody_knows() -> None:
    assert remedy_sentence(seen({"f": ()}, tried=False), {"f"}) == "boards or other loads needed"
    assert remedy_sentence(seen({"f": ("network",)}), ()) == "boards or other loads needed"


def test_what_runs_while_booting_only_no_load_and_no_board_reaches() -> None:
    explanation = seen({"setup": ()}, tried=False, boots=True)
    assert remedy_sentence(explanation, {"setup"}) == "as it runs while the kernel boots only"


def test_a_function_that_ran_in_another_group_of_the_run_is_not_counted() -> None:
    explanation = seen({"f": ("network",), "g": ("disk",)})
    assert remedy_sentence(explanation, {"f"}) == "network reaches it (gate with --profile paths -k network)"
    assert remedy_sentence(explanation, {"f", "unseen"}).endswith("boards needed for the rest")


@pytest.mark.parametrize(
    ("reached_by", "needed"),
    [
        ({"f": ("disk",)}, "disk reaches it (gate with --profile paths -k disk)"),
        (
            {"f": ("disk",), "g": ()},
            (
                "disk reaches 1 of 2 functions (gate with --profile paths -k disk), "
                "boards or other loads needed for the rest"
            ),
        ),
        ({"f": ()}, "nor beside stress-ng or disk, boards or other loads needed"),
    ],
)
def test_a_load_that_could_not_be_tried_may_reach_it(reached_by: dict[str, tuple[str, ...]], needed: str) -> None:
    tried = {"stress-ng": "compare", "disk": "paths"}
    explanation = replace(seen(reached_by), other_loads=tried, untried_loads=("network",))
    assert remedy_sentence(explanation, set(reached_by)) == needed


def test_a_case_that_was_not_traced_may_reach_it() -> None:
    explanation = replace(seen({"f": ()}), other_loads={"disk": "paths"})
    assert remedy_sentence(explanation, {"f"}) == "nor beside disk, boards needed"
    assert remedy_sentence(explanation, {"f"}, untraced=True) == "nor beside disk, boards or other loads needed"


DEATH = "the candidate died or hung beside network (gate with --profile paths -k network), "


@pytest.mark.parametrize(
    ("reached_by", "needed"),
    [
        ({"f": ("disk",)}, f"{DEATH}disk reaches it (gate with --profile paths -k disk)"),
        ({"f": ()}, f"{DEATH}not reached beside disk, boards needed"),
    ],
)
def test_a_load_beside_which_the_candidate_dies_is_said_first(
    reached_by: dict[str, tuple[str, ...]], needed: str
) -> None:
    explanation = replace(seen(reached_by), other_loads={"disk": "paths"}, failed_loads={"network": "paths"})
    assert remedy_sentence(explanation, set(reached_by)) == needed


def test_deaths_beside_each_load_are_said_by_profile() -> None:
    failed = {"stress-ng": "compare", "disk": "paths", "network": "paths"}
    assert remedy_sentence(replace(seen({"f": ()}), other_loads={}, failed_loads=failed), {"f"}) == (
        "the candidate died or hung beside stress-ng (gate with --profile compare -k stress-ng), "
        "the candidate died or hung beside disk and network (gate with --profile paths -k 'disk or network'), "
        "boards or other loads needed"
    )


@given(st.dictionaries(st.sampled_from("fghijk"), st.sets(st.sampled_from(sorted(LOADS))).map(tuple), min_size=1))
def test_what_is_said_is_what_was_seen(reached_by: dict[str, tuple[str, ...]]) -> None:
    needed = remedy_sentence(seen(reached_by), set(reached_by))
    unreached = [name for name, loads in reached_by.items() if not loads]
    assert ("boards needed" in needed) == bool(unreached)
    clauses = re.findall(
        r"(?:^|, )([^(]*?) reach(?:es)? (?:it|(\d+) of \d+ functions) \(gate with --profile (\w+) -k ([^)]*)\)", needed
    )
    assert sum(int(count or len(reached_by)) for _, count, _, _ in clauses) == len(reached_by) - len(unreached)
    for names, _, profile, select in clauses:
        assert select.strip("'").split(" or ") == names.replace(" and ", ", ").split(", ")
        for load in names.replace(" and ", ", ").split(", "):
            assert LOADS[load] == profile
            assert any(load in loads for loads in reached_by.values())
