# SPDX-License-Identifier: MIT
"""What ran in a critical section: a boot again, with the longest section of a site logged block by block."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rtgate.explain.explanation import SHARE, gains
from rtgate.explain.path import Code, Profile
from rtgate.explain.replay import Replay, Span, join_spans, profiles
from rtgate.explain.trace import TraceRequest
from rtgate.units import plural


def section_profiles(replay: Replay, sections: Sequence[Span], changed_names: frozenset[str]) -> list[Profile]:
    """Return the instructions of each function in some sections.

    Args:
        replay: the boot that had them.
        sections: the longest one of a site.
        changed_names: functions that differ between the kernels.

    Raises:
        ConfigError, InfrastructureError, ParseError: as `Replay.trace`.
    """
    replay.tell(f"{replay.arm.name}, seed {replay.seed}: logging what ran in {plural(len(sections), 'section')}")
    _, boot_trace = replay.trace(TraceRequest(intervals=join_spans(sections)))
    code = Code(replay.kernel.arch, boot_trace.blocks, replay.kernel.function_at)
    return profiles(code, boot_trace, sections, changed_names)


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionPaths:
    """The longest section of a site in two kernels.

    Attributes:
        baseline: empty, if it has no section that begins or ends like it.
        changed: functions that differ between the kernels.
    """

    baseline: Profile
    candidate: Profile
    changed: Collection[str]

    @property
    def sentence(self) -> str:
        """Which function gained most: one that differs, if there is one that matters."""
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
