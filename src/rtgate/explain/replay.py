# SPDX-License-Identifier: MIT
"""Running a virtual-time boot again with tracing: to log what ran in what it measures, or to see what ran at all."""

from __future__ import annotations

import tempfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rtgate.errors import ConfigError, InfrastructureError, ParseError
from rtgate.explain import plugin, trace
from rtgate.explain.bound import bound
from rtgate.explain.explanation import Arm as Explained
from rtgate.explain.explanation import Passage
from rtgate.explain.finders import finder
from rtgate.explain.intervals import TOLERANCE_NS, CpuIntervals, Interval, IntervalFinder
from rtgate.explain.path import KERNEL_FROM, USER, Code, Profile, mean, profile
from rtgate.explain.sections import BootSections, Kind, sections_by_site
from rtgate.explain.spots import SpotNames
from rtgate.explain.trace import Block, Trace, TraceRequest
from rtgate.explain.wakeups import WakeUps, reports
from rtgate.files import scratch
from rtgate.kernel.preemption import Preemption, preemption
from rtgate.kernel.vmlinux import Vmlinux, plain_name
from rtgate.measure.case import Arm, Case, measure
from rtgate.records.record import Record
from rtgate.target.virtual import VirtualBoard

LEAD = 4000  # instructions before an interval, from which its callers become known
SAMPLED = 400  # intervals whose mean is the typical one
_SLICE_BITS = 21  # 17 virtual ms of a busy CPU; of an idle one, woken 1000 times a second, about 0.17 s
_GOLDEN = (5**0.5 - 1) / 2

Tell = Callable[[str], None]


class Span(Protocol):
    """What ran from one instruction to another."""

    @property
    def start(self) -> int:
        """`n` of the first instruction."""

    @property
    def end(self) -> int:
        """`n` after the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One boot to run again.

    Attributes:
        expected: the record that it must reproduce bit by bit; None if the first traced boot is the first at all.
        kernel: the ELF file of the kernel that boots.
    """

    case: Case
    arm: Arm
    seed: int
    kernel: Vmlinux
    expected: Record | None = None
    tell: Tell = lambda _: None

    @property
    def instruction_ns(self) -> int:
        """What one instruction takes."""
        assert self.arm.board.qemu is not None
        return 1 << self.arm.board.qemu.shift

    @property
    def finder(self) -> IntervalFinder:
        """What finds the case's measurements in a trace. Raises ConfigError: its tool cannot be explained."""
        return finder(self.case.name)

    def trace(self, order: TraceRequest) -> tuple[Record, Trace]:
        """Boot once and return the record and the trace.

        Raises:
            ConfigError: the arm is not a virtual-time board.
            InfrastructureError: this machine cannot trace.
            ParseError: it did not measure, or not what was expected: the trace is of another boot.
        """
        target = self.arm.target
        if not isinstance(target, VirtualBoard) or self.instruction_ns != 8:
            raise ConfigError(f"{self.arm.board.name} is not a virtual-time board with 8 ns per instruction")
        with scratch(Path(tempfile.gettempdir()), "rtgate-trace-") as directory:
            (directory / "order").write_text(order.text(), encoding="utf-8")
            asked = f"{plugin.library()},order={directory / 'order'},into={directory / 'trace'}"
            arm = replace(self.arm, target=replace(target, plugin=asked))
            record, outcome = measure(self.case, arm, self.seed)
            if not record.has_results:
                raise ParseError(f"the traced boot was not measured: {record.state}: {record.message}")
            if "trace: " in outcome.message:
                raise InfrastructureError(outcome.message)
            self._check_same(record)
            return record, trace.read(directory / "trace", followed=order.preemption is not None)

    def _check_same(self, record: Record) -> None:
        expected = self.expected
        if expected is not None and expected.measurements != record.measurements:
            other = [
                name
                for name, was, now in (
                    ("kernel", expected.kernel.image_sha256, record.kernel.image_sha256),
                    ("QEMU", expected.machine.get("qemu"), record.machine.get("qemu")),
                    ("root filesystem", expected.machine.get("rootfs"), record.machine.get("rootfs")),
                    ("command", expected.argv, record.argv),
                )
                if was != now
            ]
            raise ParseError(
                f"the boot did not repeat itself (seed {self.seed}): another {' and another '.join(other)}"
                if other
                else f"the traced boot differs from the record (seed {self.seed}), with everything else equal"
            )


def explain_boot(order: Replay, differing: frozenset[str]) -> Explained:
    """Run a boot again, twice, and return what its slowest and its typical interval consist of.

    Raises:
        ConfigError: what the case's tool measures cannot be found, or the kernel lacks the functions to find it by.
        InfrastructureError: this machine cannot trace.
        ParseError: the boot did not repeat itself, or its trace does not agree with what its tool reported.
    """
    what = order.finder.what
    order.tell(f"{order.arm.name}, seed {order.seed}: looking for each {what}")
    marks = _marks(order)
    record, first = order.trace(TraceRequest(marks=marks))
    found = _find_intervals(order, record, first)
    worst = max((one for each in found for one in each.intervals), key=lambda one: one.latency_ns)
    chosen = next(each for each in found if each.cpu == worst.cpu)
    sampled = _spread(chosen.intervals, SAMPLED)
    count = sum(len(each.intervals) for each in found)
    order.tell(f"{order.arm.name}, seed {order.seed}: {count} {what}s, logging what ran in {len(sampled) + 1}")
    wanted = TraceRequest(marks=marks, intervals=join_spans([worst, *sampled]), window=_window(found))
    _, second = replace(order, expected=record).trace(wanted)
    return _explain(order, differing, found, (worst, sampled), second)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What ran while a boot measured.

    Attributes:
        functions: instructions by function, the most first.
        blocks: each of the kernel's blocks, and how many of its instructions were executed in all its runs.
    """

    functions: Mapping[str, int]
    blocks: tuple[tuple[Block, int], ...] = ()


def trace_functions(order: Replay) -> Ran:
    """Run a boot again, once, and return what ran while it measured.

    Where the measuring began and ended is known afterwards only. So instructions are counted in slices, and those that
    lie wholly between the first interval and the last one make the answer.

    Raises:
        ConfigError, InfrastructureError: as `explain_boot`.
        ParseError: as `explain_boot`, or it measured for less than a slice.
    """
    order.tell(f"{order.arm.name}, seed {order.seed}: looking what ran")
    found = _trace_slices(order)
    blocks = tuple(_blocks(found.seen, found.slices))
    return Ran(functions=count_instructions(order.kernel, found.seen, found.slices), blocks=blocks)


def trace_sections(order: Replay, altered: frozenset[str] = frozenset()) -> tuple[Record, BootSections]:
    """Run a boot, once, and return its record and the critical sections that ended while it measured.

    Args:
        order: the boot.
        altered: functions whose longest calls in sections are looked for.

    Raises:
        ConfigError, InfrastructureError, ParseError: as `trace_functions`; ConfigError also if the kernel does not show
            where it keeps the preemption count, ParseError also if a change of that count was not seen.
    """
    order.tell(f"{order.arm.name}, seed {order.seed}: following critical sections")
    kept = preemption(order.kernel)
    found = _trace_slices(order, kept, altered)
    log = found.seen.sections
    assert log is not None
    if log.unseen:
        raise ParseError(
            f"the preemption count changed {log.unseen} times by instructions that are not known: "
            "critical sections of this kernel cannot be followed"
        )
    if log.cpus < order.arm.board.cpus:
        raise ParseError(
            f"{log.cpus} of {order.arm.board.cpus} CPUs were followed: this kernel keeps its task otherwise"
        )
    functions = [plain_name(order.kernel.function_at(address)) for address in found.altered]
    sections = sections_by_site(log, found.slices, SpotNames(order.kernel, kept).spot, order.seed, functions)
    wakeups = _bounded_wakeups(order, found)
    passages = found.within(log.interrupts), found.within(log.switches)
    return found.record, BootSections(
        sections=tuple(one for one in sections if one.site.kind is not Kind.POID),
        bound=bound(sections, passages, wakeups, order.seed) if wakeups else None,
    )


def _bounded_wakeups(order: Replay, found: _Sliced) -> list[Interval]:
    """Return the wake-ups that have a bound: cyclictest's, on one CPU, of a kernel that can be preempted anywhere.

    With PREEMPT_NONE a wake-up waits for the end of a system call, and with Dovetail for what the CPU does not show.
    """
    preemptible = found.record.environment.flavour == "preempt_rt"
    if not preemptible or not isinstance(order.finder, WakeUps) or order.arm.board.cpus != 1:
        return []
    # The few that the trace numbers otherwise than the tool are not taken for longer than any that it reported.
    most = max(one.maximum for one in reports(found.record)) + TOLERANCE_NS
    return [one for one in found.wakeups if one.latency_ns <= most]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sliced:
    """A traced boot.

    Attributes:
        slices: those that lie wholly within what it measured.
        altered: where functions begin whose calls were followed.
    """

    record: Record
    seen: Trace
    found: Sequence[CpuIntervals]
    slices: range
    altered: Sequence[int]

    @property
    def span(self) -> tuple[int, int]:
        return self.slices.start << _SLICE_BITS, self.slices.stop << _SLICE_BITS

    @property
    def wakeups(self) -> list[Interval]:
        """What was measured in the slices, in the order of time."""
        start, end = self.span
        return [one for each in self.found for one in each.intervals if start <= one.start and one.end < end]

    def within(self, passages: NDArray[np.void]) -> NDArray[np.void]:
        """Return those that lie in the slices, at least in part."""
        start, end = self.span
        return np.asarray(passages[(passages["end"] >= start) & (passages["start"] < end)])


def _trace_slices(order: Replay, kept: Preemption | None = None, altered: Iterable[str] = ()) -> _Sliced:
    """Run a boot and find out where it measured."""
    # A cold part is jumped to: no return address says where it ends.
    functions = [one for one in order.kernel.symbols if one.function and ".cold" not in one.name]
    begins = sorted({one.address for one in functions if plain_name(one.name) in altered})
    wanted = TraceRequest(marks=_marks(order), slice_bits=_SLICE_BITS, preemption=kept, altered=begins)
    record, seen = order.trace(wanted)
    found = _find_intervals(order, record, seen)
    start, end = _window(found)
    slices = range(-(-start >> _SLICE_BITS), end >> _SLICE_BITS)
    if not slices:
        raise ParseError(
            f"{end - start} instructions ran while measuring, in no whole slice of {1 << _SLICE_BITS}: too few"
        )
    return _Sliced(record=record, seen=seen, found=found, slices=slices, altered=begins)


def _marks(order: Replay) -> dict[int, int]:
    """Return where the events are that show what the tool measures, by kind. Raises ConfigError: one is not there."""
    marks = {}
    for kind, names in order.finder.marks.items():
        addresses = [address for name in names if (address := order.kernel.address_of(name)) is not None]
        if not addresses:
            named = " or ".join(names)
            raise ConfigError(f"the kernel has no function {named}, by which a {order.finder.what} is found")
        marks[int(kind)] = addresses[0]
    return marks


def _find_intervals(order: Replay, record: Record, seen: Trace) -> list[CpuIntervals]:
    return order.finder.intervals(order.case.tool, record, seen.events, order.instruction_ns)


def _window(found: Sequence[CpuIntervals]) -> tuple[int, int]:
    """Return the measuring window in `n`: from the end of the first interval to that of the last."""
    ends = [interval.end for each in found for interval in each.intervals]
    return min(ends), max(ends)


def _spread(intervals: Sequence[Interval], count: int) -> list[Interval]:
    """Return at most `count` intervals, spread evenly but not in step with anything periodic (the tick)."""
    if len(intervals) <= count:
        return list(intervals)
    places = sorted({int(number * _GOLDEN % 1 * len(intervals)) for number in range(count)})
    return [intervals[place] for place in places]


def join_spans(intervals: Sequence[Span]) -> list[tuple[int, int]]:
    """Return the spans to log, with what leads to each interval; those that meet become one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted((max(0, one.start - LEAD), one.end) for one in intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _explain(
    order: Replay,
    differing: frozenset[str],
    found: Sequence[CpuIntervals],
    chosen: tuple[Interval, Sequence[Interval]],
    logged: Trace,
) -> Explained:
    worst, sampled = chosen
    code = Code(order.kernel.arch, logged.blocks, order.kernel.function_at)
    ns = order.instruction_ns
    ran = profiles(code, logged, [worst, *sampled], differing)
    passages = [_passage(one, each, ns) for one, each in zip([worst, *sampled], ran, strict=True)]
    typical = Passage(
        latency_ns=_mean([each.latency_ns for each in passages[1:]]),
        idle_ns=_mean([each.idle_ns for each in passages[1:]]),
        unaccounted_ns=_mean([each.unaccounted_ns for each in passages[1:]]),
        profile=mean(ran[1:]),
    )
    count = sum(len(each.intervals) for each in found)
    return Explained(
        seed=order.seed,
        what=order.finder.what,
        proof=order.finder.proof,
        intervals=count,
        agreeing=count - sum(min(each.differing, len(each.intervals)) for each in found),
        worst=passages[0],
        typical=typical,
        executed=count_instructions(order.kernel, logged),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


def _passage(interval: Interval, made: Profile, ns: int) -> Passage:
    rest = interval.latency_ns - interval.idle_ns - made.total * ns
    return Passage(latency_ns=interval.latency_ns, idle_ns=interval.idle_ns, unaccounted_ns=rest, profile=made)


def profiles(code: Code, logged: Trace, intervals: Sequence[Span], differing: frozenset[str]) -> list[Profile]:
    """Return the instructions of each function in each of the intervals that were logged."""
    runs = logged.runs
    places = [run.n for run in runs]
    return [
        profile(
            code,
            runs[bisect_left(places, one.start - LEAD) : bisect_left(places, one.end)],
            (one.start, one.end),
            differing,
        )
        for one in intervals
    ]


def count_instructions(kernel: Vmlinux, seen: Trace, slices: range = range(1)) -> dict[str, int]:
    """Return how many instructions of each function were executed in some slices (or the window), the most first."""
    found: Counter[str] = Counter()
    for number, instructions in _sums(seen, slices):
        address = seen.blocks[number].address
        found[kernel.function_at(address) if address >= KERNEL_FROM else USER] += instructions
    return dict(found.most_common())


def _blocks(seen: Trace, slices: range) -> Iterator[tuple[Block, int]]:
    for number, instructions in _sums(seen, slices):
        block = seen.blocks[number]
        if block.address >= KERNEL_FROM and instructions:
            yield block, instructions


def _sums(seen: Trace, slices: range) -> list[tuple[int, int]]:
    """Return how many instructions of each block were executed in some slices."""
    assert slices.step == 1
    piece = seen.counts["slice"]
    within = seen.counts[(piece >= slices.start) & (piece < slices.stop)]
    numbers, places = np.unique(within["block"], return_inverse=True)
    # Sums of 64-bit floats: exact up to 2^53 instructions, two years of virtual time.
    sums = np.bincount(places, weights=within["instructions"])
    return [(number, int(total)) for number, total in zip(numbers.tolist(), sums.tolist(), strict=True)]
