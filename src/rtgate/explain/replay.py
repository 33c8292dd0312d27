# SPDX-License-Identifier: MIT
"""Running a virtual-time boot again with tracing: to log what ran in its wake-ups, or to see what ran at all."""

from __future__ import annotations

import tempfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rtgate.errors import ConfigError, InfrastructureError, ParseError
from rtgate.explain import plugin, trace
from rtgate.explain.explanation import Arm as Explained
from rtgate.explain.explanation import Passage
from rtgate.explain.path import USER, Code, Profile, mean, profile
from rtgate.explain.trace import MARKED, Block, Order, Trace
from rtgate.explain.wakeups import Found, Reported, WakeUp, find
from rtgate.kernel.vmlinux import Vmlinux
from rtgate.measure.case import Arm, Case, measure
from rtgate.records.record import Record
from rtgate.target.virtual import VirtualBoard
from rtgate.tools.cyclictest import Cyclictest

LEAD = 4000  # instructions before a wake-up, from which its callers become known
SAMPLED = 400  # wake-ups whose mean is the typical one
_SLICE_BITS = 21  # 17 virtual ms of a busy CPU; of an idle one, woken 1000 times a second, about 0.17 s
_USER_ABOVE = 1 << 63
_GOLDEN = (5**0.5 - 1) / 2

Tell = Callable[[str], None]


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

    def traced(self, order: Order) -> tuple[Record, Trace]:
        """Boot once and return the record and the trace.

        Raises:
            ConfigError: the arm is no virtual-time board.
            InfrastructureError: this machine cannot trace.
            ParseError: it did not measure, or not what was expected: the trace is of another boot.
        """
        target = self.arm.target
        if not isinstance(target, VirtualBoard) or self.instruction_ns != 8:
            raise ConfigError(f"{self.arm.board.name} is no virtual-time board with 8 ns per instruction")
        with tempfile.TemporaryDirectory(prefix="rtgate-trace-") as name:
            directory = Path(name)
            (directory / "order").write_text(order.text(), encoding="utf-8")
            asked = f"{plugin.library()},order={directory / 'order'},into={directory / 'trace'}"
            arm = replace(self.arm, target=replace(target, plugin=asked))
            record, outcome = measure(self.case, arm, self.seed)
            if record.state != "measured":
                raise ParseError(f"the traced boot was not measured: {record.state}: {record.message}")
            if "trace: " in outcome.message:
                raise InfrastructureError(outcome.message)
            self._same(record)
            return record, trace.read(directory / "trace")

    def _same(self, record: Record) -> None:
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


def replayed(order: Replay, differing: frozenset[str]) -> Explained:
    """Run a boot again, twice, and return what its slowest and its typical wake-up consist of.

    Raises:
        ConfigError: the case has no wake-ups that can be found, or the kernel lacks the functions to find them by.
        InfrastructureError: this machine cannot trace.
        ParseError: the boot did not repeat itself, or its wake-ups do not agree with its histogram.
    """
    order.tell(f"{order.arm.name}, seed {order.seed}: looking for the wake-ups")
    marks = _marks(order)
    record, first = order.traced(Order(marks=marks))
    found = _found(order, record, first)
    worst = max((wakeup for each in found for wakeup in each.wakeups), key=lambda wakeup: wakeup.latency_ns)
    chosen = next(each for each in found if each.cpu == worst.cpu)
    sampled = _spread(chosen.wakeups, SAMPLED)
    count = sum(len(each.wakeups) for each in found)
    order.tell(f"{order.arm.name}, seed {order.seed}: {count} wake-ups, logging what ran in {len(sampled) + 1}")
    wanted = Order(marks=marks, intervals=_joined([worst, *sampled]), window=_window(found))
    _, second = replace(order, expected=record).traced(wanted)
    return _explained(order, differing, found, (worst, sampled), second)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What ran while a boot measured.

    Attributes:
        functions: instructions by function, the most first.
        blocks: each of the kernel's blocks, and how many of its instructions were executed in all its runs.
    """

    functions: Mapping[str, int]
    blocks: tuple[tuple[Block, int], ...] = ()


def watched(order: Replay) -> Ran:
    """Run a boot again, once, and return what ran while it measured.

    Where the measuring began and ended is known afterwards only. So instructions are counted in slices, and those that
    lie wholly between the first wake-up and the last one make the answer.

    Raises:
        ConfigError, InfrastructureError: as `replayed`.
        ParseError: as `replayed`, or it measured for less than a slice.
    """
    order.tell(f"{order.arm.name}, seed {order.seed}: looking what ran")
    record, seen = order.traced(Order(marks=_marks(order), slice_bits=_SLICE_BITS))
    start, end = _window(_found(order, record, seen))
    slices = range(-(-start >> _SLICE_BITS), end >> _SLICE_BITS)
    if not slices:
        raise ParseError(
            f"{end - start} instructions ran while measuring, in no whole slice of {1 << _SLICE_BITS}: too few"
        )
    return Ran(functions=executed(order.kernel, seen, slices), blocks=tuple(_blocks(seen, slices)))


def _marks(order: Replay) -> dict[int, int]:
    """Return where the events are that show wake-ups, by kind."""
    if not isinstance(order.case.tool, Cyclictest):
        raise ConfigError(f"{order.case.name}: only wake-ups of cyclictest can be explained")
    marks = {int(kind): address for kind, name in MARKED.items() if (address := order.kernel.address_of(name))}
    if not marks:
        raise ConfigError(f"the kernel has none of the functions {', '.join(MARKED.values())}")
    return marks


def _found(order: Replay, record: Record, seen: Trace) -> list[Found]:
    assert isinstance(order.case.tool, Cyclictest)
    interval_ns = order.case.tool.interval_us * 1000
    return [find(seen.events, reported, interval_ns, order.instruction_ns) for reported in reports(record)]


def _window(found: Sequence[Found]) -> tuple[int, int]:
    """Return the measuring window in `n`: from the end of the first wake-up to that of the last."""
    ends = [wakeup.end for each in found for wakeup in each.wakeups]
    return min(ends), max(ends)


def reports(record: Record) -> tuple[Reported, ...]:
    """Return what cyclictest reported, by CPU. Raises ParseError: something is missing."""
    by_cpu: dict[str, dict[str, object]] = {}
    for measurement in record.measurements:
        value = measurement.histogram or measurement.quantity
        by_cpu.setdefault(measurement.labels.get("cpu", ""), {})[measurement.name] = value
    try:
        return tuple(_reported(cpu, values) for cpu, values in sorted(by_cpu.items()) if cpu)
    except (KeyError, AttributeError) as error:
        raise ParseError(f"the record has no {error} of cyclictest") from error


def _reported(cpu: str, values: dict[str, object]) -> Reported:
    numbers = {name: int(values[name].value) for name in ("wakeups", "latency.min", "latency.max")}  # type: ignore[attr-defined]
    histogram = values["latency"]
    return Reported(
        cpu=int(cpu),
        cycles=numbers["wakeups"],
        minimum=numbers["latency.min"],
        maximum=numbers["latency.max"],
        counts=dict(histogram.counts),  # type: ignore[attr-defined]
        overflow=histogram.overflow,  # type: ignore[attr-defined]
    )


def _spread(wakeups: Sequence[WakeUp], count: int) -> list[WakeUp]:
    """Return at most `count` wake-ups, spread evenly but not in step with anything periodic (the tick)."""
    if len(wakeups) <= count:
        return list(wakeups)
    places = sorted({int(number * _GOLDEN % 1 * len(wakeups)) for number in range(count)})
    return [wakeups[place] for place in places]


def _joined(wakeups: Sequence[WakeUp]) -> list[tuple[int, int]]:
    """Return the intervals to log, with what leads to each wake-up; those that meet become one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted((max(0, wakeup.start - LEAD), wakeup.end) for wakeup in wakeups):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _explained(
    order: Replay,
    differing: frozenset[str],
    found: Sequence[Found],
    chosen: tuple[WakeUp, Sequence[WakeUp]],
    logged: Trace,
) -> Explained:
    worst, sampled = chosen
    code = Code(order.kernel.arch, logged.blocks, order.kernel.function_at)
    ns = order.instruction_ns
    profiles = _profiles(code, logged, [worst, *sampled], differing)
    passages = [_passage(wakeup, each, ns) for wakeup, each in zip([worst, *sampled], profiles, strict=True)]
    typical = Passage(
        latency_ns=_mean([each.latency_ns for each in passages[1:]]),
        idle_ns=_mean([each.idle_ns for each in passages[1:]]),
        unaccounted_ns=_mean([each.unaccounted_ns for each in passages[1:]]),
        profile=mean(profiles[1:]),
    )
    wakeups = sum(len(each.wakeups) for each in found)
    return Explained(
        seed=order.seed,
        wakeups=wakeups,
        agreeing=wakeups - sum(min(each.differing, len(each.wakeups)) for each in found),
        worst=passages[0],
        typical=typical,
        executed=executed(order.kernel, logged),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


def _passage(wakeup: WakeUp, made: Profile, ns: int) -> Passage:
    rest = wakeup.latency_ns - wakeup.idle_ns - made.total * ns
    return Passage(latency_ns=wakeup.latency_ns, idle_ns=wakeup.idle_ns, unaccounted_ns=rest, profile=made)


def _profiles(code: Code, logged: Trace, wakeups: Sequence[WakeUp], differing: frozenset[str]) -> list[Profile]:
    runs = logged.runs
    places = [run.n for run in runs]
    return [
        profile(
            code,
            runs[bisect_left(places, wakeup.start - LEAD) : bisect_left(places, wakeup.end)],
            (wakeup.start, wakeup.end),
            differing,
        )
        for wakeup in wakeups
    ]


def executed(kernel: Vmlinux, seen: Trace, slices: range = range(1)) -> dict[str, int]:
    """Return how many instructions of each function were executed in some slices (or the window), the most first."""
    found: Counter[str] = Counter()
    for number, instructions in _sums(seen, slices):
        address = seen.blocks[number].address
        found[kernel.function_at(address) if address >= _USER_ABOVE else USER] += instructions
    return dict(found.most_common())


def _blocks(seen: Trace, slices: range) -> Iterator[tuple[Block, int]]:
    for number, instructions in _sums(seen, slices):
        block = seen.blocks[number]
        if block.address >= _USER_ABOVE and instructions:
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
