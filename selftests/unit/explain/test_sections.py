# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.errors import ParseError
from rtgate.explain import sections
from rtgate.explain.handler_lengths import HANDLER_SUM
from rtgate.explain.lock_holds import HOLD
from rtgate.explain.misses import MOMENT, Misses, SectionMisses
from rtgate.explain.sections import (
    CALL,
    PASSAGE,
    SUM,
    Call,
    Context,
    Kind,
    Log,
    Section,
    Site,
    Spot,
    merge,
    parse,
    sections_by_site,
)
from rtgate.explain.spots import SpotNames
from rtgate.kernel.preemption import Preemption
from rtgate.kernel.preemption_places import Entry

LENGTHS = st.lists(st.integers(0, 1 << 31), min_size=1, max_size=20)


def bucket(length: int) -> int:
    return max(0, length.bit_length() - 1)


def site_bytes(*sites: tuple[int, int, int, int, int, int]) -> bytes:
    return np.array(list(sites), sections._SITE).tobytes()


def passages(*records: tuple[int, int, int, int, int]) -> bytes:
    return np.array(list(records), PASSAGE).tobytes()


def hold_bytes(*records: tuple[int, int, int, int, int, int]) -> bytes:
    """Return holds: lock, who locked it, how often, in all, the longest, slice."""
    return np.array([(*record, 0) for record in records], HOLD).tobytes()


def handler_bytes(*records: tuple[int, int, int, int, int, int]) -> bytes:
    """Return handlers of interrupts: where each begins, how often, in all, the longest, slice, context."""
    return np.array(list(records), HANDLER_SUM).tobytes()


def written(
    sites: bytes,
    sums: bytes,
    calls: bytes = b"",
    *,
    interrupts: bytes = b"",
    locks: bytes = b"",
    moments: bytes = b"",
    handlers: bytes = b"",
    unseen: int = 0,
) -> Log:
    """Return the log that the plugin's files hold."""
    parts = {"sites": sites, "sums": sums, "calls": calls, "interrupts": interrupts, "switches": b""}
    parts |= {"locks": locks, "cpu_offsets": b"", "moments": moments, "handlers": handlers}
    return parse(parts, f"unseen {unseen}\ncpu 0 99\ncpu 1 99\n")


def call_bytes(*records: tuple[int, int, int, int]) -> bytes:
    """Return calls: site, slice, function, instructions."""
    return np.array(
        [(site, slice_, function, 0, longest) for site, slice_, function, longest in records], CALL
    ).tobytes()


def sum_bytes(site: int, slice_: int, lengths: Sequence[int]) -> bytes:
    buckets = [0] * sections.BUCKETS
    for length in lengths:
        buckets[bucket(length)] += 1
    longest = max(lengths)
    places = (1000 * slice_, 1000 * slice_ + site)
    missed = [tuple(length // 10**level for level in range(3)) for length in lengths]
    record = (
        *(site, slice_, len(lengths), sum(lengths), longest, *places),
        *(tuple(map(sum, zip(*missed, strict=True))), max(missed), buckets),
    )
    return np.array([record], SUM).tobytes()


def spot(address: int, caller: int) -> Spot:
    return Spot(f"f{caller}", f"h{address}") if caller else Spot(f"f{address}")


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), LENGTHS), max_size=30))
def test_what_the_plugin_counted_is_added_up_by_site(counted: list[tuple[int, int, list[int]]]) -> None:
    # The third site is another address in the same functions as the first.
    sites = site_bytes((1, 0, 2, 0, 0, 0), (1, 0, 2, 0, 1, 0x101), (1, 0, 2, 0, 0, 0))
    log = written(sites, b"".join(sum_bytes(*each) for each in counted), unseen=1)
    found = sections_by_site(log, range(2, 8), spot)
    expected: dict[Site, list[int]] = {}
    for number, slice_, lengths in counted:
        if slice_ in range(2, 8):
            kind, context, switches = (
                (Kind.PREEMPTOFF, Context.SOFTIRQ, True) if number == 1 else (Kind.IRQSOFF, Context.THREAD, False)
            )
            key = Site(kind, context, Spot("f1"), Spot("f2"), switches)
            expected.setdefault(key, []).extend(lengths)
    assert {each.site: (each.count, each.total, each.longest) for each in found} == {
        key: (len(lengths), sum(lengths), max(lengths)) for key, lengths in expected.items()
    }
    for each in found:
        assert sum(each.buckets) == each.count
        assert len(each.buckets) == bucket(each.longest) + 1


def test_a_place_in_a_helper_is_named_by_its_caller() -> None:
    log = written(site_bytes((1, 3, 2, 4, 0, 0)), sum_bytes(0, 0, [5]))
    assert [each.site for each in sections_by_site(log, range(1), spot)] == [
        Site(Kind.IRQSOFF, Context.THREAD, Spot("f3", "h1"), Spot("f4", "h2"))
    ]


def test_a_helper_that_enables_again_itself_did_it_for_nobody() -> None:
    log = written(site_bytes((1, 3, 1, 3, 1, 0)), sum_bytes(0, 0, [5]))
    assert [each.site for each in sections_by_site(log, range(1), spot)] == [
        Site(Kind.PREEMPTOFF, Context.THREAD, Spot("h1"), Spot("h1"))
    ]


def test_misses_are_those_of_all_sections_and_of_the_longest() -> None:
    """A section of the tests misses a tenth of its length in L1D, and a hundredth in L2."""
    sites = site_bytes((1, 0, 2, 0, 0, 0), (1, 0, 2, 0, 0, 0))
    sums = sum_bytes(0, 0, [500]) + sum_bytes(0, 1, [100, 300]) + sum_bytes(1, 2, [200])
    (found,) = sections_by_site(written(sites, sums, moments=GOOD["moments"]), range(1, 3), spot)
    assert found.misses == SectionMisses(total=Misses(600, 60, 6), longest=Misses(300, 30, 3))
    (without,) = sections_by_site(written(sites, sums), range(1, 3), spot)
    assert without.misses is None
    assert merge([found, without])[0].misses is None


def test_the_longest_call_of_each_function_is_that_of_one_section() -> None:
    sums = sum_bytes(0, 1, [5]) + sum_bytes(0, 2, [9, 9]) + sum_bytes(0, 3, [9])
    calls = call_bytes((0, 1, 1, 3), (0, 2, 1, 8), (0, 2, 0, 2))
    log = written(site_bytes((1, 0, 2, 0, 2, 0)), sums, calls)
    (found,) = sections_by_site(log, range(1, 4), spot, 7, ("inner", "outer"))
    assert found.calls == (Call("inner", 2, 7), Call("outer", 8, 7))
    (found,) = sections_by_site(log, range(3, 4), spot, 7, ("inner", "outer"))
    assert found.calls == ()
    with pytest.raises(ParseError, match="a call of function 1, which nobody asked for"):
        sections_by_site(log, range(1, 4), spot, 7, ("inner",))


def test_functions_of_one_name_are_one() -> None:
    calls = call_bytes((0, 1, 0, 3), (0, 1, 1, 8))
    (found,) = sections_by_site(
        written(site_bytes((1, 0, 2, 0, 2, 0)), sum_bytes(0, 1, [5]), calls), range(2), spot, 7, ("f", "f")
    )
    assert found.calls == (Call("f", 8, 7),)


GOOD = {
    "sites": site_bytes((1, 0, 2, 0, 0, 0)),
    "sums": sum_bytes(0, 0, [5, 9]),
    "calls": call_bytes((0, 0, 0, 5)),
    "interrupts": passages((1, 2, 0, 0, 0)),
    "switches": passages((1, 2, 0, 0, 0)),
    "locks": hold_bytes((1, 2, 3, 4, 5, 6)),
    "cpu_offsets": bytes(8),
    "moments": np.zeros(1, MOMENT).tobytes(),
    "handlers": handler_bytes((1, 2, 3, 4, 5, 1)),
}


@pytest.mark.parametrize(
    ("name", "damaged", "message"),
    [
        *((name, data[:-1], f"{name} are cut off") for name, data in GOOD.items()),
        ("interrupts", passages((1, 2, 0, 0, 0), (0, 1, 0, 0, 0)), "interrupts are not in order"),
        ("moments", np.array([(2, (0, 0, 0)), (1, (0, 0, 0))], MOMENT).tobytes(), "moments are not in order"),
        ("sites", b"", "has no site 0"),
        ("calls", call_bytes((1, 0, 0, 5)), "has no site 1"),
        ("sites", site_bytes((1, 0, 2, 0, 4, 0)), "kind that does not exist"),
        ("sites", site_bytes((1, 0, 2, 0, 0, 4)), "kind that does not exist"),
        ("handlers", handler_bytes((1, 2, 3, 4, 5, 2)), "context that does not exist"),
        ("sums", GOOD["sums"][:8] + b"\x09" + GOOD["sums"][9:], "not each has a length"),
    ],
)
def test_damaged_files_are_refused(name: str, damaged: bytes, message: str) -> None:
    assert parse(GOOD, "unseen 0\n").unseen == 0
    with pytest.raises(ParseError, match=message):
        parse({**GOOD, name: damaged}, "unseen 0\n")


@pytest.mark.parametrize("followed", ["", "unseen many\n"])
def test_whether_each_change_was_seen_must_be_said(followed: str) -> None:
    with pytest.raises(ParseError, match="does not say whether"):
        parse(GOOD, followed)


def test_files_that_are_missing_are_refused(tmp_path: Path) -> None:
    for name, data in GOOD.items():
        (tmp_path / f"trace.{name}").write_bytes(data)
    with pytest.raises(ParseError, match="incomplete"):
        sections.read(tmp_path / "trace")
    (tmp_path / "trace.followed").write_text("unseen 0\n")
    assert sections.read(tmp_path / "trace").sums["longest"].tolist() == [9]


NAMES = st.builds(Spot, st.sampled_from(["schedule", "f", "g"]), st.sampled_from(["", "_raw_spin_lock"]))
SITES = st.builds(Site, st.sampled_from(Kind), st.sampled_from(Context), NAMES, NAMES, st.booleans())


def section(site: Site, lengths: Sequence[int]) -> Section:
    buckets = [0] * (bucket(max(lengths)) + 1)
    for length in lengths:
        buckets[bucket(length)] += 1
    calls = tuple(Call(f"f{length % 3}", length, 1) for length in lengths[:1])
    return Section(site, len(lengths), sum(lengths), max(lengths), 1, 7, 9, tuple(buckets), calls)


SECTIONS = st.lists(st.builds(section, SITES, LENGTHS), max_size=12)


@given(SECTIONS, SECTIONS)
def test_boots_are_added_up_in_any_order(one: list[Section], other: list[Section]) -> None:
    both = merge([*one, *other])
    assert both == merge([*other, *one]) == merge([*merge(one), *merge(other)])
    assert sum(each.count for each in both) == sum(each.count for each in [*one, *other])
    assert len({each.site for each in both}) == len(both)
    longest = [
        max((call.instructions for each in side for call in each.calls), default=0) for side in ([*one, *other], both)
    ]
    assert longest[0] == longest[1]


def test_an_entry_for_exceptions_has_the_name_of_the_exception() -> None:
    class Kernel:
        @staticmethod
        def function_at(address: int) -> str:
            return {0x5000: "_raw_spin_lock", 0x6000 - 4: "schedule"}[address]

    entries = (Entry(0x1280, 0x1284, True, "el1h_64_irq"), Entry(0x5000, 0x5001, True))
    kept = Preemption(count=8, softirq=None, entries=entries, helpers=())
    names = SpotNames(Kernel(), kept)  # type: ignore[arg-type]
    assert names.spot(0x1280, 0) == Spot("el1h_64_irq")
    # One that is a function has the function's name.
    assert names.spot(0x5000, 0x6000) == Spot("schedule", "_raw_spin_lock")
