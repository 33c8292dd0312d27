# SPDX-License-Identifier: MIT
"""Isolation of CPUs: what a tuning asks for, beside what the kernel says that it has.

A kernel passes over an argument that it does not know or cannot satisfy (no CONFIG_NO_HZ_FULL, a CPU that is not there,
the boot CPU), and the words stand on its command line all the same. `isolcpus` and `nohz_full` are read back from
/sys/devices/system/cpu (drivers/base/cpu.c; syntax: Documentation/admin-guide/kernel-parameters.rst).

An interrupt goes where its *effective* affinity says: what was written is a wish, which an interrupt controller, a
driver with interrupts for each queue, or a program that balances may not follow, and which x86 follows when the
interrupt comes the next time. That alone does no harm: a disk's queue of an isolated CPU is silent until that CPU uses
the disk. So an interrupt is astray when it also came where it should not. One without an effective affinity is a CPU's
own, as its timer, and comes everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

INTERRUPTS = "/proc/interrupts"
_EFFECTIVE = "/proc/irq/{}/effective_affinity_list"
# What a plan reads before and after: patterns of the shell.
WATCHED = (INTERRUPTS, _EFFECTIVE.format("*"))

_PATH = re.compile(r"/proc/interrupts|/proc/irq/[0-9]{1,6}/effective_affinity_list")
_PART = re.compile(r"([0-9]{1,5}|N)(?:-([0-9]{1,5}|N)(?::([0-9]{1,5})/([0-9]{1,5}))?)?")
_ROW = re.compile(r" *([0-9]{1,6}): *((?:[0-9]{1,20} +)*[0-9]{1,20})(?: +(\S.*))?")
_FLAGS = frozenset({"domain", "managed_irq", "nohz"})  # of `isolcpus`
_SHOWN = 4


def of(around: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return what was read of interrupts, by path, before and after."""
    return {path: values for path, values in around.items() if _PATH.fullmatch(path)}


def listed(text: str, there: int) -> frozenset[int] | None:
    """Return the CPUs of a list as the kernel's arguments have it, on a board with so many; None if it is no list.

    `0,2-3`, `all`, `N` for the last one, and `0-7:2/4` for the first 2 of each 4.
    """
    found: set[int] = set()
    for part in ["0-N"] if text == "all" else text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        low, high = (there - 1 if one == "N" else int(one) for one in (match[1], match[2] or match[1]))
        used, group = (int(match[3]), int(match[4])) if match[3] else (1, 1)
        if low > high or not 0 < used <= group:
            return None
        found.update(cpu for cpu in range(low, high + 1) if (cpu - low) % group < used)
    return frozenset(found)


def asked(command_line: str) -> dict[str, str]:
    """Return the lists of CPUs that kernel arguments ask for: those that must be `isolated`, and `nohz_full`."""
    words = dict(word.partition("=")[::2] for word in command_line.split())
    found: dict[str, str] = {}
    if "isolcpus" in words:
        parts = words["isolcpus"].split(",")
        flags = _FLAGS & set(parts)
        cpus = ",".join(part for part in parts if part not in flags)
        # Without a flag CPUs are taken from the scheduler's domains, and nothing else (kernel/sched/isolation.c).
        found |= {"isolated": cpus} if "domain" in flags or not flags else {}
        found |= {"nohz_full": cpus} if "nohz" in flags else {}
    return found | ({"nohz_full": words["nohz_full"]} if "nohz_full" in words else {})


def not_taken(command_line: str, has: Mapping[str, str], there: int) -> list[str]:
    """Return which arguments the kernel did not follow, as sentences.

    Args:
        command_line: the arguments that were asked for.
        has: what the kernel says, by `isolated` and `nohz_full`.
        there: how many CPUs the board has.
    """
    problems = []
    for name, wanted in asked(command_line).items():
        cpus, found = listed(wanted, there), listed(has[name], there) or frozenset()
        if cpus is None:
            problems.append(f"the CPUs {wanted!r} ({name}) are not understood, so nobody can tell whether they took")
        elif not cpus <= found:
            problems.append(f"CPUs {wanted} should be {name}, and the kernel says {has[name] or 'none'}")
    return problems


def astray(wanted: str, there: int, readings: Mapping[str, tuple[str, str]]) -> list[str]:
    """Return the interrupts that came on other CPUs than those of a list, and belong there, as sentences."""
    cpus = listed(wanted, there) or frozenset()
    before, after = (_rows(text) for text in readings.get(INTERRUPTS, ("", "")))
    problems = []
    for number, (counts, name) in after.items():
        places = readings.get(_EFFECTIVE.format(number), ("", ""))
        effective = frozenset[int]().union(*(listed(place, there) or () for place in places))
        earlier = before.get(number, ({}, ""))[0]
        came = {cpu: count - earlier.get(cpu, 0) for cpu, count in counts.items() if cpu in effective - cpus}
        if any(count > 0 for count in came.values()):
            where = ", ".join(f"{count} times on CPU {cpu}" for cpu, count in came.items() if count > 0)
            problems.append(f"interrupt {number} ({name}) should be on CPUs {wanted} and came {where}")
    return _few(problems)


def _rows(text: str) -> dict[str, tuple[dict[int, int], str]]:
    """Return counts by CPU, and the name, of each numbered interrupt; the heading has a column for each online CPU."""
    lines = text.splitlines()
    columns = [int(one) for one in re.findall(r"CPU([0-9]{1,5})", lines[0])] if lines else []
    found = {}
    for match in filter(None, map(_ROW.fullmatch, lines[1:])):
        numbers = [int(one) for one in match[2].split()][: len(columns)]
        name = (match[3] or "").split("  ")[-1].strip()
        found[match[1]] = (dict(zip(columns, numbers, strict=False)), name)
    return found


def _few(problems: Iterable[str]) -> list[str]:
    found = list(problems)
    return [*found[:_SHOWN], *([f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else [])]
