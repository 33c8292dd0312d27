# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from rtgate.judge.verdict import Kind, Status
from rtgate.report.categories import CATEGORIES, message

if TYPE_CHECKING:
    from selftests.unit.report.conftest import World

EXPECTED = [
    (Status.FAIL, Kind.MERGE, "Kernel: does not merge, build or boot; fault or hang"),
    (Status.FAIL, Kind.BUILD, "Kernel: does not merge, build or boot; fault or hang"),
    (Status.FAIL, Kind.BOOT, "Kernel: does not merge, build or boot; fault or hang"),
    (Status.FAIL, Kind.FAULT, "Kernel: does not merge, build or boot; fault or hang"),
    (Status.FAIL, Kind.HANG, "Kernel: does not merge, build or boot; fault or hang"),
    (Status.FAIL, Kind.LIMIT, "Kernel: limit broken, regression or wrong flavour"),
    (Status.FAIL, Kind.SHARE, "Kernel: limit broken, regression or wrong flavour"),
    (Status.FAIL, Kind.FLAVOUR, "Kernel: limit broken, regression or wrong flavour"),
    (Status.ERROR, Kind.VALIDITY, "Measurement: invalid, or output nobody understands"),
    (Status.ERROR, Kind.OUTPUT, "Measurement: invalid, or output nobody understands"),
    (Status.MISS, Kind.LAB, "Lab: it failed, or nothing reported"),
    (Status.MISS, Kind.MISSING, "Lab: it failed, or nothing reported"),
    (Status.DONE, Kind.INCONCLUSIVE, "Not decided: inconclusive, or measured and not judged"),
    (Status.DONE, Kind.UNJUDGED, "Not decided: inconclusive, or measured and not judged"),
]


@pytest.mark.parametrize(("status", "kind", "name"), EXPECTED)
def test_a_message_is_in_one_category(world: World, status: Status, kind: Kind, name: str) -> None:
    text = message(world.verdict(status, kind, "FAIL boot: is what the board wrote\nin two lines"))
    assert [one.name for one in CATEGORIES if re.fullmatch(one.message, text)] == [name]
    assert [one.name for one in CATEGORIES if re.search(one.message, text)] == [name]


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("kind", list(Kind))
def test_everything_but_a_pass_is_in_exactly_one_category(world: World, status: Status, kind: Kind) -> None:
    text = message(world.verdict(status, kind, "why"))
    found = [one for one in CATEGORIES if re.fullmatch(one.message, text)]
    assert len(found) == (0 if status is Status.PASS else 1)
