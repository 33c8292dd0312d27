# SPDX-License-Identifier: MIT
"""What a virtual-time boot shows: critical sections, bound and stages of its wake-ups, misses of a CPU's caches."""

from __future__ import annotations

from rtgate.errors import ParseError
from rtgate.explain.bound import bound
from rtgate.explain.cache_models import CacheModel
from rtgate.explain.handler_lengths import interrupt_handlers
from rtgate.explain.intervals import TOLERANCE_NS, Interval
from rtgate.explain.lock_holds import raw_locks
from rtgate.explain.misses import WakeUpMisses, wakeup_misses
from rtgate.explain.replay import Replay, SlicedBoot, trace_slices
from rtgate.explain.sections import BootSections, Kind, sections_by_site
from rtgate.explain.spots import SpotNames
from rtgate.explain.trace import EventKind
from rtgate.explain.wakeup_stages import stage_marks, wakeup_stages
from rtgate.explain.wakeups import WakeUps, reports
from rtgate.kernel.preemption import preemption
from rtgate.kernel.vmlinux import plain_name
from rtgate.records.record import Record


def trace_sections(
    replay: Replay,
    altered_names: frozenset[str] = frozenset(),
    caches: CacheModel | None = None,
    *,
    stages: bool = False,
) -> tuple[Record, BootSections]:
    """Run a boot, once, and return its record and the critical sections that ended while it measured.

    Args:
        replay: the boot.
        altered_names: functions whose longest calls in sections are looked for.
        caches: of which misses are counted; None for none.
        stages: whether those of wake-ups are measured, too: each boot then takes longer.

    Raises:
        ConfigError, InfrastructureError, ParseError: as `trace_functions`; ConfigError also if the kernel does not show
            where it keeps the preemption count, ParseError also if a change of that count was not seen.
    """
    replay.tell(f"{replay.arm.name}, seed {replay.seed}: following critical sections")
    layout = preemption(replay.kernel)
    marks = stage_marks(replay.kernel) if stages and _has_bounded_tool(replay) else {}
    boot = trace_slices(replay, layout, altered_names, caches, marks)
    log = boot.seen.sections
    assert log is not None
    if log.unseen:
        raise ParseError(
            f"the preemption count changed {log.unseen} times by instructions that are not known: "
            "critical sections of this kernel cannot be followed"
        )
    if log.cpus < replay.arm.board.cpus:
        raise ParseError(
            f"{log.cpus} of {replay.arm.board.cpus} CPUs were followed: this kernel keeps its task otherwise"
        )
    functions = [plain_name(replay.kernel.function_at(address)) for address in boot.altered]
    sections = sections_by_site(log, boot.slices, SpotNames(replay.kernel, layout).spot, replay.seed, functions)
    wakeups = _bounded_wakeups(replay, boot)
    passages = boot.within(log.interrupts), boot.within(log.switches)
    return boot.record, BootSections(
        sections=tuple(section for section in sections if section.site.kind is not Kind.POID),
        bound=bound(sections, passages, wakeups, replay.seed) if wakeups else None,
        locks=raw_locks(log.locks, log.cpu_offsets, boot.slices, replay.kernel, replay.seed),
        wakeup_misses=_wakeup_misses(replay, boot) if caches else None,
        stages=wakeup_stages(boot.seen.events, passages, wakeups) if stages and wakeups else None,
        handlers=interrupt_handlers(log.handlers, boot.slices, replay.kernel, replay.seed),
    )


def _wakeup_misses(replay: Replay, boot: SlicedBoot) -> WakeUpMisses | None:
    """Return what cyclictest's wake-ups missed; None for another tool."""
    if not isinstance(replay.finder, WakeUps):
        return None
    assert boot.seen.sections is not None
    wakes = [event.n for event in boot.seen.events if event.kind == EventKind.TIMER_WAKEUP]
    spans = [(wakeup.start, wakeup.end - 1) for wakeup in _reported(boot)]
    return wakeup_misses(boot.seen.sections.moments, wakes, spans)


def _bounded_wakeups(replay: Replay, boot: SlicedBoot) -> list[Interval]:
    """Return the wake-ups that have a bound: cyclictest's, on one CPU, of a kernel that can be preempted anywhere.

    With PREEMPT_NONE a wake-up waits for the end of a system call, and with Dovetail for what the CPU does not show.
    """
    preemptible = boot.record.environment.flavour == "preempt_rt"
    return _reported(boot) if preemptible and _has_bounded_tool(replay) else []


def _has_bounded_tool(replay: Replay) -> bool:
    return isinstance(replay.finder, WakeUps) and replay.arm.board.cpus == 1


def _reported(boot: SlicedBoot) -> list[Interval]:
    """Return the wake-ups without the few that the trace numbers otherwise than the tool, and so takes for longer."""
    most = max(report.maximum for report in reports(boot.record)) + TOLERANCE_NS
    return [wakeup for wakeup in boot.wakeups if wakeup.latency_ns <= most and wakeup.start < wakeup.end]
