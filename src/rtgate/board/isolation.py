# SPDX-License-Identifier: MIT
"""Isolation of CPUs: what a tuning asks for, beside what the kernel says that it has.

A kernel passes over an argument that it does not know or cannot satisfy (no CONFIG_NO_HZ_FULL, a CPU that is not there,
the boot CPU), and the words stand on its command line all the same. `isolcpus` and `nohz_full` are read back from
/sys/devices/system/cpu (drivers/base/cpu.c; syntax: Documentation/admin-guide/kernel-parameters.rst), `rcu_nocbs` from
the only place that tells which CPUs it took, a line that the kernel prints while it boots (kernel/rcu/tree_nocb.h), and
`irqaffinity`, to which the kernel adds the CPU that it boots on (kernel/irq/irqdesc.c), from the default affinity.

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
DEFAULT_AFFINITY = "/proc/irq/default_smp_affinity"
_EFFECTIVE = "/proc/irq/{}/effective_affinity_list"
# What a plan reads before and after: patterns of the shell.
WATCHED = (INTERRUPTS, _EFFECTIVE.format("*"))
# What kernel arguments need (init/Kconfig, kernel/time/Kconfig, kernel/rcu/Kconfig).
_OPTIONS = {"isolcpus": "CPU_ISOLATION", "nohz_full": "NO_HZ_FULL", "rcu_nocbs": "RCU_NOCB_CPU", "irqaffinity": "SMP"}
_BOOTS = 0  # the CPU that a kernel boots on

_PART = re.compile(r"([0-9]{1,5}|N)(?:-([0-9]{1,5}|N)(?::([0-9]{1,5})/([0-9]{1,5}))?)?")
_ROW = re.compile(r" *([0-9]{1,6}): *((?:[0-9]{1,20} +)*[0-9]{1,20})(?: +(\S.*))?")
_FLAGS = frozenset({"domain", "managed_irq", "nohz"})  # of `isolcpus`
_OFFLOADED = re.compile(r"Offload RCU callbacks from CPUs: (\(none\)|[0-9,-]{1,1000})\.")
_MASK = re.compile(r"[0-9a-f]{1,8}(?:,[0-9a-f]{8}){0,300}")
_SHOWN = 4


def parse_cpus(text: str, there: int) -> frozenset[int] | None:
    """Return the CPUs of a list as the kernel's arguments have it, on a board with so many; None if it is not a list.

    `0,2-3`, `all`, `N` for the last one, and `0-7:2/4` for the first 2 of each 4.
    """
    cpus: set[int] = set()
    for part in ["0-N"] if text == "all" else text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        low, high = (there - 1 if end == "N" else int(end) for end in (match[1], match[2] or match[1]))
        used_size, group_size = (int(match[3]), int(match[4])) if match[3] else (1, 1)
        if low > high or not 0 < used_size <= group_size:
            return None
        cpus.update(cpu for cpu in range(low, high + 1) if (cpu - low) % group_size < used_size)
    return frozenset(cpus)


def files_to_watch(command_line: str, irq_affinity: str) -> tuple[str, ...]:
    """Return what a plan reads before and after to prove where interrupts came, for a tuning that says where."""
    if "irqaffinity" in _words(command_line):
        return (*WATCHED, DEFAULT_AFFINITY)
    return WATCHED if irq_affinity else ()


def lacking(command_line: str, configuration: Mapping[str, str]) -> list[str]:
    """Return the options that kernel arguments need and a configuration lacks: `CONFIG_X, which WORD needs`."""
    needs = {name: word for word, name in _OPTIONS.items() if word in _words(command_line)}
    if "nohz" in _words(command_line).get("isolcpus", "").split(","):
        needs.setdefault("NO_HZ_FULL", "isolcpus=nohz")
    return [f"CONFIG_{name}, which {word} needs" for name, word in needs.items() if configuration.get(name) != "y"]


def offloaded_cpus(log: str) -> str:
    """Return the CPUs whose RCU callbacks the kernel offloads, by its log; empty if it does not tell or has none."""
    match = _OFFLOADED.search(log)
    return match[1].strip("()").replace("none", "") if match else ""


def _words(command_line: str) -> dict[str, str]:
    """Return kernel arguments by name; of one that is given twice, the later."""
    return dict(word.partition("=")[::2] for word in command_line.split())


def requested_lists(command_line: str) -> dict[str, str]:
    """Return the lists of CPUs that kernel arguments ask for: those to be `isolated`, `nohz_full` and `rcu_nocbs`.

    `rcu_nocbs` without CPUs only prepares the kernel for them.
    """
    words = _words(command_line)
    lists: dict[str, str] = {}
    if "isolcpus" in words:
        parts = words["isolcpus"].split(",")
        flags = _FLAGS & set(parts)
        cpus = ",".join(part for part in parts if part not in flags)
        # Without a flag CPUs are taken from the scheduler's domains, and nothing else (kernel/sched/isolation.c).
        lists |= {"isolated": cpus} if "domain" in flags or not flags else {}
        lists |= {"nohz_full": cpus} if "nohz" in flags else {}
    return lists | {name: words[name] for name in ("nohz_full", "rcu_nocbs") if words.get(name)}


def interrupts(command_line: str, irq_affinity: str) -> str:
    """Return the CPUs on which interrupts may come, as a list; empty if the tuning does not say.

    Args:
        command_line: the arguments that the tuning asks for.
        irq_affinity: where the tuning moves interrupts once the kernel runs; empty if it does not.
    """
    cpu_list = _words(command_line).get("irqaffinity")
    if irq_affinity or cpu_list is None:
        return irq_affinity
    return cpu_list if cpu_list == "all" or re.match(rf"{_BOOTS}\b", cpu_list) else f"{_BOOTS},{cpu_list}"


def not_default(cpu_list: str, there: int, mask: str) -> str:
    """Return what is wrong with the default affinity of interrupts as `irqaffinity` should have made it; or nothing.

    Args:
        cpu_list: the CPUs that it should be.
        there: how many CPUs the board has.
        mask: what the kernel says: groups of 32 bits in hexadecimal digits (lib/bitmap-str.c).
    """
    cpus = parse_cpus(cpu_list, there)
    if cpus is None:
        return f"the CPUs {cpu_list!r} (irqaffinity) are not understood, so nobody can tell whether they took"
    bits = int(mask.replace(",", ""), 16) if _MASK.fullmatch(mask) else 0
    default_cpus = frozenset(cpu for cpu in range(there) if bits >> cpu & 1)
    if default_cpus == cpus:
        return ""
    return f"interrupts should be on CPUs {cpu_list} by default, and the kernel's mask is {mask or 'not told'}"


def ignored_arguments(command_line: str, actual_lists: Mapping[str, str], there: int) -> list[str]:
    """Return which arguments the kernel did not follow, as sentences.

    Args:
        command_line: the arguments that were asked for.
        actual_lists: what the kernel says, by the names of `requested_lists`; what it does not tell is not judged.
        there: how many CPUs the board has.
    """
    problems = []
    for name, cpu_list in requested_lists(command_line).items():
        cpus, actual_cpus = parse_cpus(cpu_list, there), parse_cpus(actual_lists.get(name, ""), there) or frozenset()
        if name not in actual_lists:
            continue
        if cpus is None:
            problems.append(f"the CPUs {cpu_list!r} ({name}) are not understood, so nobody can tell whether they took")
        elif not cpus <= actual_cpus:
            problems.append(f"CPUs {cpu_list} should be {name}, and the kernel says {actual_lists[name] or 'none'}")
    return problems


def astray(cpu_list: str, there: int, readings: Mapping[str, tuple[str, str]]) -> list[str]:
    """Return the interrupts that came on other CPUs than those of a list, and belong there, as sentences."""
    cpus = parse_cpus(cpu_list, there) or frozenset()
    before, after = (_rows(text) for text in readings.get(INTERRUPTS, ("", "")))
    problems = []
    for number, (counts, name) in after.items():
        places = readings.get(_EFFECTIVE.format(number), ("", ""))
        effective = frozenset[int]().union(*(parse_cpus(place, there) or () for place in places))
        earlier = before.get(number, ({}, ""))[0]
        arrivals = {cpu: count - earlier.get(cpu, 0) for cpu, count in counts.items() if cpu in effective - cpus}
        if any(count > 0 for count in arrivals.values()):
            where = ", ".join(f"{count} times on CPU {cpu}" for cpu, count in arrivals.items() if count > 0)
            problems.append(f"interrupt {number} ({name}) should be on CPUs {cpu_list} and came {where}")
    return _few(problems)


def _rows(text: str) -> dict[str, tuple[dict[int, int], str]]:
    """Return counts by CPU, and the name, of each numbered interrupt; the heading has a column for each online CPU."""
    lines = text.splitlines()
    columns = [int(number) for number in re.findall(r"CPU([0-9]{1,5})", lines[0])] if lines else []
    rows = {}
    for match in filter(None, map(_ROW.fullmatch, lines[1:])):
        numbers = [int(count) for count in match[2].split()][: len(columns)]
        name = (match[3] or "").split("  ")[-1].strip()
        rows[match[1]] = (dict(zip(columns, numbers, strict=False)), name)
    return rows


def _few(problems: Iterable[str]) -> list[str]:
    sentences = list(problems)
    return [*sentences[:_SHOWN], *([f"and {len(sentences) - _SHOWN} more"] if len(sentences) > _SHOWN else [])]
