# SPDX-License-Identifier: MIT
"""Records that are not of the kernel that they name judge nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from selftests.unit.judge.compare.test_comparing import PLACEBOS, arm, imaged
from selftests.unit.report.conftest import Boot, make

from rtgate.board.boot import State, TimeBase
from rtgate.judge.boot_identity import identity_conflicts
from rtgate.judge.compare.comparing import compare
from rtgate.judge.compare.inputs import ComparisonInputs
from rtgate.judge.judging import Subject, judge
from rtgate.judge.thresholds import Thresholds
from rtgate.judge.verdict import Kind, Status
from rtgate.records.environment import Environment
from rtgate.records.record import Record
from rtgate.validity.check import CheckResult
from rtgate.validity.registry import checks


def booted(records: Iterable[Record], image: str = "", qemu: str = "q" * 64) -> list[Record]:
    """Return records that say what booted; their own kernel if no other is named."""
    return [
        replace(
            one,
            machine={**one.machine, "image_sha256": image or one.kernel.image_sha256, "qemu_sha256": qemu},
        )
        for one in records
    ]


def another(one: Record) -> Record:
    return imaged(one, "f" * 64)


def without_digest(name: str, records: Sequence[Record]) -> list[Record]:
    return [replace(one, machine={key: text for key, text in one.machine.items() if key != name}) for one in records]


BASELINE, CANDIDATE = booted(arm("baseline")), booted(arm("candidate", slower=1.5))
MIXED = {
    "another kernel booted": (BASELINE, [*CANDIDATE[:4], *booted(CANDIDATE[4:], "e" * 64)], "is not the record's"),
    "and so did the baseline": (booted(BASELINE, "e" * 64), CANDIDATE, "baseline, seed 1: the kernel that booted"),
    "two kernels in one arm": (
        BASELINE,
        [*CANDIDATE[:4], *map(another, CANDIDATE[4:])],
        "candidate: its boots are of 2 kernels (SHA-256 candidate: seed 1 and 3 more; ffffffffffff: seed 5 and 7 more)",
    ),
    "an image that nobody named": (
        BASELINE,
        [*CANDIDATE[:3], *without_digest("image_sha256", CANDIDATE[3:])],
        "candidate, seed 4: record.json does not say what booted (`machine` has no image_sha256)",
    ),
    "a QEMU that nobody named": (
        without_digest("qemu_sha256", BASELINE),
        CANDIDATE,
        "baseline, seed 1: record.json does not say what booted (`machine` has no qemu_sha256)",
    ),
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
    assert compare([subject], ComparisonInputs(placebos=PLACEBOS)) == ()  # however clear the figures are


def test_records_that_agree_are_of_one_kernel() -> None:
    assert identity_conflicts(BASELINE, CANDIDATE) == ()
    assert identity_conflicts((), ()) == ()


def test_a_boot_that_hung_must_say_what_booted_and_one_that_was_skipped_had_none() -> None:
    hung = [replace(one, state=State.HANG, measurements=()) for one in without_digest("image_sha256", CANDIDATE)]
    assert "does not say what booted" in identity_conflicts(BASELINE, hung)[0]
    skipped = [replace(one, state=State.SKIPPED, machine={"ran": "nothing"}, measurements=()) for one in CANDIDATE]
    assert identity_conflicts(BASELINE, skipped) == ()


def test_a_board_says_what_it_can() -> None:
    """Nobody hands a board's console an image: what ran there is read back (check kernel)."""
    there = [make(Boot(seed=None, arm="candidate"))]
    assert there[0].environment.time == "real"
    assert identity_conflicts((), there) == ()
    started = replace(there[0].environment, time=TimeBase.HOST, emulator="QEMU emulator version 7.2.17")
    assert identity_conflicts((), [replace(there[0], environment=started)])


def live(**changes: Any) -> Record:
    """Return a boot of a board whose console somebody attached, of a kernel that was not named."""
    one = make(Boot(seed=None, arm="candidate"))
    unknown = replace(one.kernel, image_sha256="", release="", source="whatever the target runs", provenance="unknown")
    return replace(one, kernel=unknown, environment=replace(one.environment, **changes))


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"build_id": "2" * 40}, "(build id 111111111111: boot 3f0e5d0a; 222222222222: boot 3f0e5d0a)"),
        ({"build_id": "", "kernel_release": "6.1.75-vendor"}, "(release 6.1.75-vendor: boot 3f0e5d0a; 6.12.107-rt: "),
        ({"build_id": "", "kernel_version": "#2 SMP PREEMPT_RT"}, "(version #1 SMP PREEMPT_RT Thu Jan 1 00:00:00 UTC"),
    ],
)
def test_a_board_that_booted_another_kernel_meanwhile_told_so(second: dict[str, str], said: str) -> None:
    (conflict,) = identity_conflicts((), [live(build_id="1" * 40), live(**{"build_id": "1" * 40, **second})])
    assert conflict.startswith("candidate: its boots are of 2 kernels ")
    assert said in conflict


def test_what_only_one_boot_knows_of_its_kernel_does_not_make_two() -> None:
    seen = live(build_id="1" * 40)
    named = replace(seen, kernel=replace(seen.kernel, image_sha256="a" * 64, build_id="1" * 40, release="6.12.107-rt"))
    died = replace(named, state=State.FAULT, measurements=(), environment=Environment())
    lab = replace(live(), state=State.LAB, measurements=(), environment=Environment())
    unread = live(build_id="", kernel_version="")
    assert identity_conflicts((), [lab, unread, seen, died, named]) == ()
    # A build id that an image does not have is another check's: one image is one kernel.
    assert identity_conflicts((), [named, replace(named, environment=live(build_id="2" * 40).environment)]) == ()


def test_boots_of_a_former_kernel_that_died_are_not_of_this_one() -> None:
    died = [replace(one, state=State.FAULT, measurements=()) for one in booted(map(another, CANDIDATE[4:]))]
    (conflict,) = identity_conflicts(BASELINE, [*CANDIDATE[:4], *died])
    assert "are of 2 kernels (SHA-256 candidate: seed 1 and 3 more; ffffffffffff: seed 5 and 7 more)" in conflict
    skipped = [replace(one, state=State.SKIPPED) for one in died]
    assert identity_conflicts(BASELINE, [*CANDIDATE[:4], *skipped]) == ()


def test_no_record_is_taken_at_its_word() -> None:
    bare = [replace(one, sources={}) for one in without_digest("image_sha256", CANDIDATE)]
    assert "does not say what booted" in identity_conflicts((), bare)[0]
    (check,) = (check for check in checks(bare[0], {}) if check.name == "record")
    assert check.result is CheckResult.FAILED
    assert "`sources` has no raw/tool.rc" in check.sentence
