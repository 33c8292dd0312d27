# SPDX-License-Identifier: MIT
"""Validity check: settings were read, did not change, and are those that were asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

from rtgate.board.tuning import Tuning
from rtgate.records.evidence import Thread
from rtgate.records.record import Record
from rtgate.tools.threads import SCHED_FIFO
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for
from rtgate.validity.plan_files import stats

_PRINTK = "/proc/sys/kernel/printk"


def kernel_threads(files: Mapping[str, bytes], tuning: Tuning) -> tuple[Thread, ...]:
    """Return the kernel's threads whose priority the tuning sets."""
    starts = tuple(start for start, _ in tuning.priorities)
    return tuple(
        Thread(moment="end", name=name, processor=int(fields[36]), priority=int(fields[37]), policy=int(fields[38]))
        for name, fields in stats(files, "kthreads")
        if starts and name.startswith(starts)
    )


def _judge(record: Record) -> Answer:
    problems = []
    for path, (before, after) in record.evidence.settings.items():
        if not before or not after:
            problems.append(f"{path} was not read")
        elif before != after:
            problems.append(f"{path} was {before!r} and became {after!r}")
        elif path == _PRINTK and (level := (before.split() or ["not told"])[0]) != "1":
            problems.append(f"the console's log level was {level}, so kernel messages could disturb")
    for pattern, reads in record.evidence.writes.items():
        texts = [after for path, (_, after) in record.evidence.settings.items() if fnmatchcase(path, pattern)]
        wrong = [after for after in texts if not re.search(reads, after)]
        if wrong or not texts:
            problems.append(f"{pattern} should be {reads} and is {wrong[0] if wrong else 'not there'!r}")
    words = set(record.environment.command_line.split())
    problems += [
        f"the kernel was not started with {word}"
        for word in record.evidence.expectation.command_line.split()
        if word not in words
    ]
    problems += _priorities(record)
    return answer_for("; ".join(problems), "as asked, and unchanged")


def _priorities(record: Record) -> list[str]:
    """Return what is wrong with the priorities of the kernel's threads that the tuning sets."""
    problems = []
    for start, priority in record.evidence.expectation.priorities.items():
        threads = [thread for thread in record.evidence.kernel_threads if thread.name.startswith(start)]
        wrong = [thread.name for thread in threads if (thread.policy, thread.priority) != (SCHED_FIFO, priority)]
        if wrong or not threads:
            problems.append(f"{', '.join(wrong) or f'no thread {start}'} should run at SCHED_FIFO {priority}")
    return problems


CHECK = ValidityCheck(
    name="settings",
    holds="console log level, clock source, RT throttling and what the tuning set were read before and after. They did "
    "not change, and are what was asked for; the console's log level was 1",
    invalidates=Invalidates.GOOD_NEWS,
    judge=_judge,
)
