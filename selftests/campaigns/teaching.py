# SPDX-License-Identifier: MIT
"""What the placebos of all campaigns teach: `placebos.yaml`, and what it would say without one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from selftests.campaigns.comparisons import EMULATORS, UNPATCHED, Place
from selftests.campaigns.kernels import Kernels, by_place, emulator_of, lesson_of, placebos_of

from rtgate.judge.compare.phases import Placebo
from rtgate.judge.compare.placebos import PlaceboModel, Placebos
from rtgate.judge.learn import harmless
from rtgate.judge.learn.harmless import Lesson
from rtgate.tools.registry import is_compared


def figures_of(campaigns: Iterable[Kernels], without: str = "") -> Mapping[str, Placebo]:
    """Return what the placebos of a case but one showed in all campaigns. Raises as `harmless.figures_of`."""
    return harmless.figures_of([lesson_of(kernels, without) for kernels in campaigns])


@dataclass(frozen=True, slots=True, eq=False)
class Teachers:
    """The kernels of a case in all campaigns, of which the placebos teach what harmless kernels show."""

    place: Place
    campaigns: tuple[Kernels, ...]

    def without(self, name: str) -> Placebos:
        """Return what the placebos but one showed, as a gate reads it from placebos.yaml."""
        return _taught(self, tuple(frozenset(placebos_of(kernels, name)) for kernels in self.campaigns))


@cache
def _taught(teachers: Teachers, names: tuple[frozenset[str], ...]) -> Placebos:
    """Return what placebos of these names showed, by campaign: without a kernel that taught nothing it is the same."""
    board, case = teachers.place
    one = teachers.campaigns[0][UNPATCHED].records[0]
    lessons = [
        Lesson(kernels[UNPATCHED], {name: boots for name, boots in kernels.items() if name in of_campaign})
        for kernels, of_campaign in zip(teachers.campaigns, names, strict=True)
    ]
    figures = harmless.figures_of(lessons)
    learnt = PlaceboModel(command=" ".join(one.argv), source="the others", figures=figures)
    return Placebos({(board, one.kernel.flavour, case): (learnt,)})


def placebos_yaml(directories: Iterable[Path]) -> str:
    """Return the file that campaigns teach."""
    known = Placebos()
    for (board, case), measured in by_place(directories).items():
        if not is_compared(case):
            continue
        for emulator, debian in EMULATORS.items():
            lessons = [lesson_of(kernels) for kernels in measured if emulator_of(kernels) == emulator]
            note = f"Linux 6.12.117, QEMU {emulator} of {debian}"
            model = harmless.model_of(lessons, note) if lessons else None
            if model is not None:
                known = harmless.with_model(known, (board, "preempt_rt", case), model)
    return harmless.placebos_text(known, _HEAD)


_HEAD = """\
# SPDX-License-Identifier: MIT
#
# How much harmless kernels (placebos) move what is compared on virtual-time boards: board, flavour, case. Written by
# `python -m bench.rates learn` from what bench/comparisons.py measured (selftests/data/comparisons). `move` is the
# largest shift of a placebo over its baseline's median, `spike` the largest boot over its kernel's median; of all
# campaigns. docs/explanation/verdicts.md says what is made of it; `rtgate check` validates this file."""
