# SPDX-License-Identifier: MIT
"""What the placebos of all campaigns teach: `placebos.yaml`, and what it would say without one of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from selftests.comparisons import UNPATCHED, Place
from selftests.kernels import Kernels, by_place, distinct, placebos_of

from rtgate.judge.compare.phases import Placebo, learnt
from rtgate.judge.compare.placebos import PlaceboModel, Placebos, version
from rtgate.records.record import Record

NOTE = "Linux 6.12.117, QEMU 7.2 of Debian 12"
FEWEST_PLACEBOS = 6
"""Fewer in a case teach nothing."""


def figures_of(campaigns: Iterable[Kernels], without: str = "") -> Mapping[str, Placebo]:
    """Return what the placebos of a case showed in all campaigns; nothing if there are none.

    Raises:
        ValueError: campaigns measured the case with different commands, QEMUs or series of kernels.
    """
    every, found = list(campaigns), dict[str, Placebo]()
    kinds = {_kind(kernels[UNPATCHED].records[0]) for kernels in every}
    if len(kinds) > 1:
        raise ValueError(f"these campaigns do not teach together: {' against '.join(map(str, sorted(kinds)))}")
    for kernels in every:
        teachers = placebos_of(kernels, without)
        shown = learnt(kernels[UNPATCHED].figures, [boots.figures for boots in teachers.values()]) if teachers else {}
        for name, placebo in shown.items():
            own = replace(placebo, kernels=distinct(kernels, without))
            found[name] = _together(found[name], own) if name in found else own
    return found


def _kind(record: Record) -> tuple[str, ...]:
    environment = record.environment
    return (" ".join(record.argv), version(environment.emulator), version(environment.kernel_release))


def _together(one: Placebo, other: Placebo) -> Placebo:
    """Return what two campaigns showed. Each kernel was compared with those that have its root file system.

    The images are the same in both, and each counts once: what an image does by itself it does in both.
    """
    return Placebo(
        move=max(one.move, other.move),
        spike=max(one.spike, other.spike),
        move_by=max(one.move_by, other.move_by),
        spike_at=max(one.spike_at, other.spike_at),
        kernels=max(one.kernels, other.kernels),
        boots=min(one.boots, other.boots),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Teachers:
    """The kernels of a case in all campaigns, of which the placebos teach what harmless kernels show."""

    place: Place
    campaigns: tuple[Kernels, ...]

    def without(self, name: str) -> Placebos:
        """Return what the placebos but one showed, as a gate reads it from placebos.yaml."""
        return _taught(self, name)


@cache
def _taught(teachers: Teachers, name: str) -> Placebos:
    board, case = teachers.place
    one = teachers.campaigns[0][UNPATCHED].records[0]
    figures = figures_of(teachers.campaigns, name)
    learnt = PlaceboModel(command=" ".join(one.argv), source="the others", figures=figures)
    return Placebos({(board, one.kernel.flavour, case): learnt})


def placebos_yaml(directories: Iterable[Path]) -> str:
    """Return the file that campaigns teach."""
    lines = _HEAD.splitlines()
    by_board: dict[str, list[str]] = {}
    for (board, case), campaigns in sorted(by_place(directories).items()):
        taught = [kernels for kernels in campaigns if len(placebos_of(kernels)) >= FEWEST_PLACEBOS]
        figures = figures_of(taught)
        if figures:
            by_board.setdefault(board, []).extend(_entry(case, taught, figures))
    for board, entries in by_board.items():
        lines += [f"{board}:", "  preempt_rt:", *entries]
    return "\n".join(lines) + "\n"


_HEAD = """\
# SPDX-License-Identifier: MIT
#
# How much harmless kernels (placebos) move what is compared on virtual-time boards: board, flavour, case. Written by
# `bench/rates.py learn` from what bench/comparisons.py measured (selftests/data/comparisons). `move` is the largest
# shift of a placebo over its baseline's median, `spike` the largest boot over its kernel's median; of all campaigns.
# docs/explanation/verdicts.md says what is made of it; `rtgate check` validates this file."""


def _up(value: float, digits: int) -> str:
    """Return a number that is not smaller, so that what taught the file is not beyond it."""
    return f"{math.ceil(round(value * 10**digits, 6)) / 10**digits:.{digits}f}"


def _entry(case: str, campaigns: Sequence[Kernels], figures: Mapping[str, Placebo]) -> Iterable[str]:
    one = campaigns[0][UNPATCHED].records[0]
    names = {name for kernels in campaigns for name in placebos_of(kernels)}
    count = min(placebo.kernels for placebo in figures.values())
    boots = min(placebo.boots for placebo in figures.values())
    yield f"    {case}:"
    yield f"      command: {' '.join(one.argv)}"
    source = f"{len(names)} placebos in {len(campaigns)} campaigns, {count} sets of data of their own in each; {NOTE}"
    yield f'      source: "{source}"'
    yield f'      qemu: "{version(one.environment.emulator)}"'
    yield f'      linux: "{version(one.environment.kernel_release)}"'
    yield f"      kernels: {count}"
    yield f"      boots: {boots}"
    yield "      figures:"
    for name, placebo in figures.items():
        beside = {"move_by": placebo.move_by, "spike_at": placebo.spike_at}
        more = "".join(f", {key}: {_up(value, 4)}" for key, value in beside.items() if value)
        yield f"        {name}: {{move: {_up(placebo.move, 5)}, spike: {_up(placebo.spike, 4)}{more}}}"
