# SPDX-License-Identifier: MIT
"""Validity check: CPUs and interrupts were isolated as the tuning asks, by what the kernel says and what came."""

from __future__ import annotations

from collections.abc import Mapping

from rtgate.board import isolation
from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, PlanInputs, ValidityCheck, answer_for


def rcu_nocbs(files: Mapping[str, bytes], command_line: str) -> str | None:
    """Return the CPUs whose RCU callbacks the kernel offloads.

    None if nobody asks for any, or if its log does not tell or begins too late.
    """
    if "rcu_nocbs" not in isolation.requested_lists(command_line):
        return None
    log = files.get("dmesg", b"").decode("utf-8", errors="replace")
    return isolation.offloaded_cpus(log) or ("" if "Linux version " in log else None)


def _judge(record: Record) -> Answer:
    expectation, environment, evidence = record.evidence.expectation, record.environment, record.evidence
    there = int(environment.cpus) if environment.cpus.isdecimal() else 1
    words, affinity = expectation.command_line, expectation.irq_affinity
    cpu_lists = {"isolated": environment.isolated, "nohz_full": environment.nohz_full}
    cpu_lists |= {} if evidence.rcu_nocbs is None else {"rcu_nocbs": evidence.rcu_nocbs}
    problems = isolation.ignored_arguments(words, cpu_lists, there)
    fine = [f"{name} {cpus}" for name, cpus in isolation.requested_lists(words).items()]
    interrupts = isolation.interrupts(words, affinity)
    if interrupts:
        problems += isolation.astray(interrupts, there, evidence.readings)
        fine.append(f"no interrupt came elsewhere than on {interrupts}")
    if interrupts and not affinity:
        mask = evidence.settings.get(isolation.DEFAULT_AFFINITY, ("", ""))[0]
        problems += filter(None, [isolation.not_default(interrupts, there, mask)])
    gap = _unread(record, cpu_lists) if not problems else ""
    if gap:
        return answer_for(gap, "", Invalidates.GOOD_NEWS)
    return answer_for("; ".join(problems), ", ".join(fine) or "the tuning isolates nothing")


def _unread(record: Record, cpu_lists: Mapping[str, str]) -> str:
    """Return what of the isolation nobody read."""
    expectation, evidence = record.evidence.expectation, record.evidence
    words = expectation.command_line
    moves = isolation.interrupts(words, expectation.irq_affinity)
    if moves and not all(evidence.readings.get(isolation.INTERRUPTS, ("", ""))):
        return "where interrupts came was not read before and after"
    # Of a soak's chunks the first one has the log of the boot, and tells.
    if "rcu_nocbs" in isolation.requested_lists(words) and "rcu_nocbs" not in cpu_lists and evidence.log != "new":
        return "whether rcu_nocbs took was not read: the kernel's log has lost its beginning"
    return ""


def _reads(inputs: PlanInputs) -> tuple[str, ...]:
    return isolation.files_to_watch(inputs.tuning.command_line, inputs.tuning.irq_affinity)


CHECK = ValidityCheck(
    name="isolation",
    holds="`isolcpus` and `nohz_full` of the tuning are what `/sys/devices/system/cpu/isolated` and `nohz_full` say, "
    "and `rcu_nocbs` is what the kernel's log says. Where the tuning says where interrupts go (`irq_affinity`, or "
    "`irqaffinity` on the command line), none came on another CPU of its effective affinity. `irqaffinity` is what "
    "`/proc/irq/default_smp_affinity` says",
    invalidates=Invalidates.FIGURES,
    exceptions="good news, if interrupts were not read, or the log had lost its beginning",
    judge=_judge,
    reads=_reads,
    readings=isolation.WATCHED,
)
