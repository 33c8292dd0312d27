# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.judge.compare.triage import Reason, SelectableCase, choose, fatal_verdicts
from rtgate.judge.verdict import Kind, Status, Verdict

CASES = ("latency/a:idle", "latency/b:idle", "latency/c:idle", "nvme/d:idle")
WANTED = [SelectableCase(case=case, minutes=10.0) for case in CASES]


def verdict(case: str, status: Status, kind: Kind) -> Verdict:
    return Verdict(
        status=status, kind=kind, sentence=f"{kind.value} of {case}", board="v", arm="candidate", flavour="", case=case
    )


SCREEN = [
    verdict(CASES[0], Status.PASS, Kind.LIMIT),
    verdict(CASES[0], Status.PASS, Kind.NO_WORSE),
    verdict(CASES[1], Status.PASS, Kind.LIMIT),
    verdict(CASES[1], Status.FAIL, Kind.REGRESSION),
    verdict(CASES[2], Status.DONE, Kind.INCONCLUSIVE),
]


def chosen(minimum: tuple[str, ...] = (), budget: float = 1000.0) -> dict[str, tuple[Reason, bool]]:
    return {one.case: (one.reason, one.within) for one in choose(SCREEN, WANTED, minimum, budget)}


def test_what_is_flagged_comes_first_and_what_is_no_worse_waits() -> None:
    assert list(chosen().items()) == [
        (CASES[1], (Reason.FLAGGED, True)),
        (CASES[2], (Reason.OPEN, True)),
        (CASES[3], (Reason.UNSEEN, True)),
    ]
    assert choose(SCREEN, WANTED, (), 1000)[0].because == f"regression of {CASES[1]}"


@pytest.mark.parametrize(("gate", "lab"), [("", "+isolated"), ("+isolated", ""), ("+isolated", "+nohz")])
def test_a_board_of_another_tuning_measures_what_the_gate_flagged(gate: str, lab: str) -> None:
    screen = [replace(one, case=one.case + gate) for one in SCREEN]
    lost = replace(SCREEN[1], case="", status=Status.MISS, kind=Kind.LAB)
    wanted = [replace(one, case=one.case + lab) for one in WANTED]
    assert [(one.case, one.reason) for one in choose([*screen, lost], wanted, (), 1000)] == [
        (CASES[1] + lab, Reason.FLAGGED),
        (CASES[2] + lab, Reason.OPEN),
        (CASES[3] + lab, Reason.UNSEEN),
    ]


def test_the_minimum_is_measured_whatever_the_screen_said() -> None:
    assert chosen((CASES[0],))[CASES[0]] == (Reason.MINIMUM, True)
    assert chosen((CASES[1],))[CASES[1]] == (Reason.FLAGGED, True)


@pytest.mark.parametrize(("case", "waits"), [("scheduling/pip_stress:idle", True), ("latency/cyclictest:idle", False)])
def test_a_kept_guarantee_is_enough_where_there_is_nothing_else(case: str, waits: bool) -> None:
    chosen = choose([verdict(case, Status.PASS, Kind.GUARANTEE)], [SelectableCase(case=case, minutes=1.0)], (), 100)
    assert [one.reason for one in chosen] == ([] if waits else [Reason.UNSEEN])


def test_a_kept_limit_alone_is_no_reason_to_wait() -> None:
    """Without a comparison nobody knows whether the case became worse."""
    (only,) = choose([verdict(CASES[0], Status.PASS, Kind.LIMIT)], WANTED[:1], (), 100)
    assert only.reason is Reason.UNSEEN


def test_the_budget_reaches_as_far_as_it_goes() -> None:
    found = chosen((CASES[0],), budget=25.0)
    assert [case for case, (_, within) in found.items() if within] == [CASES[1], CASES[2]]


@given(st.floats(0, 100), st.lists(st.floats(0.1, 30), min_size=4, max_size=4))
def test_no_more_is_spent_than_there_is(budget: float, minutes: list[float]) -> None:
    wanted = [SelectableCase(case=case, minutes=length) for case, length in zip(CASES, minutes, strict=True)]
    found = choose(SCREEN, wanted, CASES, budget)
    assert len(found) == len(CASES)
    assert sum(one.minutes for one in found if one.within) <= budget + 1e-9


@pytest.mark.parametrize(
    ("kind", "blocks"), [(Kind.HANG, True), (Kind.BOOT, True), (Kind.REGRESSION, False), (Kind.LIMIT, False)]
)
def test_only_a_kernel_that_dies_needs_no_board_to_say_so(kind: Kind, blocks: bool) -> None:
    assert bool(fatal_verdicts([verdict(CASES[0], Status.FAIL, kind)])) is blocks
