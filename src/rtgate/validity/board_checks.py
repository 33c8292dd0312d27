# SPDX-License-Identifier: MIT
"""Validity checks of the board itself: what no kernel can help, and what would be taken for a worse kernel."""

from __future__ import annotations

from collections.abc import Mapping

from rtgate.board import firmware, isolation, suspend, thermal
from rtgate.records.record import Record
from rtgate.validity import links
from rtgate.validity.check import Check, Invalidates, judged, not_applicable

# Bits of an NVMe disk's critical warning (NVMe base specification, SMART / Health Information).
_WARNINGS = (
    *("its spare blocks are used up", "its temperature is beyond its limit", "its reliability is degraded"),
    *("it is read-only", "its volatile memory is not backed up", "its persistent memory is read-only"),
)


def isolation_check(record: Record) -> Check:
    """Check that CPUs and interrupts are isolated as the tuning asks, by what the kernel says and what came."""
    asked, environment, evidence = record.evidence.asked, record.environment, record.evidence
    there = int(environment.cpus) if environment.cpus.isdecimal() else 1
    words, moved = str(asked["command_line"]), str(asked.get("irq_affinity", ""))
    has = {"isolated": environment.isolated, "nohz_full": environment.nohz_full}
    has |= {} if evidence.rcu_nocbs is None else {"rcu_nocbs": evidence.rcu_nocbs}
    problems = isolation.not_taken(words, has, there)
    fine = [f"{name} {cpus}" for name, cpus in isolation.asked(words).items()]
    interrupts = isolation.interrupts(words, moved)
    if interrupts:
        problems += isolation.astray(interrupts, there, evidence.readings)
        fine.append(f"no interrupt came elsewhere than on {interrupts}")
    if interrupts and not moved:
        mask = evidence.settings.get(isolation.DEFAULT_AFFINITY, ("", ""))[0]
        problems += filter(None, [isolation.not_default(interrupts, there, mask)])
    untold = _untold(record, has) if not problems else ""
    if untold:
        return judged("isolation", Invalidates.GOOD_NEWS, untold, "")
    return judged(
        "isolation", Invalidates.FIGURES, "; ".join(problems), ", ".join(fine) or "the tuning isolates nothing"
    )


def _untold(record: Record, has: Mapping[str, str]) -> str:
    """Return what of the isolation nobody read."""
    asked, evidence = record.evidence.asked, record.evidence
    words = str(asked["command_line"])
    moves = isolation.interrupts(words, str(asked.get("irq_affinity", "")))
    if moves and not all(evidence.readings.get(isolation.INTERRUPTS, ("", ""))):
        return "where interrupts came was not read before and after"
    # Of a soak's chunks the first one has the log of the boot, and tells.
    if "rcu_nocbs" in isolation.asked(words) and "rcu_nocbs" not in has and evidence.log != "new":
        return "whether rcu_nocbs took was not read: the kernel's log has lost its beginning"
    return ""


def suspend_check(record: Record) -> Check:
    """Check that the board was not suspended: by the kernel's count where it has one, else by its log."""
    readings, lines = record.evidence.readings, record.evidence.suspends
    counts = suspend.of(readings)
    if not all(before and after for before, after in counts.values()):
        problem = "how often the board was suspended was not read before and after"
        return judged("suspend", Invalidates.GOOD_NEWS, problem, "")
    if counts:
        moved = suspend.changed(readings)
        problem = f"the board was suspended while it measured, or was to be: {moved}" if moved else ""
        return judged("suspend", Invalidates.FIGURES, problem, "the kernel counted no suspend")
    if lines:
        problem = f"the kernel does not count suspends, and its log tells of one: {lines[0]!r} (start the board anew)"
        return judged("suspend", Invalidates.FIGURES, problem, "")
    if lines is None and record.evidence.log:
        return not_applicable("suspend", Invalidates.GOOD_NEWS, "the record is older than this check")
    problem = "" if lines is not None else "neither the kernel's count of suspends nor its log was read"
    return judged("suspend", Invalidates.GOOD_NEWS, problem, "the kernel's log tells of no suspend")


def temperature_check(record: Record) -> Check:
    """Check that no thermal zone was above the board's limit: clocks of a chip that is too hot are lowered."""
    limit, zones = record.evidence.asked.get("temperature_limit"), thermal.zones(record.evidence.readings)
    if limit is None:
        return not_applicable("temperature", Invalidates.FIGURES, "the board's file gives no temperature_limit")
    if not zones:
        return not_applicable("temperature", Invalidates.FIGURES, "the board has no sensor that told a temperature")
    hot = [f"{zone.name} was at {zone.highest:g} C" for zone in zones if zone.highest > limit]
    if hot:
        return judged("temperature", Invalidates.FIGURES, f"{', '.join(hot)}; the board's limit is {limit} C", "")
    unread = [zone.name for zone in zones if zone.before is None or zone.after is None]
    problem = f"the temperature of {', '.join(unread)} was not read before and after" if unread else ""
    fine = f"at most {max(zone.highest for zone in zones):g} C, {limit} C are allowed"
    return judged("temperature", Invalidates.GOOD_NEWS, problem, fine)


def firmware_check(record: Record) -> Check:
    """Check that the board's firmware is what its file pins."""
    pins, told = record.evidence.asked.get("firmware", {}), firmware.strings(record.environment.firmware)
    if not pins:
        return not_applicable("firmware", Invalidates.EVERYTHING, "the board's file pins no firmware")
    if not told:
        problem = f"{', '.join(pins)}: the board's file pins it, and no log of the boot told any (a LAVA job has one)"
        return judged("firmware", Invalidates.GOOD_NEWS, problem, "")
    return judged("firmware", Invalidates.EVERYTHING, firmware.unlike(pins, told), f"{', '.join(pins)} as pinned")


def health_check(record: Record) -> Check:
    """Check that the disk was well before and after."""
    start = str(record.evidence.asked.get("health", ""))
    if not start:
        return judged("health", Invalidates.GOOD_NEWS, "", "the tool has no disk")
    found = {one.name: one.quantity.value for one in record.measurements if one.quantity}
    warning, errors = found.get(f"{start}.critical_warning"), found.get(f"{start}.media_errors")
    if warning is None or errors is None:
        return judged("health", Invalidates.GOOD_NEWS, "the disk's health was not read before and after", "")
    told = [word for bit, word in enumerate(_WARNINGS) if int(warning) >> bit & 1]
    problems = [f"the disk warns: {', '.join(told) or f'code {warning:g}'}"] if warning else []
    problems += [f"the disk counted {errors:g} new media errors"] if errors else []
    return judged("health", Invalidates.EVERYTHING, "; ".join(problems), "no warning and no new media error")


def aer_check(record: Record) -> Check:
    """Check that the error counters of PCI functions that should be there were read before and after."""
    counted = record.evidence.asked.get("counters", [])
    missing = links.unread(record.evidence.pcie, counted)
    problem = f"the AER counters of {', '.join(missing)} were not read (CONFIG_PCIEAER?)" if missing else ""
    fine = ", ".join(str(entry["name"]) for entry in counted)
    return judged(
        "aer", Invalidates.GOOD_NEWS, problem, f"read of {fine}" if fine else "the board's file asks for none"
    )
