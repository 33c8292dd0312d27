# SPDX-License-Identifier: MIT
"""Comparisons of real kernels, as they were measured: harmless ones must not alarm, harmful ones must.

Each placebo is judged with what the other placebos showed, in all campaigns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from selftests import rates
from selftests.comparisons import IDLE, MEASURED, UNPATCHED, Place, campaigns, changes

from rtgate import site
from rtgate.judge.phases import Placebo
from rtgate.judge.placebos import Placebos, load_placebos
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.record import Record

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
    return replace(found, teachers=case.teachers, quiet=case.quiet)


def idle() -> rates.Kernels:
    return cases()[IDLE, CAMPAIGN].first


def _all() -> list[tuple[Place, str]]:
    """Return what must be judged: placebos measured often enough, and harm where it must show."""
    # Both campaigns of a kernel after each other: they have what others teach in common.
    found = [(place, name) for (place, _), case in cases().items() for name in rates.judged(place, case.first)]
    return sorted(set(found))


@cache
def judged(place: Place, campaign: str, name: str) -> tuple[list[Verdict], int]:
    return cases()[place, campaign].verdicts(name)


@pytest.mark.parametrize(("place", "name"), _all(), ids=lambda value: value if isinstance(value, str) else value[1])
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
    harmless = rates.placebos_of(kernels)
    assert len(harmless) >= 30
    assert rates.distinct(kernels) >= 20
    assert sum(CHANGES[name].group == "harmful" for _, name in _all()) >= 12


def test_campaigns_teach_together() -> None:
    teachers = cases()[IDLE, CAMPAIGN].teachers[0]
    both = rates.figures_of(teachers.campaigns)
    parts = [rates.figures_of([kernels]) for kernels in teachers.campaigns]
    assert len(parts) == len(campaigns())
    for name, placebo in both.items():
        assert placebo.move == max(part[name].move for part in parts)
        assert placebo.spike == max(part[name].spike for part in parts)
        # An image counts once: another root file system gives it other phases, and is no other image.
        assert placebo.kernels == max(part[name].kernels for part in parts)
    assert rates.figures_of(teachers.campaigns[::-1]) == both


def test_campaigns_teach_what_the_harsher_one_showed() -> None:
    one = Placebo(move=0.1, spike=1.5, kernels=30, boots=12, move_by=3.0)
    other = Placebo(move=0.2, spike=1.2, kernels=20, boots=8, spike_at=4.0)
    together = Placebo(move=0.2, spike=1.5, kernels=30, boots=8, move_by=3.0, spike_at=4.0)
    assert rates._together(one, other) == rates._together(other, one) == together


def test_the_same_cases_take_part_in_every_run_of_a_gate() -> None:
    """Alone a figure needs p below 0.005 / 14; beside two more cases, in which nothing happened, 0.005 / 42."""
    case = cases()[IDLE, CAMPAIGN]
    assert {(one.board, one.case) for one in case.quiet} == set(rates.GATE) - {IDLE}
    beside = rates.verdicts(IDLE, case.first, "interrupts-off-50us", case.known("interrupts-off-50us"), case.quiet)
    alone = rates.verdicts(IDLE, case.first, "interrupts-off-50us", case.known("interrupts-off-50us"))
    assert any(one.kind is Kind.REGRESSION for one in alone)
    assert {one.case for one in beside} == {IDLE[1]}
    assert not any(one.kind is Kind.REGRESSION for one in beside)
    assert rates.is_open(beside)


CHANGED: list[Callable[[Record], Record]] = [
    lambda one: replace(one, argv=("cyclictest", "--other")),
    lambda one: replace(one, environment=replace(one.environment, emulator="QEMU emulator version 9.0.2")),
    lambda one: replace(one, environment=replace(one.environment, kernel_release="6.18.3")),
]


@pytest.mark.parametrize("changed", CHANGED, ids=["command", "QEMU", "Linux"])
def test_campaigns_of_two_kinds_do_not_teach_together(changed: Callable[[Record], Record]) -> None:
    other = {name: rates.Boots(name, tuple(map(changed, boots.records))) for name, boots in idle().items()}
    with pytest.raises(ValueError, match="do not teach together"):
        rates.figures_of([idle(), other])


def test_a_placebo_with_the_unpatched_kernel_s_data_is_no_further_kernel() -> None:
    kernels = idle()
    twins = [name for name, boots in rates.placebos_of(kernels).items() if boots.data == kernels[UNPATCHED].data]
    own = [name for name in rates.placebos_of(kernels) if name not in twins]
    assert twins
    assert rates.distinct({name: kernels[name] for name in (UNPATCHED, *twins)}) == 0
    assert rates.distinct({name: kernels[name] for name in (UNPATCHED, *twins, own[0])}) == 1
    known = load_placebos([site.shipped() / "placebos.yaml"], ["virt-arm64", "virt-arm64-smp2"]).cases
    (shipped,) = (one for key, one in known.items() if (key[0], key[2]) == IDLE)
    count = max(rates.distinct(campaign) for campaign in cases()[IDLE, CAMPAIGN].teachers[0].campaigns)
    assert {figure.kernels for figure in shipped.figures.values()} == {count}


def test_what_a_placebo_showed_is_not_what_it_is_judged_by() -> None:
    """Neither in its own campaign nor in another, where it was the same source."""
    name = "dotted-word"  # has the largest spike of all in the median
    figure = "latency p50"
    teachers = cases()[IDLE, CAMPAIGN].teachers[0]
    for kernels in teachers.campaigns:
        assert name in rates.placebos_of(kernels)
        assert name not in rates.placebos_of(kernels, without=name)
    assert rates.figures_of(teachers.campaigns, name)[figure].spike < rates.figures_of(teachers.campaigns)[figure].spike


def test_a_kernel_without_placebos_is_not_judged() -> None:
    kernels = {name: boots for name, boots in idle().items() if name in {UNPATCHED, "timer-handler-longer"}}
    known = rates.Teachers(IDLE, (kernels,)).without("timer-handler-longer")
    said = rates.verdicts(IDLE, kernels, "timer-handler-longer", known)
    assert {one.kind for one in said} == {Kind.UNJUDGED, Kind.NOT_COMPARED}


def test_the_shipped_file_is_what_all_campaigns_teach() -> None:
    assert rates.placebos_yaml(campaigns()) == (site.shipped() / "placebos.yaml").read_text()


def test_a_file_that_lets_more_through_finds_less() -> None:
    kernels = idle()
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
    measured = [case.first for case in cases().values()]
    found = [one for kernels in measured if len(rates.placebos_of(kernels)) > 4 for one in rates.clustering(kernels)]
    assert len(found) > 30
    assert min(one.p for one in found) > 0.05 / len(found)
    assert sum(one.p < 0.05 for one in found) <= 0.1 * len(found)


def test_an_image_with_spikes_of_its_own_shows() -> None:
    counts = [5] + [0] * 30
    assert rates._clustering("latency maximum", counts, [12] * 31, 2000).p < 0.001
