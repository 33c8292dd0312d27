# SPDX-License-Identifier: MIT
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rtgate.explain.path import Profile
from rtgate.explain.section_path import SectionPaths, section_profiles
from rtgate.explain.sections import Context, Kind, Section, Site, Spot
from rtgate.explain.trace import Block, Run, Trace, TraceRequest

SECTION = Section(Site(Kind.IRQSOFF, Context.THREAD, Spot("f"), Spot("f")), 3, 50, 20, 1, 9000, 9020, (0, 0, 0, 0, 3))
NOP = bytes.fromhex("1f2003d5")


def test_what_ran_from_the_beginning_to_the_end_is_counted() -> None:
    asked: list[TraceRequest] = []

    def trace(request: TraceRequest) -> tuple[None, Trace]:
        asked.append(request)
        blocks = {0: Block(0xFFFF000000001000, 4, NOP, 16), 1: Block(0xFFFF000000002000, 30, NOP, 120)}
        runs = (Run(8990, 0, 0), Run(9005, 1, 0))
        return None, Trace(events=(), runs=runs, blocks=blocks)

    kernel = SimpleNamespace(arch="arm64", function_at=lambda address: "f" if address < 0xFFFF000000002000 else "g")
    order: Any = SimpleNamespace(
        trace=trace, kernel=kernel, tell=lambda _: None, arm=SimpleNamespace(name="candidate"), seed=1
    )
    (found,) = section_profiles(order, [SECTION], frozenset({"g"}))
    assert asked[0].intervals == [(5000, 9020)]
    assert (found.own, found.blamed, found.total) == ({"f": 5, "g": 15}, {"g": 15}, 20)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            Profile(own={"f": 10.0}, blamed={"f": 10.0}, total=10),
            Profile(own={"f": 20.0, "__delay": 500.0}, blamed={"f": 520.0}, total=520),
            "+510 instructions in f (changed and slower)",
        ),
        (
            Profile(own={"f": 10.0}, total=10),
            Profile(own={"f": 500.0}, blamed={"other": 5.0}, total=520),
            "+490 instructions in f (slower, its code is the same)",
        ),
        (Profile(own={"f": 10.0}, total=10), Profile(own={"f": 10.0}, total=10), "no function gained instructions"),
        (Profile(), Profile(), "no function gained instructions"),
    ],
)
def test_a_function_that_differs_is_named_before_others(old: Profile, new: Profile, sentence: str) -> None:
    assert SectionPaths(baseline=old, candidate=new, changed={"other"}).sentence == sentence
