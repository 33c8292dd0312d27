# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from selftests.unit.judge.conftest import asking, record

from rtgate.judge.bounds import apply
from rtgate.judge.judging import Subject, judge
from rtgate.judge.thresholds import Thresholds
from rtgate.judge.verdict import Figure, Status
from rtgate.records.record import Record
from rtgate.tools import Bound
from rtgate.tools.measurement import Better, Measurement
from rtgate.units import Quantity, Unit

LABELS = {"function": "nvme"}


def bound(measurement: str = "link.width", value: float = 4, **changes: Any) -> Bound:
    made = Bound(measurement=measurement, labels=LABELS, value=value, source="its file")
    return replace(made, **changes)


def boot(found: dict[str, float], *bounds: Bound, seed: int = 1) -> Record:
    """Return a boot that measured these widths by end of the link."""
    measured = tuple(
        Measurement(
            name=name.partition(" ")[0],
            better=Better.HIGHER,
            quantity=Quantity(value, Unit.COUNT),
            labels={**LABELS, "end": name.partition(" ")[2]},
        )
        for name, value in found.items()
    )
    good = asking(record(), bounds=bounds)
    return replace(good, measurements=(*good.measurements, *measured), seed=seed)


@pytest.mark.parametrize(
    ("found", "changes", "status", "sentence"),
    [
        ({"link.width port": 4}, {}, Status.PASS, "link.width was 4 in 1 boot, as it should (its file)"),
        (
            {"link.width port": 4, "link.width device": 2},
            {},
            Status.FAIL,
            "link.width was 2 on end device function nvme in seed 1, less than 4 (its file)",
        ),
        (
            {"link.width port": 8},
            {},
            Status.DONE,
            "link.width was 8 on end port function nvme, more than 4 (its file): is the file out of date?",
        ),
        (
            {"link.width port": 8},
            {"exact": True},
            Status.FAIL,
            "link.width was 8 on end port function nvme in seed 1, not 4 (its file)",
        ),
        ({"link.width port": 0}, {"exact": True, "value": 0}, Status.PASS, "link.width was 0 in 1 boot, as it should"),
        ({}, {}, Status.MISS, "link.width should be 4 (its file) and was not measured in seed 1"),
        ({"link.width port": 1}, {"labels": {"function": "net"}}, Status.MISS, "link.width should be 4"),
    ],
)
def test_less_fails_and_more_is_a_note(
    found: dict[str, float], changes: dict[str, Any], status: Status, sentence: str
) -> None:
    (finding,) = apply([boot(found, bound(**changes))])
    assert finding.status is status
    assert finding.sentence.startswith(sentence)
    assert str(finding.limit) == f"{changes.get('value', 4):g}"


def test_one_boot_of_many_fails() -> None:
    boots = [boot({"link.width port": width}, bound(), seed=seed) for seed, width in ((1, 4), (2, 1), (3, 4))]
    (finding,) = apply(boots)
    assert (finding.status, finding.boot) == (Status.FAIL, "seed 2")
    assert finding.value == Figure.of(Quantity(1, Unit.COUNT), "1")
    assert finding.limit == Figure.of(Quantity(4.0, Unit.COUNT), "4")


def test_of_a_function_that_is_not_there_nothing_else_is_told() -> None:
    gone = boot({"function.present x": 0}, bound("function.present", 1), bound(), bound("link.aspm", 0, exact=True))
    (finding,) = apply([gone])
    assert finding.status is Status.FAIL
    assert finding.sentence.startswith("function.present was 0")


def test_a_record_without_bounds_says_nothing() -> None:
    assert list(apply([record()])) == []
    assert list(apply([])) == []


def test_bounds_are_part_of_the_verdict_and_a_broken_one_stands_in_an_invalid_boot() -> None:
    def statuses(*records: Record) -> list[tuple[Status, str]]:
        subject = Subject(
            case=records[0].case, board="virt-arm64", arm="candidate", flavour="preempt_rt", records=records
        )
        return [(one.status, one.measurement) for one in judge(subject, Thresholds())]

    good, bad = boot({"link.width port": 4}, bound()), boot({"link.width port": 2}, bound())
    assert statuses(good) == [(Status.PASS, "link.width")]
    assert statuses(bad) == [(Status.FAIL, "link.width")]
    short = [replace(one, evidence=replace(one.evidence, elapsed_s=0.1)) for one in (good, bad)]
    assert statuses(short[0]) == [(Status.ERROR, "")]
    assert statuses(short[1]) == [(Status.ERROR, ""), (Status.FAIL, "link.width")]
