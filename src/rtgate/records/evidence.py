# SPDX-License-Identifier: MIT
"""What was seen of a measurement itself, from which its validity is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rtgate.records.expectation import Expectation


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """One thread as `/proc/PID/task/TID/stat` showed it (proc(5)).

    CPU (field 39), real-time priority (40), policy (41); minor and major page faults since it began (10, 12), None in
    records of before they were read.
    """

    moment: str
    name: str
    policy: int
    priority: int
    processor: int
    minor_faults: int | None = None
    major_faults: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSample:
    """The load's processes at one moment: how many there were, and their CPU time in clock ticks."""

    moment: str
    processes: int
    ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was seen of the measurement itself, for its validity.

    Attributes:
        expectation: what the measurement had to be.
        load_processes: how many processes the load has at least.
        settings: settings of the target by path, as read before and after the measurement; empty if they were not.
        kernel_threads: those whose priority the tuning sets.
        processes: names of all processes, as read after the measurement.
        log: what was read of the kernel's log: `whole`; `late`, if a boot of ours lacks its first lines, or any some
            of the measurement; `some`, of a board that ran before; `new`, since the chunk before; empty for nothing.
        readings: what files that checks read held, by path, before and after (see `validity.registry.readings`), and
            the target's uptime.
        suspends: lines of the kernel's log that tell of a suspend; None where nobody looked for them.
        rcu_nocbs: the CPUs whose RCU callbacks the kernel offloads, as its log tells; None where it does not.
        writes: what settings that were written had to read back as, by path, as regular expressions.
        load_output: the end of what the load printed; `load_ended` its exit code, if it was seen to end by itself.
    """

    expectation: Expectation
    load: str
    load_processes: int
    threads: tuple[Thread, ...]
    load_seen: tuple[LoadSample, ...]
    elapsed_s: float | None
    settings: Mapping[str, tuple[str, str]]
    writes: Mapping[str, str]
    processes: tuple[str, ...]
    kernel_threads: tuple[Thread, ...]
    log: str
    readings: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    suspends: tuple[str, ...] | None = None
    rcu_nocbs: str | None = None
    load_output: str = ""
    load_ended: int | None = None

    def measuring_threads(self, moment: str = "") -> tuple[Thread, ...]:
        """Return the threads with the policy and priority of a measuring thread, at one moment or at all moments."""
        groups = {(group.policy, group.priority) for group in self.expectation.threads}
        return tuple(
            thread
            for thread in self.threads
            if (thread.policy, thread.priority) in groups and moment in {"", thread.moment}
        )
