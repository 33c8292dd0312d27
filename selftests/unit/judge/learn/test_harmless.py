# SPDX-License-Identifier: MIT
"""What harmless kernels teach, written and read again. The shipped file is proven in test_teaching."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from selftests.campaigns.comparisons import IDLE, UNPATCHED, campaigns
from selftests.campaigns.kernels import lesson_of, measured_boots

from rtgate import site
from rtgate.judge.compare.phases import Placebo
from rtgate.judge.compare.placebos import PlaceboModel, Placebos, load_placebos
from rtgate.judge.learn.harmless import FEWEST_PLACEBOS, Boots, Lesson, model_of, placebos_text, with_model
from rtgate.records.record import Record
from rtgate.tools import Setting
from rtgate.tools.registry import TOOLS

KEY = (IDLE[0], "preempt_rt", IDLE[1])


@cache
def _lesson() -> Lesson:
    return lesson_of(measured_boots(campaigns()[0])[IDLE])


def _fewer(count: int) -> Lesson:
    return Lesson(_lesson().unpatched, dict(list(_lesson().placebos.items())[:count]))


def test_too_few_placebos_teach_nothing() -> None:
    assert model_of([_fewer(FEWEST_PLACEBOS - 1)], "a note") is None
    model = model_of([_fewer(FEWEST_PLACEBOS)], "a note", "gcc 12")
    assert model is not None
    assert (model.qemu, model.linux, model.compiler) == ("7.2", "6.12", "gcc 12")
    assert model.source.startswith("6 harmless kernels in 1 campaign, ")


def test_a_kernel_that_lacks_a_boot_makes_no_data_of_others_their_own() -> None:
    lesson = _lesson()
    twins = {name: boots for name, boots in lesson.placebos.items() if boots.data == lesson.unpatched.data}
    assert twins
    fewer = Boots(UNPATCHED, lesson.unpatched.records[1:])
    assert (Lesson(lesson.unpatched, twins).distinct, Lesson(fewer, twins).distinct) == (0, 0)
    assert lesson.distinct > 0


def test_losses_of_many_kernels_leave_each_its_own_data() -> None:
    """Each lacks another boot, so there is no seed that all have."""
    lesson = _lesson()
    every = {name: Boots(name, _without(boots, number)) for number, (name, boots) in enumerate(lesson.placebos.items())}
    assert not frozenset.intersection(*(boots.seeds for boots in every.values()))
    assert Lesson(lesson.unpatched, every).distinct == lesson.distinct


def _without(boots: Boots, number: int) -> tuple[Record, ...]:
    lost = number % len(boots.records)
    return (*boots.records[:lost], *boots.records[lost + 1 :])


def test_what_is_written_is_read_again_and_lets_through_what_taught_it(tmp_path: Path) -> None:
    model = model_of([_fewer(FEWEST_PLACEBOS)], "a note", "gcc 12")
    assert model is not None
    path = tmp_path / "placebos.yaml"
    path.write_text(placebos_text(with_model(Placebos(), KEY, model), "# a head"))
    assert path.read_text().startswith("# a head\nvirt-arm64:\n  preempt_rt:\n    latency/cyclictest:idle:\n      - ")
    (read,) = load_placebos([path], site.names("boards")).cases[KEY]
    assert replace(read, figures={}) == replace(model, figures={})
    for name, placebo in model.figures.items():
        assert placebo.move <= read.figures[name].move <= placebo.move + 1e-5
        assert placebo.spike <= read.figures[name].spike <= placebo.spike + 1e-4


@pytest.mark.parametrize("name", TOOLS)
def test_the_command_of_every_tool_is_read_as_it_was_written(name: str, tmp_path: Path) -> None:
    """Those of some are scripts with several lines, and with all that YAML gives a meaning."""
    setting = Setting(cpus=2, duration_s=10, virtual_time=True)
    written = PlaceboModel(
        command=" ".join(TOOLS[name]().argv(setting)),
        source='harmless kernels; Linux 6.12-"mine" \\ # 1: a',
        qemu="7.2",
        linux="6.12",
        compiler='cc "x"',
        figures={"latency p50": Placebo(move=0.5, spike=1.5, kernels=6, boots=8)},
    )
    path = tmp_path / "placebos.yaml"
    path.write_text(placebos_text(Placebos({KEY: (written,)}), "# a head"))
    assert load_placebos([path], site.names("boards")).cases[KEY] == (written,)


def test_another_series_stands_beside_and_the_same_is_replaced() -> None:
    model = model_of([_fewer(FEWEST_PLACEBOS)], "a note")
    assert model is not None
    newer = replace(model, linux="6.18")
    both = with_model(with_model(Placebos(), KEY, model), KEY, newer)
    assert both.cases[KEY] == (model, newer)
    again = replace(model, source="measured again")
    assert with_model(both, KEY, again).cases[KEY] == (newer, again)
