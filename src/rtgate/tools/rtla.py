# SPDX-License-Identifier: MIT
"""rtla: the kernel's own latency tracers, read by the tool that comes with the kernel.

Facts of rtla 6.12 that this module depends on (tools/tracing/rtla/src/timerlat_hist.c, osnoise_top.c, utils.c, and
kernel/trace/trace_osnoise.c):

* No JSON. The exit code is 0 for a wrong option and when tracing was stopped (2 from 6.16 on); then there is a line
  `... hit stop tracing`. SIGINT ends a run early, with the usual output. Later versions tell of lost events.
* Starting takes long (1.3 s of a CPU on a virtual board: it reads the format of every event), and events must be read
  once per second. So it runs with the highest nice value: under load it would otherwise start late and lose events.
* `# Duration:` is the difference of two times in whole seconds.
* The histogram of timerlat leaves out CPUs without a sample, and rows without a count. `over:` holds what is beyond
  the last row. A block `ALL:` with the same rows for all CPUs together follows, which older versions do not have.
  Averages are cut to whole units. Where there are no samples, minimum, average and maximum are `-`, before 2^64-1.
* A late timerlat thread skips the periods that it missed, so one long latency is one sample. The timer is set by the
  thread: what the thread skips, its interrupt skips, too.
* It traces in directories of its own below tracefs's `instances`, which begin with the tracer's name. Killed by SIGTERM
  or SIGKILL, it leaves them, with the tracer running.
* The histogram of osnoise is not used: it says nothing about a CPU without noise, and takes as long to record a noise
  as the shortest noise that it records, so that on a virtual board everything is noise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.errors import ConfigError, ParseError
from rtgate.tools import Count, Expected, Output, Reports, Setting, Tool, count, time, time_figures, times_reported
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import check_end
from rtgate.tools.threads import SCHED_FIFO, Threads, ThreadScope
from rtgate.units import Quantity, Unit

_FIRST = ("nice", "-n", "-20", "rtla")
_STOPPED = "hit stop tracing"
_MISSED = re.compile(r"^.*events missed.*$", re.MULTILINE)
_DURATION = re.compile(
    r"^(?:# D|d)uration: +(?P<days>[0-9]{1,5}) (?P<h>[0-9]{2}):(?P<m>[0-9]{2}):(?P<s>[0-9]{2})\b", re.MULTILINE
)
_UNIT = re.compile(r"^# Time unit is (?:micro|nano)seconds \((?P<unit>us|ns)\)$", re.MULTILINE)
_COLUMN = re.compile(r"(?P<context>IRQ|Thr|Usr)-(?P<cpu>[0-9]{1,4})")
_NUMBER = re.compile(r"[0-9]{1,18}")
_CONTEXTS = {"IRQ": "irq", "Thr": "thread", "Usr": "user"}
_LATENCIES = ("latency", "irq.latency", "thread.latency")
_SUMMARY = ("over:", "count:", "min:", "avg:", "max:")
# The kernel refuses the last two for as long as the killed tool still has the trace open.
_CLEANUP = """for trace in /sys/kernel/tracing/instances/timerlat_* /sys/kernel/tracing/instances/osnoise_*; do
        [ -d "$trace" ] || continue
        echo 0 >"$trace/tracing_on"
        for try in 1 2 3 4 5 6 7 8 9 10; do
            echo nop >"$trace/current_tracer" && rmdir "$trace" && break
            sleep 0.1
        done
    done"""


def _need(tracer: str) -> Need:
    return Need(
        test=f"grep -qw {tracer} /sys/kernel/tracing/available_tracers",
        reason=f"the kernel has no {tracer} tracer (CONFIG_{tracer.upper()}_TRACER)",
        file_system="tracefs",
    )


def _complete(tool: str, output: Output, asked_s: int) -> str:
    """Return what the tool printed, if it measured to its end.

    Raises:
        ParseError: it failed, or it stopped early for whatever reason.
    """
    text = output.text("tool.out")
    if _STOPPED in text:
        raise ParseError(f"{tool} was stopped: something switched the kernel's tracing off")
    check_end(tool, output)
    match = _MISSED.search(text)
    if match:
        raise ParseError(f"{tool} lost data: {match[0].strip()[:300]}")
    duration = _DURATION.search(text)
    if duration is None:
        raise ParseError(f"{tool} printed no result: {output.message}")
    length_s = 86400 * int(duration["days"]) + 3600 * int(duration["h"]) + 60 * int(duration["m"]) + int(duration["s"])
    if length_s + 1 < asked_s:  # both times that it is the difference of may be off by one
        raise ParseError(f"{tool} measured for {length_s} s of the {asked_s} s asked for")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class RtlaTimerlat(Tool):
    """Options of rtla timerlat hist.

    Attributes:
        period_us: period of each thread.
        priority: SCHED_FIFO priority of all threads.
        range_us: values from here on are counted as overflow.
        virtual_range_us: the same on virtual time.
        virtual_bucket_ns: the width of a bucket on virtual time, where an instruction takes 8 ns; each costs time to
            print.
        user_threads: measure with threads in user space instead of the tracer's own; then the time until their return
            to user space counts, and needs libgcc on the target.
        least_s: the shortest run: what runs is looked at half way, and rtla starts slowly.
    """

    period_us: int = 1000
    priority: int = 95
    range_us: int = 1000
    virtual_range_us: int = 200
    virtual_bucket_ns: int = 8
    user_threads: bool = False
    least_s: int = 5

    name: ClassVar[str] = "rtla-timerlat"
    suites: ClassVar[tuple[str, ...]] = ("latency",)
    image: ClassVar[str] = "full"
    needs: ClassVar[tuple[Need, ...]] = (_need("timerlat"),)
    cleanup: ClassVar[str] = _CLEANUP
    reports: ClassVar[Mapping[str, Reports]] = {
        **dict.fromkeys(_LATENCIES, Reports.TIMES),
        **{figure: kind for name in _LATENCIES for figure, kind in times_reported(name).items()},
        **dict.fromkeys(("wakeups", "wakeups.lost", "periods"), Reports.COUNT),
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: one thread per CPU; on virtual time in nanoseconds."""
        width, entries = self._buckets(setting)
        return (
            *(*_FIRST, "timerlat", "hist", "--user-threads" if self.user_threads else "--kernel-threads"),
            *("--duration", f"{setting.at_least(self.least_s)}s", "--period", f"{self.period_us}"),
            *("--priority", f"f:{self.priority}", "--bucket-size", f"{width}", "--entries", f"{entries}"),
            *(("--nano",) if setting.virtual_time else ()),
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs.

        Not `interval_us`: what a late thread skipped is missing in the interrupt's histogram, too, without a latency
        that explains it. `periods` accounts for them instead.
        """
        seconds = setting.at_least(self.least_s)
        return Expected(
            threads=(Threads(count=setting.cpus, policy=SCHED_FIFO, priority=self.priority),),
            duration_s=seconds,
            seen=ThreadScope.SESSION if self.user_threads else ThreadScope.SYSTEM,
            name="timerlat/",
            counts=(Count(measurement="periods", least=0.99 * self._periods(setting)),),
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return per CPU the latencies of each context, `wakeups`, `wakeups.lost` and `periods`.

        `latency` is that of the measuring thread; `irq.latency` that of the timer's interrupt which wakes it, and
        with user threads `thread.latency` that of the thread before it returns to user space. `periods` are those
        that the measuring thread woke up in, and those that its latencies say it skipped.

        Raises:
            ParseError: it failed, stopped early, missed a CPU, or its output is missing, damaged, or contradicts
                itself.
        """
        text = _complete("rtla timerlat", output, output.setting.at_least(self.least_s))
        width, entries = self._buckets(output.setting)
        table = _Table.read(text, width * entries, virtual=output.setting.virtual_time)
        contexts = ("irq", "thread", "user") if self.user_threads else ("irq", "thread")
        columns = {(str(cpu), context) for cpu in range(output.setting.cpus) for context in contexts}
        if set(table.columns) != columns:
            raise ParseError(
                f"rtla timerlat measured {_format_columns(table.columns)} on a board with {output.setting.cpus} CPUs: "
                f"{_format_columns(columns)} were asked for"
            )
        parts = [table.latency(cpu, context, contexts[-1], width) for cpu, context in table.columns]
        tasks = [part for part in parts if part[0].name == "latency"]
        return (
            *(measurement for part in parts for measurement in part),
            *(measurement for part in tasks for measurement in self._counts(part, output)),
        )

    def _buckets(self, setting: Setting) -> tuple[int, int]:
        """Return the width and the number of buckets."""
        if setting.virtual_time:
            return self.virtual_bucket_ns, self.virtual_range_us * 1000 // self.virtual_bucket_ns
        return 1, self.range_us

    def _periods(self, setting: Setting) -> int:
        return setting.at_least(self.least_s) * 1_000_000 // self.period_us

    def _counts(self, latencies: tuple[Measurement, ...], output: Output) -> tuple[Measurement, ...]:
        histogram, longest = latencies[0].histogram, latencies[-1].quantity
        assert histogram is not None and longest is not None  # noqa: PT018 - see `_Table.latency`
        period = self.period_us * 1000.0 / histogram.unit.scale
        skips = sum(samples * int(value // period) for value, samples in histogram.counts.items())
        skips += histogram.overflow * int(longest.value // period)
        labels = {"cpu": latencies[0].labels["cpu"]}
        losses = max(0, self._periods(output.setting) - histogram.total)
        return (
            count("wakeups", histogram.total, Better.NEITHER, labels),
            count("wakeups.lost", losses, Better.LOWER, labels),
            count("periods", histogram.total + skips, Better.NEITHER, labels),
        )


def _format_columns(columns: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{context} of CPU {cpu}" for cpu, context in sorted(columns)) or "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """The histogram that timerlat printed, without the block for all CPUs together.

    Attributes:
        columns: CPU and context of each column.
        rows: counts of each bucket, in the order of the columns.
        summary: the rows below, by their name.
    """

    unit: Unit
    limit: int
    columns: tuple[tuple[str, str], ...]
    rows: Mapping[int, tuple[int, ...]]
    summary: Mapping[str, tuple[int, ...]]

    @classmethod
    def read(cls, text: str, limit: int, *, virtual: bool) -> _Table:
        """Read the table. Raises ParseError: it is not there, damaged, or in another unit than was asked for."""
        unit = _UNIT.search(text)
        if unit is None or unit["unit"] != ("ns" if virtual else "us"):
            raise ParseError(f"rtla timerlat's histogram is in {unit['unit'] if unit else 'no unit'}")
        lines = text[unit.end() :].splitlines()
        start = next((number for number, line in enumerate(lines) if line.startswith("Index")), len(lines))
        if start == len(lines):
            raise ParseError("rtla timerlat printed no histogram")
        columns = _columns(lines[start])
        rows: dict[int, tuple[int, ...]] = {}
        summary: dict[str, tuple[int, ...]] = {}
        last = -1
        for line in lines[start + 1 :]:
            if len(summary) == len(_SUMMARY):  # what follows is for all CPUs together
                break
            name, values = _row(line, len(columns))
            if name == _SUMMARY[len(summary)]:
                summary[name] = values
            elif not summary and _NUMBER.fullmatch(name) and last < int(name) < limit:
                last = int(name)
                rows[last] = values
            else:
                raise _damage_error(line)
        if len(summary) != len(_SUMMARY):
            raise ParseError(f"rtla timerlat's histogram has no line {_SUMMARY[len(summary)]}")
        expected_unit = Unit.VIRTUAL_NS if virtual else Unit.US
        return cls(unit=expected_unit, limit=limit, columns=columns, rows=rows, summary=summary)

    def latency(self, cpu: str, context: str, task: str, width: int) -> tuple[Measurement, ...]:
        """Return histogram, minimum, average and maximum of a column. Raises ParseError: they contradict each other."""
        place = self.columns.index((cpu, context))
        counts = {value: row[place] for value, row in self.rows.items() if row[place]}
        over, samples, low, mean, high = (self.summary[name][place] for name in _SUMMARY)
        where = f"rtla timerlat's column {context} of CPU {cpu}"
        if samples == 0 or sum(counts.values()) + over != samples:
            raise ParseError(f"{where} holds {sum(counts.values()) + over} samples of {samples}")
        inside = high // width * width
        if not low <= mean <= high or (over == 0) != (high < self.limit) or (not over and inside != max(counts)):
            raise ParseError(f"{where} contradicts itself: minimum {low}, average {mean}, maximum {high}, {over} over")
        name = "latency" if context == task else f"{context}.latency"
        labels = {"cpu": cpu, "context": context}
        histogram = Histogram(unit=self.unit, counts=counts, overflow=over, limit=self.limit)
        return (
            Measurement(name=name, better=Better.LOWER, histogram=histogram, labels=labels),
            *time_figures(name, (low, mean, high), self.unit, labels),
        )


def _columns(header: str) -> tuple[tuple[str, str], ...]:
    """Return CPU and context of each column. Raises ParseError: none, one that is unknown, or one that stands twice."""
    words = header.split()[1:]
    matches = [_COLUMN.fullmatch(word) for word in words]
    columns = tuple((str(int(match["cpu"])), _CONTEXTS[match["context"]]) for match in matches if match)
    if not columns:
        raise ParseError("rtla timerlat measured nothing: its histogram has no column")
    if len(set(columns)) != len(words):
        raise _damage_error(header)
    return columns


def _row(line: str, columns: int) -> tuple[str, tuple[int, ...]]:
    name, *values = line.split() or [""]
    if len(values) != columns or not all(_NUMBER.fullmatch(value) for value in values):
        raise _damage_error(line)
    return name, tuple(int(value) for value in values)


def _damage_error(line: str) -> ParseError:
    return ParseError(f"rtla timerlat's histogram is damaged at {line.strip()[:100]!r}")


_SOURCES = ("hardware", "nmi", "irq", "softirq", "thread")
_HEADER = re.compile(r"^CPU Period +Runtime +Noise +% CPU Aval +Max Noise +Max Single +HW +NMI.*$", re.MULTILINE)
_CPU = re.compile(
    r" *(?P<cpu>[0-9]{1,4}) #(?P<periods>[0-9]{1,12}) +(?P<runtime>[0-9]{1,18}) +(?P<noise>[0-9]{1,18}) "
    r"+(?P<left>[0-9]{1,3}\.[0-9]{5}) *(?P<longest>[0-9]{1,11}) +(?P<single>[0-9]{1,11})"
    + "".join(rf" +(?P<{source}>[0-9]{{1,18}})" for source in _SOURCES)
    + " *"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RtlaOsnoise(Tool):
    """Options of rtla osnoise top.

    Attributes:
        period_us: each CPU is watched once in this time.
        runtime_us: how long it is watched, by a thread that leaves it to nothing of lower priority. It must leave room
            below the kernel's limit for real-time threads (95 % by default).
        priority: SCHED_FIFO priority of the threads.
        threshold_us: shorter gaps are no noise. On a virtual board one look at the clock takes 1.4 us.
        least_s: the shortest run: what runs is looked at half way, and rtla starts slowly.
    """

    period_us: int = 100_000
    runtime_us: int = 80_000
    priority: int = 1
    threshold_us: int = 5
    least_s: int = 5

    def __post_init__(self) -> None:
        """Check that a CPU is watched for no longer than its period. Raises ConfigError."""
        if self.runtime_us > self.period_us:
            allowed = f"at most {self.period_us}, its period_us"
            raise ConfigError(f"runtime_us of rtla-osnoise is {self.runtime_us} (allowed: {allowed})")

    name: ClassVar[str] = "rtla-osnoise"
    suites: ClassVar[tuple[str, ...]] = ("latency",)
    image: ClassVar[str] = "full"
    needs: ClassVar[tuple[Need, ...]] = (_need("osnoise"),)
    cleanup: ClassVar[str] = _CLEANUP
    reports: ClassVar[Mapping[str, Reports]] = {
        "noise": Reports.RATIO,
        "noise.max": Reports.TIME,
        "noise.period.max": Reports.TIME,
        "interruptions": Reports.COUNT,
        "periods": Reports.COUNT,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line."""
        return (
            *(*_FIRST, "osnoise", "top", "--quiet", "--duration", f"{setting.at_least(self.least_s)}s"),
            *("--period", f"{self.period_us}", "--runtime", f"{self.runtime_us}"),
            *("--priority", f"f:{self.priority}", "--threshold", f"{self.threshold_us}"),
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs."""
        seconds = setting.at_least(self.least_s)
        return Expected(
            threads=(Threads(count=setting.cpus, policy=SCHED_FIFO, priority=self.priority),),
            duration_s=seconds,
            seen=ThreadScope.SYSTEM,
            name="osnoise/",
            counts=(Count(measurement="periods", least=0.95 * seconds * 1_000_000 / self.period_us),),
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return per CPU `noise`, `noise.max`, `noise.period.max`, `interruptions` by their source, and `periods`.

        Raises:
            ParseError: it failed, stopped early, missed a CPU, or its output is missing, damaged or contradictory.
        """
        text = _complete("rtla osnoise", output, output.setting.at_least(self.least_s))
        header = _HEADER.search(text)
        if header is None:
            raise ParseError("rtla osnoise printed no table")
        lines = [line for line in text[header.end() :].splitlines() if line.strip()]
        rows = [_CPU.fullmatch(line) for line in lines]
        cpus = [int(row["cpu"]) for row in rows if row]
        if cpus != list(range(output.setting.cpus)) or len(cpus) != len(lines):
            raise ParseError(
                f"rtla osnoise measured CPUs {', '.join(str(cpu) for cpu in cpus) or 'none'} of "
                f"{output.setting.cpus}: {' / '.join(lines)[:300] or 'no line'}"
            )
        return tuple(measurement for row in rows if row for measurement in self._read(row, output))

    def _read(self, row: re.Match[str], output: Output) -> tuple[Measurement, ...]:
        labels = {"cpu": str(int(row["cpu"]))}
        periods, runtime, noise = int(row["periods"]), int(row["runtime"]), int(row["noise"])
        longest, single = int(row["longest"]), int(row["single"])
        if runtime < max(1, periods - 1) * self.runtime_us:  # the last one may have been cut short
            raise ParseError(f"rtla osnoise ran for {runtime} us in {periods} periods of {self.runtime_us} us each")
        # It cuts the share that is left to five places.
        share = (runtime - noise) * 10_000_000 // runtime if runtime >= noise else -1
        if not single <= longest <= noise <= runtime or share != round(float(row["left"]) * 100_000):
            raise ParseError(f"rtla osnoise contradicts itself: {row[0].strip()[:300]}")
        ratio = Quantity(noise / runtime, Unit.RATIO)
        return (
            Measurement(name="noise", better=Better.LOWER, quantity=ratio, labels=labels),
            time("noise.max", single, output.microsecond, labels),
            time("noise.period.max", longest, output.microsecond, labels),
            *(count("interruptions", int(row[name]), Better.LOWER, {**labels, "source": name}) for name in _SOURCES),
            count("periods", periods, Better.NEITHER, labels),
        )
