# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

import pytest
from selftests.unit.lava.job.test_request import ORDER
from selftests.unit.lava.results.test_classify import job

from rtgate.judge.verdict import Kind, Status, exit_code
from rtgate.lava.client.submission import Attempt
from rtgate.lava.job.request import MeasurementRequest
from rtgate.lava.results.classify import Blame, Ending, Panic
from rtgate.lava.results.verdicts import CASE, verdicts

ALONE = replace(ORDER, kernels={"candidate": ORDER.kernels["candidate"]}, boots=("candidate",) * 2)


def ending(blame: Blame, **more: object) -> Attempt:
    found = Ending(blame=blame, sentence="what happened", **more)  # type: ignore[arg-type]
    return Attempt(job=job(), lines=(), ending=found)


def statuses(order: MeasurementRequest, *attempts: Attempt) -> list[tuple[Status, Kind]]:
    return [(verdict.status, verdict.kind) for verdict in verdicts(order, attempts)]


def test_a_job_that_came_to_its_end_says_nothing_by_itself() -> None:
    assert verdicts(ALONE, [ending(Blame.NOBODY)]) == ()


@pytest.mark.parametrize(
    ("blame", "state", "status", "kind", "code"),
    [
        (Blame.PRODUCT, "no boot", Status.FAIL, Kind.BOOT, 1),
        (Blame.PRODUCT, "kernel fault", Status.FAIL, Kind.FAULT, 1),
        (Blame.PRODUCT, "hang", Status.FAIL, Kind.HANG, 1),
        (Blame.LAB, "lab", Status.MISS, Kind.LAB, 3),
        (Blame.SILENT, "no boot", Status.MISS, Kind.LAB, 3),
        (Blame.OURS, "unreadable", Status.ERROR, Kind.OUTPUT, 4),
        (Blame.CANCELLED, "", Status.MISS, Kind.LAB, 3),
        (Blame.QUEUE, "", Status.MISS, Kind.LAB, 3),
    ],
)
def test_whose_fault_decides(blame: Blame, state: str, status: Status, kind: Kind, code: int) -> None:
    (verdict,) = verdicts(ALONE, [ending(blame, state=state, boot=1, line=42)])
    assert (verdict.status, verdict.kind, verdict.case) == (status, kind, CASE)
    assert verdict.sentence == "boot 1: what happened; job 7, log line 42"
    assert exit_code([verdict]) == code


def test_every_blame_has_a_meaning() -> None:
    for blame in Blame:
        assert bool(verdicts(ALONE, [ending(blame)])) == (blame is not Blame.NOBODY)


def test_a_panic_in_any_attempt_fails_although_a_later_one_booted() -> None:
    panic = Panic(boot=1, kind="panic", line="Kernel panic - not syncing: x")
    found = verdicts(ALONE, [ending(Blame.LAB, panics=(panic,)), ending(Blame.NOBODY)])
    assert [(one.status, one.kind) for one in found] == [(Status.FAIL, Kind.FAULT)]
    assert "boot 1 of job 7 died in an attempt: panic: Kernel panic" in found[0].sentence


def test_a_panic_that_ended_the_job_is_told_once() -> None:
    panic = Panic(boot=2, kind="panic", line="Kernel panic")
    assert len(verdicts(ALONE, [ending(Blame.PRODUCT, state="no boot", boot=2, panics=(panic,))])) == 1


def test_a_baseline_that_breaks_does_not_fail_the_candidate() -> None:
    panic = Panic(boot=1, kind="panic", line="Kernel panic")
    assert statuses(ORDER, ending(Blame.PRODUCT, state="no boot", boot=1)) == [(Status.MISS, Kind.BOOT)]
    assert statuses(ORDER, ending(Blame.NOBODY, panics=(panic,))) == [(Status.MISS, Kind.FAULT)]
    assert statuses(ORDER, ending(Blame.PRODUCT, state="no boot", boot=2)) == [(Status.FAIL, Kind.BOOT)]


def test_a_baseline_alone_is_what_is_judged() -> None:
    order = replace(ORDER, kernels={"baseline": ORDER.kernels["baseline"]}, boots=("baseline",))
    assert statuses(order, ending(Blame.PRODUCT, state="no boot", boot=1)) == [(Status.FAIL, Kind.BOOT)]


def test_attempts_are_counted() -> None:
    (verdict,) = verdicts(ALONE, [ending(Blame.LAB)] * 3)
    assert "what happened (3 attempts); job 7" in verdict.sentence
