# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ParseError
from rtgate.tools import Expected, Output, Setting
from rtgate.tools.measurement import Measurement
from rtgate.tools.preemptirq import KINDS, Preemptirq
from rtgate.tools.threads import ThreadScope
from rtgate.units import Unit

DATA = Path(__file__).resolve().parents[2] / "data" / "preemptirq" / "linux-6.12"
TOOL = Preemptirq()
SETTING = Setting(cpus=2, duration_s=9.5, virtual_time=False)


def place(caller: int, parent: int) -> int:
    """Return the number that a trigger makes of two offsets, as the kernel computes it."""
    return (caller * (1 << 32) + parent) % (1 << 64)


HANDLE, SPIN, UNLOCK, IDLE, MODULE = 4096, 8192, 8704, 12288, -65536
NAMES = {HANDLE: "handle_softirqs", SPIN: "_raw_spin_lock_irqsave", UNLOCK: "_raw_spin_unlock_irqrestore"}
NAMES |= {IDLE: "cpu_do_idle", MODULE: "module_function", 16: "schedule", 32: "try_to_wake_up", -32: "other"}
SITES = {
    "irqsoff": [
        (place(HANDLE, 16), place(HANDLE, 32), 3, 9000, 5000),
        (place(SPIN, 32), place(UNLOCK, 32), 100, 100_000, 60_500),
        (place(SPIN, 32), place(UNLOCK, 16), 1, 700, 700),
    ],
    "preemptoff": [
        (place(MODULE, -32), place(IDLE, 16), 2, 4000, 3000),
        (place(IDLE, 16), place(IDLE, 32), 2, 4000, 2500),
        (place(IDLE, 32), place(IDLE, 16), 1, 1000, 1000),
    ],
}


def histogram(sites: list[tuple[int, int, int, int, int]], **changes: int) -> str:
    """Return what the kernel prints of a table (hist_trigger_entry_print)."""
    lines = [
        f"{{ begin: {begin:x}, end: {end:x}, common_cpu: {0:>10} }} hitcount: {count:>10}  length: {total:>10}\n"
        f"\tmax: {longest:>10}  length: {longest:>10}"
        for begin, end, count, total, longest in sites
    ]
    totals = {"hits": sum(site[2] for site in sites), "entries": len(sites), "dropped": 0, **changes}
    return (
        "# event histogram\n#\n# trigger info: hist:keys=begin.hex,end.hex,common_cpu [active]\n#\n\n"
        + "\n".join(lines)
        + f"\n\nTotals:\n    Hits: {totals['hits']}\n    Entries: {totals['entries']}\n"
        + f"    Dropped: {totals['dropped']}\n"
    )


def symbols(names: dict[int, str] = NAMES) -> str:
    return "".join(f"{offset} {name}\n" for offset, name in names.items())


def printed(sites: dict[str, Any] = SITES, names: dict[int, str] = NAMES, **changes: int) -> str:
    kinds = "".join(f":{kind}\n{histogram(sites[kind], **changes)}" for kind in KINDS)
    return f"{kinds}:symbols\n{symbols(names)}"


def parse(text: str, code: int = 0) -> tuple[Measurement, ...]:
    files = {"tool.out": text.encode(), "tool.err": b"sh: write error: Invalid argument"}
    return TOOL.parse(Output(files=files, exit_code=code, setting=SETTING))


def test_the_longest_sites_are_named_and_sections_counted() -> None:
    found = parse(printed())
    values = [
        (one.name, one.labels.get("site", ""), one.quantity.value if one.quantity else None, one.quantity.unit)
        for one in found
        if one.quantity
    ]
    assert values == [
        ("irqsoff.max", "", 60.5, Unit.US),
        (
            "irqsoff.site",
            "try_to_wake_up (_raw_spin_lock_irqsave) to try_to_wake_up (_raw_spin_unlock_irqrestore)",
            60.5,
            Unit.US,
        ),
        ("irqsoff.site", "handle_softirqs", 5.0, Unit.US),
        (
            "irqsoff.site",
            "try_to_wake_up (_raw_spin_lock_irqsave) to schedule (_raw_spin_unlock_irqrestore)",
            0.7,
            Unit.US,
        ),
        ("irqsoff.sections", "", 104, Unit.COUNT),
        ("preemptoff.max", "", 3.0, Unit.US),
        ("preemptoff.site", "module_function to cpu_do_idle", 3.0, Unit.US),
        # Places with one name are one site.
        ("preemptoff.site", "cpu_do_idle", 2.5, Unit.US),
        ("preemptoff.sections", "", 5, Unit.COUNT),
    ]
    assert {one.name for one in found} <= set(TOOL.reports)


def test_only_the_ten_longest_sites_are_measurements() -> None:
    names = {number: f"function_{number}" for number in range(30)}
    sites = [(place(number, 0), place(number, 0), 1, 1000 + number, 1000 + number) for number in range(1, 30)]
    found = parse(printed(dict.fromkeys(KINDS, sites), names))
    longest = [one.labels["site"] for one in found if one.name == "irqsoff.site"]
    assert longest == [f"function_{number}" for number in range(29, 19, -1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "preemptirq printed nothing: sh: write error: Invalid argument"),
        (printed().partition(":symbols")[0], "printed irqsoff, preemptoff: sh: write error"),
        (printed(dropped=3), "3 sections of irqsoff had no room: the table holds 16384 sites"),
        (printed(hits=7), "lists 104 sections of 3 sites, and says 7 of 3"),
        (printed(entries=4), "lists 104 sections of 3 sites, and says 104 of 4"),
        (printed({kind: [] for kind in KINDS}), "lists 0 sections of 0 sites"),
        (printed().replace("Totals:", "Totals"), "the histogram of irqsoff has no end"),
        (printed(names={HANDLE: "handle_softirqs"}), "nobody looked up which function is at _stext + 8192"),
        (printed().replace("max:       5000", "max:       9000"), "lists 101 sections of 2 sites, and says 104 of 3"),
        (printed().replace(":preemptoff", ":irqsoff"), "preemptirq printed irqsoff, irqsoff, symbols"),
        (f"x\n{printed()}", "preemptirq printed irqsoff, preemptoff, symbols"),
        (
            printed({kind: [(place(HANDLE, 16), place(HANDLE, 16), 2, 9000, 4000)] for kind in KINDS}),
            "contradicts itself",
        ),
        (
            printed({kind: [(place(HANDLE, 16), place(HANDLE, 16), 2, 9000, 9001)] for kind in KINDS}),
            "contradicts itself",
        ),
    ],
)
def test_what_is_not_whole_is_no_result(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message.replace("+", r"\+")):
        parse(text)


def test_a_kernel_that_refuses_a_trigger_is_no_measurement() -> None:
    with pytest.raises(ParseError, match="preemptirq ended with exit code 1: sh: write error: Invalid argument"):
        parse("", code=1)


@given(st.text(max_size=200))
def test_any_text_is_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)


@examples(300)
@given(st.data())
def test_a_damaged_output_is_a_result_or_a_parse_error(data: st.DataObject) -> None:
    text = printed()
    start = data.draw(st.integers(0, len(text)))
    damaged = text[:start] + data.draw(st.text(max_size=8)) + text[start + data.draw(st.integers(0, 8)) :]
    try:
        found = parse(damaged)
    except ParseError:
        return
    assert all(one.quantity and one.quantity.value >= 0 for one in found)


def test_the_tracing_itself_is_no_place() -> None:
    one = [(place(IDLE, SPIN), place(HANDLE, 16), 1, 500, 500)]
    found = parse(printed(dict.fromkeys(KINDS, one), {**NAMES, IDLE: "trace_hardirqs_off"}))
    site = "_raw_spin_lock_irqsave to handle_softirqs"
    assert {measurement.labels["site"] for measurement in found if measurement.labels} == {site}


def test_without_frame_pointers_nobody_knows_who_took_a_lock() -> None:
    lock = [(place(SPIN, 2_130_706_432), place(UNLOCK, 2_130_706_432), 1, 500, 500)]
    found = parse(printed(dict.fromkeys(KINDS, lock)))
    site = "unknown (_raw_spin_lock_irqsave) to unknown (_raw_spin_unlock_irqrestore)"
    assert {measurement.labels["site"] for measurement in found if measurement.labels} == {site}


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 31), (1 << 31) - 1))
def test_two_offsets_are_found_again_in_one_number(caller: int, parent: int) -> None:
    names = {caller: "_raw_spin_lock", parent: "_raw_spin_lock"}
    one = [(place(caller, parent), place(caller, parent), 1, 5, 5)]
    found = parse(printed(dict.fromkeys(KINDS, one), names))
    assert [measurement.labels["site"] for measurement in found if measurement.labels] == [
        "_raw_spin_lock (_raw_spin_lock)"
    ] * 2


def test_it_sleeps_for_as_long_as_asked() -> None:
    program, option, script = TOOL.argv(SETTING)
    assert (program, option) == ("sh", "-c")
    assert "\nsleep 10 &\n" in script
    assert "SECONDS" not in script
    assert TOOL.expected(SETTING) == Expected(threads=(), duration_s=10, seen=ThreadScope.SESSION)


@pytest.mark.parametrize(("load", "longest", "sections"), [("idle", 243.696, 21362), ("hackbench", 334.992, 167848)])
def test_a_captured_run(load: str, longest: float, sections: int) -> None:
    text = (DATA / f"preemptirq-virt-arm64-{load}.out").read_text()
    virtual = Setting(cpus=1, duration_s=10, virtual_time=True)
    found = TOOL.parse(Output(files={"tool.out": text.encode()}, exit_code=0, setting=virtual))
    values = {one.name: one.quantity.value for one in found if one.quantity and not one.labels}
    assert values["irqsoff.max"] == longest
    assert values["irqsoff.sections"] == sections
    sites = [one.labels["site"] for one in found if one.name == "irqsoff.site"]
    assert sites[0] == "_raw_spin_lock_irq to __run_timer_base.part.0 (_raw_spin_unlock_irq)"
    assert "unknown" not in " ".join(one.labels.get("site", "") for one in found)
