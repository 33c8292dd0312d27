# SPDX-License-Identifier: MIT
"""What harmless kernels teach: how much they move what is compared, as an entry of `placebos.yaml`."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from rtgate.judge.compare.boot_figures import BootFigure, boot_figures
from rtgate.judge.compare.phases import Placebo, placebos_from
from rtgate.judge.compare.placebos import PlaceboModel, Placebos, version
from rtgate.records import record as records_file
from rtgate.records.record import Record
from rtgate.units import plural

FEWEST_PLACEBOS = 6
"""Fewer in a case teach nothing."""
FEWEST_BOOTS = 8
"""Boots of a placebo that teach something."""


@dataclass(frozen=True, slots=True, eq=False)
class Boots:
    """The boots of one kernel in one case of a board."""

    kernel: str
    records: tuple[Record, ...]

    @property
    def data(self) -> tuple[str, ...]:
        """What two kernels must have in common to be one kernel as far as this case can tell."""
        return _data(self)

    @property
    def seeds(self) -> frozenset[int | None]:
        """Of the boots."""
        return frozenset(record.seed for record in self.records)

    def differs(self, other: Boots) -> bool:
        """Return whether the boots with the seeds that both have differ in their data."""
        common = self.seeds & other.seeds
        return self._data_of(common) != other._data_of(common)

    def _data_of(self, seeds: Collection[int | None]) -> tuple[str, ...]:
        return tuple(data for record, data in zip(self.records, self.data, strict=True) if record.seed in seeds)

    @property
    def figures(self) -> Sequence[Mapping[str, BootFigure]]:
        """What is compared of each boot."""
        return _figures(self)


@cache
def _data(boots: Boots) -> tuple[str, ...]:
    return tuple(records_file.digest_source(record) for record in boots.records)


@cache
def _figures(boots: Boots) -> Sequence[Mapping[str, BootFigure]]:
    return [boot_figures(record) for record in boots.records]


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """Kernels that were booted in one case with one root file system, which gives all boots their phases.

    Attributes:
        unpatched: the kernel without any change.
        placebos: by name, each with at least `FEWEST_BOOTS` boots.
    """

    unpatched: Boots
    placebos: Mapping[str, Boots]

    @property
    def distinct(self) -> int:
        """How many sets of data the placebos have beside the unpatched kernel's, of any two by the seeds of both."""
        own: list[Boots] = []
        for boots in self.placebos.values():
            if all(boots.differs(other) for other in (self.unpatched, *own)):
                own.append(boots)
        return len(own)


def figures_of(lessons: Sequence[Lesson]) -> Mapping[str, Placebo]:
    """Return what the placebos of a case showed in all lessons; nothing if there are none.

    Raises:
        ValueError: the case was measured with different commands, QEMUs or kernel lines.
    """
    kinds = {_kind(lesson.unpatched.records[0]) for lesson in lessons}
    if len(kinds) > 1:
        raise ValueError(f"these campaigns do not teach together: {' against '.join(map(str, sorted(kinds)))}")
    figures: dict[str, Placebo] = {}
    for lesson in lessons:
        teachers = [boots.figures for boots in lesson.placebos.values()]
        for name, placebo in (placebos_from(lesson.unpatched.figures, teachers) if teachers else {}).items():
            own = replace(placebo, kernels=lesson.distinct)
            figures[name] = combine(figures[name], own) if name in figures else own
    return figures


def _kind(record: Record) -> tuple[str, ...]:
    environment = record.environment
    return (" ".join(record.argv), version(environment.emulator), version(environment.kernel_release))


def combine(first: Placebo, second: Placebo) -> Placebo:
    """Return what two lessons showed. Each kernel was compared with those that have its root file system.

    The images are the same in both, and each counts once: what an image does by itself it does in both.
    """
    return Placebo(
        move=max(first.move, second.move),
        spike=max(first.spike, second.spike),
        move_by=max(first.move_by, second.move_by),
        spike_at=max(first.spike_at, second.spike_at),
        kernels=max(first.kernels, second.kernels),
        boots=min(first.boots, second.boots),
    )


def model_of(lessons: Sequence[Lesson], note: str, compiler: str = "") -> PlaceboModel | None:
    """Return what `placebos.yaml` says of a case; None if too few placebos were measured often enough.

    Args:
        lessons: of one case; those with less than `FEWEST_PLACEBOS` teach nothing.
        note: which kernel and which QEMU, for people.
        compiler: that built the kernels; empty if nobody knows.

    Raises:
        ValueError: as `figures_of`.
    """
    usable_lessons = [lesson for lesson in lessons if len(lesson.placebos) >= FEWEST_PLACEBOS]
    figures = figures_of(usable_lessons)
    if not figures:
        return None
    record = usable_lessons[0].unpatched.records[0]
    names = {name for lesson in usable_lessons for name in lesson.placebos}
    count = min(placebo.kernels for placebo in figures.values())
    campaigns = plural(len(usable_lessons), "campaign")
    return PlaceboModel(
        command=" ".join(record.argv),
        source=f"{len(names)} harmless kernels in {campaigns}, {count} sets of data of their own in each; {note}",
        figures=figures,
        qemu=version(record.environment.emulator),
        linux=version(record.environment.kernel_release),
        compiler=compiler,
    )


def with_model(placebos: Placebos, key: tuple[str, str, str], model: PlaceboModel) -> Placebos:
    """Return what is known with one more model of a case, in place of one of the same command, QEMU and kernels."""

    def conditions(entry: PlaceboModel) -> tuple[str, ...]:
        return (entry.command, entry.qemu, entry.linux)

    rest = tuple(entry for entry in placebos.cases.get(key, ()) if conditions(entry) != conditions(model))
    return Placebos({**placebos.cases, key: (*rest, model)})


def placebos_text(placebos: Placebos, head: str) -> str:
    """Return a `placebos.yaml`, sorted by board, flavour and case; `head` is its comment."""
    lines, place = head.splitlines(), ("", "")
    for (board, flavour, case), models in sorted(placebos.cases.items()):
        if board != place[0]:
            lines.append(f"{board}:")
        if (board, flavour) != place:
            lines.append(f"  {flavour}:")
        place = (board, flavour)
        lines.append(f"    {case}:")
        for model in models:
            lines += _lines(model)
    return "\n".join(lines) + "\n"


def _lines(model: PlaceboModel) -> Iterator[str]:
    figures = model.figures.values()
    # Commands have scripts with several lines, and those of a site whatever they like.
    yield f"      - command: {json.dumps(model.command)}"
    yield f"        source: {json.dumps(model.source)}"
    yield f'        qemu: "{model.qemu}"'
    yield f'        linux: "{model.linux}"'
    if model.compiler:
        yield f"        compiler: {json.dumps(model.compiler)}"
    yield f"        kernels: {min(placebo.kernels for placebo in figures)}"
    yield f"        boots: {min(placebo.boots for placebo in figures)}"
    yield "        figures:"
    for name, placebo in model.figures.items():
        beside = {"move_by": placebo.move_by, "spike_at": placebo.spike_at}
        more = "".join(f", {key}: {_up(value, 4)}" for key, value in beside.items() if value)
        yield f"          {name}: {{move: {_up(placebo.move, 5)}, spike: {_up(placebo.spike, 4)}{more}}}"


def _up(value: float, digits: int) -> str:
    """Return a number that is not smaller, so that what taught the file is not beyond it."""
    return f"{math.ceil(round(value * 10**digits, 6)) / 10**digits:.{digits}f}"
