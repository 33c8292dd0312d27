# SPDX-License-Identifier: MIT
"""cyclictest: how late a periodic real-time thread wakes up, per CPU.

Facts of rt-tests 2.4 to 2.10 that this module depends on: cyclictest's JSON (`rt_write_json` in src/lib/rt-utils.c)
does not escape strings, writes `-nan` as the average of no samples, has keys that end in a colon, and leaves out
histogram overflows: they are the cycles minus the sum of the buckets. Its exit code is 0 even when a break value
stopped the run, and when a signal did.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

from rtgate.errors import ParseError
from rtgate.measurement import Better, Histogram, Measurement
from rtgate.tools import Expected, Output, Setting
from rtgate.units import Quantity, Unit

JSON = "cyclictest.json"
SCHED_FIFO = 1  # include/uapi/linux/sched.h
_CMDLINE = re.compile(r'^(\s*"cmdline:?":\s*").*(",)\s*$', re.MULTILINE)
_INDEX = re.compile(r"[0-9]{1,18}")
_LARGEST = 2**63  # no C program prints a larger number
_NAN = re.compile(r'("avg":\s*)-?nan\b')


@dataclass(frozen=True, slots=True, kw_only=True)
class Cyclictest:
    """Options of cyclictest.

    Attributes:
        interval_us: period of each thread.
        priority: SCHED_FIFO priority of all threads (cyclictest gives each the same).
        range_us: values from here on are counted as overflow.
        virtual_range_us: the same on virtual time, where each bucket is a nanosecond and costs time to print.
    """

    interval_us: int = 1000
    priority: int = 99
    range_us: int = 1000
    virtual_range_us: int = 150

    @property
    def name(self) -> str:
        """The tool's name."""
        return "cyclictest"

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: one thread per CPU, bound to it, memory locked.

        `--histogram` makes the intervals equal.

        On virtual time nanoseconds are exact (an instruction takes 8), so the histogram has one bucket each. Its
        text form, which would be 150 000 lines, goes nowhere; the JSON has what is in it.
        """
        exact = (f"--histogram={self.virtual_range_us * 1000}", "--histfile=/dev/null", "--nsecs")
        return (
            *("cyclictest", "--quiet", "--mlockall", f"--priority={self.priority}"),
            *(f"--threads={setting.cpus}", "--affinity", f"--interval={self.interval_us}"),
            *(f"--duration={math.ceil(setting.duration_s)}", f"--json={JSON}"),
            *(exact if setting.virtual_time else (f"--histogram={self.range_us}",)),
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs."""
        return Expected(
            command="cyclictest",
            threads=setting.cpus,
            policy=SCHED_FIFO,
            priority=self.priority,
            interval_us=self.interval_us,
            duration_s=math.ceil(setting.duration_s),
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return per CPU: `latency` (histogram), `latency.min`, `.avg`, `.max`, `wakeups`, `wakeups.lost`.

        Raises:
            ParseError: it failed, was stopped, or its JSON is missing, damaged, or contradicts itself.
        """
        if output.exit_code != 0:
            reason = output.text("tool.err").strip() or output.text("tool.out").strip() or "no message"
            raise ParseError(f"cyclictest ended with exit code {output.exit_code}: {reason[:300]}")
        stopped = output.text("tool.deadline").strip()
        if stopped:
            raise ParseError(f"cyclictest was stopped {stopped}: it did not end by itself")
        if "# Break value:" in output.text("tool.out"):
            raise ParseError("cyclictest broke off at its break value: the run is not complete")
        document = _document(output.text(JSON))
        nanoseconds = _integer(document, "resolution_in_ns") == 1
        threads = _mapping(document, "thread")
        if not threads:
            raise ParseError("cyclictest reports no threads")
        reader = _Threads(
            unit=_unit(nanoseconds, output.setting), limit=self._limit(nanoseconds, output.setting), tool=self
        )
        return tuple(
            measurement
            for name in sorted(threads, key=int)
            for measurement in reader.read(_mapping(threads, name), output.setting)
        )

    def _limit(self, nanoseconds: bool, setting: Setting) -> int:  # noqa: FBT001 - the JSON's own flag
        microseconds = self.virtual_range_us if setting.virtual_time else self.range_us
        return microseconds * (1000 if nanoseconds else 1)


@dataclass(frozen=True, slots=True)
class _Threads:
    """Reads the `thread` objects of one document, which share unit and histogram range."""

    unit: Unit
    limit: int
    tool: Cyclictest

    def read(self, thread: dict[str, Any], setting: Setting) -> tuple[Measurement, ...]:
        cycles = _integer(thread, "cycles")
        if cycles <= 0:
            raise ParseError("cyclictest reports a thread that never woke up (0 cycles)")
        labels = {"cpu": str(_integer(thread, "cpu"))}
        histogram = self._histogram(thread, cycles)
        low, high, mean = _integer(thread, "min"), _integer(thread, "max"), _number(thread, "avg")
        if not low <= mean <= high:
            raise ParseError(f"cyclictest's minimum {low}, average {mean} and maximum {high} contradict each other")
        asked = int(math.ceil(setting.duration_s) * 1_000_000 / self.tool.interval_us)
        numbers = (("latency.min", low), ("latency.avg", mean), ("latency.max", high))
        return (
            Measurement(name="latency", better=Better.LOWER, histogram=histogram, labels=labels),
            *(
                Measurement(name=name, better=Better.LOWER, quantity=Quantity(value, self.unit), labels=labels)
                for name, value in numbers
            ),
            _count("wakeups", cycles, Better.NEITHER, labels),
            _count("wakeups.lost", max(0, asked - cycles), Better.LOWER, labels),
        )

    def _histogram(self, thread: dict[str, Any], cycles: int) -> Histogram:
        buckets = thread.get("histogram", {})
        if not isinstance(buckets, dict) or not all(_INDEX.fullmatch(value) for value in buckets):
            raise ParseError("cyclictest's histogram is damaged: its buckets are no numbers")
        counts = {int(value): _integer(buckets, value) for value in buckets}
        overflow = cycles - sum(counts.values())
        if overflow < 0 or any(count < 0 for count in counts.values()):
            raise ParseError(f"cyclictest's histogram holds {sum(counts.values())} samples of {cycles} cycles")
        return Histogram(unit=self.unit, counts=dict(sorted(counts.items())), overflow=overflow, limit=self.limit)


def _count(name: str, value: int, better: Better, labels: dict[str, str]) -> Measurement:
    return Measurement(name=name, better=better, quantity=Quantity(value, Unit.COUNT), labels=labels)


def _unit(nanoseconds: bool, setting: Setting) -> Unit:  # noqa: FBT001 - the JSON's own flag
    if setting.virtual_time:
        return Unit.VIRTUAL_NS if nanoseconds else Unit.VIRTUAL_US
    return Unit.NS if nanoseconds else Unit.US


def _document(text: str) -> dict[str, Any]:
    if not text.strip():
        raise ParseError("cyclictest wrote no JSON")
    # The command line is the one string that users fill; it is not read here and may hold quotes.
    cleaned = _NAN.sub(r"\1null", _CMDLINE.sub(r"\1\2", text))
    try:
        document = json.loads(cleaned)
    except (ValueError, RecursionError) as error:  # ValueError: no JSON, or a number of thousands of digits
        raise ParseError(f"cyclictest's JSON is damaged: {error}") from error
    if not isinstance(document, dict):
        raise ParseError("cyclictest's JSON is no object")
    return document


def _field(document: dict[str, Any], name: str) -> Any:
    if name not in document:
        raise ParseError(f"cyclictest's JSON has no {name!r}")
    return document[name]


def _mapping(document: dict[str, Any], name: str) -> dict[str, Any]:
    found = _field(document, name)
    if not isinstance(found, dict) or (name == "thread" and not all(_INDEX.fullmatch(key) for key in found)):
        raise ParseError(f"cyclictest's {name!r} is not what it should be")
    return found


def _integer(document: dict[str, Any], name: str) -> int:
    found = _field(document, name)
    if not isinstance(found, int) or isinstance(found, bool) or abs(found) >= _LARGEST:
        raise ParseError(f"cyclictest's {name!r} is {found!r}, not a whole number")
    return found


def _number(document: dict[str, Any], name: str) -> float:
    found = _field(document, name)
    if not isinstance(found, int | float) or isinstance(found, bool) or not abs(found) < _LARGEST:
        raise ParseError(f"cyclictest's {name!r} is {found!r}, not a number")
    return float(found)
