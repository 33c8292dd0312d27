# SPDX-License-Identifier: MIT
"""Critical sections by the kernel's own tracepoints: what a real board can show of what `rtgate sections` follows.

A histogram trigger measures each section from `irq_disable` to `irq_enable`, and from `preempt_disable` to
`preempt_enable`, and adds those of one site up (Documentation/trace/histogram.rst). No event is copied to a reader, so
a run may be of any length. Facts of Linux 6.1 to 7.2 that this module depends on (kernel/trace/trace_events_hist.c,
kernel/trace/trace_preemptirq.c, include/trace/events/preemptirq.h):

* Places are offsets from `_stext`, so the target's /proc/kallsyms has their names. The caller of the function at a
  place is `parent_offs`; without frame pointers it is that of address 0.
* A trigger has three keys, so both offsets make one number; a sum is as wide as its first operand. A maximum is kept
  for each element alone, so it needs the CPU as a key.
* The tracepoints fire only when the state changes, so nested sections are one. Idle tasks have preemption off, which
  `cpu_idle` tells: a variable that is used in an expression is gone afterwards, so the section has no beginning then.
* A table may change as long as something adds to it: opening a trigger's file for writing removes the triggers there.
* Interrupts that come while preemption is off lie within the section; `rtgate sections` leaves them out.
* Times are those of the CPU's clock, in nanoseconds, and have the tracing itself in them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from rtgate.errors import ParseError
from rtgate.tools import Expected, Output, Reports, Setting, Tool, count, time
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import check_end
from rtgate.tools.threads import ThreadScope

KINDS = {"irqsoff": "irq", "preemptoff": "preempt"}
"""What was off, in the words of ftrace's tracers, and what its tracepoints begin with."""

# What is looked up afterwards goes before the load, which runs on until the tool ends.
# Triggers refer to those before them, so they go in the reverse order; those of a run that was killed go first.
_SCRIPT = """\
cd /sys/kernel/tracing || exit
export LC_ALL=C
on=events/preemptirq idle=events/power/cpu_idle/trigger found=/tmp/rtgate-sections
each() { $1 irqsoff irq; $1 preemptoff preempt; }
start() {
    cpu=hist:keys=common_cpu here=4294967296*caller_offs+parent_offs small=clock=local:size=128
    end="onmatch(preemptirq.${2}_disable).trace(rtgate_$1,\\$${2}_took,\\$${2}_begin,\\$${2}_end)"
    sum="vals=length:${2}_most=length:onmax(\\$${2}_most).save(length):size=SIZE"
    echo "rtgate_$1 u64 length; u64 begin; u64 end" >>synthetic_events &&
        echo "hist:keys=begin.hex,end.hex,common_cpu:$sum" >events/synthetic/rtgate_$1/trigger &&
        echo "$cpu:${2}_since=common_timestamp,${2}_begin=$here:$small" >$on/${2}_disable/trigger &&
        echo "$cpu:${2}_idle=common_timestamp-\\$${2}_since:$small if state != 4294967295" >>$idle &&
        echo "$cpu:${2}_took=common_timestamp-\\$${2}_since,${2}_end=$here:$small:$end" >$on/${2}_enable/trigger ||
        { cat error_log >&2; exit 1; }
}
stop() { true >$on/${2}_enable/trigger; }
off() {
    true >$idle
    true >$on/${2}_disable/trigger
    true >events/synthetic/rtgate_$1/trigger
    echo "!rtgate_$1" >>synthetic_events
}
show() { echo ":$1"; cat events/synthetic/rtgate_$1/hist; }
clean() { each stop; each off; rm -f $found; echo $clock >trace_clock; }
clock=$(sed 's/.*\\[\\(.*\\)\\].*/\\1/' trace_clock)
clean 2>/dev/null
trap 'clean 2>/dev/null' EXIT
trap 'exit 1' TERM INT HUP
each start
sleep SECONDS &
wait $!
each stop
renice -n -20 -p $$ >/dev/null 2>&1
each show >$found
cat $found
echo :symbols
sed -n 's/.*begin: *\\([0-9a-f]*\\), end: *\\([0-9a-f]*\\)[ ,].*/\\1 \\2/p' $found | tr ' ' '\\n' | sort -u |
    awk -v text="$(sed -n 's/ [Tt] _stext$//p' /proc/kallsyms)" '
    function number(hex, i, n) {
        for (i = 1; i <= length(hex); i++)
            n = n * 16 + index("0123456789abcdef", substr(hex, i, 1)) - 1
        return n
    }
    function show(offset, high, low) {
        high = number(substr(text, 1, 8))
        low = number(substr(text, 9)) + offset
        if (low < 0) { low += 4294967296; high-- }
        if (low >= 4294967296) { low -= 4294967296; high++ }
        if (high >= 0 && high < 4294967296)
            printf "%04x%04x%04x%04x ~ %d\\n", high / 65536, high % 65536, low / 65536, low % 65536, offset
    }
    {
        place = substr("0000000000000000" $1, length($1) + 1)
        caller = number(substr(place, 1, 8))
        parent = number(substr(place, 9))
        if (parent >= 2147483648) { parent -= 4294967296; caller++ }
        if (caller >= 2147483648) caller -= 4294967296
        show(caller)
        show(parent)
    }' | { cat; grep ' [tTwW] ' /proc/kallsyms; } | sort -u | sed 's/\\t.*//' |
    awk '$2 == "~" { print $3, name } $2 != "~" { name = $3 }'
"""
_SIZE = 16384  # sites of one kind and CPU, a power of 2; a kernel under load has some 600
_TOP = 10
_SITE = re.compile(
    r"^\{ begin: +(?P<begin>[0-9a-f]{1,16}), end: +(?P<end>[0-9a-f]{1,16}), common_cpu: +[0-9]{1,4} \} "
    r"hitcount: +(?P<count>[0-9]{1,18}) +length: +(?P<total>[0-9]{1,18})\n"
    r"\tmax: +(?P<longest>[0-9]{1,18}) +length: +(?P=longest)$",
    re.MULTILINE,
)
_TOTALS = re.compile(
    r"^Totals:\n {4}Hits: ([0-9]{1,18})\n {4}Entries: ([0-9]{1,9})\n {4}Dropped: ([0-9]{1,18})$", re.MULTILINE
)
_SYMBOL = re.compile(r"^(-?[0-9]{1,20}) (\S{1,200})$", re.MULTILINE)
# The tracing itself, where the compiler has put a part of it into a function of its own.
_TRACING = re.compile(r"trace_(?:hardirqs|preempt)_(?:on|off)\w*")
# Functions that many call to disable or enable: who called them matters.
_HELPER = re.compile(r"_raw_(?:spin|read|write)_\w+|_?_local_bh_\w+|enter_from_[\w.]+|exit_to_[\w.]+|irqentry_\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSum:
    """All sections from one place to another; lengths in nanoseconds."""

    site: str
    count: int
    total: int
    longest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemptirq(Tool):
    """The longest sections with interrupts and with preemption off, by the kernel's tracepoints."""

    name: ClassVar[str] = "preemptirq"
    suites: ClassVar[tuple[str, ...]] = ("latency",)
    needs: ClassVar[tuple[Need, ...]] = (
        Need(
            test="[ -d /sys/kernel/tracing/events/preemptirq/irq_disable ] && "
            "[ -d /sys/kernel/tracing/events/preemptirq/preempt_disable ]",
            reason="no tracepoints of critical sections (CONFIG_IRQSOFF_TRACER, CONFIG_PREEMPT_TRACER): a build with "
            "the fragment `preemptirq` has them",
        ),
        Need(
            test="[ -f /sys/kernel/tracing/events/preemptirq/irq_disable/hist ]",
            reason="the kernel has no histogram triggers (CONFIG_HIST_TRIGGERS)",
        ),
        Need(
            test="[ -f /sys/kernel/tracing/events/power/cpu_idle/trigger ]",
            reason="the kernel has no tracepoint cpu_idle, by which idle CPUs are left out",
        ),
        Need(test="command -v awk >/dev/null", reason="the target has no awk"),
        Need(
            test="grep -q '^0*[1-9a-f].* [Tt] _stext$' /proc/kallsyms",
            reason="/proc/kallsyms has no addresses (CONFIG_KALLSYMS, kernel.kptr_restrict)",
        ),
    )
    reports: ClassVar[Mapping[str, Reports]] = {
        **{f"{kind}.max": Reports.TIME for kind in KINDS},
        **{f"{kind}.site": Reports.TIME for kind in KINDS},
        **{f"{kind}.sections": Reports.COUNT for kind in KINDS},
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: the shell waits while the kernel counts, and then looks names up."""
        seconds = str(math.ceil(setting.duration_s))
        return ("sh", "-c", _SCRIPT.replace("SECONDS", seconds).replace("SIZE", str(_SIZE)))

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs: a shell that sleeps."""
        return Expected(threads=(), duration_s=math.ceil(setting.duration_s), seen=ThreadScope.SESSION)

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return for each kind `KIND.max`, the ten sites with the longest as `KIND.site`, and `KIND.sections`.

        Raises:
            ParseError: it failed, was stopped, counted nothing or not everything, or contradicts itself.
        """
        check_end(self.name, output)
        parts = _parts(output)
        names = dict(_SYMBOL.findall(parts["symbols"]))
        sums = {kind: _sums(kind, parts[kind], names) for kind in KINDS}
        return tuple(measurement for kind in KINDS for measurement in _measurements(kind, sums[kind], output))


def _parts(output: Output) -> dict[str, str]:
    """Return what was printed below each line `:NAME`, by name. Raises ParseError: it is not each part once."""
    before, *pieces = re.split(r"^:([a-z]+)\n", output.text("tool.out"), flags=re.MULTILINE)
    names = pieces[::2]
    if before or names != [*KINDS, "symbols"]:
        raise ParseError(f"preemptirq printed {', '.join(names) or 'nothing'}: {output.text('tool.err')[:300]}")
    return dict(zip(names, pieces[1::2], strict=True))


def _sums(kind: str, text: str, names: Mapping[str, str]) -> list[SiteSum]:
    """Return the sums of a histogram by site, the longest first. Raises ParseError."""
    entries, totals = list(_SITE.finditer(text)), _TOTALS.findall(text)
    if len(totals) != 1:
        raise ParseError(f"the histogram of {kind} has no end: {text[-200:]!r}")
    hits, entry_count, dropped = map(int, totals[0])
    if dropped:
        raise ParseError(f"{dropped} sections of {kind} had no room: the table holds {_SIZE} sites")
    listed = sum(int(entry["count"]) for entry in entries)
    if not entries or (len(entries), listed) != (entry_count, hits):
        raise ParseError(
            f"the histogram of {kind} lists {listed} sections of {len(entries)} sites, and says {hits} of {entry_count}"
        )
    sums = sorted(
        (
            SiteSum(
                site=_site(entry["begin"], entry["end"], names),
                count=int(entry["count"]),
                total=int(entry["total"]),
                longest=int(entry["longest"]),
            )
            for entry in entries
        ),
        key=lambda row: row.site,
    )
    for row in sums:
        if not row.longest <= row.total <= row.longest * row.count:
            raise ParseError(f"{kind} in {row.site} contradicts itself: {row.longest} at most, {row.total} in all")
    return sorted(_merge(sums), key=lambda row: (-row.longest, row.site))


def _site(begin: str, end: str, names: Mapping[str, str]) -> str:
    """Return where a section begins and ends, in words. Raises ParseError: a place has no name."""
    first, last = _place(int(begin, 16), names), _place(int(end, 16), names)
    return first if first == last else f"{first} to {last}"


def _place(number: int, names: Mapping[str, str]) -> str:
    """Return the function at a place, of a helper the one that called it. Raises ParseError: it has no name."""
    parent = _signed(number)
    caller = _signed((number - parent) >> 32)
    name = names.get(str(caller))
    if name is None:
        raise ParseError(f"nobody looked up which function is at _stext + {caller}")
    caller_name = names.get(str(parent), "unknown")
    if _TRACING.fullmatch(name):
        return caller_name
    return f"{caller_name} ({name})" if _HELPER.fullmatch(name) else name


def _signed(number: int) -> int:
    """Return the lowest 32 bits as a signed number."""
    return ((number & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def _merge(sums: Sequence[SiteSum]) -> list[SiteSum]:
    """Return the sums of places with one name as one; they are in the order of their names."""
    groups = [list(members) for _, members in groupby(sums, lambda row: row.site)]
    return [
        SiteSum(
            site=members[0].site,
            count=sum(row.count for row in members),
            total=sum(row.total for row in members),
            longest=max(row.longest for row in members),
        )
        for members in groups
    ]


def _measurements(kind: str, sums: Sequence[SiteSum], output: Output) -> tuple[Measurement, ...]:
    return (
        time(f"{kind}.max", sums[0].longest / 1000, output.microsecond),
        *(time(f"{kind}.site", row.longest / 1000, output.microsecond, {"site": row.site}) for row in sums[:_TOP]),
        count(f"{kind}.sections", sum(row.count for row in sums), Better.NEITHER),
    )
