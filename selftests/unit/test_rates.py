# SPDX-License-Identifier: MIT
"""Comparisons of real kernels, as they were measured: harmless ones must not alarm, harmful ones must.

Each placebo is judged with what the other placebos showed, in all campaigns.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from _pytest.mark import ParameterSet
from selftests.campaigns import rates
from selftests.campaigns.comparisons import IDLE, MEASURED, UNPATCHED, Place, all_campaigns, changes, places
from selftests.campaigns.kernels import Kernels, distinct, placebos_of
from selftests.campaigns.teaching import Teachers

from rtgate import site
from rtgate.judge.compare.placebos import Placebos, load_placebos
from rtgate.judge.verdict import Kind, Status

CHANGES = changes()
CAMPAIGN = "rootfs-fbbdee09"


@cache
def cases() -> dict[tuple[Place, str], rates.CaseBoots]:
    """Return what gates have, by case and campaign."""
    return {(case.place, case.campaign): case for case in rates.case_boots(all_campaigns())}


@cache
def beyond() -> rates.CaseBoots:
    """Return the idle boots of one campaign that taught nothing, judged by what is taught as everywhere."""
    seeds, case = tuple(range(13, 25)), cases()[IDLE, CAMPAIGN]
    (found,) = (one for one in rates.case_boots([MEASURED / CAMPAIGN], seeds) if one.place == IDLE)
    return replace(found, teachers=case.teachers, beside=case.beside)


def idle() -> Kernels:
    return cases()[IDLE, CAMPAIGN].first


def _all() -> list[tuple[Place, str]]:
    """Return what must be judged: placebos, and harm where it must show. By the list of changes: data is read later."""
    # Both campaigns of a kernel after each other: they have what others teach in common.
    return sorted(
        (place, name)
        for place, names in places().items()
        for name in names
        if CHANGES[name].group == "placebos" or CHANGES[name].must_show(place)
    )


RISCV = ("virt-riscv64", "latency/cyclictest:idle")
X86_64 = ("virt-x86_64", "latency/cyclictest:idle")
HACKBENCH = ("virt-arm64", "latency/cyclictest:hackbench")
SEVERAL_CPUS = [
    (board, "signal/signaltest:idle") for board in ("virt-arm64-smp2", "virt-arm64-smp4", "virt-x86_64-smp2")
]
SHORT = {
    # Harm of each kind, where it shows: the middle by least, the tail, a second look; no PREEMPT_RT, a failure.
    *((IDLE, name) for name in ("wake-up-3-percent-longer", "interrupts-off-50us", "context-switch-longer")),
    *((HACKBENCH, name) for name in ("run-queue-locked-longer", "preempt-rt-off")),
    *((board, "remote-wake-up-delayed") for board in SEVERAL_CPUS),
    (("virt-arm64", "scheduling/pip_stress:idle"), "priority-inheritance-lost"),
    (("virt-arm64", "pcie/edu-msi:idle"), "msi-handler-longer"),
    (RISCV, "wake-up-3-percent-longer"),
    (X86_64, "wake-up-3-percent-longer"),
    # Placebos: one that moves all code, and the one with the largest spike of all.
    *((IDLE, name) for name in ("link-order", "dotted-word")),
}
_LONG = pytest.mark.long("a statistical table of every kernel in every case; one of each kind is in make test")


def _parameters(judged: list[tuple[Place, str]]) -> list[ParameterSet]:
    return [
        pytest.param(place, name, id="-".join((*place, name)), marks=() if (place, name) in SHORT else (_LONG,))
        for place, name in judged
    ]


@cache
def judged(place: Place, campaign: str, name: str) -> rates.KernelVerdicts:
    return cases()[place, campaign].judge(name)


def is_right(said: rates.KernelVerdicts, name: str) -> bool:
    """Return whether harm is found by what it changes, or a harmless kernel does not fail."""
    change = CHANGES[name]
    return change.shows in said.shown if change.group == "harmful" else not said.failures


@pytest.mark.parametrize(("place", "name"), _parameters(_all()))
def test_harm_is_seen_and_nothing_else(place: Place, name: str) -> None:
    where = [campaign for there, campaign in cases() if there == place and name in cases()[place, campaign].first]
    assert where
    for campaign in where:
        said = judged(place, campaign, name)
        assert is_right(said, name), (campaign, said.failures)


def test_harm_is_found_by_what_it_changes_alone() -> None:
    assert judged(IDLE, CAMPAIGN, "wake-up-3-percent-longer").shown == {"body"}
    assert judged(IDLE, CAMPAIGN, "wake-up-delayed-70us").shown == {"tail"}
    assert judged(IDLE, CAMPAIGN, "link-order").shown == set()


def test_what_only_passes_or_fails_is_judged_by_its_guarantee_and_not_compared() -> None:
    case = cases()[("virt-arm64", "scheduling/pip_stress:idle"), CAMPAIGN]
    said = {name: [(one.status, one.kind) for one in case.judge(name).verdicts] for name in case.first}
    assert said.pop("priority-inheritance-lost") == [(Status.FAIL, Kind.GUARANTEE)]
    assert len(said) == 9
    assert {one for kinds in said.values() for one in kinds} == {(Status.PASS, Kind.GUARANTEE)}


def test_a_section_of_50_us_hides_among_the_spikes_of_riscv_kernels() -> None:
    """Its boots have 73 us in the median, and harmless ones have up to 87 (docs/results/error-rates.md)."""
    (case,) = (one for (place, _), one in cases().items() if place == RISCV)
    assert {one.kind for one in case.judge("interrupts-off-50us").verdicts} == {Kind.UNJUDGED, Kind.NO_WORSE}


def test_the_list_of_changes_says_what_must_be_judged() -> None:
    judged_by_data = {
        (place, name) for (place, _), case in cases().items() for name in rates.kernels_to_judge(place, case.first)
    }
    assert set(_all()) == judged_by_data
    assert set(_all()) >= SHORT
    assert {name for place, name in _all() if place == IDLE} == set(rates.kernels_to_judge(IDLE, beyond().first))


@pytest.mark.parametrize(("place", "name"), _parameters([one for one in _all() if one[0] == IDLE]))
def test_harm_is_seen_in_phases_that_taught_nothing(place: Place, name: str) -> None:
    """By seeds 13 to 24 no placebo teaches, and most were booted after the rule was made; 25 to 36 where it is open."""
    assert place == beyond().place
    said = beyond().judge(name)
    assert is_right(said, name), said.failures


def test_what_the_first_look_leaves_open_gets_a_second() -> None:
    """Which ones these are hangs on phases; whoever measures anew names another here."""
    case = cases()[IDLE, "rootfs-fbbdee09"]
    assert case.judge_first("context-switch-longer").is_open
    assert not case.judge_first("timer-handler-longer").is_open
    assert judged(IDLE, case.campaign, "context-switch-longer").boots == 24
    assert judged(IDLE, case.campaign, "timer-handler-longer").boots == 12
    assert replace(case, second=case.first).judge("context-switch-longer").boots == 12


def test_there_are_enough_kernels_to_say_anything() -> None:
    kernels = idle()
    harmless = placebos_of(kernels)
    assert len(harmless) >= 30
    assert distinct(kernels) >= 20
    assert sum(CHANGES[name].group == "harmful" for _, name in _all()) >= 12


def test_the_same_cases_take_part_in_every_run_of_a_gate() -> None:
    """Alone a figure needs p below 0.005 / 14; beside three more cases, in which nothing happened, 0.005 / 48."""
    case = cases()[IDLE, CAMPAIGN]
    assert {(one.board, one.case) for one in case.quiet_cases} == set(rates.GATE) - {IDLE}
    beside, alone = case.judge_first("interrupts-off-50us"), replace(case, beside=()).judge_first("interrupts-off-50us")
    assert any(one.kind is Kind.REGRESSION for one in alone.verdicts)
    assert {one.case for one in beside.verdicts} == {IDLE[1]}
    assert not any(one.kind is Kind.REGRESSION for one in beside.verdicts)
    assert beside.is_open


def test_a_kernel_without_placebos_is_not_judged() -> None:
    kernels = {name: boots for name, boots in idle().items() if name in {UNPATCHED, "timer-handler-longer"}}
    known = Teachers(IDLE, (kernels,)).without("timer-handler-longer")
    said = rates.judge_kernel(IDLE, kernels, "timer-handler-longer", known)
    assert {one.kind for one in said.verdicts} == {Kind.UNJUDGED, Kind.NOT_COMPARED}


def test_a_file_that_lets_more_through_finds_less() -> None:
    kernels = idle()
    known = load_placebos([site.shipped_directory() / "placebos.yaml"], site.names("boards"))
    said = rates.judge_kernel(IDLE, kernels, "wake-up-3-percent-longer", known)
    assert any(one.kind is Kind.REGRESSION for one in said.verdicts)
    moved = {
        key: tuple(
            replace(one, figures={name: replace(figure, move=9.0) for name, figure in one.figures.items()})
            for one in models
        )
        for key, models in known.cases.items()
    }
    said = rates.judge_kernel(IDLE, kernels, "wake-up-3-percent-longer", Placebos(moved))
    assert not any(one.kind is Kind.REGRESSION for one in said.verdicts)
