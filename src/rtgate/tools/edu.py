# SPDX-License-Identifier: MIT
"""pcie-edu: DMA with every byte compared, and how late a real-time thread handles an MSI, with QEMU's device edu.

It is a program of ours (target/pcie/edu.c), so this module and it change together. Its exit codes 0, 1 (data was wrong)
and 10 (an MSI did not come within a second) are results; every other one is an error whose reason it says in one line.

The device is in the hands of user space, by vfio-pci behind the machine's IOMMU: the way of an MSI is that of every
driver's, up to the eventfd that the interrupt's handler signals. edu takes 100 ms for each transfer whatever its size,
so there is no rate of its DMA. Beside another tool its DMA goes on until it is ended: transfers through the IOMMU, and
a process that polls a register.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from rtgate.board import tuning
from rtgate.errors import ConfigError, ParseError
from rtgate.tools import Count, Expected, Output, Reports, Setting, Tool, count, time_figures, times_reported
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import Document, check_end, document
from rtgate.tools.threads import SCHED_FIFO, Threads, ThreadScope

DEVICE = "edu"
_IDS = "1234:11e8"
_WRONG, _NO_INTERRUPT = 1, 10  # exit codes
_TRANSFER_S = 0.1
_LEAST_BESIDE = 0.8  # of the transfers for which the other tool's time suffices: what comes between takes time too
_SAID = "pcie-edu: "  # what its messages begin with
_NEEDS = (
    Need(test="[ -d /sys/bus/pci/drivers/vfio-pci ]", reason="the kernel has no vfio-pci (CONFIG_VFIO_PCI)"),
    Need(test='[ -n "$(ls /sys/class/iommu 2>/dev/null)" ]', reason="no IOMMU, or no driver of it in the kernel"),
)


def _device_locator(setting: Setting) -> str:
    return setting.pcie[DEVICE].locator if DEVICE in setting.pcie else _IDS


def _split_output(output: Output) -> Output:
    """Return the output of a load, whose messages stand among its JSON, as that of a tool.

    That the plan had to stop the other tool is for that one to tell.
    """
    lines = output.text("load.out").splitlines(keepends=True)
    messages = "".join(line for line in lines if line.startswith(_SAID))
    report = "".join(line for line in lines if not line.startswith(_SAID))
    return replace(output, files={"tool.out": report.encode(), "tool.err": messages.encode()})


def _of_test(output: Output, test: str) -> Document:
    report = document("pcie-edu", output.text("tool.out"))
    if report.text("test") != test:
        raise ParseError(f"pcie-edu reports {report.text('test')!r:.40}, not {test!r}")
    return report


@dataclass(frozen=True, slots=True, kw_only=True)
class EduDma(Tool):
    """Options of pcie-edu dma.

    Attributes:
        sizes: bytes of the blocks that are sent and received. 4088 is the most, see edu.c.
        virtual_s: how long it goes on at least on virtual time, where every round is the same.
    """

    sizes: tuple[int, ...] = (1, 64, 513, 4088)
    virtual_s: float = 2.0

    name: ClassVar[str] = "edu-dma"
    suites: ClassVar[tuple[str, ...]] = ("pcie",)
    image: ClassVar[str] = "full"
    needs: ClassVar[tuple[Need, ...]] = _NEEDS
    devices: ClassVar[tuple[str, ...]] = (DEVICE,)
    companion: ClassVar[bool] = True
    reports: ClassVar[Mapping[str, Reports]] = {
        "bytes.wrong": Reports.FAILURES,
        "guards.wrong": Reports.FAILURES,
        "transfers": Reports.COUNT,
        "bytes": Reports.COUNT,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line."""
        length = "--until-ended" if setting.beside else f"--seconds={self._seconds(setting):g}"
        return ("pcie-edu", "dma", length, f"--sizes={','.join(map(str, self.sizes))}", _device_locator(setting))

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs: no thread, and as many transfers as one round has.

        Beside another tool as many as that one's time is good for.
        """
        least = math.floor(_LEAST_BESIDE * setting.duration_s / _TRANSFER_S) if setting.beside else 0
        return Expected(
            threads=(),
            duration_s=self._seconds(setting),
            counts=(Count(measurement="transfers", least=max(least, self._round())),),
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `transfers`, `bytes`, and the bytes that were wrong: of the data, and of the guards around it.

        Raises:
            ParseError: it failed, was stopped, or its JSON is missing, damaged, or contradicts itself.
        """
        output = _split_output(output) if output.setting.beside else output
        check_end("pcie-edu", output, codes=(0, _WRONG))
        report = _of_test(output, "dma")
        wrong, guards = report.natural("wrong"), report.natural("guards")
        transfers, byte_count, duration_ns = (report.natural(name) for name in ("transfers", "bytes", "ns"))
        if bool(wrong + guards) != (output.exit_code == _WRONG):
            raise ParseError(
                f"pcie-edu reports {wrong + guards} wrong bytes and ends with exit code {output.exit_code}"
            )
        total = 1 + report.natural("rounds") * self._round()
        if transfers != total or byte_count < transfers or duration_ns < transfers * _TRANSFER_S * 1e9 * 0.99:
            raise ParseError(
                f"pcie-edu contradicts itself: {transfers} of {total} transfers, {byte_count} bytes, {duration_ns} ns "
                f"(edu takes {_TRANSFER_S:g} s for each)"
            )
        return (
            count("bytes.wrong", wrong, Better.LOWER),
            count("guards.wrong", guards, Better.LOWER),
            count("transfers", transfers, Better.NEITHER),
            count("bytes", byte_count, Better.NEITHER),
        )

    def _round(self) -> int:
        """Return the transfers of a round: each size in both directions, and the device's whole buffer."""
        return 2 * len(self.sizes) + 1

    def _seconds(self, setting: Setting) -> float:
        return min(self.virtual_s, setting.duration_s) if setting.virtual_time else setting.duration_s


@dataclass(frozen=True, slots=True, kw_only=True)
class EduMsi(Tool):
    """Options of pcie-edu msi.

    Attributes:
        interval_us: an interrupt is raised once in this time.
        priority: SCHED_FIFO priority of the thread that handles it.
        raise_priority: that of the thread that raises it: below those of the kernel's interrupt threads (50).
        range_us: longer latencies are counted as overflow.
        virtual_range_us: the same on virtual time, where each bucket is a nanosecond.
    """

    interval_us: int = 1000
    priority: int = 90
    raise_priority: int = 40
    range_us: int = 1000
    virtual_range_us: int = 3000

    def __post_init__(self) -> None:
        """Check what the program refuses: a thread that raises interrupts and delays the other. Raises ConfigError."""
        if self.raise_priority >= self.priority:
            raise ConfigError(
                f"raise_priority of edu-msi is {self.raise_priority} and its priority {self.priority} "
                "(allowed: a raise_priority below the priority)"
            )

    name: ClassVar[str] = "edu-msi"
    suites: ClassVar[tuple[str, ...]] = ("pcie",)
    image: ClassVar[str] = "full"
    needs: ClassVar[tuple[Need, ...]] = _NEEDS
    devices: ClassVar[tuple[str, ...]] = (DEVICE,)
    confined: ClassVar[bool] = True
    ranges: ClassVar[Mapping[str, tuple[int, int | None]]] = {"raise_priority": (1, 99)}
    reports: ClassVar[Mapping[str, Reports]] = {
        "latency": Reports.TIMES,
        **times_reported("latency"),
        "interrupts": Reports.COUNT,
        "interrupts.lost": Reports.FAILURES,
        "interrupts.spurious": Reports.COUNT,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line; both threads are on the first CPU of those that are measured."""
        exact = (f"--range={self.virtual_range_us}", "--nsecs")
        return (
            *("pcie-edu", "msi", f"--interrupts={setting.periods(self.interval_us)}", f"--interval={self.interval_us}"),
            *(f"--priority={self.priority}", f"--raise-priority={self.raise_priority}"),
            *((f"--cpu={tuning.cpus(setting.cpu_list)[0]}",) if setting.cpu_list else ()),
            *(exact if setting.virtual_time else (f"--range={self.range_us}",)),
            _device_locator(setting),
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs: the thread that handles, and an interrupt in each interval."""
        return Expected(
            threads=(Threads(count=1, policy=SCHED_FIFO, priority=self.priority),),
            duration_s=setting.periods(self.interval_us) * self.interval_us / 1e6,
            seen=ThreadScope.OWN,
            interval_us=self.interval_us,
            ends_with="interrupts.lost",
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `latency` (histogram), `latency.min`, `.avg`, `.max`, `interrupts`, and those lost and spurious.

        Raises:
            ParseError: it failed, was stopped, or its JSON is missing, damaged, or contradicts itself.
        """
        check_end("pcie-edu", output, codes=(0, _NO_INTERRUPT))
        report = _of_test(output, "msi")
        interrupts, losses, total = (report.natural(name) for name in ("cycles", "lost", "asked"))
        whole = output.exit_code == 0
        if (
            total != output.setting.periods(self.interval_us)
            or losses != (not whole)
            or (interrupts != total if whole else interrupts >= total)
        ):
            raise ParseError(
                f"pcie-edu contradicts itself: {interrupts} of {total} interrupts came, {losses} were lost, exit code "
                f"{output.exit_code}; {output.setting.periods(self.interval_us)} were asked for"
            )
        labels = {"cpu": str(report.natural("cpu"))}
        return (
            count("interrupts", interrupts, Better.NEITHER, labels),
            count("interrupts.lost", losses, Better.LOWER, labels),
            count("interrupts.spurious", report.natural("spurious"), Better.LOWER, labels),
            *(self._latency(report, output, labels) if interrupts else ()),
        )

    def _latency(self, report: Document, output: Output, labels: Mapping[str, str]) -> tuple[Measurement, ...]:
        figures = report.figures(tolerance=0.01)  # the average is printed with two digits
        histogram = self._histogram(report, output)
        return (
            Measurement(name="latency", better=Better.LOWER, histogram=histogram, labels=labels),
            *time_figures("latency", figures, histogram.unit, labels),
        )

    def _histogram(self, report: Document, output: Output) -> Histogram:
        """Return the histogram. Raises ParseError if it is not the one that was asked for."""
        exact = output.setting.virtual_time
        resolution = 1 if exact else 1000
        limit = self.virtual_range_us * 1000 if exact else self.range_us
        if (report.integer("resolution_in_ns"), report.integer("range")) != (resolution, limit):
            raise ParseError(f"pcie-edu's histogram is not in steps of {resolution} ns up to {limit} of them")
        histogram = report.histogram(output.nanosecond if exact else output.microsecond, limit)
        report.check_low(histogram)
        return histogram
