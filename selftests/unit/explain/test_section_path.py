# SPDX-License-Identifier: MIT
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rtgate.explain import section_path
from rtgate.explain.path import Profile
from rtgate.explain.section_path import SectionPaths, section_profiles
from rtgate.explain.sections import Context, Kind, Section, Site, Spot
from rtgate.explain.trace import Block, Run, Trace, TraceRequest
from rtgate.kernel.preemption import Preemption

from .test_sections import passages, written

NOP = bytes.fromhex("1f2003d5")
CODE = 0xFFFF000000000000
FUNCTIONS = ("f", "g", "vectors", "tick", "other_cpu_work")

Step = tuple[str, int] | tuple[str, int, int]


@pytest.fixture
def laid_out(monkeypatch: pytest.MonkeyPatch) -> Preemption:
    """Return where every kernel keeps its preemption count."""
    layout = Preemption(count=8, softirq=None, entries=(), helpers=())
    monkeypatch.setattr(section_path, "preemption", lambda _: layout)
    return layout


def section(kind: Kind, start: int, end: int, context: Context = Context.THREAD, longest: int = 0) -> Section:
    length = longest or end - start
    return Section(Site(kind, context, Spot("f"), Spot("f")), 3, 50, length, 1, start, end, (0, 0, 0, 0, 3))


def logged(*steps: Step, interrupts: bytes = b"") -> Trace:
    """Return the trace of a boot from instruction 8900 on: (function, instructions) on CPU 0, or with its CPU."""
    blocks = {number: Block(CODE + 0x1000 * number, 4, NOP, 16) for number in range(len(FUNCTIONS))}
    runs, n = [], 8900
    for name, instructions, *cpu in steps:
        runs.append(Run(n, FUNCTIONS.index(name), *(cpu or [0])))
        n += instructions
    return Trace(events=(), runs=tuple(runs), blocks=blocks, sections=written(b"", b"", interrupts=interrupts))


def looked_for(one: Section, trace: Trace, asked: list[TraceRequest] | None = None) -> Profile:
    def boot(request: TraceRequest) -> tuple[None, Trace]:
        (asked if asked is not None else []).append(request)
        return None, trace

    kernel = SimpleNamespace(arch="arm64", function_at=lambda address: FUNCTIONS[(address - CODE) // 0x1000])
    order: Any = SimpleNamespace(
        trace=boot, kernel=kernel, tell=lambda _: None, arm=SimpleNamespace(name="candidate"), seed=1
    )
    (found,) = section_profiles(order, [one], frozenset({"f", "g"}))
    return found


def test_what_ran_from_the_beginning_to_the_end_is_counted(laid_out: Preemption) -> None:
    asked: list[TraceRequest] = []
    trace = logged(("f", 105), ("g", 30))
    found = looked_for(section(Kind.IRQSOFF, 9000, 9020), trace, asked)
    assert asked[0].intervals == [(5000, 9020)]
    assert asked[0].preemption is laid_out
    assert (found.own, found.blamed, found.total) == ({"f": 5, "g": 15}, {"f": 5, "g": 15}, 20)


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize("kind", [Kind.IRQSOFF, Kind.PREEMPTOFF, Kind.PREEMPTIRQSOFF])
@pytest.mark.parametrize("own", [0, 1])
def test_what_another_cpu_ran_meanwhile_is_no_part_of_a_section(kind: Kind, own: int) -> None:
    """QEMU runs the CPUs in turns: the other one's turn was named as what had made the section longer."""
    turn = ("other_cpu_work", 30_000, 1 - own)
    passages_of_the_other = passages((9300, 9400, 0, 1 - own, 0))
    trace = logged(turn, ("f", 300, own), turn, ("f", 200, own), turn, interrupts=passages_of_the_other)
    found = looked_for(section(kind, 38_900, 69_400, longest=500), trace)
    assert (found.own, found.blamed, found.total) == ({"f": 500}, {"f": 500}, 500)


TICK = (("vectors", 40), ("tick", 3960))


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize("kind", [Kind.PREEMPTOFF, Kind.PREEMPTIRQSOFF])
def test_an_interrupt_that_came_with_preemption_off_is_no_part_of_a_section(kind: Kind) -> None:
    trace = logged(("f", 400), *TICK, ("f", 200), interrupts=passages((9300, 13_300, 0, 0, 0)))
    found = looked_for(section(kind, 9000, 13_500, longest=500), trace)
    assert (found.own, found.total) == ({"f": 500}, 500)


@pytest.mark.usefixtures("laid_out")
def test_a_wait_that_an_interrupt_ends_is_followed_by_the_section_alone() -> None:
    """x86-64 waits with interrupts on: the section behind begins where the interrupt begins that it leaves out."""
    trace = logged(("f", 100), *TICK, ("f", 500), interrupts=passages((9000, 13_000, 0, 0, 0)))
    found = looked_for(section(Kind.PREEMPTOFF, 9000, 13_500, longest=500), trace)
    assert (found.own, found.total) == ({"f": 500}, 500)


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize("kind", [Kind.IRQSOFF, Kind.PREEMPTIRQSOFF])
def test_an_interrupt_that_begins_a_section_is_part_of_it(kind: Kind) -> None:
    trace = logged(("g", 100), *TICK, ("g", 500), interrupts=passages((9000, 12_900, 0, 0, 0)))
    found = looked_for(section(kind, 9000, 13_000, Context.HARDIRQ), trace)
    assert (found.own, found.total) == ({"vectors": 40, "tick": 3960}, 4000)


@pytest.mark.usefixtures("laid_out")
def test_an_exception_that_is_no_interrupt_is_part_of_a_section() -> None:
    trace = logged(("f", 400), ("vectors", 40), ("g", 60), ("f", 200))
    found = looked_for(section(Kind.PREEMPTOFF, 9000, 9600), trace)
    assert (found.own, found.total) == ({"f": 500, "vectors": 40, "g": 60}, 600)


@pytest.mark.usefixtures("laid_out")
def test_the_function_that_made_a_section_longer_is_named_whatever_came_meanwhile() -> None:
    before = looked_for(section(Kind.PREEMPTOFF, 9000, 9100), logged(("f", 300)))
    trace = logged(
        *(("f", 300), ("other_cpu_work", 30_000, 1), *TICK, ("f", 300)), interrupts=passages((39_200, 43_200, 0, 0, 0))
    )
    now = looked_for(section(Kind.PREEMPTOFF, 9000, 43_500, longest=500), trace)
    paths = SectionPaths(baseline=before, candidate=now, changed={"f"}, lengths=(100, 500))
    assert paths.sentence == "+400 instructions in f (changed and slower)"


@pytest.mark.parametrize(
    ("lengths", "doubt"),
    [
        ((100, 500), ""),
        ((101, 499), ""),  # of the two, one begins with `cli` and the other one ends with `hlt`
        (
            (100, 30_500),
            "no function can be named, as 500 instructions of the candidate's section were found, and it has 30,500",
        ),
        (
            (98, 500),
            "no function can be named, as 100 instructions of the baseline's section were found, and it has 98",
        ),
    ],
)
def test_no_function_is_named_if_what_ran_is_not_the_section(lengths: tuple[int, int], doubt: str) -> None:
    old, new = (Profile(own={"f": count}, blamed={"f": count}, total=count) for count in (100.0, 500.0))
    paths = SectionPaths(baseline=old, candidate=new, changed={"f"}, lengths=lengths)
    assert paths.doubt == doubt
    assert paths.sentence == (doubt or "+400 instructions in f (changed and slower)")


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
    lengths = int(old.total), int(new.total)
    assert SectionPaths(baseline=old, candidate=new, changed={"other"}, lengths=lengths).sentence == sentence
