# SPDX-License-Identifier: MIT
"""Synthetic but plausible records and verdicts: what measuring and judging would have written."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from selftests.written_records import write

from rtgate.board.boot import ArmName, State, TimeBase
from rtgate.console.faults import Fault, FaultKind
from rtgate.judge.verdict import Figure, Kind, Status, Verdict
from rtgate.records import record as records
from rtgate.records.environment import Environment
from rtgate.records.evidence import Evidence, LoadSample, Thread
from rtgate.records.expectation import Expectation
from rtgate.records.record import KernelIdentity, Record
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.tools.threads import Threads, ThreadScope
from rtgate.units import Quantity, Unit

# As read before and after: what every target has.
SETTINGS = {
    "/proc/sys/kernel/printk": ("1\t4\t1\t7", "1\t4\t1\t7"),
    "/proc/sys/kernel/sched_rt_runtime_us": ("950000", "950000"),
    "/sys/devices/system/clocksource/clocksource0/current_clocksource": ("arch_sys_counter", "arch_sys_counter"),
}
OOPS = Fault(
    kind=FaultKind("oops"),
    line="Internal error: Oops: 0000000096000045 [#1] PREEMPT_RT SMP",
    text="[    6.1] Internal error: Oops: 0000000096000045 [#1] PREEMPT_RT SMP\n[    6.1] pc : demo_break+0x18/0x30",
)


@dataclass(frozen=True, kw_only=True)
class Boot:
    """What a synthetic boot is like."""

    case: str = "latency/cyclictest:idle"
    board: str = "virt-arm64"
    arm: str = "candidate"
    seed: int | None = 1
    cpus: int = 1
    high_us: float = 61.2
    samples: int = 2000
    overflow: int = 0
    state: str = "measured"
    message: str = ""
    release: str = "6.12.107-rt"
    faults: tuple[Fault, ...] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def virtual(self) -> bool:
        return self.seed is not None


def _histogram(boot: Boot, cpu: int) -> Histogram:
    name = f"{boot.case} {boot.arm} {boot.seed} {cpu}"
    drawn = _drawn(name, boot.virtual, boot.high_us, boot.samples, boot.overflow)
    return replace(drawn, counts=dict(drawn.counts))


@cache
def _drawn(name: str, virtual: bool, high_us: float, samples: int, overflow: int) -> Histogram:
    """Draw latencies that look like a real-time kernel's: a narrow hill with a thin tail up to the maximum."""
    chance = random.Random(name)
    step = 8 if virtual else 1
    high = int(high_us * (1000 if virtual else 1) // step * step)
    limit = 200_000 if virtual else 1000
    counts: dict[int, int] = {}
    for _ in range(samples - overflow - 1):
        value = chance.lognormvariate(math.log(high / 12), 0.35)
        value = int(min(value, high) // step * step)
        counts[value] = counts.get(value, 0) + 1
    if high < limit:
        counts[high] = counts.get(high, 0) + 1
    unit = Unit.VIRTUAL_NS if virtual else Unit.US
    return Histogram(unit=unit, counts=dict(sorted(counts.items())), overflow=overflow, limit=limit)


def _measurements(boot: Boot) -> tuple[Measurement, ...]:
    found: list[Measurement] = []
    for cpu in range(boot.cpus):
        labels = {"cpu": str(cpu)}
        histogram = _histogram(boot, cpu)
        total = sum(histogram.counts.values())
        mean = sum(value * count for value, count in histogram.counts.items()) / total
        high = boot.high_us * (1000 if boot.virtual else 1) - 3 * cpu
        found.append(Measurement(name="latency", better=Better.LOWER, histogram=histogram, labels=labels))
        numbers = (("min", float(min(histogram.counts))), ("avg", mean), ("max", high))
        for name, value in numbers:
            quantity = Quantity(value, histogram.unit)
            found.append(Measurement(name=f"latency.{name}", better=Better.LOWER, quantity=quantity, labels=labels))
        for name, value in (("wakeups", boot.samples), ("wakeups.lost", 0)):
            quantity = Quantity(value, Unit.COUNT)
            found.append(Measurement(name=name, better=Better.LOWER, quantity=quantity, labels=labels))
    return tuple(found)


def _environment(boot: Boot) -> Environment:
    environment = Environment(
        board=boot.board,
        soc="none" if boot.virtual else "RK3568",
        arch="arm64",
        time=TimeBase.VIRTUAL if boot.virtual else TimeBase.REAL,
        cpus=str(boot.cpus),
        cpu_model="cortex-a57" if boot.virtual else "",
        memory_mib="512",
        instruction_ns="8" if boot.virtual else "",
        emulator="QEMU emulator version 7.2.17" if boot.virtual else "",
        machine="virt,gic-version=3" if boot.virtual else "",
        rootfs="b" * 64,
        tools="busybox 1.35.0, rt-tests 2.4",
        flavour="preempt_rt",
        kernel_release=boot.release,
        kernel_version="#1 SMP PREEMPT_RT Thu Jan 1 00:00:00 UTC 1970",
        config_sha256="c" * 64,
        command_line="console=ttyAMA0 nokaslr oops=panic panic=-1",
        clocksource="arch_sys_counter",
        online=f"0-{boot.cpus - 1}" if boot.cpus > 1 else "0",
    )
    return replace(environment, **boot.changes)


def _evidence(boot: Boot) -> Evidence:
    threads = tuple(
        Thread(
            moment=moment,
            name="cyclictest",
            policy=1,
            priority=99,
            processor=cpu,
            minor_faults=33,
            major_faults=0,
        )
        for moment in ("middle", "late")
        for cpu in range(boot.cpus)
    )
    moments = ("start", "middle", "late", "end")
    seen = tuple(LoadSample(moment=moment, processes=4, ticks=100 * number) for number, moment in enumerate(moments))
    return Evidence(
        expectation=_expectation(boot),
        load=boot.case.partition(":")[2],
        threads=threads,
        load_seen=seen,
        elapsed_s=boot.samples / 1000 + 0.2,
        settings=SETTINGS,
        load_processes=1,
        writes={},
        kernel_threads=(),
        processes=("init", "kthreadd", "sh", "hackbench"),
        log="whole" if boot.virtual else "some",
        suspends=(),
    )


def _expectation(boot: Boot) -> Expectation:
    """Return what cyclictest had to do."""
    return Expectation(
        threads=(Threads(count=boot.cpus, policy=1, priority=99),),
        duration_s=boot.samples / 1000,
        seen=ThreadScope.OWN,
        interval_us=1000,
    )


def _machine(boot: Boot, image: str) -> dict[str, str]:
    if not boot.virtual:
        return {"console": "/dev/ttyUSB0"}
    digests = {"image_sha256": image, "qemu_sha256": "9" * 64}
    return {"qemu": "QEMU emulator version 7.2.17", "plan": "5cr1p7", **digests}


def make(boot: Boot) -> Record:
    measured = boot.state == "measured"
    image = ("a" if boot.arm == "candidate" else "d") * 64
    return Record(
        case=boot.case,
        board=boot.board,
        arm=ArmName(boot.arm),
        profile="mr",
        seed=boot.seed,
        boot_id="3f0e5d0a-1111-2222-3333-444455556666",
        state=State(boot.state),
        message=boot.message,
        argv=("cyclictest", "--quiet", "--mlockall", "--priority=99"),
        kernel=KernelIdentity(
            name=f"kernel-{boot.arm}",
            flavour="preempt_rt",
            release=boot.release,
            image_sha256=image,
            source=f"tree at {boot.arm}",
            provenance="built",
        ),
        environment=_environment(boot),
        evidence=_evidence(boot),
        measurements=_measurements(boot) if measured else (),
        faults=boot.faults,
        line={"received": 12_345, "damaged": 0, "repeated": 0},
        seconds={"boot": 0.912, "measure": 2.51, "total": 3.6},
        machine=_machine(boot, image),
        sources={"raw/tool.rc": "7" * 64, "console.log": "7" * 64} if measured else {},
    )


def read_figure(text: str) -> Figure | None:
    """Return the figure whose text a test gives: its number is what the text says, if it is a number with a unit."""
    try:
        return Figure.of(Quantity.parse(text.partition(" (")[0]), text)
    except ValueError:
        return Figure.of(None, text) if text else None


def verdict(status: Status, kind: Kind, sentence: str, **changes: str) -> Verdict:
    fields: dict[str, Any] = {
        "board": "virt-arm64",
        "arm": "candidate",
        "flavour": "preempt_rt",
        "case": "latency/cyclictest:idle",
        **changes,
    }
    fields |= {name: read_figure(fields[name]) for name in ("value", "limit", "baseline", "change") if name in fields}
    return Verdict(status=status, kind=kind, sentence=sentence, **fields)


def over_limit(**changes: str) -> Verdict:
    return verdict(
        Status.FAIL,
        Kind.LIMIT,
        "latency.max was 131.4 virtual us (16425 instructions) on CPU 0 in seed 2, over the limit of 80.0 virtual us "
        "(10000 instructions) (calibration: 60 seeds of 6.12.107; thresholds.yaml:14)",
        **{
            "measurement": "latency.max",
            "value": "131.4 virtual us (16425 instructions)",
            "limit": "80.0 virtual us (10000 instructions)",
            "boot": "seed 2",
            **changes,
        },
    )


def within_limit(**changes: str) -> Verdict:
    return verdict(
        Status.PASS,
        Kind.LIMIT,
        "latency.max reached 61.2 virtual us (7650 instructions) on CPU 0 in 4 boots, within 80.0 virtual us "
        "(10000 instructions) (calibration: 60 seeds of 6.12.107; thresholds.yaml:14)",
        **{
            "measurement": "latency.max",
            "value": "61.2 virtual us (7650 instructions)",
            "limit": "80.0 virtual us (10000 instructions)",
            "boot": "seed 1",
            **changes,
        },
    )


@dataclass(frozen=True)
class World:
    """Makes records and verdicts for a test."""

    boot: type[Boot] = Boot
    record: Callable[[Boot], Record] = make
    verdict: Callable[..., Verdict] = verdict
    over_limit: Callable[..., Verdict] = over_limit
    within_limit: Callable[..., Verdict] = within_limit
    oops: Fault = OOPS

    def stored(self, boot: Boot, directory: Path, console: bytes = b"booting\r\nPlan ended\r\n") -> Record:
        """Write a record as measuring does, and read it back."""
        return records.read(write(make(boot), directory, console))


@pytest.fixture(scope="session")
def world() -> World:
    return World()
