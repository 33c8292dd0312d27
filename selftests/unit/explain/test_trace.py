# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.errors import ParseError
from rtgate.explain.trace import Event, EventKind, TraceRequest, parse, read
from rtgate.kernel.interrupt_handlers import HandlerCalls
from rtgate.kernel.preemption import Preemption
from rtgate.kernel.preemption_places import Entry

from .conftest import trace, unpacked

COUNT = b"\x07\0\0\0" + b"\x03\0\0\0" + (1 << 40).to_bytes(8, "little")


def test_a_captured_trace_is_read() -> None:
    found = trace("demo-arm64-idle")
    assert sum(event.kind == EventKind.USER_CLOCK for event in found.events) > 1000
    assert {event.cpu for event in found.events} == {0}
    assert found.runs
    assert all(found.blocks[run.block].instructions > 0 for run in found.runs)


@pytest.mark.parametrize("part", [0, 1, 2, 3])
def test_a_file_that_is_cut_off_is_refused(part: int) -> None:
    parts = [unpacked(f"demo-arm64-idle.{name}") for name in ("events", "runs", "counts", "blocks")]
    parts[2] = COUNT
    parts[part] = parts[part][:-1]
    with pytest.raises(ParseError, match="cut off"):
        parse(*parts)


def test_a_block_that_nobody_described_is_refused() -> None:
    with pytest.raises(ParseError, match="no block"):
        parse(b"", unpacked("demo-arm64-idle.runs"), b"", b"")
    with pytest.raises(ParseError, match="no block 7, which was executed"):
        parse(b"", b"", COUNT, b"")


def test_counts_are_read_by_block_and_slice() -> None:
    blocks = unpacked("demo-arm64-idle.blocks")
    number = int.from_bytes(blocks[8:12], "little")
    assert parse(b"", b"", number.to_bytes(4, "little") + COUNT[4:], blocks).counts.tolist() == [(number, 3, 1 << 40)]


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="incomplete"):
        read(tmp_path / "trace")


def test_events_out_of_order_are_refused() -> None:
    one, two = unpacked("demo-arm64-idle.events")[:32], unpacked("demo-arm64-idle.events")[32:64]
    assert parse(one + two, b"", b"", b"").events[0] == Event(*_fields(one))
    with pytest.raises(ParseError, match="not in order"):
        parse(two + one, b"", b"", b"")


def _fields(data: bytes) -> tuple[int, int, int, int, int]:
    numbers = [
        int.from_bytes(data[at : at + size], "little") for at, size in ((0, 8), (8, 8), (16, 8), (24, 4), (28, 4))
    ]
    return (numbers[0], numbers[1], numbers[2], numbers[3], numbers[4])


@given(st.binary(max_size=200), st.binary(max_size=200), st.binary(max_size=200), st.binary(max_size=200))
def test_anything_is_a_trace_or_refused(events: bytes, runs: bytes, counts: bytes, blocks: bytes) -> None:
    try:
        found = parse(events, runs, counts, blocks)
    except ParseError:
        return
    assert {run.block for run in found.runs} | set(found.counts["block"].tolist()) <= found.blocks.keys()


def test_an_order_is_written_for_the_plugin() -> None:
    request = TraceRequest(marks={EventKind.TIMER_INTERRUPT: 0xFFFFFFC0800AF6D4}, intervals=[(5, 9)], window=(1, 20))
    assert request.text() == "mark 16 ffffffc0800af6d4\ninterval 5 9\nwindow 1 20\n"
    assert TraceRequest(slice_bits=21).text() == "slices 21\n"
    entries = (Entry(0x800, 0x804, False), Entry(0x880, 0x884, True))
    kept = Preemption(count=8, softirq=1816, entries=entries, helpers=((0x10, 0x20),))
    assert TraceRequest(slice_bits=21, preemption=kept).text() == (
        "slices 21\ncount 8\nsoftirq 1816 100\nexception 800 804\ninterrupt 880 884\nhelper 10 20\n"
    )
    behind_gs = replace(kept, count=0x2A508, current=0x2A500)
    assert TraceRequest(slice_bits=21, preemption=behind_gs).text().startswith("slices 21\npercpu 2a508 2a500\nsoftirq")
    followed = TraceRequest(slice_bits=21, preemption=kept, altered=[0xFFFFFFC0800AF6D4, 0x10])
    assert followed.text().endswith("helper 10 20\naltered ffffffc0800af6d4\naltered 10\n")
    calls = HandlerCalls(interrupts=((0x10, 0x20),), threads=((0x30, 0x40),), vectors=(0x50,))
    assert (
        replace(followed, handlers=calls)
        .text()
        .endswith("altered 10\ndispatcher 10 20\nthread-dispatcher 30 40\nhandler 50\n")
    )
