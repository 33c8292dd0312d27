# SPDX-License-Identifier: MIT
"""How much boots of one kernel differ in what a function takes in critical sections.

Where a function runs the same instructions each time, any growth is a change of it. Where it looks at data, as the
scheduler does, its longest differs from boot to boot without any change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from rtgate.explain.sections import BootSections, Section


def spreads(boots: Iterable[BootSections], functions: Collection[str]) -> Mapping[str, int]:
    """Return by how many instructions boots of one kernel differ in the longest of what each function takes.

    These are its calls in sections of one kind and context, and the sections of one site that it begins; of all these
    the one that differs most. Of three boots or more the shortest is left out: that one did not go the usual way says
    nothing of how long another way may be. A function that has none in two boots is left out.
    """
    longest: defaultdict[tuple[str, object], list[int]] = defaultdict(list)
    for boot in boots:
        for key, lengths in _lengths(boot.sections, functions).items():
            longest[key].append(max(lengths))
    differences: dict[str, int] = {}
    for (function, _), of_boots in longest.items():
        if len(of_boots) > 1:
            differences[function] = max(differences.get(function, 0), _distance(sorted(of_boots)))
    return differences


def _distance(lengths: Sequence[int]) -> int:
    return lengths[-1] - lengths[1 if len(lengths) > 2 else 0]


def _lengths(sections: Iterable[Section], functions: Collection[str]) -> Mapping[tuple[str, object], list[int]]:
    lengths: defaultdict[tuple[str, object], list[int]] = defaultdict(list)
    for section in sections:
        if section.site.begin.function in functions:
            lengths[section.site.begin.function, section.site].append(section.longest)
        for call in section.calls:
            lengths[call.function, (section.site.kind, section.site.context)].append(call.instructions)
    return lengths
