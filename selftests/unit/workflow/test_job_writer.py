# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

import pytest
from selftests.unit.lava.job.test_request import ORDER

from rtgate.board import boards
from rtgate.lava.job.definition import Files
from rtgate.lava.job.request import MeasurementRequest, in_turns
from rtgate.workflow.job_writer import JobOptions, JobWriter

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
