# SPDX-License-Identifier: MIT
"""How late the kernel answers an interrupt of a device, in hard-interrupt context and in a threaded handler.

The kernel measures itself, by a driver of ours (target/modules/rtgate_irq_response.c), so this module and it change
together. A line that is written to its file says what to measure; reading the file gives the result as JSON. Times are
in nanoseconds, in steps of 30: those of the counter of the device that raises the interrupt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.errors import ConfigError, ParseError
from rtgate.tools import Driver, Expected, Output, Reports, Setting, Tool, count, time_figures, times_reported
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import Document, check_end, document

DEVICE = "rtl8139"
RESOLUTION_NS = 30
INTERVAL_MOST_US = 100_000
RANGE_MOST_US = 10_000
_FILE = "/dev/rtgate_irq_response"
_RESPONSE_US = 500  # that an interrupt may take beside its interval; 47 us are usual of a threaded handler


@dataclass(frozen=True, slots=True, kw_only=True)
class IrqHard(Tool):
    """The response of a handler in hard-interrupt context: `IRQF_NO_THREAD`, so PREEMPT_RT makes no thread of it.

    Attributes:
        interval_us: from the handling of an interrupt to the next one, 1 to 100 000.
        range_us: longer responses are counted as overflow; 1 to 10 000.
    """

    interval_us: int = 1000
    range_us: int = 1000

    def __post_init__(self) -> None:
        """Check the interval and the range. Raises ConfigError."""
        for name, most in (("interval_us", INTERVAL_MOST_US), ("range_us", RANGE_MOST_US)):
            if not 1 <= getattr(self, name) <= most:
                raise ConfigError(f"{name} of {self.name} is {getattr(self, name)} (allowed: 1 to {most})")

    context: ClassVar[str] = "hard"
    name: ClassVar[str] = "irq-hard"
    suites: ClassVar[tuple[str, ...]] = ("irq",)
    devices: ClassVar[tuple[str, ...]] = (DEVICE,)
    driver: ClassVar[Driver | None] = Driver(
        symbol="RTGATE_IRQ_RESPONSE", builds={"arm64": "virt-arm64-irq", "x86_64": "virt-x86_64-irq"}
    )
    needs: ClassVar[tuple[Need, ...]] = (
        Need(test=f"[ -c {_FILE} ]", reason="the driver rtgate_irq_response found no RTL8139, or is not in the kernel"),
    )
    reports: ClassVar[Mapping[str, Reports]] = {
        "response": Reports.TIMES,
        **times_reported("response"),
        "interrupts": Reports.COUNT,
        "interrupts.lost": Reports.FAILURES,
        "interrupts.spurious": Reports.COUNT,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: the shell waits in its write while the driver measures."""
        run = f"{self.context} {setting.periods(self.interval_us)} {self.interval_us} {self.range_us}"
        return ("sh", "-c", f"echo {run} >{_FILE} && cat {_FILE}")

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs: no thread of the tool's, and as many interrupts as intervals.

        The next interval begins when an interrupt was handled, so with a short one the run takes many times as long.
        """
        interrupts = setting.periods(self.interval_us)
        seconds = interrupts * self.interval_us / 1e6
        work_s = round(interrupts * (self.interval_us + _RESPONSE_US) / 1e6, 3)
        return Expected(threads=(), duration_s=seconds, work_s=work_s, ends_with="interrupts.lost")

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `response` (histogram), `response.min`, `.avg`, `.max`, `interrupts`, and those lost and spurious.

        Raises:
            ParseError: it failed, was stopped, or its JSON is missing, damaged, or contradicts itself.
        """
        check_end(self.name, output)
        result = document(self.name, output.text("tool.out"))
        if result.text("test") != self.context:
            raise ParseError(f"{self.name} reports {result.text('test')!r:.40}, not {self.context!r}")
        total, interrupts, losses, spurious, cpu = (
            result.natural(name) for name in ("asked", "cycles", "lost", "spurious", "cpu")
        )
        if total != output.setting.periods(self.interval_us) or interrupts > total or losses != (interrupts < total):
            raise ParseError(
                f"{self.name} contradicts itself: {interrupts} of {total} interrupts came, {losses} were lost; "
                f"{output.setting.periods(self.interval_us)} were asked for"
            )
        labels = {"cpu": str(cpu)}
        return (
            count("interrupts", interrupts, Better.NEITHER, labels),
            count("interrupts.lost", losses, Better.LOWER, labels),
            count("interrupts.spurious", spurious, Better.LOWER, labels),
            *(self._response(result, interrupts, output, labels) if interrupts else ()),
        )

    def _response(
        self, result: Document, interrupts: int, output: Output, labels: Mapping[str, str]
    ) -> tuple[Measurement, ...]:
        limit = self.range_us * 1000 // RESOLUTION_NS * RESOLUTION_NS
        if (result.integer("resolution_in_ns"), result.integer("range")) != (RESOLUTION_NS, limit):
            raise ParseError(f"{self.name}'s histogram is not in steps of {RESOLUTION_NS} ns up to {limit} ns")
        unit = output.nanosecond
        low, high, total = (result.natural(name) for name in ("min", "max", "sum"))
        if not low * interrupts <= total <= high * interrupts:
            raise ParseError(f"{self.name}'s minimum {low}, maximum {high} and sum {total} contradict each other")
        histogram = result.histogram(unit, limit)
        if any(value % RESOLUTION_NS for value in histogram.counts):
            raise ParseError(f"{self.name}'s histogram has values that are not multiples of {RESOLUTION_NS} ns")
        result.check_low(histogram)
        return (
            Measurement(name="response", better=Better.LOWER, histogram=histogram, labels=labels),
            *time_figures("response", (low, total / interrupts, high), unit, labels),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IrqThreaded(IrqHard):
    """The response of a threaded handler: a thread at SCHED_FIFO 50, which the interrupt wakes up."""

    context: ClassVar[str] = "threaded"
    name: ClassVar[str] = "irq-threaded"
