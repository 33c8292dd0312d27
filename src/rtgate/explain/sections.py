# SPDX-License-Identifier: MIT
"""Critical sections of a boot: where interrupts or preemption were off, how often and for how long.

The plugin (`sections.c`) counts them by addresses, in slices of the boot. Here they get the names of functions. Lengths
are instructions that the CPU itself executed.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtgate.errors import ParseError
from rtgate.explain.handler_lengths import HANDLER_SUM, HandlerContext, InterruptHandler, merge_handlers
from rtgate.explain.lock_holds import HOLD, RawLock, merge_locks
from rtgate.explain.misses import LEVELS, MOMENT, Misses, SectionMisses, WakeUpMisses
from rtgate.explain.stages import WakeUpStages
from rtgate.explain.sum_by import sum_by
from rtgate.records.bound import Bound

BUCKETS = 32
_SWITCHED = 0x100
_SITE = np.dtype(
    [
        *((name, "<u8") for name in ("begin", "begin_caller", "end", "end_caller")),
        *((name, "<u4") for name in ("kind", "context")),
    ]
)
SUM = np.dtype(
    [
        *((name, "<u4") for name in ("site", "slice")),
        *((name, "<u8") for name in ("count", "total", "longest", "start", "end")),
        *((name, "<u8", len(LEVELS)) for name in ("misses", "longest_misses")),
        ("buckets", "<u4", BUCKETS),
    ]
)
"""What a site came to in a slice of the boot."""
CALL = np.dtype(
    [
        *((name, "<u4") for name in ("site", "slice", "function", "unused")),
        ("longest", "<u8"),
    ]
)
"""The longest call of an altered function in a site's sections, in a slice."""
PASSAGE = np.dtype(
    [*((name, "<u8") for name in ("start", "end", "before")), *((name, "<u4") for name in ("cpu", "stretch"))]
)
"""An interrupt, or a section that postponed the scheduler and had a switch of threads; `sections.c` says more."""
_PER_CPU = np.dtype([("offset", "<u8")])
_FILES = {
    "sites": _SITE,
    "sums": SUM,
    "calls": CALL,
    "interrupts": PASSAGE,
    "switches": PASSAGE,
    "locks": HOLD,
    "cpu_offsets": _PER_CPU,
    "moments": MOMENT,
    "handlers": HANDLER_SUM,
}


class Kind(StrEnum):
    """What was off; the names are those of ftrace's tracers. In this order the plugin numbers them."""

    IRQSOFF = "irqsoff"
    PREEMPTOFF = "preemptoff"
    PREEMPTIRQSOFF = "preemptirqsoff"  # one of the two, or both
    POID = "poid"  # the same without interrupts: what else postpones the scheduler, in rtsl's word


class Context(StrEnum):
    """Where a section began. In this order the plugin numbers them."""

    THREAD = "thread"
    SOFTIRQ = "softirq"
    HARDIRQ = "hardirq"
    NMI = "nmi"


@dataclass(frozen=True, slots=True, order=True)
class Spot:
    """Where the kernel disabled or enabled.

    Attributes:
        function: the one that asked for it.
        helper: what it called to do so, such as `_raw_spin_lock_irqsave`; empty if it did so itself.
    """

    function: str
    helper: str = ""

    def __str__(self) -> str:
        return f"{self.function} ({self.helper})" if self.helper else self.function


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """One kind of section, from one spot to another.

    Attributes:
        switches: another thread ran in the end than in the beginning.
    """

    kind: Kind
    context: Context
    begin: Spot
    end: Spot
    switches: bool = False

    @property
    def place(self) -> str:
        """Where it begins and ends, in words."""
        return self.begin.function if self.begin.function == self.end.function else f"{self.begin} to {self.end}"


@dataclass(frozen=True, slots=True)
class Call:
    """The longest call of an altered function that began in a section, with all that it called.

    Attributes:
        function: its name.
        instructions: how many it took, in that section.
        seed: the boot that had it.
    """

    function: str
    instructions: int
    seed: int


@dataclass(frozen=True, slots=True)
class Section:
    """All sections of a site: lengths in instructions.

    Attributes:
        seed: the boot that had the longest one.
        start: instructions of all CPUs from power-on to its beginning, in that boot.
        end: the same to its end.
        buckets: how many were from 2^b to 2^(b+1) - 1 long, without the empty ones in the end.
        calls: the longest of each altered function that was called in such a section, by name.
        boots: the seeds of those that had such a section.
        misses: of a CPU's caches; None if none were modelled.
    """

    site: Site
    count: int
    total: int
    longest: int
    seed: int
    start: int
    end: int
    buckets: tuple[int, ...]
    calls: tuple[Call, ...] = ()
    boots: tuple[int, ...] = ()
    misses: SectionMisses | None = None


@dataclass(frozen=True, slots=True)
class BootSections:
    """The critical sections that ended in a boot while it measured.

    Attributes:
        sections: by site.
        bound: of its wake-ups; None where it has several CPUs, or measured something else.
        locks: the raw spinlocks that were released meanwhile, by name.
        wakeup_misses: None if no caches were modelled, or it measured no wake-ups.
        stages: of its wake-ups; None where they have no bound, or none went the usual way.
        handlers: those of interrupts that returned meanwhile, by name.
    """

    sections: tuple[Section, ...]
    bound: Bound | None = None
    locks: tuple[RawLock, ...] = ()
    wakeup_misses: WakeUpMisses | None = None
    stages: WakeUpStages | None = None
    handlers: tuple[InterruptHandler, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """What the plugin wrote about one boot: the files are named after the attributes.

    Attributes:
        sites: records of addresses, by number.
        sums: of type `SUM`.
        calls: of type `CALL`.
        interrupts, switches: of type `PASSAGE`, in the order in which they ended.
        locks: of type `HOLD`.
        cpu_offsets: where each CPU has its own variables, less their addresses in `vmlinux`.
        unseen: how often the preemption count was another one than the stores that were seen have left.
        cpus: how many CPUs were followed.
        moments: of type `MOMENT`; empty if no caches were modelled.
        handlers: of type `HANDLER_SUM`.
    """

    sites: NDArray[np.void]
    sums: NDArray[np.void]
    calls: NDArray[np.void]
    interrupts: NDArray[np.void]
    switches: NDArray[np.void]
    locks: NDArray[np.void]
    cpu_offsets: NDArray[np.void]
    unseen: int
    cpus: int
    moments: NDArray[np.void]
    handlers: NDArray[np.void]


def read(prefix: Path) -> Log:
    """Read what the plugin wrote into `PREFIX.sites` and others. Raises ParseError: one is missing or damaged."""
    try:
        parts = {name: Path(f"{prefix}.{name}").read_bytes() for name in _FILES}
        return parse(parts, Path(f"{prefix}.followed").read_text(encoding="ascii"))
    except (OSError, UnicodeDecodeError) as error:
        raise ParseError(f"the critical sections of the trace are incomplete: {error}") from error


def parse(parts: Mapping[str, bytes], summary: str) -> Log:
    """Return the log in the bytes of its files, by name. Raises ParseError: they are damaged."""
    for name, kind in _FILES.items():
        if len(parts[name]) % kind.itemsize:
            raise ParseError(f"the trace's {name} are cut off: {len(parts[name])} bytes, {kind.itemsize} each")
    arrays = {name: np.frombuffer(parts[name], kind) for name, kind in _FILES.items()}
    log = Log(**arrays, unseen=_unseen(summary), cpus=summary.count("\ncpu "))
    for records in (log.sums, log.calls):
        if records.size and records["site"].max() >= log.sites.size:
            raise ParseError(f"the trace has no site {records['site'].max()}, which has sections")
    if log.sites.size and (log.sites["kind"].max() >= len(Kind) or (log.sites["context"] & 0xFF).max() >= len(Context)):
        raise ParseError("the trace has a site of a kind that does not exist")
    if log.handlers.size and log.handlers["context"].max() >= len(HandlerContext):
        raise ParseError("the trace has a handler in a context that does not exist")
    ends = {"interrupts": log.interrupts["end"], "switches": log.switches["end"], "moments": log.moments["n"]}
    for name, times in ends.items():
        if (np.diff(times.astype(np.int64)) < 0).any():
            raise ParseError(f"the trace's {name} are not in order")
    if (log.sums["buckets"].sum(axis=1, dtype=np.uint64) != log.sums["count"]).any():
        raise ParseError("the trace has sections of which not each has a length")
    return log


def _unseen(summary: str) -> int:
    words = summary.split("\n", 1)[0].split()
    if len(words) != 2 or words[0] != "unseen" or not words[1].isdigit():
        raise ParseError(f"the trace does not say whether each change was seen: {summary[:60]!r}")
    return int(words[1])


def sections_by_site(
    log: Log, slices: range, spot: Callable[[int, int], Spot], seed: int = 0, functions: Sequence[str] = ()
) -> tuple[Section, ...]:
    """Return the sections that ended in some slices of a boot, by site; those of one name are one site.

    Args:
        log: what the plugin wrote.
        slices: which ones.
        spot: returns the functions of an address and of its helper's caller (0 for none).
        seed: that of the boot.
        functions: the names of those whose calls were followed, by number.

    Raises:
        ParseError: a call is of none of these.
    """
    if log.calls.size and log.calls["function"].max() >= len(functions):
        raise ParseError(f"the trace has a call of function {log.calls['function'].max()}, which nobody asked for")
    sums, calls = (_by_site(records, slices) for records in (log.sums, log.calls))
    by_number = []
    for number, own in sums.items():
        section_calls = _calls(calls.get(number, log.calls[:0]), functions, seed)
        site = _site(log.sites[number], spot)
        by_number.append(_section(site, own, section_calls, seed, modelled=bool(log.moments.size)))
    return merge(by_number)


def _by_site(records: NDArray[np.void], slices: range) -> dict[int, NDArray[np.void]]:
    """Return the records of some slices by the number of their site."""
    selection = records[(records["slice"] >= slices.start) & (records["slice"] < slices.stop)]
    rows = selection[np.argsort(selection["site"], kind="stable")]
    numbers, places = np.unique(rows["site"], return_index=True)
    return dict(zip(numbers.tolist(), np.split(rows, places[1:]), strict=False))


def _site(record: np.void, spot: Callable[[int, int], Spot]) -> Site:
    begin, begin_caller, end, end_caller, kind, context = (int(record[name]) for name in _SITE.names or ())
    first, last = spot(begin, begin_caller), spot(end, end_caller)
    if first.helper and first.helper == last.helper:
        # It did not disable for its caller, as a trylock that fails.
        first = last = Spot(first.helper)
    return Site(
        kind=tuple(Kind)[kind],
        context=tuple(Context)[context & 0xFF],
        begin=first,
        end=last,
        switches=bool(context & _SWITCHED),
    )


def _section(site: Site, sums: NDArray[np.void], calls: tuple[Call, ...], seed: int, *, modelled: bool) -> Section:
    longest = int(sums["longest"].argmax())
    return Section(
        site=site,
        count=int(sums["count"].sum()),
        total=int(sums["total"].sum()),
        longest=int(sums["longest"][longest]),
        seed=seed,
        start=int(sums["start"][longest]),
        end=int(sums["end"][longest]),
        buckets=_trim(sums["buckets"].sum(axis=0, dtype=np.uint64).tolist()),
        calls=calls,
        boots=(seed,),
        misses=SectionMisses(
            total=Misses.of(sums["misses"].sum(axis=0)), longest=Misses.of(sums["longest_misses"][longest])
        )
        if modelled
        else None,
    )


def _calls(records: NDArray[np.void], functions: Sequence[str], seed: int) -> tuple[Call, ...]:
    return _longest_calls(Call(functions[record["function"]], int(record["longest"]), seed) for record in records)


def _longest_calls(calls: Iterable[Call]) -> tuple[Call, ...]:
    """Return the longest call of each function, by name."""
    longest: dict[str, Call] = {}
    for call in calls:
        if call.function not in longest or call.instructions > longest[call.function].instructions:
            longest[call.function] = call
    return tuple(longest[name] for name in sorted(longest))


def _trim(buckets: Iterable[int]) -> tuple[int, ...]:
    numbers = list(buckets)
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def merge(sections: Iterable[Section]) -> tuple[Section, ...]:
    """Return sections of several boots, or of several addresses with one name, as one of each site."""
    return sum_by(sections, operator.attrgetter("site"), _sum)


def _sum(first: Section, second: Section) -> Section:
    longer = second if second.longest > first.longest else first
    counts = itertools.zip_longest(first.buckets, second.buckets, fillvalue=0)
    return replace(
        longer,
        count=first.count + second.count,
        total=first.total + second.total,
        buckets=tuple(mine + theirs for mine, theirs in counts),
        calls=_longest_calls(itertools.chain(first.calls, second.calls)),
        boots=tuple(sorted({*first.boots, *second.boots})),
        misses=_sum_of_misses(first, second, longer),
    )


def _sum_of_misses(first: Section, second: Section, longer: Section) -> SectionMisses | None:
    if not (first.misses and second.misses and longer.misses):
        return None
    return replace(longer.misses, total=first.misses.total + second.misses.total)


def merge_boots(boots: Iterable[BootSections]) -> BootSections:
    """Return several boots as one: the sections of each site, and the longest bound, before it one that is broken."""
    all_boots = list(boots)
    bounds = [boot.bound for boot in all_boots if boot.bound]
    wakeup_misses = [boot.wakeup_misses for boot in all_boots if boot.wakeup_misses]
    stages = [boot.stages for boot in all_boots if boot.stages]
    return BootSections(
        sections=merge(itertools.chain.from_iterable(boot.sections for boot in all_boots)),
        bound=max(bounds, key=lambda bound: (not bound.holds, bound.instructions), default=None),
        locks=merge_locks(itertools.chain.from_iterable(boot.locks for boot in all_boots)),
        wakeup_misses=functools.reduce(operator.add, wakeup_misses) if wakeup_misses else None,
        stages=functools.reduce(operator.add, stages) if stages else None,
        handlers=merge_handlers(itertools.chain.from_iterable(boot.handlers for boot in all_boots)),
    )
