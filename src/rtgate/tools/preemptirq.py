# SPDX-License-Identifier: MIT
"""Critical sections by the kernel's own tracepoints: what a real board can show of what `rtgate sections` follows.

cyclictest measures wake-ups, while a driver of ours (target/modules/rtgate_sections.c) follows each event of the
tracepoints and keeps sums. So this module and it change together. Facts of Linux 6.12 that both depend on
(kernel/trace/trace_preemptirq.c, include/trace/events/preemptirq.h):

* The tracepoints fire only when the state changes, so nested sections are one.
* Places are return addresses. Who called the function at one is known where the compiler keeps frame pointers.
* Times are those of the CPU's clock, in nanoseconds, and have the tracing itself in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from rtgate.errors import ParseError
from rtgate.tools import Expected, Output, Reports, Setting, Tool, count, time
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import Document, document
from rtgate.tools.threads import ThreadScope
from rtgate.tools.wakeup_bound import Parts, interference
from rtgate.units import Quantity, Unit

KINDS = ("irqsoff", "preemptoff", "preemptirqsoff")
"""What was off, in the words of ftrace's tracers."""
JSON = "sections.json"

_FILE = "/dev/rtgate_sections"
# The run ends when the file is closed, so it is over even if the shell is killed.
_SCRIPT = f"""\
exec 3>{_FILE} && echo PRIORITY >&3 || exit
"$@" 3>&-
code=$?
exec 3>&-
cat {_FILE} >{JSON} || exit
exit $code
"""
_TOP = 10
_NONE = "0x0"
# The tracing itself, where the compiler has put a part of it into a function of its own.
_TRACING = re.compile(r"trace_(?:hardirqs|preempt)_(?:on|off)[\w.]*")
# Functions that many call to disable or enable: who called them matters.
_HELPER = re.compile(
    r"_raw_(?:spin|read|write)_\w+|_?_local_bh_\w+|enter_from_[\w.]+|exit_to_[\w.]+|irqentry_\w+|preempt_count_\w+"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    """The longest section from one place to another, in nanoseconds."""

    place: str
    longest: int


@dataclass(frozen=True, slots=True)
class _Sections:
    """All sections of a kind on a CPU.

    Attributes:
        count: how many they are.
        sites: the sites with the longest, the longest first; places with one name are one.
    """

    count: int
    sites: tuple[_Site, ...]

    @property
    def longest(self) -> _Site:
        """That of the longest section; of nothing if there is none."""
        return self.sites[0] if self.sites else _Site(place="nothing", longest=0)


@dataclass(frozen=True, slots=True)
class _Windows:
    """The most that interrupts took of any time of these lengths, in nanoseconds, and their number; by length."""

    most: Mapping[int, tuple[int, int]]

    @property
    def is_bounded(self) -> bool:
        """Whether interrupts leave half of the longest time, so that a bound exists."""
        longest = max(self.most)
        return 2 * self.most[longest][0] <= longest

    def within(self, length: int) -> tuple[int, int]:
        """Return the most within a time: not more than in a longer one, or in the several that it consists of."""
        longest = max(self.most)
        times = -(-length // longest)
        if times > 1:
            delay, number = self.most[longest]
            return delay * times, number * times
        return self.most[min(window for window in self.most if window >= length)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemptirq(Tool):
    """The sections with interrupts or preemption off, and the bound of a wake-up, by the kernel's tracepoints."""

    cyclictest: ClassVar[Cyclictest] = Cyclictest()
    name: ClassVar[str] = "preemptirq"
    suites: ClassVar[tuple[str, ...]] = ("latency",)
    confined: ClassVar[bool] = True
    needs: ClassVar[tuple[Need, ...]] = (
        Need(
            test=f"[ -c {_FILE} ]",
            reason="the kernel has no driver rtgate_sections: a build with the fragment `preemptirq` and `built_in: "
            "[rtgate_sections]` has it",
        ),
    )
    reports: ClassVar[Mapping[str, Reports]] = {
        **Cyclictest.reports,
        **{f"{kind}.max": Reports.TIME for kind in KINDS},
        **{f"{kind}.site": Reports.TIME for kind in KINDS},
        **{f"{kind}.sections": Reports.COUNT for kind in KINDS},
        "bound": Reports.TIME,
        **{f"bound.{part}": Reports.TIME for part in ("postponed", "entry", "switch", "way", "interrupts")},
        "latency.unexplained": Reports.TIME,
        "nmis": Reports.COUNT,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: the shell opens the driver's file, and cyclictest measures until it is closed."""
        script = _SCRIPT.replace("PRIORITY", str(self.cyclictest.priority))
        return ("sh", "-c", script, "sh", *self.cyclictest.argv(setting))

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs.

        Nobody looks for cyclictest's threads, as who looks is late on a kernel that traces. The driver saw them run:
        without a switch to a thread of their priority it is no measurement.
        """
        return replace(self.cyclictest.expected(setting), threads=(), processors=0, seen=ThreadScope.SESSION)

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return cyclictest's measurements, and for each CPU the sections of each kind and the bound of a wake-up.

        `KIND.max` is the longest, `KIND.site` the ten sites with the longest, `KIND.sections` how many there were.
        `bound` and its parts are left out of a kernel without PREEMPT_RT, with NMIs, where interrupts leave no room
        for one, and where a wake-up was longer: `latency.unexplained` is by how much.

        Raises:
            ParseError: cyclictest or the driver failed, not everything was counted, or it contradicts itself.
        """
        measurements = self.cyclictest.parse(output)
        result = document(self.name, output.text(JSON))
        report = result.numbered_objects("cpu")
        longest = {
            wakeup.labels["cpu"]: wakeup.quantity
            for wakeup in measurements
            if wakeup.name == "latency.max" and wakeup.quantity
        }
        if missing := sorted(set(longest) - {str(cpu) for cpu in report}):
            raise ParseError(f"{self.name} followed no CPU {', '.join(missing)}, on which cyclictest measured")
        preemptible = bool(result.natural("preempt_rt"))
        readers = (
            _Cpu(report[int(cpu)], {"cpu": cpu}, output.microsecond, preemptible) for cpu in sorted(longest, key=int)
        )
        return (
            *measurements,
            *(measurement for reader in readers for measurement in reader.measurements(longest[reader.labels["cpu"]])),
        )


@dataclass(frozen=True, slots=True)
class _Cpu:
    """Reads what the driver says of one CPU.

    Attributes:
        preemptible: whether the kernel is one with PREEMPT_RT. Others let a wake-up wait for softirqs, which the bound
            does not have.
    """

    report: Document
    labels: Mapping[str, str]
    unit: Unit
    preemptible: bool

    def measurements(self, latency: Quantity) -> Iterator[Measurement]:
        """Yield the sections of each kind, and the bound beside the longest wake-up. Raises ParseError."""
        losses = self.report.natural("lost")
        if losses:
            raise ParseError(f"{losses} sections or interrupts of CPU {self.labels['cpu']} had no room in the driver")
        for kind in KINDS:
            sections = self._sections(kind)
            if not sections.count:
                raise ParseError(f"CPU {self.labels['cpu']} had no section of {kind}: nothing was followed")
            yield self._time(f"{kind}.max", sections.longest.longest)
            for site in sections.sites[:_TOP]:
                yield self._time(f"{kind}.site", site.longest, site.place)
            yield count(f"{kind}.sections", sections.count, Better.NEITHER, self.labels)
        if not (self._sections("switch").count and self.report.natural("way") and self.report.natural("interrupts")):
            raise ParseError(f"CPU {self.labels['cpu']} had no switch to cyclictest's thread, or no interrupt")
        yield count("nmis", self.report.natural("nmis"), Better.NEITHER, self.labels)
        yield from self._bound(latency)

    def _bound(self, latency: Quantity) -> Iterator[Measurement]:
        postponed, switching = self._sections("poid").longest, self._sections("switch").longest
        windows, entry, tail = self._windows(), self.report.object("entry"), self.report.natural("tail")
        if not (windows.is_bounded and self.preemptible) or self.report.natural("nmis"):
            return
        parts = Parts(
            postponed=postponed.longest + tail,
            switching=switching.longest + tail,
            entry=entry.natural("longest"),
            way=self.report.natural("way"),
        )
        delay, _ = interference(parts.length, windows.within)
        bound = parts.length + delay
        excess = latency.to(self.unit).value - bound / 1000
        if excess > 0:
            yield time("latency.unexplained", excess, self.unit, self.labels)
            return
        yield self._time("bound", bound)
        yield self._time("bound.postponed", parts.postponed, postponed.place)
        yield self._time("bound.entry", parts.entry, _place(entry))
        yield self._time("bound.switch", parts.switching, switching.place)
        yield self._time("bound.way", parts.way)
        yield self._time("bound.interrupts", delay)

    def _time(self, name: str, nanoseconds: int, site: str = "") -> Measurement:
        return time(name, nanoseconds / 1000, self.unit, {**self.labels, **({"site": site} if site else {})})

    def _sections(self, kind: str) -> _Sections:
        sections = self.report.object(kind)
        number, sites = sections.natural("count"), sections.object("sites")
        if bool(number) != bool(sites.data):
            raise ParseError(f"preemptirq counts {number} sections of {kind} at {len(sites.data)} sites")
        if not number:
            return _Sections(0, ())
        longest: dict[str, int] = {}
        for site in sections.numbered_objects("sites").values():
            place = _place(site)
            longest[place] = max(longest.get(place, 0), site.natural("longest"))
        order = sorted(longest, key=lambda place: (-longest[place], place))
        return _Sections(number, tuple(_Site(place=place, longest=longest[place]) for place in order))

    def _windows(self) -> _Windows:
        windows = self.report.numbered_objects("windows")
        most = {length: (window.natural("taken"), window.natural("count")) for length, window in windows.items()}
        ordered = [most[length][0] for length in sorted(most)]
        if 0 in most or ordered != sorted(ordered):
            raise ParseError(f"interrupts of CPU {self.labels['cpu']} took less of a longer time: {ordered}")
        return _Windows(most)


def _place(site: Document) -> str:
    """Return where a section begins and ends, in words."""
    first, last = (_function(site.text(end), site.text(f"{end}_caller")) for end in ("begin", "end"))
    return first if first == last else f"{first} to {last}"


def _function(name: str, caller: str) -> str:
    """Return the function at a place, of a helper the one that called it."""
    if _TRACING.fullmatch(name):
        return caller
    if not _HELPER.fullmatch(name):
        return name
    return f"{'unknown' if caller == _NONE else caller} ({name})"
