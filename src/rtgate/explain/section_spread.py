# SPDX-License-Identifier: MIT
"""How much boots of one kernel differ in what a function takes in critical sections.

Where a function runs the same instructions each time, any growth is a change of it. Where it looks at data, as the
scheduler does, its longest differs from boot to boot without any change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rtgate.explain.sections import BootSections

FEWEST = 4
"""Boots that must show a function, to say how much it varies."""
_Key = tuple[str, object]  # a function, and in what it was seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Spreads:
    """By how many instructions boots of one kernel differ in the longest of what each function takes.

    The largest is taken of all kinds and contexts of sections: where a function varies in one, it may in another.

    Attributes:
        calls: in its calls; None where too few boots show it.
        sections: in its calls, and in the sections of a site that it begins.
        boots: how many there were.
    """

    calls: Mapping[str, int | None]
    sections: Mapping[str, int | None]
    boots: int

    @classmethod
    def of(cls, boots: Sequence[BootSections], functions: Collection[str]) -> Spreads:
        """Return those of some functions."""
        calls = _by_key(_calls(boot, functions) for boot in boots)
        sections = _by_key(_sections(boot, functions) for boot in boots)
        return cls(calls=_spreads(calls, len(boots)), sections=_spreads(calls | sections, len(boots)), boots=len(boots))

    def of_call(self, function: str) -> int | None:
        """Return that of a function's calls; 0 if no boot shows it, as nothing varies then."""
        return self.calls.get(function, 0) if self.boots >= FEWEST else None

    def of_section(self, function: str) -> int | None:
        """Return that of a function's calls and of the sections that it begins."""
        return self.sections.get(function, 0) if self.boots >= FEWEST else None


def _calls(boot: BootSections, functions: Collection[str]) -> Mapping[_Key, int]:
    """Return the longest call of each function in sections of one kind and context."""
    longest: defaultdict[_Key, int] = defaultdict(int)
    for section in boot.sections:
        for call in section.calls:
            if call.function in functions:
                key = (call.function, (section.site.kind, section.site.context))
                longest[key] = max(longest[key], call.instructions)
    return longest


def _sections(boot: BootSections, functions: Collection[str]) -> Mapping[_Key, int]:
    """Return the longest section of each site that one of the functions begins."""
    sections = [section for section in boot.sections if section.site.begin.function in functions]
    return {(section.site.begin.function, section.site): section.longest for section in sections}


def _by_key(boots: Iterable[Mapping[_Key, int]]) -> dict[_Key, list[int]]:
    lengths: defaultdict[_Key, list[int]] = defaultdict(list)
    for boot in boots:
        for key, length in boot.items():
            lengths[key].append(length)
    return lengths


def _spreads(lengths: Mapping[_Key, Sequence[int]], boots: int) -> dict[str, int | None]:
    """Return the largest distance of each function.

    The boot with the shortest is left out: that it did not go the usual way says nothing of how long another way may
    be. So is what fewer than half of the boots show, and fewer than `FEWEST`.
    """
    spreads: dict[str, int | None] = {}
    for (function, _), of_boots in lengths.items():
        spread = spreads.setdefault(function, None)
        if len(of_boots) >= max(FEWEST, boots / 2):
            ordered = sorted(of_boots)
            spreads[function] = max(spread or 0, ordered[-1] - ordered[1])
    return spreads
