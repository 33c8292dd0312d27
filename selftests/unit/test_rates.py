# SPDX-License-Identifier: MIT
"""Comparisons of real kernels, as they were measured: harmless ones must not alarm, harmful ones must.

Each placebo is judged with what the other placebos showed, in all campaigns.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from selftests import rates
from selftests.comparisons import IDLE, UNPATCHED, Place, campaigns, changes

from rtgate import site
from rtgate.judge.placebos import Placebos, load_placebos
from rtgate.judge.verdict import Kind, Status, Verdict

CHANGES = changes()
CAMPAIGN = "rootfs-fbbdee09"


@cache
def cases() -> dict[tuple[Place, str], rates.Looks]:
    """Return what gates have, by case and campaign."""
    return {(case.place, case.campaign): case for case in rates.looks(campaigns())}


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
    for campaign in (directory.name for directory in campaigns()):
        said, _ = judged(place, campaign, name)
        alarmed = [one.sentence for one in said if one.status is Status.FAIL]
        assert bool(alarmed) is (CHANGES[name].group == "harmful"), (campaign, alarmed)


def test_every_campaign_has_every_kernel() -> None:
    everywhere = {campaign: set[tuple[Place, str]]() for _, campaign in cases()}
    for (place, campaign), case in cases().items():
        everywhere[campaign] |= {(place, name) for name in rates.judged(place, case.first)}
    assert len(everywhere) >= 2
    assert all(found == set(_all()) for found in everywhere.values())


def test_what_the_first_look_leaves_open_gets_a_second() -> None:
    """Which ones these are hangs on phases; whoever measures anew names another here."""
    case = cases()[IDLE, "rootfs-fbbdee09"]
    assert case.is_open("context-switch-longer")
    assert not case.is_open("wake-up-3-percent-longer")
    assert judged(IDLE, case.campaign, "context-switch-longer")[1] == 24
    assert judged(IDLE, case.campaign, "wake-up-3-percent-longer")[1] == 12
    assert replace(case, second=case.first).verdicts("context-switch-longer")[1] == 12


def test_there_are_enough_kernels_to_say_anything() -> None:
    kernels = idle()
    harmless = rates.placebos_of(kernels)
    assert len(harmless) >= 30
    assert rates.distinct(kernels) >= 20
    assert sum(CHANGES[name].group == "harmful" for _, name in _all()) >= 12


def test_campaigns_teach_together() -> None:
    teachers = cases()[IDLE, CAMPAIGN].teachers
    both = rates.figures_of(teachers.campaigns)
    parts = [rates.figures_of([kernels]) for kernels in teachers.campaigns]
    assert len(parts) == len(campaigns())
    for name, placebo in both.items():
        assert placebo.move == max(part[name].move for part in parts)
        assert placebo.spike == max(part[name].spike for part in parts)
        assert placebo.kernels == sum(part[name].kernels for part in parts)
    assert rates.figures_of(teachers.campaigns[::-1]) == both


def test_a_case_that_was_measured_with_two_commands_teaches_nothing() -> None:
    kernels = idle()
    other = {
        name: rates.Boots(name, tuple(replace(one, argv=("cyclictest", "--other")) for one in boots.records))
        for name, boots in kernels.items()
    }
    with pytest.raises(ValueError, match="2 commands"):
        rates.figures_of([kernels, other])


def test_a_placebo_with_the_unpatched_kernel_s_data_is_no_further_kernel() -> None:
    kernels = idle()
    twins = [name for name, boots in rates.placebos_of(kernels).items() if boots.data == kernels[UNPATCHED].data]
    own = [name for name in rates.placebos_of(kernels) if name not in twins]
    assert twins
    assert rates.distinct({name: kernels[name] for name in (UNPATCHED, *twins)}) == 0
    assert rates.distinct({name: kernels[name] for name in (UNPATCHED, *twins, own[0])}) == 1
    known = load_placebos([site.shipped() / "placebos.yaml"], ["virt-arm64", "virt-arm64-smp2"]).cases
    (shipped,) = (one for key, one in known.items() if (key[0], key[2]) == IDLE)
    count = sum(rates.distinct(campaign) for campaign in cases()[IDLE, CAMPAIGN].teachers.campaigns)
    assert {figure.kernels for figure in shipped.figures.values()} == {count}


def test_what_a_placebo_showed_is_not_what_it_is_judged_by() -> None:
    """Neither in its own campaign nor in another, where it was the same source."""
    name = "dotted-word"  # has the largest spike of all in the median
    figure = "latency p50"
    teachers = cases()[IDLE, CAMPAIGN].teachers
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
