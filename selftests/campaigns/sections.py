# SPDX-License-Identifier: MIT
"""Changes whose critical sections are known, and what was measured of them (`selftests/data/sections`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from selftests.campaigns import comparisons

from rtgate.board.boards import board
from rtgate.kernel.harmless import KernelChange
from rtgate.records.codec import decode
from rtgate.records.longer_sections import SectionComparison
from rtgate.strict_yaml import Value, load
from rtgate.tools.case_name import CaseName

DATA = Path(__file__).resolve().parents[1] / "data" / "sections"
MEASURED = DATA / "measured.json"
SITE = DATA / "site"
_SEEDS = "1-7"
_OWN = ("planted", "harmless")
"""Groups whose names the other groups use."""


class How(Enum):
    """How a change is measured."""

    GATED = "gated"
    """Samples and sections are compared, by a gate."""
    FOLLOWED = "followed"
    """Sections alone are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change, and where and how it is measured.

    Attributes:
        name: `planted/fork`, `two-cpus/planted/ipi`, or a harmless kernel of a campaign with its place.
        seeds: the boots of each kernel.
        directory: has its patch series; None for a kernel of a campaign, which `bench/comparisons.py` builds.
    """

    name: str
    kernel: KernelChange
    board: str
    build: str
    case: CaseName
    how: How
    seeds: str = _SEEDS
    directory: Path | None = None


def changes(path: Path = DATA / "changes.yaml") -> dict[str, Change]:
    """Return all changes by name. Raises ConfigError."""
    groups = load(path).entries()
    elsewhere = groups.pop("placebos").value.entries()
    every = [change for group, entry in groups.items() for change in _of_group(group, entry.value)]
    known = {name: one.kernel for name, one in comparisons.changes().items() if one.group == "placebos"}
    builds = {" ".join(place): build for place, build in comparisons.builds().items()}
    idle = " ".join(comparisons.IDLE)
    every += [_placebo(kernel, idle, builds[idle]) for kernel in known.values()]
    for place, entry in elsewhere.items():
        every += [_placebo(known[name.text(known)], place, builds[place]) for name in entry.value.items()]
    return {change.name: change for change in every}


def _of_group(group: str, value: Value) -> Iterator[Change]:
    fields = value.mapping(("board", "how", "changes"), ("build",))
    machine = fields["board"].text()
    for name, entry in fields["changes"].entries().items():
        own = entry.value.mapping(("case",), ("seeds",)) if entry.value.is_mapping else None
        directory = DATA / group / name if group in _OWN else DATA / name
        yield Change(
            name=f"{group}/{name}",
            kernel=KernelChange(
                name=f"{directory.parent.name}-{directory.name}", patches=tuple(sorted(directory.glob("*.patch")))
            ),
            board=machine,
            build=fields.text("build", "") or board(machine).build,
            case=(own["case"] if own else entry.value).parse(CaseName.parse),
            how=How(fields.text("how", "", [how.value for how in How])),
            seeds=own.text("seeds", _SEEDS) if own else _SEEDS,
            directory=directory,
        )


def _placebo(kernel: KernelChange, place: str, build: str) -> Change:
    machine, _, case = place.partition(" ")
    return Change(
        name=f"placebos/{kernel.name} {place}",
        kernel=kernel,
        board=machine,
        build=build,
        case=CaseName.parse(case),
        how=How.FOLLOWED,
    )


def comparison(document: Mapping[str, Any]) -> SectionComparison:
    """Return how sections of a change differ, from what is stored of it."""
    data = {key: value for key, value in document["sections"].items() if key != "format"}
    # The first kernels were measured before boots were counted. A section cannot be in more boots than it came often:
    # for harmless kernels that is the hardest, and of the planted ones `test_no_planted...` asks that none needs it.
    # So is a spread of nothing, and a longer call or section in each boot: planted ones have their own.
    every = len(data["seeds"])
    usual = {"spread": 0, "call_spread": 0, "call_boots": every, "longer_boots": every}
    longer = [{"boots": min(one["count"], every), **usual, **one} for one in data["longer"]]
    return decode({"cpus": 1, "boots_digest": "", **data, "longer": longer}, SectionComparison)
