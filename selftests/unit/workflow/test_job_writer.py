# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from selftests.unit.lava.job.test_request import ORDER

from rtgate.board import boards
from rtgate.judge.compare.procedures import SCREENED, Measure
from rtgate.lava.job.definition import Files
from rtgate.lava.job.request import MeasurementRequest, in_turns
from rtgate.workflow.budget import Budget
from rtgate.workflow.job_planner import JobPlanner
from rtgate.workflow.job_watch import JobWatch
from rtgate.workflow.job_writer import JobOptions, JobWriter
from rtgate.workflow.sequential import PairQueue, StoredComparison

WHOLE = replace(ORDER, board="lab-virt-arm64")
SCREEN = replace(
    WHOLE, kernels={"candidate": ORDER.kernels["candidate"]}, boots=in_turns(("candidate",), 3), screen=True
)
(FIRST, _) = replace(WHOLE, cases=ORDER.cases * 60).parts()


def priority(order: MeasurementRequest, whole: MeasurementRequest = WHOLE, given: str = "") -> str:
    files = dict.fromkeys(whole.kernels, Files(kernel="https://b.example.org/Image"))
    writer = JobWriter(
        options=JobOptions(priority=given), board=boards.board(WHOLE.board), whole=whole, files=files, family="mainline"
    )
    return writer.request(order, "nonce", ()).priority


def test_the_first_pairs_after_a_screen_let_those_of_others_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = Measure(cases=tuple(case.name for case in WHOLE.cases), pairs=3, look=3)
    monkeypatch.setattr(StoredComparison, "missing_pairs", lambda *_: measure)
    queue = PairQueue(StoredComparison(records=tmp_path, board=WHOLE.board))
    planner = JobPlanner(
        whole=WHOLE, queue=queue, budget=Budget(1000), watch=JobWatch(verbose=False), procedure=SCREENED
    )
    assert priority(planner.first()) == "medium"
    pairs = planner.order()
    assert pairs is not None
    assert pairs.before == 0
    assert [priority(part) for part in pairs.parts()] == ["low"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (WHOLE, "medium"),
        (SCREEN, "medium"),
        (FIRST, "low"),
        (replace(WHOLE, before=2), "low"),
    ],
    ids=["whole", "screen", "the first of several parts", "more pairs of a comparison"],
)
def test_a_job_that_is_one_of_several_lets_those_of_others_go_first(order: MeasurementRequest, expected: str) -> None:
    assert priority(order) == expected
    assert priority(order, given="high") == "high"
