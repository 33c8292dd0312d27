# SPDX-License-Identifier: MIT
"""Kernels as campaigns measured them (`comparisons`): the boots of each in each case, as many as a gate has.

Placebos are those that teach what harmless kernels show (`teaching`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from selftests.campaigns.comparisons import UNPATCHED, Place, changes, records

from rtgate.judge.compare.placebos import version
from rtgate.judge.learn.harmless import FEWEST_BOOTS, Boots, Lesson
from rtgate.measure.profiles import profile
from rtgate.records.record import Record
from rtgate.tools.case_name import CaseName

Kernels = Mapping[str, Boots]
"""What a campaign measured in one case of a board, by kernel."""


def measured_boots(directory: Path, seeds: Sequence[int] = (), *, looks: int = 1) -> dict[Place, Kernels]:
    """Return what was measured, by board and case, then by kernel.

    Args:
        directory: of the campaign.
        seeds: these, instead of those that a gate compares at first.
        looks: 2 for as many boots as a gate has after the second look, of kernels that have them.
    """
    found: dict[Place, dict[str, list[Record]]] = {}
    for name in (UNPATCHED, *changes()):
        if not (directory / f"{name}.json.xz").exists():
            continue
        for record in records(name, directory):
            first = seeds or first_seeds(record.case)
            if record.seed in range(first[0], first[0] + looks * len(first)):
                found.setdefault((record.board, record.case), {}).setdefault(name, []).append(_with_plan(record))
    return {
        place: {name: Boots(name, tuple(boots)) for name, boots in kernels.items()}
        for place, kernels in found.items()
        if UNPATCHED in kernels
    }


def _with_plan(record: Record) -> Record:
    """Return a record with its plan, in place of which the first campaign has none: unknown plans are not compared."""
    return replace(record, machine={"plan": f"of seed {record.seed}", **record.machine})


@cache
def first_seeds(case: str) -> tuple[int, ...]:
    """Return the boots of a case that a gate compares at first."""
    name = CaseName.parse(case)
    return profile(gate_profile(case)).of(name.tool, name.suite, name.load).seeds


def gate_profile(case: str) -> str:
    """Return the profile with which a gate compares two kernels in a case."""
    return "compare-devices" if CaseName.parse(case).suite in {"pcie", "nvme"} else "compare"


def emulator_of(kernels: Kernels) -> str:
    """Return the version of QEMU that kernels were booted with. What one shows says nothing of another."""
    return version(kernels[UNPATCHED].records[0].environment.emulator)


def by_place(directories: Iterable[Path]) -> dict[Place, list[Kernels]]:
    """Return what campaigns measured in each case, at the first look."""
    found: dict[Place, list[Kernels]] = {}
    for directory in directories:
        for place, kernels in measured_boots(directory).items():
            found.setdefault(place, []).append(kernels)
    return found


def placebos_of(kernels: Kernels, without: str = "") -> dict[str, Boots]:
    """Return the placebos of a case that were measured often enough, but neither `without` nor one with its data."""
    left_out = kernels.get(without)
    return {
        name: boots
        for name, boots in kernels.items()
        if name in _harmless() and len(boots.records) >= FEWEST_BOOTS and not (left_out and _twins(boots, left_out))
    }


@cache
def _harmless() -> frozenset[str]:
    return frozenset(name for name, change in changes().items() if change.group == "placebos")


def _twins(one: Boots, other: Boots) -> bool:
    return one.kernel == other.kernel or one.data == other.data


def lesson_of(kernels: Kernels, without: str = "") -> Lesson:
    """Return what teaches in a case."""
    return Lesson(kernels[UNPATCHED], placebos_of(kernels, without))


def distinct(kernels: Kernels, without: str = "") -> int:
    """Return how many sets of data the placebos of a case have beside the unpatched kernel's."""
    return lesson_of(kernels, without).distinct
