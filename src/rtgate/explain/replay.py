# SPDX-License-Identifier: MIT
"""Running a virtual-time boot again with tracing: to log what ran in what it measures, or to see what ran at all."""

from __future__ import annotations

import tempfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rtgate.errors import ConfigError, InfrastructureError, ParseError, TargetError
from rtgate.explain import plugin, trace
from rtgate.explain.cache_models import CacheModel
from rtgate.explain.explanation import IntervalCost, KernelTrace
from rtgate.explain.finders import finder
from rtgate.explain.intervals import CpuIntervals, Interval, IntervalFinder, sample
from rtgate.explain.path import KERNEL_FROM, USER, Code, Profile, mean, profile
from rtgate.explain.trace import INSTRUCTION_NS, Block, Trace, TraceRequest
from rtgate.files import scratch, writing
from rtgate.kernel.interrupt_handlers import HandlerCalls, handler_calls
from rtgate.kernel.preemption import Preemption
from rtgate.kernel.raw_locks import LockFunctions, lock_functions
from rtgate.kernel.vmlinux import Vmlinux
from rtgate.measure.case import Arm, Case
from rtgate.measure.case_record import measure
from rtgate.records.record import Record
from rtgate.target.outcome import State
from rtgate.target.qemu import version
from rtgate.target.virtual import VirtualBoard

LEAD = 4000  # instructions before an interval, from which its callers become known
SAMPLED = 400  # intervals whose mean is the typical one
_OF_KERNEL = (State.NO_BOOT, State.FAULT, State.HANG)
_SLICE_BITS = 21  # 17 virtual ms of a busy CPU; of an idle one, woken 1000 times a second, about 0.17 s

Tell = Callable[[str], None]


class Span(Protocol):
    """What ran from one instruction to another."""

    @property
    def start(self) -> int:
        """`n` of the first instruction."""

    @property
    def end(self) -> int:
        """`n` after the last one."""


class StoppedBootError(InfrastructureError):
    """The machine has stopped a traced boot. Others may be traced all the same."""


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
    def finder(self) -> IntervalFinder:
        """What finds the case's measurements in a trace. Raises ConfigError: its tool cannot be explained."""
        return finder(self.case.name)

    def trace(self, request: TraceRequest) -> tuple[Record, Trace]:
        """Boot once and return the record and the trace.

        Raises:
            ConfigError: the arm is not a virtual-time board.
            InfrastructureError: this machine cannot trace, or stopped the boot.
            TargetError: the kernel died or hung, and nobody knows that it ever measured.
            ParseError: it did not measure, or not what was expected: the trace is of another boot.
        """
        target, qemu = self.arm.target, self.arm.board.qemu
        if not isinstance(target, VirtualBoard) or qemu is None or qemu.instruction_ns != INSTRUCTION_NS:
            name = self.arm.board.name
            raise ConfigError(f"{name} is not a virtual-time board with {INSTRUCTION_NS} ns per instruction")
        with scratch(Path(tempfile.gettempdir()), "rtgate-trace-") as directory:
            with writing(directory):
                (directory / "order").write_text(request.text(), encoding="utf-8")
            library = plugin.library(version(qemu.binary))
            plugin_option = f"{library},order={directory / 'order'},into={directory / 'trace'}"
            arm = replace(self.arm, target=replace(target, plugin=plugin_option))
            record, _ = measure(self.case, arm, self.seed)
            self._check_measured(record)
            self._check_same(record)
            if not (directory / "trace.blocks").exists():  # which the plugin writes last
                raise StoppedBootError(
                    f"QEMU could not write the whole trace ({record.machine.get('ended', 'exit code 0')}): "
                    f"is {tempfile.gettempdir()} full?"
                )
            return record, trace.read(directory / "trace", followed=request.preemption is not None)

    def _check_measured(self, record: Record) -> None:
        message = f"the traced boot was not measured: {record.state}: {record.message}"
        # A plugin that refuses this QEMU, or has no memory left, ends QEMU, and so it is the lab.
        if record.state == State.LAB:
            raise StoppedBootError(message)
        if record.state in _OF_KERNEL and self.expected is None:
            raise TargetError(message)
        if not record.has_results:
            raise ParseError(message)

    def _check_same(self, record: Record) -> None:
        original = self.expected
        if original is not None and original.measurements != record.measurements:
            differences = [
                name
                for name, was, now in (
                    ("kernel", original.kernel.image_sha256, record.kernel.image_sha256),
                    ("QEMU", original.machine.get("qemu"), record.machine.get("qemu")),
                    ("root filesystem", original.machine.get("rootfs"), record.machine.get("rootfs")),
                    ("command", original.argv, record.argv),
                )
                if was != now
            ]
            raise ParseError(
                f"the boot did not repeat itself (seed {self.seed}): another {' and another '.join(differences)}"
                if differences
                else f"the traced boot differs from the record (seed {self.seed}), with everything else equal"
            )


def explain_boot(replay: Replay, changed_names: frozenset[str]) -> KernelTrace:
    """Run a boot again, twice, and return what its slowest and its typical interval consist of.

    Raises:
        ConfigError: what the case's tool measures cannot be found, or the kernel lacks the functions to find it by.
        InfrastructureError: this machine cannot trace.
        ParseError: the boot did not repeat itself, or its trace does not agree with what its tool reported.
    """
    what = replay.finder.what
    replay.tell(f"{replay.arm.name}, seed {replay.seed}: looking for each {what}")
    marks = _marks(replay)
    record, first = replay.trace(TraceRequest(marks=marks))
    cpus = _find_intervals(replay, record, first)
    worst = max((interval for cpu in cpus for interval in cpu.intervals), key=lambda interval: interval.latency_ns)
    worst_cpu = next(cpu for cpu in cpus if cpu.cpu == worst.cpu)
    samples = sample(worst_cpu.intervals, SAMPLED)
    count = sum(len(cpu.intervals) for cpu in cpus)
    replay.tell(f"{replay.arm.name}, seed {replay.seed}: {count} {what}s, logging what ran in {len(samples) + 1}")
    request = TraceRequest(marks=marks, intervals=join_spans([worst, *samples]), window=_window(cpus))
    _, second = replace(replay, expected=record).trace(request)
    return _explain(replay, changed_names, cpus, (worst, samples), second)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What ran while a boot measured.

    Attributes:
        functions: instructions by function, the most first.
        blocks: each of the kernel's blocks, and how many of its instructions were executed in all its runs.
    """

    functions: Mapping[str, int]
    blocks: tuple[tuple[Block, int], ...] = ()


def trace_functions(replay: Replay) -> Ran:
    """Run a boot again, once, and return what ran while it measured.

    Where the measuring began and ended is known afterwards only. So instructions are counted in slices, and those that
    lie wholly between the first interval and the last one make the answer.

    Raises:
        ConfigError, InfrastructureError: as `explain_boot`.
        ParseError: as `explain_boot`, or it measured for less than a slice.
    """
    replay.tell(f"{replay.arm.name}, seed {replay.seed}: looking what ran")
    boot = trace_slices(replay)
    blocks = tuple(_blocks(boot.seen, boot.slices))
    return Ran(functions=count_instructions(replay.kernel, boot.seen, boot.slices), blocks=blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicedBoot:
    """A boot that was traced in slices.

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
        """`n` of the first instruction of the slices, and behind the last one."""
        return self.slices.start << _SLICE_BITS, self.slices.stop << _SLICE_BITS

    @property
    def wakeups(self) -> list[Interval]:
        """What was measured in the slices, in the order of time."""
        start, end = self.span
        every = (interval for cpu in self.found for interval in cpu.intervals)
        return [interval for interval in every if start <= interval.start and interval.end < end]

    def within(self, passages: NDArray[np.void]) -> NDArray[np.void]:
        """Return those that lie in the slices, at least in part."""
        start, end = self.span
        return np.asarray(passages[(passages["end"] >= start) & (passages["start"] < end)])


def trace_slices(
    replay: Replay,
    layout: Preemption | None = None,
    altered_names: Collection[str] = (),
    caches: CacheModel | None = None,
    more_marks: Mapping[int, int] | None = None,
) -> SlicedBoot:
    """Run a boot and find out where it measured.

    Args:
        replay: the boot.
        layout: where the kernel keeps what sections are followed by; None to follow none.
        altered_names: functions whose calls in sections are followed.
        caches: of which misses are counted, where sections are followed; None for none.
        more_marks: addresses of other events than show where it measured, by kind.

    Raises:
        ConfigError, InfrastructureError, ParseError: as `trace_functions`.
    """
    request = TraceRequest(
        marks=_marks(replay) | dict(more_marks or {}),
        slice_bits=_SLICE_BITS,
        preemption=layout,
        altered=replay.kernel.starts_of(altered_names),
        locks=lock_functions(replay.kernel) if layout else LockFunctions(),
        handlers=handler_calls(replay.kernel) if layout else HandlerCalls(),
        caches=caches,
    )
    record, boot_trace = replay.trace(request)
    cpus = _find_intervals(replay, record, boot_trace)
    start, end = _window(cpus)
    slices = range(-(-start >> _SLICE_BITS), end >> _SLICE_BITS)
    if not slices:
        raise ParseError(
            f"{end - start} instructions ran while measuring, in no whole slice of {1 << _SLICE_BITS}: too few"
        )
    return SlicedBoot(record=record, seen=boot_trace, found=cpus, slices=slices, altered=request.altered)


def _marks(replay: Replay) -> dict[int, int]:
    """Return where the events are that show what the tool measures, by kind. Raises ConfigError: one is not there."""
    marks = {}
    for kind, names in replay.finder.marks.items():
        addresses = [address for name in names if (address := replay.kernel.address_of(name)) is not None]
        if not addresses:
            alternatives = " or ".join(names)
            raise ConfigError(f"the kernel has no function {alternatives}, by which a {replay.finder.what} is found")
        marks[int(kind)] = addresses[0]
    return marks


def _find_intervals(replay: Replay, record: Record, boot_trace: Trace) -> list[CpuIntervals]:
    return replay.finder.intervals(replay.case.tool, record, boot_trace.events)


def _window(cpus: Sequence[CpuIntervals]) -> tuple[int, int]:
    """Return the measuring window in `n`: from the end of the first interval to that of the last."""
    ends = [interval.end for cpu in cpus for interval in cpu.intervals]
    return min(ends), max(ends)


def join_spans(intervals: Sequence[Span]) -> list[tuple[int, int]]:
    """Return the spans to log, with what leads to each interval; those that meet become one."""
    spans: list[tuple[int, int]] = []
    for start, end in sorted((max(0, interval.start - LEAD), interval.end) for interval in intervals):
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


def _explain(
    replay: Replay,
    changed_names: frozenset[str],
    cpus: Sequence[CpuIntervals],
    intervals: tuple[Interval, Sequence[Interval]],
    boot_trace: Trace,
) -> KernelTrace:
    worst, samples = intervals
    code = Code(replay.kernel.arch, boot_trace.blocks, replay.kernel.function_at)
    interval_profiles = profiles(code, boot_trace, [worst, *samples], changed_names)
    costs = [_cost(interval, profile) for interval, profile in zip([worst, *samples], interval_profiles, strict=True)]
    typical = IntervalCost(
        latency_ns=_mean([cost.latency_ns for cost in costs[1:]]),
        idle_ns=_mean([cost.idle_ns for cost in costs[1:]]),
        unaccounted_ns=_mean([cost.unaccounted_ns for cost in costs[1:]]),
        profile=mean(interval_profiles[1:]),
    )
    count = sum(len(cpu.intervals) for cpu in cpus)
    return KernelTrace(
        seed=replay.seed,
        what=replay.finder.what,
        proof=replay.finder.proof,
        intervals=count,
        agreeing=count - sum(min(cpu.differing, len(cpu.intervals)) for cpu in cpus),
        worst=costs[0],
        typical=typical,
        executed=count_instructions(replay.kernel, boot_trace),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


def _cost(interval: Interval, profile: Profile) -> IntervalCost:
    rest = interval.latency_ns - interval.idle_ns - profile.total * INSTRUCTION_NS
    return IntervalCost(latency_ns=interval.latency_ns, idle_ns=interval.idle_ns, unaccounted_ns=rest, profile=profile)


def profiles(code: Code, boot_trace: Trace, intervals: Sequence[Span], changed_names: frozenset[str]) -> list[Profile]:
    """Return the instructions of each function in each of the intervals that were logged."""
    runs = boot_trace.runs
    places = [run.n for run in runs]
    return [
        profile(
            code,
            runs[bisect_left(places, interval.start - LEAD) : bisect_left(places, interval.end)],
            (interval.start, interval.end),
            changed_names,
        )
        for interval in intervals
    ]


def count_instructions(kernel: Vmlinux, boot_trace: Trace, slices: range = range(1)) -> dict[str, int]:
    """Return how many instructions of each function were executed in some slices (or the window), the most first."""
    counts: Counter[str] = Counter()
    for number, instructions in _sums(boot_trace, slices):
        address = boot_trace.blocks[number].address
        counts[kernel.function_at(address) if address >= KERNEL_FROM else USER] += instructions
    return dict(counts.most_common())


def _blocks(boot_trace: Trace, slices: range) -> Iterator[tuple[Block, int]]:
    for number, instructions in _sums(boot_trace, slices):
        block = boot_trace.blocks[number]
        if block.address >= KERNEL_FROM and instructions:
            yield block, instructions


def _sums(boot_trace: Trace, slices: range) -> list[tuple[int, int]]:
    """Return how many instructions of each block were executed in some slices."""
    assert slices.step == 1
    piece = boot_trace.counts["slice"]
    within = boot_trace.counts[(piece >= slices.start) & (piece < slices.stop)]
    numbers, places = np.unique(within["block"], return_inverse=True)
    # Sums of 64-bit floats: exact up to 2^53 instructions, two years of virtual time.
    sums = np.bincount(places, weights=within["instructions"])
    return [(number, int(total)) for number, total in zip(numbers.tolist(), sums.tolist(), strict=True)]
