# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.board.pcie import Function
from rtgate.errors import ParseError
from rtgate.tools import Count, Expected, Output, Setting
from rtgate.tools.edu import DEVICE, EduDma, EduMsi
from rtgate.tools.measurement import Measurement
from rtgate.tools.threads import SCHED_FIFO, Threads, ThreadScope
from rtgate.units import Unit

DATA = Path(__file__).resolve().parents[2] / "data" / "pcie-programs" / "qemu-7.2"
FACTS = {DEVICE: Function(name=DEVICE, address="0000:00:09.0", id="1234:11e8")}
VIRTUAL = Setting(cpus=1, duration_s=2, virtual_time=True, pcie=FACTS)
HOST = Setting(cpus=1, duration_s=2, virtual_time=False, pcie=FACTS)
DMA, MSI = EduDma(), EduMsi(virtual_range_us=500)
# What a run of 2 s prints: one transfer, and three rounds of nine.
MOVED = {
    "program": "pcie-edu",
    "test": "dma",
    "seed": 1,
    "rounds": 3,
    "transfers": 28,
    "bytes": 44_000,
    "ns": 2_900_000_000,
    "wrong": 0,
    "guards": 0,
}
HANDLED = {
    "program": "pcie-edu",
    "test": "msi",
    "asked": 2000,
    "interval_us": 1000,
    "cpu": 0,
    "cycles": 2000,
    "resolution_in_ns": 1,
    "range": 500_000,
    "lost": 0,
    "spurious": 0,
    "min": 40_000,
    "avg": 40_010.0,
    "max": 60_000,
    "histogram": {"40000": 1999, "60000": 1},
}


def _parse(
    tool: EduDma | EduMsi, document: dict[str, Any] | str, code: int = 0, err: str = "", setting: Setting = VIRTUAL
) -> tuple[Measurement, ...]:
    text = document if isinstance(document, str) else json.dumps(document)
    files = {"tool.out": text.encode(), "tool.err": err.encode()}
    return tool.parse(Output(files=files, exit_code=code, setting=setting))


def _numbers(measurements: tuple[Measurement, ...]) -> dict[str, Any]:
    return {one.name: (one.quantity.value, one.quantity.unit) for one in measurements if one.quantity is not None}


# --- DMA


def test_what_was_moved_and_what_was_wrong() -> None:
    assert _numbers(_parse(DMA, MOVED)) == {
        "bytes.wrong": (0, Unit.COUNT),
        "guards.wrong": (0, Unit.COUNT),
        "transfers": (28, Unit.COUNT),
        "bytes": (44_000, Unit.COUNT),
    }
    wrong = _numbers(_parse(DMA, {**MOVED, "wrong": 3, "guards": 1}, code=1))
    assert (wrong["bytes.wrong"][0], wrong["guards.wrong"][0]) == (3, 1)


@pytest.mark.parametrize("board", ["virt-arm64", "virt-x86_64"])
def test_a_captured_run_of_dma(board: str) -> None:
    found = _numbers(_parse(DMA, (DATA / f"edu-dma-{board}.out").read_text(), setting=VIRTUAL))
    # 4088 first; in each round four sizes twice, and the whole buffer.
    rounds = (found["transfers"][0] - 1) / 9
    assert found["bytes"][0] == 4088 + rounds * (2 * (1 + 64 + 513 + 4088) + 4088)
    assert found["bytes.wrong"][0] == found["guards.wrong"][0] == 0


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"test": "msi"}, 0, "reports 'msi', not 'dma'"),
        ({"wrong": 1}, 0, "reports 1 wrong bytes and ends with exit code 0"),
        ({}, 1, "reports 0 wrong bytes and ends with exit code 1"),
        ({"guards": -1}, 1, "'guards' is -1"),
        ({"transfers": 27}, 0, "contradicts itself: 27 of 28 transfers"),
        ({"bytes": 27}, 0, "contradicts itself: 28 of 28 transfers, 27 bytes"),
        ({"ns": 28}, 0, "contradicts itself.*28 ns"),
        ({"rounds": None}, 0, "not a whole number"),
        ({}, 11, "ended with exit code 11: pcie-edu: a transfer"),
    ],
)
def test_dma_that_contradicts_itself_is_refused(changes: dict[str, Any], code: int, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        _parse(DMA, {**MOVED, **changes}, code=code, err="pcie-edu: a transfer of 64 bytes did not end within 5 s")


def test_the_command_line_of_dma() -> None:
    assert DMA.argv(VIRTUAL) == ("pcie-edu", "dma", "--seconds=2", "--sizes=1,64,513,4088", "0000:00:09.0")
    assert DMA.argv(replace(VIRTUAL, duration_s=60))[2] == "--seconds=2"
    assert DMA.argv(replace(HOST, duration_s=60, pcie={}))[2:] == ("--seconds=60", "--sizes=1,64,513,4088", "1234:11e8")
    assert DMA.expected(VIRTUAL) == Expected(
        threads=(), duration_s=2, counts=(Count(measurement="transfers", least=9),)
    )


BESIDE = replace(VIRTUAL, duration_s=5, beside=True)


def test_dma_beside_another_tool_goes_on_until_it_is_ended() -> None:
    assert DMA.argv(BESIDE)[2] == "--until-ended"
    # 50 transfers take 5 s; a fifth is left for what comes between them.
    assert DMA.expected(BESIDE).counts == (Count(measurement="transfers", least=40),)
    assert DMA.expected(replace(BESIDE, duration_s=0.5)).counts[0].least == 9


def _beside(text: str, code: int = 0, **files: bytes) -> dict[str, Any]:
    files = {"load.out": text.encode(), "tool.out": b"of the other tool", "tool.deadline": b"after 30 s", **files}
    return _numbers(DMA.parse(Output(files=files, exit_code=code, setting=BESIDE)))


def test_what_dma_says_beside_another_tool_stands_apart_from_its_json() -> None:
    assert _beside(json.dumps(MOVED, indent=0))["transfers"] == (28, Unit.COUNT)
    text = f"pcie-edu: a guard was overwritten: byte 9 is 0x00 instead of 0xa5\n{json.dumps({**MOVED, 'guards': 1})}"
    assert _beside(text, code=1)["guards.wrong"] == (1, Unit.COUNT)


def test_dma_that_failed_beside_another_tool_says_why() -> None:
    with pytest.raises(ParseError, match=r"exit code 8: pcie-edu: 0000:00:09\.0 is being removed"):
        _beside("pcie-edu: 0000:00:09.0 is being removed: the kernel wants it back\n", code=8)
    with pytest.raises(ParseError, match="wrote no JSON"):
        _beside("")


# --- MSI


def test_the_latency_of_an_interrupt_is_a_histogram() -> None:
    found = _parse(MSI, HANDLED)
    [histogram] = [one.histogram for one in found if one.histogram is not None]
    assert histogram.counts == {40_000: 1999, 60_000: 1}
    assert (histogram.unit, histogram.overflow, histogram.limit) == (Unit.VIRTUAL_NS, 0, 500_000)
    assert _numbers(found) == {
        "interrupts": (2000, Unit.COUNT),
        "interrupts.lost": (0, Unit.COUNT),
        "interrupts.spurious": (0, Unit.COUNT),
        "latency.min": (40_000, Unit.VIRTUAL_NS),
        "latency.avg": (40_010, Unit.VIRTUAL_NS),
        "latency.max": (60_000, Unit.VIRTUAL_NS),
    }
    assert {one.labels["cpu"] for one in found} == {"0"}
    assert {one.name for one in found} == set(MSI.reports)


@pytest.mark.parametrize("load", ["idle", "hackbench"])
@pytest.mark.parametrize("board", ["virt-arm64", "virt-x86_64"])
def test_a_captured_run_of_msi(board: str, load: str) -> None:
    text = (DATA / f"edu-msi-{board}-{load}.out").read_text()
    found = _numbers(_parse(MSI, text, setting=VIRTUAL))
    assert found["interrupts"][0] == 2000
    assert found["interrupts.lost"][0] == found["interrupts.spurious"][0] == 0
    assert 1_000 < found["latency.min"][0] < found["latency.avg"][0] < found["latency.max"][0]


def test_in_host_time_it_is_in_microseconds() -> None:
    document = {**HANDLED, "resolution_in_ns": 1000, "range": 1000, "min": 40, "avg": 40.5, "max": 2400}
    document["histogram"] = {"40": 1998, "41": 1}
    found = _parse(MSI, document, setting=HOST)
    [histogram] = [one.histogram for one in found if one.histogram is not None]
    assert (histogram.unit, histogram.overflow) == (Unit.US, 1)
    assert _numbers(found)["latency.max"] == (2400, Unit.US)


def test_an_interrupt_that_never_comes_is_counted_as_lost() -> None:
    lost = {**HANDLED, "cycles": 17, "lost": 1, "avg": 41_000.0, "histogram": {"40000": 16, "60000": 1}}
    found = _numbers(_parse(MSI, lost, code=10))
    assert (found["interrupts"][0], found["interrupts.lost"][0]) == (17, 1)
    first = {**HANDLED, "cycles": 0, "lost": 1, "min": 0, "avg": 0.0, "max": 0, "histogram": {}}
    assert set(_numbers(_parse(MSI, first, code=10))) == {"interrupts", "interrupts.lost", "interrupts.spurious"}


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"test": "dma"}, 0, "reports 'dma', not 'msi'"),
        ({"cycles": 1999}, 0, "contradicts itself: 1999 of 2000"),
        ({"lost": 1}, 0, "contradicts itself"),
        ({}, 10, "contradicts itself.*exit code 10"),
        ({"asked": 1000, "cycles": 1000}, 0, "2000 were asked for"),
        ({"min": 50_000}, 0, "contradict each other"),
        ({"min": 39_000, "avg": 39_999}, 0, "minimum 39000 and its histogram contradict each other"),
        ({"max": 59_999}, 0, "maximum 59999 and its histogram contradict each other"),
        ({"avg": 39_000.0}, 0, "contradict each other"),
        ({"avg": "nan"}, 0, "not a number"),
        ({"histogram": {"40000": 2001}}, 0, "2001 samples of 2000"),
        ({"histogram": {"600000": 1}}, 0, "range ends at 500000"),
        ({"resolution_in_ns": 1000}, 0, "not in steps of 1 ns"),
        ({"range": 1000}, 0, "not in steps of 1 ns up to 500000"),
        ({"cpu": -1}, 0, "'cpu' is -1"),
        ({"spurious": "x"}, 0, "not a whole number"),
        ({}, 7, "ended with exit code 7: pcie-edu: IOMMU group 7 holds"),
    ],
)
def test_msi_that_contradicts_itself_is_refused(changes: dict[str, Any], code: int, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        _parse(MSI, {**HANDLED, **changes}, code=code, err="pcie-edu: IOMMU group 7 holds 0000:01:00.0")


def test_the_command_line_of_msi() -> None:
    assert MSI.argv(VIRTUAL) == (
        *("pcie-edu", "msi", "--interrupts=2000", "--interval=1000", "--priority=90", "--raise-priority=40"),
        *("--range=500", "--nsecs", "0000:00:09.0"),
    )
    assert MSI.argv(replace(HOST, cpu_list="2-3"))[6:] == ("--cpu=2", "--range=1000", "0000:00:09.0")
    assert MSI.expected(VIRTUAL) == Expected(
        threads=(Threads(count=1, policy=SCHED_FIFO, priority=90),),
        duration_s=2,
        seen=ThreadScope.OWN,
        interval_us=1000,
        ends_with="interrupts.lost",
    )


# --- hostile output

_VALUES: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just({}) | st.just([])
)


@given(st.sampled_from([DMA, MSI]), st.text(max_size=200))
def test_any_text_is_a_parse_error(tool: EduDma | EduMsi, text: str) -> None:
    with pytest.raises(ParseError):
        _parse(tool, text)


@examples(300)
@given(st.data())
def test_any_value_is_a_result_or_a_parse_error(data: st.DataObject) -> None:
    cases: list[tuple[EduDma | EduMsi, dict[str, Any]]] = [(DMA, MOVED), (MSI, HANDLED)]
    tool, good = data.draw(st.sampled_from(cases))
    document = {**good, data.draw(st.sampled_from(sorted(good))): data.draw(_VALUES)}
    try:
        found = _parse(tool, document)
    except ParseError:
        return
    assert all(one.histogram or (one.quantity and one.quantity.value >= 0) for one in found)
