# SPDX-License-Identifier: MIT
"""Records that are not of the kernel that they name judge nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from selftests.unit.judge.compare.test_comparing import PLACEBOS, arm

from rtgate.judge.booted import mixed
from rtgate.judge.compare.comparing import compare
from rtgate.judge.compare.inputs import Grounds
from rtgate.judge.judging import Subject, judge
from rtgate.judge.thresholds import Thresholds
from rtgate.judge.verdict import Kind, Status
from rtgate.records.record import Record


def booted(records: Sequence[Record], image: str = "", qemu: str = "q" * 64) -> list[Record]:
    """Return records that say what booted; their own kernel if no other is named."""
    return [
        replace(
            one,
            machine={**one.machine, "image_sha256": image or one.kernel.image_sha256, "qemu_sha256": qemu},
        )
        for one in records
    ]


def another(one: Record) -> Record:
    return replace(one, kernel=replace(one.kernel, image_sha256="f" * 64))


BASELINE, CANDIDATE = booted(arm("baseline")), booted(arm("candidate", slower=1.5))
MIXED = {
    "another kernel booted": (BASELINE, [*CANDIDATE[:4], *booted(CANDIDATE[4:], "e" * 64)], "is not the record's"),
    "and so did the baseline": (booted(BASELINE, "e" * 64), CANDIDATE, "baseline, seed 1: the kernel that booted"),
    "two kernels in one arm": (BASELINE, [*CANDIDATE[:4], *map(another, arm("candidate")[4:])], "are of 2 kernels"),
    "another QEMU": (BASELINE, booted(CANDIDATE, qemu="r" * 64), "QEMU was replaced meanwhile"),
}


@pytest.mark.parametrize("case", MIXED)
def test_what_nobody_knows_the_kernel_of_is_an_error_and_nothing_else(case: str) -> None:
    baseline, candidate, said = MIXED[case]
    subject = Subject(
        case=candidate[0].case,
        board=candidate[0].board,
        arm="candidate",
        flavour="preempt_rt",
        records=candidate,
        baseline=baseline,
    )
    (error,) = (one for one in judge(subject, Thresholds()) if one.status is Status.ERROR)
    assert error.kind is Kind.VALIDITY
    assert said in error.sentence
    assert compare([subject], Grounds(placebos=PLACEBOS)) == ()  # however clear the figures are


def test_records_that_agree_or_that_never_told_are_taken_at_their_word() -> None:
    assert mixed(BASELINE, CANDIDATE) == ()
    assert mixed(arm("baseline"), arm("candidate")) == ()
    assert mixed((), ()) == ()
