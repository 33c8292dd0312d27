# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

from rtgate.judge.compare.exercise import run_exercise
from rtgate.records.explained import CaseExplanation, Change


def seen(*changes: Change) -> CaseExplanation:
    executed = {change.function: 1 for change in changes if change.times}
    return CaseExplanation(
        baseline_image="a", candidate_image="b", seed=1, executed=executed, resting=(), changes=tuple(changes)
    )


def change(times: int, *missed: str, slow: tuple[str, ...] = (), boots: bool = False) -> Change:
    return Change(function="f", instructions=9, times=times, missed=missed, slow=slow, boots=boots)


def test_the_cases_of_a_run_count_together() -> None:
    idle, loaded = change(12, "f+0x4", "f+0x8", slow=("f+0x8",)), change(400, "f+0x4")
    found = run_exercise({"idle": seen(idle), "hackbench": seen(loaded)})
    assert found.missing == {}
    assert found.summary == "changed instructions: 8 of 9 ran, 412 times (idle 12, hackbench 400)"


def test_a_call_that_ran_in_no_case_is_missing_although_its_condition_ran() -> None:
    one = change(400, "f+0x4", "f+0x8", slow=("f+0x8",))
    assert run_exercise({"idle": seen(one), "hackbench": seen(one)}).missing == {"f": "the new code at f+0x8"}


def test_a_function_that_ran_but_for_its_change_is_missing() -> None:
    one = change(0, "f+0x4", "f+0x8")
    assert run_exercise({"idle": seen(one)}).missing == {"f": "what changed in f (from f+0x4)"}


def test_what_an_untraced_case_ran_is_not_known() -> None:
    run = run_exercise({"idle": seen(change(0, "f+0x4"))})
    assert run.gap_sentence == "in no traced case ran what changed in f (from f+0x4)"
    names = tuple(f"latency/cyclictest:{load}" for load in ("hackbench", "stress-ng", "disk", "network"))
    assert replace(run, untraced=names).gap_sentence == (
        "in no traced case ran what changed in f (from f+0x4); what ran in latency/cyclictest:hackbench, "
        "latency/cyclictest:stress-ng, latency/cyclictest:disk and 1 more is not known"
    )
    assert replace(run_exercise({"idle": seen(change(5))}), untraced=names).gap_sentence == ""


def test_what_runs_while_booting_is_needed_only_if_nothing_else_differs() -> None:
    boots = Change(function="setup", instructions=1, times=0, missed=("setup+0x0",), boots=True)
    assert run_exercise({"idle": seen(change(5), boots)}).missing == {}
    assert run_exercise({"idle": seen(boots)}).missing


def test_where_nobody_knows_which_instructions_it_says_so() -> None:
    unknown = Change(function="g", instructions=0, times=1)
    assert run_exercise({"idle": seen(unknown)}).summary == "which instructions changed is not known in g"
    assert run_exercise({"idle": seen(unknown)}).missing == {}
