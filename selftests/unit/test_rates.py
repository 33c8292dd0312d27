# SPDX-License-Identifier: MIT
"""Comparisons of real kernels, as they were measured: harmless ones must not alarm, harmful ones must.

Each placebo is judged with what the other placebos showed, in all campaigns.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from selftests import rates
from selftests.comparisons import IDLE, MEASURED, UNPATCHED, Place, campaigns, changes
from selftests.kernels import Kernels, distinct, placebos_of
from selftests.teaching import Teachers

from rtgate import site
from rtgate.judge.compare.placebos import Placebos, load_placebos
from rtgate.judge.verdict import Kind, Status, Verdict

CHANGES = changes()
CAMPAIGN = "rootfs-fbbdee09"


@cache
def cases() -> dict[tuple[Place, str], rates.Looks]:
    """Return what gates have, by case and campaign."""
    return {(case.place, case.campaign): case for case in rates.looks(campaigns())}


@cache
def beyond() -> rates.Looks:
    """Return the idle boots of one campaign that taught nothing, judged by what is taught as everywhere."""
    seeds, case = tuple(range(13, 25)), cases()[IDLE, CAMPAIGN]
    (found,) = (one for one in rates.looks([MEASURED / CAMPAIGN], seeds) if one.place == IDLE)
    return replace(found, teachers=case.teachers, beside=case.beside)


def idle() -> Kernels:
    return cases()[IDLE, CAMPAIGN].first


def _all() -> list[tuple[Place, str]]:
    """Return what must be judged: placebos measured often enough, and harm where it must show."""
    # Both campaigns of a kernel after each other: they have what others teach in common.
    found = [(place, name) for (place, _), case in cases().items() for name in rates.judged(place, case.first)]
    return sorted(set(found))


def _marks(place: Place, name: str) -> tuple[pytest.MarkDecorator, ...]:
    if place == IDLE or CHANGES[name].group == "harmful":
        return ()
    return (pytest.mark.long("a placebo under load; all of them idle, and all harm, are in make test"),)


@cache
def judged(place: Place, campaign: str, name: str) -> tuple[list[Verdict], int]:
    return cases()[place, campaign].verdicts(name)


@pytest.mark.parametrize(
    ("place", "name"), [pytest.param(*one, id="-".join((*one[0], one[1])), marks=_marks(*one)) for one in _all()]
)
def test_harm_is_seen_and_nothing_else(place: Place, name: str) -> None:
    where = [campaign for there, campaign in cases() if there == place and name in cases()[place, campaign].first]
    assert where
    for campaign in where:
        said, _ = judged(place, campaign, name)
        alarmed = [one.sentence for one in said if one.status is Status.FAIL]
        assert bool(alarmed) is (CHANGES[name].group == "harmful"), (campaign, alarmed)


@pytest.mark.parametrize("name", rates.judged(IDLE, beyond().first))
def test_harm_is_seen_in_phases_that_taught_nothing(name: str) -> None:
    """By seeds 13 to 24 no placebo teaches, and most were booted after the rule was made; 25 to 36 where it is open."""
    said, _ = beyond().verdicts(name)
    alarmed = [one.sentence for one in said if one.status is Status.FAIL]
    assert bool(alarmed) is (CHANGES[name].group == "harmful"), alarmed


def test_what_the_first_look_leaves_open_gets_a_second() -> None:
    """Which ones these are hangs on phases; whoever measures anew names another here."""
    case = cases()[IDLE, "rootfs-fbbdee09"]
    assert case.is_open("context-switch-longer")
    assert not case.is_open("timer-handler-longer")
    assert judged(IDLE, case.campaign, "context-switch-longer")[1] == 24
    assert judged(IDLE, case.campaign, "timer-handler-longer")[1] == 12
    assert replace(case, second=case.first).verdicts("context-switch-longer")[1] == 12


def test_there_are_enough_kernels_to_say_anything() -> None:
    kernels = idle()
    harmless = placebos_of(kernels)
    assert len(harmless) >= 30
    assert distinct(kernels) >= 20
    assert sum(CHANGES[name].group == "harmful" for _, name in _all()) >= 12


def test_the_same_cases_take_part_in_every_run_of_a_gate() -> None:
    """Alone a figure needs p below 0.005 / 14; beside three more cases, in which nothing happened, 0.005 / 48."""
    case = cases()[IDLE, CAMPAIGN]
    assert {(one.board, one.case) for one in case.quiet} == set(rates.GATE) - {IDLE}
    beside = rates.verdicts(IDLE, case.first, "interrupts-off-50us", case.known("interrupts-off-50us"), case.quiet)
    alone = rates.verdicts(IDLE, case.first, "interrupts-off-50us", case.known("interrupts-off-50us"))
    assert any(one.kind is Kind.REGRESSION for one in alone)
    assert {one.case for one in beside} == {IDLE[1]}
    assert not any(one.kind is Kind.REGRESSION for one in beside)
    assert rates.is_open(beside)


def test_a_kernel_without_placebos_is_not_judged() -> None:
    kernels = {name: boots for name, boots in idle().items() if name in {UNPATCHED, "timer-handler-longer"}}
    known = Teachers(IDLE, (kernels,)).without("timer-handler-longer")
    said = rates.verdicts(IDLE, kernels, "timer-handler-longer", known)
    assert {one.kind for one in said} == {Kind.UNJUDGED, Kind.NOT_COMPARED}


def test_a_file_that_lets_more_through_finds_less() -> None:
    kernels = idle()
    known = load_placebos([site.shipped() / "placebos.yaml"], ["virt-arm64", "virt-arm64-smp2"])
    said = rates.verdicts(IDLE, kernels, "wake-up-3-percent-longer", known)
    assert any(one.kind is Kind.REGRESSION for one in said)
    moved = {
        key: (replace(one, figures={name: replace(figure, move=9.0) for name, figure in one.figures.items()}),)
        for key, (one,) in known.cases.items()
    }
    said = rates.verdicts(IDLE, kernels, "wake-up-3-percent-longer", Placebos(moved))
    assert not any(one.kind is Kind.REGRESSION for one in said)
