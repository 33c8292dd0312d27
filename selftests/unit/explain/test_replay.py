# SPDX-License-Identifier: MIT
from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rtgate.board.boards import board
from rtgate.board.boot import ArmName
from rtgate.errors import ConfigError, InfrastructureError, ParseError, RtgateError, TargetError
from rtgate.explain import boot_sections, plugin, replay, wakeups
from rtgate.explain.boot_sections import trace_sections
from rtgate.explain.intervals import CpuIntervals, Interval, sample
from rtgate.explain.replay import Replay
from rtgate.explain.trace import COUNT, Block, EventKind, Trace, TraceRequest
from rtgate.explain.wakeups import WakeUps
from rtgate.kernel.preemption import Preemption
from rtgate.measure.case import Arm
from rtgate.target.outcome import State
from rtgate.target.virtual import VirtualBoard

from .conftest import measurements, reported
from .test_sections import handler_bytes, hold_bytes, passages, site_bytes, sum_bytes, written
from .test_wakeup_stages import LENGTHS, Boot


class _Record:
    """As much of a record as is read."""

    case = "latency/cyclictest:idle"

    def __init__(self, found: Any) -> None:
        self.measurements = found


def wakeup(start: int, end: int) -> Interval:
    return Interval(cpu=0, start=start, end=end, latency_ns=8 * (end - start), idle_ns=0)


def test_what_cyclictest_reported_is_read_by_cpu() -> None:
    found: Any = _Record(measurements("demo-arm64-idle"))
    assert wakeups.reports(found) == (reported("demo-arm64-idle"),)


def test_a_record_without_a_histogram_is_refused() -> None:
    found: Any = _Record(tuple(each for each in measurements("demo-arm64-idle") if each.name != "latency"))
    with pytest.raises(ParseError, match="'latency'"):
        wakeups.reports(found)


def test_threads_that_were_not_bound_to_a_cpu_are_refused() -> None:
    """With `affinity: none` cyclictest names no CPU; what is left without intervals has no slowest and no window."""
    unbound = (replace(each, labels={"thread": "0"}) for each in measurements("demo-arm64-idle"))
    record: Any = _Record(tuple(unbound))
    with pytest.raises(ParseError, match="cyclictest named no CPU: wake-ups of threads that are not bound"):
        wakeups.reports(record)


def test_every_wake_up_lies_in_an_interval_and_none_overlap() -> None:
    intervals = replay.join_spans(
        [wakeup(90_000, 93_000), wakeup(10_000, 12_000), wakeup(14_000, 15_000), wakeup(5, 9)]
    )
    assert intervals == [(0, 9), (6_000, 15_000), (86_000, 93_000)]


@given(st.integers(0, 3000), st.integers(1, 500))
def test_wake_ups_are_sampled_without_repetition(many: int, count: int) -> None:
    trips = [wakeup(10 * number, 10 * number + 5) for number in range(many)]
    chosen = sample(trips, count)
    assert len(chosen) <= max(count, min(many, count))
    assert [each.start for each in chosen] == sorted({each.start for each in chosen})
    assert len(chosen) >= min(many, count) // 2


def test_the_sample_is_not_in_step_with_the_tick() -> None:
    trips = [wakeup(number, number + 1) for number in range(10_000)]
    by_phase = [sum(each.start % 4 == phase for each in sample(trips, 400)) for phase in range(4)]
    assert min(by_phase) > 80


def _counts(*counts: tuple[int, int, int]) -> NDArray[np.void]:
    return np.array(list(counts), COUNT)


def test_what_ran_in_the_window_is_added_up_by_function() -> None:
    class Kernel:
        @staticmethod
        def function_at(address: int) -> str:
            return "f" if address < 0xFFFF000000001000 else "g"

    base = Block(address=0xFFFF000000000000, instructions=1, last=b"", size=4)
    blocks = {
        0: base,
        1: base,
        2: replace(base, address=base.address + 0x1000),
        3: replace(base, address=base.address + 0x2000),
        4: replace(base, address=0x400000),
    }
    kernel: Any = Kernel()
    window = Trace(events=(), runs=(), counts=_counts((2, 0, 7), (0, 0, 7), (1, 0, 5), (4, 0, 2)), blocks=blocks)
    assert replay.count_instructions(kernel, window) == {"f": 12, "g": 7, "(programs)": 2}
    slices = replace(window, counts=_counts((0, 1, 100), (2, 2, 3), (2, 3, 4), (1, 4, 9), (3, 5, 100)))
    assert list(replay.count_instructions(kernel, slices, range(2, 5)).items()) == [("f", 9), ("g", 7)]
    assert replay.count_instructions(kernel, slices, range(0)) == {}


_SLICE = 1 << replay._SLICE_BITS


@pytest.mark.parametrize(
    ("start", "end", "ran"),
    [
        (0, 3 * _SLICE, {"f": 111}),
        (1, 3 * _SLICE - 1, {"f": 10}),
        (_SLICE + 1, 2 * _SLICE, None),
        (_SLICE, 2 * _SLICE, {"f": 10}),
    ],
)
def test_what_ran_is_that_of_whole_slices_between_the_first_and_the_last_wake_up(
    monkeypatch: pytest.MonkeyPatch, start: int, end: int, ran: dict[str, int] | None
) -> None:
    block = Block(address=0xFFFF000000000000, instructions=1, last=b"", size=4)
    counts = _counts((0, 0, 1), (0, 1, 10), (0, 2, 100))
    order = _measured(monkeypatch, start, end, Trace(events=(), runs=(), counts=counts, blocks={0: block}))
    if ran is None:
        with pytest.raises(ParseError, match="instructions ran while measuring, in no whole slice"):
            replay.trace_functions(order)
    else:
        assert replay.trace_functions(order).functions == ran


def _measured(
    monkeypatch: pytest.MonkeyPatch,
    start: int,
    end: int,
    seen: Trace,
    *,
    cpus: int = 1,
    flavour: str = "preempt_rt",
    found: Interval | None = None,
) -> Any:
    """Return a boot to run again that measured from a start to an end, and something between."""

    class Order:
        requests: ClassVar[list[TraceRequest]] = []
        finder = WakeUps()
        arm = SimpleNamespace(name="candidate", board=SimpleNamespace(cpus=cpus))
        kernel = type(
            "Kernel",
            (),
            {
                "function_at": staticmethod(lambda _: "f"),
                "starts_of": staticmethod(lambda _: ()),
                "resolve": staticmethod(lambda _: None),
                "address_of": staticmethod(lambda _: None),
                "symbols": (),
            },
        )
        tell = staticmethod(lambda _: None)
        seed = 1

        @staticmethod
        def trace(request: TraceRequest) -> tuple[object, Trace]:
            Order.requests.append(request)
            return SimpleNamespace(environment=SimpleNamespace(flavour=flavour)), seen

    monkeypatch.setattr(replay, "_marks", lambda _: {})
    monkeypatch.setattr(
        boot_sections, "reports", lambda _: [SimpleNamespace(maximum=80 if found is None else found.latency_ns)]
    )
    middle = (start + end) // 2
    intervals = (wakeup(0, start), found or wakeup(middle - 10, middle), wakeup(0, end))
    monkeypatch.setattr(replay, "_find_intervals", lambda *_: [CpuIntervals(cpu=0, intervals=intervals, differing=0)])
    monkeypatch.setattr(
        boot_sections, "preemption", lambda _: Preemption(count=8, softirq=None, entries=(), helpers=())
    )
    return Order


def _sections(unseen: int) -> Trace:
    # Two kinds of sections: with interrupts off, and those that postpone the scheduler.
    sums = b"".join(sum_bytes(site, number, [10 + number + site]) for number in range(4) for site in (0, 1))
    # An interrupt in the slices that count, and one across the end of them.
    interrupts = passages((_SLICE + 5, _SLICE + 9, 0, 0, 0), (3 * _SLICE - 1, 3 * _SLICE, 0, 0, 1))
    log = written(
        site_bytes((1, 0, 2, 0, 0, 0), (1, 0, 2, 0, 3, 0)),
        sums,
        interrupts=interrupts,
        locks=hold_bytes(*((0xF0, 0x10, 1, 10 + number, 10 + number, number) for number in range(4))),
        handlers=handler_bytes(*((0xF0, 1, 20 + number, 20 + number, number, 0) for number in range(4))),
        unseen=unseen,
    )
    return Trace(events=(), runs=(), blocks={}, sections=log)


def test_sections_are_those_of_whole_slices_between_the_first_and_the_last_wake_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order = _measured(monkeypatch, _SLICE - 1, 3 * _SLICE, _sections(0))
    _, found = trace_sections(order)
    assert [(each.site.begin.function, each.count, each.longest) for each in found.sections] == [("f", 2, 12)]
    assert [(str(lock), lock.count, lock.longest) for lock in found.locks] == [("allocated, locked by f", 2, 12)]
    assert [(handler.function, handler.count, handler.longest) for handler in found.handlers] == [("f", 2, 22)]
    assert found.bound is not None
    # The interrupt across the end is one of another stretch; the first wake-up in the slices took 10 instructions.
    assert (found.bound.postponed.instructions, found.bound.interrupts, found.bound.measured) == (13, 4, 10)


@pytest.mark.parametrize(("cpus", "flavour"), [(2, "preempt_rt"), (1, "generic"), (1, "xenomai")])
def test_some_wake_ups_have_no_bound(monkeypatch: pytest.MonkeyPatch, cpus: int, flavour: str) -> None:
    """With two CPUs instructions between two events are those of both; others wait for more than the CPU shows."""
    order = _measured(monkeypatch, _SLICE - 1, 3 * _SLICE, _sections(0), cpus=cpus, flavour=flavour)
    _, found = trace_sections(order)
    assert found.sections
    assert found.bound is None


@pytest.mark.parametrize(("cpus", "flavour", "marked"), [(1, "preempt_rt", True), (1, "generic", True), (2, "", False)])
def test_wake_ups_that_may_have_a_bound_have_stages(
    monkeypatch: pytest.MonkeyPatch, cpus: int, flavour: str, marked: bool
) -> None:
    """The flavour is known when the boot is over."""
    way = Boot(n=3 * _SLICE // 2)
    way.wake_up()
    seen = _sections(0)
    assert seen.sections is not None
    log = replace(seen.sections, interrupts=way.passages[0], switches=way.passages[1])
    seen = replace(seen, events=tuple(way.events), sections=log)
    order = _measured(monkeypatch, _SLICE - 1, 3 * _SLICE, seen, cpus=cpus, flavour=flavour, found=way.wakeups[0])
    monkeypatch.setattr(boot_sections, "stage_marks", lambda _: {EventKind.SWITCH: 0x200})
    _, found = trace_sections(order, stages=True)
    assert order.requests[0].marks == ({EventKind.SWITCH: 0x200} if marked else {})
    assert (found.stages is not None) == (flavour == "preempt_rt")
    if found.stages is not None:
        assert (found.stages.count, found.stages.whole.total) == (1, sum(LENGTHS))
    _, unasked = trace_sections(order)
    assert (order.requests[-1].marks, unasked.stages) == ({}, None)


def test_sections_do_not_count_if_a_change_was_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    order = _measured(monkeypatch, _SLICE - 1, 3 * _SLICE, _sections(1))
    with pytest.raises(ParseError, match="changed 1 times by instructions that are not known"):
        trace_sections(order)


@pytest.mark.parametrize("there", [{"hrtimer_interrupt": 4096}, {"hrtimer_wakeup": 8192}, {}])
def test_a_kernel_without_a_function_that_marks_is_told_which(there: dict[str, int]) -> None:
    """One that was renamed: then each wake-up would be missing, and nobody would know why."""
    order: Any = SimpleNamespace(finder=WakeUps(), kernel=SimpleNamespace(address_of=there.get))
    missing = next(name for name in ("hrtimer_interrupt", "hrtimer_wakeup") if name not in there)
    with pytest.raises(ConfigError, match=f"^the kernel has no function {missing}, by which a wake-up is found$"):
        replay._marks(order)


FULL = "exit code 1, as the disk is full"


def traced(monkeypatch: pytest.MonkeyPatch, state: State, message: str = "", ended: str = "", **changes: Any) -> Any:
    """Trace a boot that came to a state and, if it measured, left an empty trace."""
    virtual = board("virt-arm64")
    target = VirtualBoard(board=virtual, image=Path("Image"), rootfs=lambda _: pytest.fail("nothing boots"))
    nothing: Any = None
    arm = Arm(name=ArmName.CANDIDATE, board=virtual, kernel=nothing, profile=nothing, time=nothing, target=target)

    def measure(_case: object, traced_arm: Any, _seed: int) -> tuple[Any, None]:
        prefix = traced_arm.target.plugin.partition("into=")[2]
        for suffix in ("events", "runs", "counts", *(() if ended == FULL else ("blocks",))):
            Path(f"{prefix}.{suffix}").touch()
        machine = {"ended": ended} if ended else {}
        measured = state is State.MEASURED
        record = SimpleNamespace(state=state, message=message, has_results=measured, machine=machine, measurements=())
        return record, None

    monkeypatch.setattr(replay, "measure", measure)
    monkeypatch.setattr(replay, "version", lambda _: "QEMU")
    monkeypatch.setattr(plugin, "library", lambda _: "plugin.so")
    return Replay(case=nothing, arm=arm, seed=1, kernel=nothing, **changes).trace(TraceRequest())


def test_a_trace_that_qemu_could_not_finish_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The results had come by then, so the boot counts as measured; its trace lacks what the disk did not take.

    Where a CPU is switched off within an interrupt, the plugin ends QEMU when the kernel powers off, and writes all.
    """
    assert traced(monkeypatch, State.MEASURED)[1].blocks == {}
    assert traced(monkeypatch, State.MEASURED, ended="exit code 1")[1].blocks == {}
    with pytest.raises(InfrastructureError, match=r"could not write the whole trace \(exit code 1, .* full"):
        traced(monkeypatch, State.MEASURED, ended=FULL)


def test_a_full_disk_before_the_boot_is_the_lab_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced boots of other cases fill /tmp: an OSError would end a gate that has its verdict."""

    def write_text(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", write_text)
    with pytest.raises(InfrastructureError, match=r"rtgate-trace-\S+ cannot be written: No space left on device"):
        traced(monkeypatch, State.MEASURED)


@pytest.mark.parametrize(
    ("state", "message", "error", "error_if_expected"),
    [
        (State.LAB, "this host stopped QEMU; measure again", InfrastructureError, InfrastructureError),
        (State.LAB, "QEMU ended with exit code 1: trace: no memory left", InfrastructureError, InfrastructureError),
        (State.HANG, "the kernel hung: ftrace: allocating 45039 entries", TargetError, ParseError),
        (State.FAULT, "the kernel died during the measurement", TargetError, ParseError),
        (State.NO_BOOT, "the kernel died while booting", TargetError, ParseError),
        (State.UNREADABLE, "no JSON", ParseError, ParseError),
        (State.SKIPPED, "needs two CPUs", ParseError, ParseError),
    ],
)
def test_whose_fault_it_is_that_a_traced_boot_did_not_measure(
    monkeypatch: pytest.MonkeyPatch,
    state: State,
    message: str,
    error: type[RtgateError],
    error_if_expected: type[RtgateError],
) -> None:
    """A kernel that measured before does so again: if it does not, the boot did not repeat itself."""
    with pytest.raises(error, match=f"was not measured: {state}: {message}"):
        traced(monkeypatch, state, message)
    with pytest.raises(error_if_expected, match=message):
        traced(monkeypatch, state, message, expected=SimpleNamespace(measurements=()))
