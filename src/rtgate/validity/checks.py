# SPDX-License-Identifier: MIT
"""Validity: may a record's measurements be judged at all?

Every check reads evidence that is stored in the record, so a replay checks again. A check that fails spoils
everything (the numbers are not of what they claim to be), the figures (what a tool found broken stands), or only good
news (a limit that was broken under a load that died is broken all the same: a bad kernel is never excused as an invalid
measurement).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise

from rtgate.board.tuning import cpus
from rtgate.records.evidence import LoadSeen, Thread
from rtgate.records.record import Record
from rtgate.tools import loads
from rtgate.tools.measurement import Histogram
from rtgate.tools.threads import POLICIES, SCHED_FIFO
from rtgate.units import Quantity, Unit
from rtgate.validity.board_checks import (
    aer_check,
    firmware_check,
    health_check,
    isolation_check,
    suspend_check,
    temperature_check,
)
from rtgate.validity.check import Check, CheckResult, Invalidates, judged
from rtgate.validity.measuring_threads import measuring_threads
from rtgate.validity.page_faults import page_fault_check
from rtgate.validity.record_checks import figures_check, record_check
from rtgate.validity.steady import WINDOW, unsteady

_PRINTK = "/proc/sys/kernel/printk"
# Names in /proc/PID/comm, which has 15 characters.
_CLOCK_KEEPERS = frozenset(
    {
        "chronyd",
        "connmand",
        "htpdate",
        "ntpd",
        "ntpsec",
        "openntpd",
        "phc2sys",
        "ptp4l",
        "systemd-timesyn",
        "timemaster",
    }
)
_EDGE_CYCLES = 3  # the first wake-up comes one interval late, and the signal that ends the run comes at any time


def checks(record: Record, not_applicable: Mapping[str, str]) -> tuple[Check, ...]:
    """Return every check of a record that was measured.

    Args:
        record: the record.
        not_applicable: reasons, by check, why the board declares a check not applicable.
    """
    made = (
        *(_flavour, _kernel, _cpus, _log, _threads, _affinity, _cycles, _counts, _duration, _clock, _load, _settings),
        *(isolation_check, suspend_check, temperature_check, firmware_check, _steady, health_check, aer_check),
    )
    found = tuple(check(record) for check in made)
    failed = {one.name for one in found if one.held is CheckResult.FAILED} - not_applicable.keys()
    found += (page_fault_check(record, lacking="threads" in failed),)
    # No board may declare these not applicable.
    edited = tuple(check for check in (record_check(record), figures_check(record)) if check.held is CheckResult.FAILED)
    return edited + tuple(
        Check(
            name=check.name, held=CheckResult.NOT_APPLICABLE, spoils=check.spoils, sentence=not_applicable[check.name]
        )
        if check.name in not_applicable
        else check
        for check in found
    )


def _flavour(record: Record) -> Check:
    asked, ran = record.kernel.flavour, record.environment.flavour
    problem = ""
    if not ran:
        problem = "the running kernel's version (uname -v) was not read, so its flavour is not proven"
    elif not asked:
        problem = "nobody said which flavour the kernel should be"
    elif asked != ran:
        problem = f"the kernel should be {asked} and is {ran}: uname -v says {record.environment.kernel_version!r}"
    return judged("flavour", Invalidates.EVERYTHING, problem, f"{ran} by uname -v")


def _kernel(record: Record) -> Check:
    """Check that the kernel that ran is the one that is judged, by all that both tell of themselves."""
    kernel, found = record.kernel, record.environment
    ran = found.kernel_release
    told = (
        ("", kernel.release, ran),
        ("version ", kernel.version, found.kernel_version),
        ("build id ", kernel.build_id[:12], found.build_id[:12]),
        ("configuration ", kernel.config_sha256[:12], found.config_sha256[:12]),
    )
    problem = "; ".join(
        f"the kernel to measure is {what}{named}, and {what}{there} was running"
        for what, named, there in told
        if named and there and named != there
    )
    return judged("kernel", Invalidates.EVERYTHING, problem, ran or "its release is not known")


def _cpus(record: Record) -> Check:
    """Check that the CPUs that are online are as many as the board has."""
    online, there = record.environment.online, record.environment.cpus
    if not online:
        return judged("cpus", Invalidates.GOOD_NEWS, "which CPUs were online was not read", "")
    problem = f"CPUs {online} were online, and the board has {there}" if str(_count(online)) != there else ""
    return judged("cpus", Invalidates.EVERYTHING, problem, f"CPUs {online} were online")


def lost_cpus(record: Record) -> bool:
    """Return whether the kernel brought up fewer CPUs than the board has."""
    online, there = record.environment.online, record.environment.cpus
    return 0 < _count(online) < (int(there) if there.isdecimal() else 0)


def _count(online: str) -> int:
    """Return how many CPUs a list in the kernel's notation has; 0 for anything else."""
    return len(cpus(online)) if re.fullmatch(r"\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*", online) else 0


def _log(record: Record) -> Check:
    """Check that the kernel's log was read: most faults stand nowhere else while the console is silent."""
    problems = {"": "the kernel's log was not read", "late": "the kernel's log has lost its beginning"}
    problem = problems.get(record.evidence.log, "")
    return judged("log", Invalidates.GOOD_NEWS, problem, f"{record.evidence.log} kernel log")


def _threads(record: Record) -> Check:
    asked = record.evidence.asked
    groups = [(int(group["count"]), (int(group["policy"]), int(group["priority"]))) for group in asked["threads"]]
    if not groups:
        return judged("threads", Invalidates.EVERYTHING, "", "the tool has no real-time thread of its own")
    seen: dict[str, list[Thread]] = {}
    for thread in record.evidence.threads:
        seen.setdefault(thread.moment, []).append(thread)
    unseen = "" if "middle" in seen else "no thread of the tool was seen in the middle of its run"
    whole = sum(count for count, _ in groups) + (asked["seen"] == "own")
    problem = ""
    for moment, there in sorted(seen.items()):
        # A target that is too busy looks late, when the measuring threads have ended and the main one prints.
        if moment == "late" and len(there) < whole:
            continue
        for count, wanted in groups:
            right = _with(wanted, there)
            # Half-way a virtual machine whose host is busy may still be starting what is all there later.
            later = seen.get("late", []) if moment == "middle" and record.environment.time == "host" else []
            if right < count and len(later) >= whole and _with(wanted, later) >= count:
                continue
            # Beside the threads of its own process a tool may have helpers with the same priority.
            if right < count or (right > count and asked["seen"] == "own"):
                problem = f"{right} of {count} measuring threads ran at {_policy(wanted)}; seen: {_seen(there)}"
    text = ", ".join(f"{count} measuring threads at {_policy(wanted)}" for count, wanted in groups)
    if unseen and not problem:
        # A stress test ends with the first failure of the kernel, before anybody looks.
        return judged("threads", Invalidates.FIGURES, unseen, "")
    return judged("threads", Invalidates.EVERYTHING, problem, f"{text}, at {len(seen)} moments")


def _with(wanted: tuple[int, int], threads: Sequence[Thread]) -> int:
    return sum((thread.policy, thread.priority) == wanted for thread in threads)


def _affinity(record: Record) -> Check:
    """Check that each measuring thread ran on the CPUs that the tuning gives it, and on its own if it is bound."""
    allowed = set(record.evidence.asked["cpus"])
    ours = measuring_threads(record)
    astray = sorted({thread.processor for thread in ours if thread.processor not in allowed})
    text = ", ".join(map(str, sorted(allowed)))
    problem = ""
    if allowed and astray:
        problem = f"measuring threads ran on CPU {', '.join(map(str, astray))}, not only on {text}"
    fine = f"on CPU {text}" if allowed else "on all CPUs"
    return judged("affinity", Invalidates.EVERYTHING, problem or _crowded(record, ours), fine)


def _crowded(record: Record, ours: Sequence[Thread]) -> str:
    """Return which CPUs bound threads shared that should each have had their own; only looks that saw all count."""
    asked = record.evidence.asked
    wanted, whole = int(asked.get("processors", 0)), sum(int(group["count"]) for group in asked["threads"])
    looks = {moment: [one.processor for one in ours if one.moment == moment] for moment in ("middle", "late")}
    seen = {moment: processors for moment, processors in looks.items() if len(processors) >= whole}
    if record.environment.time == "host" and "late" in seen:
        seen.pop("middle", None)  # where a machine whose host is busy may still be binding them
    for moment, processors in seen.items():
        if len(set(processors)) < wanted:
            where = ", ".join(map(str, sorted(set(processors))))
            return f"{whole} threads, bound to {wanted} CPUs, were all on CPU {where} ({moment} in the run)"
    return ""


def _policy(wanted: tuple[int, int]) -> str:
    policy, priority = wanted
    return f"{POLICIES.get(policy, policy)} {priority}" if priority else str(POLICIES.get(policy, policy))


def _seen(threads: list[Thread]) -> str:
    names = [f"{thread.name} {POLICIES.get(thread.policy, thread.policy)} {thread.priority}" for thread in threads]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _cycles(record: Record) -> Check:
    """Check that every wake-up is accounted for: it happened, or a measured latency explains why it did not."""
    asked = record.evidence.asked
    interval = int(asked["interval_us"])
    if not interval:
        return judged("cycles", Invalidates.GOOD_NEWS, "", "the tool has no period to account for")
    problem = ""
    for measurement in record.measurements:
        if measurement.histogram is None:
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
    return judged("cycles", Invalidates.GOOD_NEWS, problem, "every wake-up is accounted for")


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
    elif took < asked * 0.99 and not _ended_early(record):
        problem = f"the run took {took:g} s of the {asked:g} s asked for"
    return judged("duration", Invalidates.GOOD_NEWS, problem, f"{took} s for {asked:g} s asked")


def _ended_early(record: Record) -> bool:
    """Return whether the tool ended its run with the failure that it found: a shorter run is no fault of the run's."""
    name = record.evidence.asked.get("ends_with", "")
    return any(one.name == name and one.quantity is not None and one.quantity.value > 0 for one in record.measurements)


def _counts(record: Record) -> Check:
    """Check that the tool counted as much work as it had to do."""
    problem, fine = "", []
    for entry in record.evidence.asked["counts"]:
        name, least = str(entry["measurement"]), float(entry["least"])
        values = [one.quantity.value for one in record.measurements if one.name == name and one.quantity is not None]
        if not values:
            problem = f"{name} was not measured, at least {least:g} are needed"
        elif min(values) < least and not _ended_early(record):
            problem = f"{name} was {min(values):g}, at least {least:g} are needed"
        fine.append(f"{name} at least {least:g}")
    return judged("counts", Invalidates.GOOD_NEWS, problem, ", ".join(fine) or "the tool has nothing to count")


def _clock(record: Record) -> Check:
    """Check that nothing moved the wall clock of a tool that measures with it."""
    if not record.evidence.asked["clock"]:
        return judged("clock", Invalidates.GOOD_NEWS, "", "the tool does not measure with the wall clock")
    names = record.evidence.processes
    problem = "" if names else "the target's processes were not read, so nobody knows whether its clock was set"
    found = sorted({name for name in names if name in _CLOCK_KEEPERS})
    if found:
        problem = (
            f"the tool measures with the wall clock, and {', '.join(found)} may have set it: stop it on the target"
        )
    return judged("clock", Invalidates.GOOD_NEWS, problem, "no time synchronisation was running")


def _load(record: Record) -> Check:
    name = record.evidence.load
    if name == "idle":
        return judged("load", Invalidates.GOOD_NEWS, "", "no load was asked for")
    seen = {entry.moment: entry for entry in record.evidence.load_seen}
    problem = _load_problem(record, seen)
    ticks = max(entry.ticks for entry in seen.values()) - seen["start"].ticks if not problem else 0
    return judged(
        "load", Invalidates.GOOD_NEWS, problem, f"{name} ran all the time and used {ticks} clock ticks of CPU"
    )


def _load_problem(record: Record, seen: Mapping[str, LoadSeen]) -> str:
    name, least = record.evidence.load, record.evidence.load_processes
    said = _load_said(record)
    if said:
        return said
    missing = [moment for moment in ("start", "middle", "end") if moment not in seen]
    if missing:
        return f"the load {name} was not looked at ({', '.join(missing)})"
    dead = [moment for moment, entry in seen.items() if entry.processes == 0]
    if dead:
        return f"the load {name} had no process left ({', '.join(dead)} of the measurement)"
    fewest = min(entry.processes for moment, entry in seen.items() if moment != "start")
    if fewest < least:
        return f"the load {name} had {fewest} processes of the {least} that it has when all of it runs"
    # Any rise will do, and a fall means nothing: processes are looked at one after the other, and the time of one that
    # ends meanwhile is seen neither in it nor in its parent.
    looks = [seen[moment] for moment in ("middle", "late", "end") if moment in seen]
    if all(later.ticks <= earlier.ticks for earlier, later in pairwise(looks)):
        return f"the load {name} used no CPU time while the tool measured"
    return ""


def _load_said(record: Record) -> str:
    """Return what is wrong with a load by its own account, and by how it ended; empty if nothing is."""
    name, ended = record.evidence.load, record.evidence.load_ended
    complaint = loads.complaint(record.evidence.load_output)
    if complaint:
        return f"the load {name} reported an error: {complaint}"
    return "" if ended is None else f"the load {name} ended by itself with exit code {ended}"


def _steady(record: Record) -> Check:
    """Check that what was measured in rounds had become steady."""
    name = str(record.evidence.asked.get("steady", ""))
    if not name:
        return judged("steady", Invalidates.GOOD_NEWS, "", "the tool does not measure in rounds")
    found = [one for one in record.measurements if one.name == f"round.{name}" and one.quantity is not None]
    rounds = [one.quantity.value for one in sorted(found, key=lambda one: one.labels["round"]) if one.quantity]
    measured = [one.quantity.value for one in record.measurements if one.name == name and one.quantity is not None]
    problem = unsteady(rounds, measured[0]) if measured else f"{name} was not measured"
    return judged("steady", Invalidates.FIGURES, problem, f"the last {WINDOW} of {len(rounds)} rounds were steady")


def _settings(record: Record) -> Check:
    """Check that settings were read, did not change, and are those that were asked for."""
    problems = []
    for path, (before, after) in record.evidence.settings.items():
        if not before or not after:
            problems.append(f"{path} was not read")
        elif before != after:
            problems.append(f"{path} was {before!r} and became {after!r}")
        elif path == _PRINTK and before.split()[0] != "1":
            problems.append(f"the console's log level was {before.split()[0]}, so kernel messages could disturb")
    for pattern, reads in record.evidence.writes.items():
        read = [after for path, (_, after) in record.evidence.settings.items() if fnmatchcase(path, pattern)]
        wrong = [after for after in read if not re.search(reads, after)]
        if wrong or not read:
            problems.append(f"{pattern} should be {reads} and is {wrong[0] if wrong else 'not there'!r}")
    words = set(record.environment.command_line.split())
    problems += [
        f"the kernel was not started with {word}"
        for word in str(record.evidence.asked["command_line"]).split()
        if word not in words
    ]
    problems += _priorities(record)
    return judged("settings", Invalidates.GOOD_NEWS, "; ".join(problems), "as asked, and unchanged")


def _priorities(record: Record) -> list[str]:
    """Return what is wrong with the priorities of the kernel's threads that the tuning sets."""
    problems = []
    for start, priority in record.evidence.asked["priorities"].items():
        found = [thread for thread in record.evidence.kernel_threads if thread.name.startswith(start)]
        wrong = [thread.name for thread in found if (thread.policy, thread.priority) != (SCHED_FIFO, int(priority))]
        if wrong or not found:
            problems.append(f"{', '.join(wrong) or f'no thread {start}'} should run at SCHED_FIFO {priority}")
    return problems
