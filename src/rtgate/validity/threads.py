# SPDX-License-Identifier: MIT
"""Validity check: the measuring threads were there, with the policy and priority that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rtgate.board.boot import TimeBase
from rtgate.records.evidence import Thread
from rtgate.records.record import Record
from rtgate.tools import Expected
from rtgate.tools.threads import POLICIES, SCHED_OTHER, ThreadScope
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for
from rtgate.validity.plan_files import MOMENTS, stats, text, uptime

# A plan looks at half of a run, and again four tenths later. A first look that came when the run was over leaves this.
_LATE = 1.4


def seen_threads(files: Mapping[str, bytes], expectation: Expected) -> tuple[Thread, ...]:
    """Return the tool's threads; fields 39 to 41 of proc(5) are processor, real-time priority and policy.

    A busy target looks late. Where the tool's time was over by then and all of its real-time threads are SCHED_OTHER,
    it was ending: cyclictest gives each thread back before it prints (rt-tests, src/cyclictest/cyclictest.c, end of
    `timerthread`). That look says nothing of the run and is left out.
    """
    session = text(files, "tool.pid")

    def ours(name: str, fields: list[str]) -> bool:
        if expectation.seen is ThreadScope.SYSTEM:
            return name.startswith(expectation.name)
        return expectation.seen is ThreadScope.OWN or (fields[3] == session and fields[0] not in {"Z", "X"})

    threads = tuple(
        Thread(
            moment=moment,
            name=name,
            processor=int(fields[36]),
            priority=int(fields[37]),
            policy=int(fields[38]),
            minor_faults=int(fields[7]),
            major_faults=int(fields[9]),
        )
        for moment in MOMENTS
        for name, fields in stats(files, f"threads.{moment}")
        if ours(name, fields)
    )
    late = {thread.policy for thread in threads if thread.moment == "late"}
    real_time = any(group.policy != SCHED_OTHER for group in expectation.threads)
    if real_time and late == {SCHED_OTHER} and _is_over(files, expectation):
        return tuple(thread for thread in threads if thread.moment != "late")
    return threads


def _is_over(files: Mapping[str, bytes], expectation: Expected) -> bool:
    """Return whether the second look came when the tool had measured for as long as it was to."""
    start, late = uptime(files, "start"), uptime(files, "late")
    return None not in {start, late} and 0 < expectation.duration_s <= (late or 0) - (start or 0)


def missed_by_host(record: Record) -> bool:
    """Return whether nobody saw the threads because a virtual board's host was busy: the tool had ended by then."""
    evidence, duration_s = record.evidence, record.evidence.expectation.duration_s
    late = evidence.elapsed_s is not None and 0 < _LATE * duration_s <= evidence.elapsed_s
    return record.environment.time == TimeBase.HOST and late and not evidence.threads


def _judge(record: Record) -> Answer:
    expectation = record.evidence.expectation
    groups = [(group.count, (group.policy, group.priority)) for group in expectation.threads]
    own = expectation.seen is ThreadScope.OWN
    if not groups:
        return answer_for("", "the tool has no real-time thread of its own")
    looks: dict[str, list[Thread]] = {}
    for thread in record.evidence.threads:
        looks.setdefault(thread.moment, []).append(thread)
    gap = "" if "middle" in looks else "no thread of the tool was seen in the middle of its run"
    whole = sum(count for count, _ in groups) + own
    problem = ""
    for moment, there in sorted(looks.items()):
        # A target that is too busy looks late, when the measuring threads have ended and the main one prints.
        if moment == "late" and len(there) < whole:
            continue
        for count, demand in groups:
            right = _with(demand, there)
            # Half-way a virtual machine whose host is busy may still be starting what is all there later.
            later = looks.get("late", []) if moment == "middle" and record.environment.time == TimeBase.HOST else []
            if right < count and len(later) >= whole and _with(demand, later) >= count:
                continue
            # Beside the threads of its own process a tool may have helpers with the same priority.
            if right < count or (right > count and own):
                problem = (
                    f"{right} of {count} measuring threads ran at {_policy(demand)}; seen: {_format_threads(there)}"
                )
    text = ", ".join(f"{count} measuring threads at {_policy(demand)}" for count, demand in groups)
    if gap and not problem:
        # A stress test ends with the first failure of the kernel, before anybody looks.
        return answer_for(gap, "", Invalidates.FIGURES)
    return answer_for(problem, f"{text}, at {len(looks)} moments")


def _with(demand: tuple[int, int], threads: Sequence[Thread]) -> int:
    return sum((thread.policy, thread.priority) == demand for thread in threads)


def _policy(demand: tuple[int, int]) -> str:
    policy, priority = demand
    return f"{POLICIES.get(policy, policy)} {priority}" if priority else str(POLICIES.get(policy, policy))


def _format_threads(threads: list[Thread]) -> str:
    names = [f"{thread.name} {POLICIES.get(thread.policy, thread.policy)} {thread.priority}" for thread in threads]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


CHECK = ValidityCheck(
    name="threads",
    holds="as many threads as asked had the asked policy and priority (`/proc/PID/task/*/stat`, fields 40 and 41). "
    "They had it at half and at nine tenths of the run. On a virtual board in host time nine tenths is enough, as its "
    "host may be busy. If both looks came after the tool's end there, the boot is MISS. "
    "A look that came when the tool had given its threads back does not count",
    invalidates=Invalidates.EVERYTHING,
    exceptions="figures, if none was seen",
    judge=_judge,
)
