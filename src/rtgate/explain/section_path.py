# SPDX-License-Identifier: MIT
"""What ran in a critical section: a boot again, with the longest section of a site logged block by block."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from rtgate.explain.explanation import SHARE, gains
from rtgate.explain.path import Code, Profile, profile
from rtgate.explain.replay import LEAD, Replay, join_spans
from rtgate.explain.sections import Context, Kind, Section
from rtgate.explain.trace import Run, Trace, TraceRequest
from rtgate.kernel.preemption import preemption
from rtgate.units import plural

_BOUNDARY = 1  # `n` at both ends of a section leaves out a `wfi` that ends it, and has a `cli` that begins it


def section_profiles(replay: Replay, sections: Sequence[Section], changed_names: frozenset[str]) -> list[Profile]:
    """Return the instructions of each function in some sections: those that are part of their lengths.

    Args:
        replay: the boot that had them.
        sections: the longest one of a site.
        changed_names: functions that differ between the kernels.

    Raises:
        ConfigError, InfrastructureError, ParseError: as `Replay.trace`.
    """
    replay.tell(f"{replay.arm.name}, seed {replay.seed}: logging what ran in {plural(len(sections), 'section')}")
    request = TraceRequest(intervals=join_spans(sections), preemption=preemption(replay.kernel))
    _, boot_trace = replay.trace(request)
    code = Code(replay.kernel.arch, boot_trace.blocks, replay.kernel.function_at)
    return [_profile(code, boot_trace, section, changed_names) for section in sections]


def _profile(code: Code, boot_trace: Trace, section: Section, changed_names: frozenset[str]) -> Profile:
    runs = [run for run in boot_trace.runs if section.start - LEAD <= run.n < section.end]
    span = section.start, section.end
    return profile(code, runs, span, changed_names, _part_of(section, boot_trace, runs))


def _part_of(section: Section, boot_trace: Trace, runs: Sequence[Run]) -> Callable[[Run], bool]:
    """Return what tells whether an execution of a block is part of a section's length, as `sections.c` counts it.

    It is if the CPU that ran in the beginning executed it, and not in an interrupt that came with preemption off.
    """
    cpu = next((run.cpu for run in reversed(runs) if run.n <= section.start), -1)
    interrupts = _interrupts(section, boot_trace, cpu)
    return lambda run: run.cpu == cpu and not any(start <= run.n < end for start, end in interrupts)


def _interrupts(section: Section, boot_trace: Trace, cpu: int) -> list[tuple[int, int]]:
    """Return the interrupts of a CPU that a section's length leaves out, as ranges of `n`."""
    assert boot_trace.sections is not None
    if section.site.kind is Kind.IRQSOFF:
        return []
    passages = boot_trace.sections.interrupts
    # An interrupt that has begun the section itself, by masking others, came with preemption on.
    first = section.start + (section.site.context is Context.HARDIRQ)
    within = (passages["cpu"] == cpu) & (passages["start"] >= first) & (passages["end"] <= section.end)
    return [(int(passage["start"]), int(passage["end"])) for passage in passages[within]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionPaths:
    """The longest section of a site in two kernels.

    Attributes:
        baseline: empty, if it has no section that begins or ends like it.
        changed: functions that differ between the kernels.
        lengths: of the baseline's section (0 without one) and the candidate's, as they were measured.
    """

    baseline: Profile
    candidate: Profile
    changed: Collection[str]
    lengths: tuple[int, int]

    @property
    def doubt(self) -> str:
        """Why no function can be named; empty if what ran adds up to the lengths."""
        sides = {"baseline": self.baseline.total, "candidate": self.candidate.total}
        for (arm, total), length in zip(sides.items(), self.lengths, strict=True):
            if abs(total - length) > _BOUNDARY:
                return (
                    f"no function can be named, as {total:,.0f} instructions of the {arm}'s section were found, "
                    f"and it has {length:,}"
                )
        return ""

    @property
    def sentence(self) -> str:
        """Which function gained most: one that differs, if there is one that matters."""
        if self.doubt:
            return self.doubt
        more = self.candidate.total - self.baseline.total
        changes = gains(self.baseline.blamed, self.candidate.blamed)[:1]
        same = gains(self.baseline.own, self.candidate.own)[:1]
        for (name, gain), why in (
            *((entry, "changed and slower") for entry in changes),
            *((entry, "") for entry in same),
        ):
            if gain > 0 and gain >= SHARE * more:
                reason = why or ("changed" if name in self.changed else "slower, its code is the same")
                return f"+{gain:,.0f} instructions in {name} ({reason})"
        return "no function gained instructions"
