# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

import pytest
from selftests.campaigns.comparisons import IDLE, MEASURED, UNPATCHED, records

from rtgate import site
from rtgate.judge.compare.placebos import Placebos, load_placebos
from rtgate.judge.learn.plannable import plannable
from rtgate.records.record import Record

PLACEBOS = load_placebos([site.shipped_directory() / "placebos.yaml"], site.names("boards"))


def every_check(_board: str) -> dict[str, str]:
    return {}


@pytest.fixture(scope="module")
def boots() -> list[Record]:
    found = records(UNPATCHED, MEASURED / "rootfs-fbbdee09")
    return [one for one in found if (one.board, one.case) == IDLE and one.seed in range(1, 25)]


def test_the_figures_of_a_case(boots: list[Record]) -> None:
    (case,) = plannable(boots, PLACEBOS, every_check)
    assert case.learnt == 7
    assert {len(figure.boots) for figure in case.figures} == {24}
    assert {figure.name for figure in case.figures} >= {"latency mean", "latency p50", "latency maximum"}
    assert any("wakeups.lost is zero in some boot" in remark for remark in case.remarks)


def test_cases_of_two_boards_are_told_apart(boots: list[Record]) -> None:
    other = [
        replace(one, board="virt-x86_64-smp2", environment=replace(one.environment, board="virt-x86_64-smp2"))
        for one in boots
    ]
    first, second = plannable([*other, *boots], PLACEBOS, every_check)
    assert {figure.case for figure in first.figures} == {" ".join(IDLE)}
    assert second.figures == ()
    (remark,) = second.remarks
    assert remark.startswith("virt-x86_64-smp2 latency/cyclictest:idle: placebos.yaml does not say")


def test_a_check_that_the_board_declares_not_applicable_leaves_no_boot_out(boots: list[Record]) -> None:
    lost = [replace(one, environment=replace(one.environment, online="0", cpus="2")) for one in boots]
    (case,) = plannable(lost, PLACEBOS, every_check)
    assert any("24 of 24 boots are not valid" in remark for remark in case.remarks)
    (declared,) = plannable(lost, PLACEBOS, lambda _board: {"cpus": "the inmate has CPU 1"})
    assert {len(figure.boots) for figure in declared.figures} == {24}


def test_a_case_without_placebos_has_no_figures(boots: list[Record]) -> None:
    (case,) = plannable(boots, Placebos({}), every_check)
    assert (case.figures, case.learnt) == ((), 0)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"argv": ("cyclictest", "--duration=60")}, "boots of 2 commands of the tool"),
        ({"kernel": None}, "boots of 2 kernels"),
    ],
)
def test_nobody_says_which_are_meant(boots: list[Record], other: dict[str, object], said: str) -> None:
    if "kernel" in other:
        other = {"kernel": replace(boots[0].kernel, image_sha256="f" * 64)}
    mixed = [*boots[:12], *(replace(one, **other) for one in boots[12:])]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=said):
        list(plannable(mixed, PLACEBOS, every_check))
