# SPDX-License-Identifier: MIT
"""Comparisons of real kernels, as they were measured: harmless ones must not alarm, harmful ones must.

Each placebo is judged with what the other placebos showed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from selftests import rates
from selftests.comparisons import IDLE, MEASURED, UNPATCHED, Place, changes

from rtgate import site
from rtgate.judge.placebos import Placebos, load_placebos
from rtgate.judge.verdict import Kind, Status

CHANGES = changes()


@cache
def cases() -> dict[Place, rates.Looks]:
    return {case.place: case for case in rates.looks(MEASURED)}


def measured() -> dict[Place, Mapping[str, rates.Boots]]:
    """Return what gates have at the first look."""
    return {place: case.first for place, case in cases().items()}


def _all() -> list[tuple[Place, str]]:
    """Return what must be judged: placebos measured often enough, and harm where it must show."""
    return [(place, name) for place, kernels in measured().items() for name in rates.judged(place, kernels)]


@pytest.mark.parametrize(("place", "name"), _all(), ids=lambda value: value if isinstance(value, str) else value[1])
def test_harm_is_seen_and_nothing_else(place: Place, name: str) -> None:
    said, _ = cases()[place].verdicts(name)
    alarmed = [one.sentence for one in said if one.status is Status.FAIL]
    assert bool(alarmed) is (CHANGES[name].group == "harmful"), alarmed


def test_what_the_first_look_leaves_open_gets_a_second() -> None:
    """Which ones these are hangs on phases; whoever measures anew names another here."""
    case = cases()[IDLE]
    opened = {name for name in rates.judged(IDLE, case.first) if rates.is_open(rates.verdicts(IDLE, case.first, name))}
    assert "context-switch-longer" in opened
    assert {name for name in rates.judged(IDLE, case.first) if case.verdicts(name)[1] == 24} == opened
    alone = replace(case, second=case.first)
    assert alone.verdicts("context-switch-longer")[1] == 12


def test_there_are_enough_kernels_to_say_anything() -> None:
    kernels = measured()[IDLE]
    harmless = rates.placebos_of(kernels)
    assert len(harmless) >= 30
    assert rates.distinct(kernels) >= 20
    assert sum(CHANGES[name].group == "harmful" for _, name in _all()) >= 12


def test_a_placebo_with_the_unpatched_kernel_s_data_is_no_further_kernel() -> None:
    kernels = measured()[IDLE]
    twins = [name for name, boots in rates.placebos_of(kernels).items() if boots.data == kernels[UNPATCHED].data]
    own = [name for name in rates.placebos_of(kernels) if name not in twins]
    assert twins
    assert rates.distinct({name: kernels[name] for name in (UNPATCHED, *twins)}) == 0
    assert rates.distinct({name: kernels[name] for name in (UNPATCHED, *twins, own[0])}) == 1
    known = load_placebos([site.shipped() / "placebos.yaml"], ["virt-arm64", "virt-arm64-smp2"]).cases
    (idle,) = (one for key, one in known.items() if (key[0], key[2]) == IDLE)
    assert {figure.kernels for figure in idle.figures.values()} == {rates.distinct(kernels)}


def test_what_a_placebo_showed_is_not_what_it_is_judged_by() -> None:
    kernels = measured()[IDLE]
    name = next(iter(rates.placebos_of(kernels)))
    assert name not in rates.placebos_of(kernels, without=name)


def test_a_kernel_without_placebos_is_not_judged() -> None:
    kernels = {name: boots for name, boots in measured()[IDLE].items() if name in {UNPATCHED, "timer-handler-longer"}}
    said = rates.verdicts(IDLE, kernels, "timer-handler-longer")
    assert {one.kind for one in said} == {Kind.UNJUDGED, Kind.NOT_COMPARED}


def test_these_kernels_teach_the_cases_of_the_shipped_file(tmp_path: Path) -> None:
    written = tmp_path / "placebos.yaml"
    written.write_text(rates.placebos_yaml(MEASURED))
    # The shipped one was learnt from the same kernels with an earlier root file system: other phases, the same cases.
    boards = ["virt-arm64", "virt-arm64-smp2"]
    now, shipped = (load_placebos([path], boards).cases for path in (written, site.shipped() / "placebos.yaml"))
    assert {key: one.command for key, one in now.items()} == {key: one.command for key, one in shipped.items()}


def test_a_file_that_lets_more_through_finds_less() -> None:
    kernels = measured()[IDLE]
    known = load_placebos([site.shipped() / "placebos.yaml"], ["virt-arm64", "virt-arm64-smp2"])
    said = rates.verdicts(IDLE, kernels, "wake-up-3-percent-longer", known)
    assert any(one.kind is Kind.REGRESSION for one in said)
    moved = {
        key: replace(one, figures={name: replace(figure, move=9.0) for name, figure in one.figures.items()})
        for key, one in known.cases.items()
    }
    said = rates.verdicts(IDLE, kernels, "wake-up-3-percent-longer", Placebos(moved))
    assert not any(one.kind is Kind.REGRESSION for one in said)


def test_the_largest_boots_of_harmless_kernels_do_not_come_in_images() -> None:
    """The test of spikes takes all boots for exchangeable; an image with spikes of its own would show here."""
    found = [
        one
        for kernels in measured().values()
        if len(rates.placebos_of(kernels)) > 4
        for one in rates.clustering(kernels)
    ]
    assert len(found) > 30
    assert min(one.p for one in found) > 0.05 / len(found)
    assert sum(one.p < 0.05 for one in found) <= 0.1 * len(found)


def test_an_image_with_spikes_of_its_own_shows() -> None:
    counts = [5] + [0] * 30
    assert rates._clustering("latency maximum", counts, [12] * 31, 2000).p < 0.001
