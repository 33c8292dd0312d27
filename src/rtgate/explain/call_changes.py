# SPDX-License-Identifier: MIT
"""Calls of altered functions in two kernels' critical sections: which one became longer.

The longest call of a function is hardly chance, where the longest section is: what a section takes depends on whatever
else ran in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rtgate.explain.section_spread import Spreads
from rtgate.explain.sections import BootSections, Call, Context, Kind, Section, Site
from rtgate.records.longer_sections import GAINED, least_gain

LEAST = 100
"""Instructions below which a difference is nothing: 0.8 us, less than a tick of the board's counter moves a section."""


@dataclass(frozen=True, slots=True)
class CallsBefore:
    """The baseline's longest calls of altered functions, in instructions.

    Attributes:
        exact: of each function, by kind and context of the section.
        anywhere: of each function.
        of_any: by kind and context of the section, whatever the function.
        spreads: by how many instructions the baseline's boots differ in what a function takes.
    """

    exact: Mapping[tuple[Kind, Context, str], int]
    anywhere: Mapping[str, int]
    of_any: Mapping[tuple[Kind, Context], int]
    spreads: Spreads

    @classmethod
    def of(cls, baseline: Sequence[Section], spreads: Spreads) -> CallsBefore:
        """Return those in a baseline's sections."""
        exact: defaultdict[tuple[Kind, Context, str], int] = defaultdict(int)
        anywhere: defaultdict[str, int] = defaultdict(int)
        of_any: defaultdict[tuple[Kind, Context], int] = defaultdict(int)
        for section in baseline:
            where = (section.site.kind, section.site.context)
            for call in section.calls:
                exact[*where, call.function] = max(exact[*where, call.function], call.instructions)
                anywhere[call.function] = max(anywhere[call.function], call.instructions)
                of_any[where] = max(of_any[where], call.instructions)
        return cls(exact, anywhere, of_any, spreads)

    def of_function(self, site: Site, function: str) -> int:
        """Return the longest call of a function; where it was not called in such a section, what may stand for it.

        That it was not called may be chance: then it counts as long as elsewhere, or as any other one there.
        """
        where = (site.kind, site.context)
        if (*where, function) in self.exact:
            return self.exact[*where, function]
        return max(self.anywhere.get(function, 0), self.of_any.get(where, 0))

    def boots_with_longer(self, function: str, boots: Iterable[BootSections]) -> int:
        """Return in how many boots a function has a call that gained more than is usual for it, in any section."""
        least = least_gain(self.spreads.of_call(function))
        return sum(
            any(
                call.function == function and call.instructions >= self.of_function(section.site, function) + least
                for section in boot.sections
                for call in section.calls
            )
            for boot in boots
        )

    def is_usual(self, call: Call) -> bool:
        """Return whether the function takes as long in some section of the baseline, of whatever kind and context."""
        return call.instructions <= self.anywhere.get(call.function, 0)

    def beyond(self, site: Site, call: Call) -> int:
        """Return by how much a call gained more than what may be chance; negative if it did not."""
        return (
            call.instructions - self.of_function(site, call.function) - least_gain(self.spreads.of_call(call.function))
        )

    def longest(self, site: Site, calls: Sequence[Call]) -> Call | None:
        """Return the call that gained most beyond what is usual for it; if none did, one that gained as much as counts.

        Where it gained only what a call within it has, that is the shorter one, if that is beyond what is usual, too.
        """
        gains = {call: call.instructions - self.of_function(site, call.function) for call in calls}
        if not gains:
            return None
        beyond = {call: self.beyond(site, call) for call in gains}
        most = max(beyond, key=lambda call: (beyond[call] >= 0, gains[call] >= GAINED, beyond[call]))
        alike = [
            call
            for call, gain in gains.items()
            if abs(gain - gains[most]) < LEAST and beyond[call] >= min(0, beyond[most])
        ]
        return min(alike, key=lambda call: call.instructions)
