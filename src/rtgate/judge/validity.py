# SPDX-License-Identifier: MIT
"""Validity: may a record's measurements be judged at all?

Every check reads evidence that is stored in the record, so a replay checks again. A check that fails spoils either
everything (the numbers are not of what they claim to be) or only good news (a limit that was broken under a load that
died is broken all the same: a bad kernel is never excused as an invalid measurement).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from rtgate.measurement import Histogram
from rtgate.record import LoadSeen, Record, Thread
from rtgate.units import Quantity, Unit

POLICIES = {0: "SCHED_OTHER", 1: "SCHED_FIFO", 2: "SCHED_RR", 3: "SCHED_BATCH", 5: "SCHED_IDLE", 6: "SCHED_DEADLINE"}
_EDGE_CYCLES = 3  # the first wake-up comes one interval late, and the signal that ends the run comes at any time


class Held(Enum):
    """How a check came out."""

    OK = "ok"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"


class Spoils(Enum):
    """What a failed check takes away."""

    EVERYTHING = "everything"
    GOOD_NEWS = "good news"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One validity check of one record."""

    name: str
    held: Held
    spoils: Spoils
    sentence: str


def checks(record: Record, undeclared: Mapping[str, str]) -> tuple[Check, ...]:
    """Return every check of a record that was measured.

    Args:
        record: the record.
        undeclared: reasons, by check, why the board declares a check not applicable.
    """
    made = (_flavour, _threads, _cycles, _duration, _load, _settings)
    found = tuple(check(record) for check in made)
    return tuple(
        Check(name=check.name, held=Held.NOT_APPLICABLE, spoils=check.spoils, sentence=undeclared[check.name])
        if check.name in undeclared
        else check
        for check in found
    )


def _check(name: str, spoils: Spoils, problem: str, fine: str) -> Check:
    return Check(name=name, held=Held.FAILED if problem else Held.OK, spoils=spoils, sentence=problem or fine)


def _flavour(record: Record) -> Check:
    asked, ran = record.kernel.flavour, record.environment.flavour
    problem = ""
    if not ran:
        problem = "the running kernel's version (uname -v) was not read, so its flavour is not proven"
    elif not asked:
        problem = "nobody said which flavour the kernel should be"
    elif asked != ran:
        problem = f"the kernel should be {asked} and is {ran}: uname -v says {record.environment.kernel_version!r}"
    return _check("flavour", Spoils.EVERYTHING, problem, f"{ran} by uname -v")


def _threads(record: Record) -> Check:
    asked = record.evidence.asked
    wanted = (int(asked["policy"]), int(asked["priority"]))
    text = f"{POLICIES.get(wanted[0], wanted[0])} {wanted[1]}"
    count = int(asked["threads"])
    moments = {thread.moment for thread in record.evidence.threads}
    problem = "" if moments else "no thread of the tool was seen while it ran"
    for moment in sorted(moments):
        there = [thread for thread in record.evidence.threads if thread.moment == moment]
        right = [thread for thread in there if (thread.policy, thread.priority) == wanted]
        if len(right) != count:
            problem = f"{len(right)} of {count} measuring threads ran at {text}; seen: {_seen(there)}"
    return _check(
        "threads", Spoils.EVERYTHING, problem, f"{count} measuring threads at {text}, at {len(moments)} moments"
    )


def _seen(threads: list[Thread]) -> str:
    names = [f"{thread.name} {POLICIES.get(thread.policy, thread.policy)} {thread.priority}" for thread in threads]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _cycles(record: Record) -> Check:
    """Check that every wake-up is accounted for: it happened, or a measured latency explains why it did not."""
    asked = record.evidence.asked
    interval = int(asked["interval_us"])
    problem = ""
    for measurement in record.measurements:
        if measurement.histogram is None or not interval:
            continue
        expected = float(asked["duration_s"]) * 1e6 / interval
        lost = expected - measurement.histogram.total
        explained = _explained(measurement.histogram, interval, _maximum(record, measurement.labels))
        if lost > explained + _EDGE_CYCLES + expected * 0.001:
            problem = (
                f"{measurement.label}: {measurement.histogram.total} of {expected:.0f} wake-ups were measured, and "
                f"the latencies explain only {explained} of the {lost:.0f} lost ones"
            )
    if not any(measurement.histogram for measurement in record.measurements):
        problem = "no histogram was measured"
    return _check("cycles", Spoils.GOOD_NEWS, problem, "every wake-up is accounted for")


def _explained(histogram: Histogram, interval_us: int, maximum: Quantity) -> int:
    """Return how many periods the measured latencies skipped; an overflowed sample at most what the maximum did."""
    period = interval_us * 1000.0 / histogram.unit.scale
    known = sum(count * int(value // period) for value, count in histogram.counts.items())
    return known + histogram.overflow * int(maximum.to(histogram.unit).value // period)


def _maximum(record: Record, labels: Mapping[str, str]) -> Quantity:
    for measurement in record.measurements:
        if measurement.name == "latency.max" and dict(measurement.labels) == dict(labels) and measurement.quantity:
            return measurement.quantity
    return Quantity(0, Unit.VIRTUAL_US if record.virtual_time else Unit.US)


def _duration(record: Record) -> Check:
    asked, took = float(record.evidence.asked["duration_s"]), record.evidence.elapsed_s
    problem = ""
    if took is None:
        problem = "the length of the run was not read"
    elif took < asked * 0.99:
        problem = f"the run took {took:g} s of the {asked:g} s asked for"
    return _check("duration", Spoils.GOOD_NEWS, problem, f"{took} s for {asked:g} s asked")


def _load(record: Record) -> Check:
    name = record.evidence.load
    if name == "idle":
        return _check("load", Spoils.GOOD_NEWS, "", "no load was asked for")
    seen = {entry.moment: entry for entry in record.evidence.load_seen}
    problem = _load_problem(name, seen)
    ticks = seen["end"].ticks - seen["start"].ticks if not problem else 0
    return _check("load", Spoils.GOOD_NEWS, problem, f"{name} ran all the time and used {ticks} clock ticks of CPU")


def _load_problem(name: str, seen: Mapping[str, LoadSeen]) -> str:
    missing = [moment for moment in ("start", "middle", "end") if moment not in seen]
    if missing:
        return f"the load {name} was not looked at ({', '.join(missing)})"
    dead = [moment for moment, entry in seen.items() if entry.processes == 0]
    if dead:
        return f"the load {name} had no process left ({', '.join(dead)} of the measurement)"
    order = [seen[moment] for moment in ("start", "middle", "late", "end") if moment in seen]
    if seen["end"].ticks - seen["middle"].ticks <= 0:
        return f"the load {name} used no CPU time while the tool measured"
    if any(later.ticks < earlier.ticks for earlier, later in pairwise(order)):
        return f"the load {name} was started again by something else: its CPU time went backwards"
    return ""


def _settings(record: Record) -> Check:
    problem = "; ".join(record.evidence.changed)
    return _check("settings", Spoils.GOOD_NEWS, problem and f"settings changed while measuring: {problem}", "unchanged")
