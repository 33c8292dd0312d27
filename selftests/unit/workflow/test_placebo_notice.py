# SPDX-License-Identifier: MIT
"""What a gate says of placebos before it measures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from selftests.fake_target import FakeTarget, arm

from rtgate import site
from rtgate.judge.compare.placebos import Placebos, load_placebos
from rtgate.measure.case import Arm, Case
from rtgate.measure.profiles import profile
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.pi_stress import PiStress
from rtgate.workflow import placebo_notice
from rtgate.workflow.placebo_notice import notices

SHIPPED = load_placebos([site.shipped_directory() / "placebos.yaml"], site.names("boards"))
IDLE = Case(suite="latency", tool=Cyclictest(), load="idle")
LOADED = replace(IDLE, load="hackbench")
INVERSIONS = Case(suite="scheduling", tool=PiStress(), load="idle")
LEARN = "to measure them: rtgate placebos learn --board virt-arm64 --tree ~/linux"


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placebo_notice, "version", lambda _: "QEMU emulator version 7.2.22 (Debian)")


def _arm(release: str) -> Arm:
    made = arm(FakeTarget(), "baseline")
    return replace(made, kernel=replace(made.kernel, release=release), profile=profile("compare"))


def _said(release: str, compiler: str = "", placebos: Placebos = SHIPPED) -> list[str]:
    cases = {"virt-arm64": (IDLE, LOADED, INVERSIONS)}
    arm = _arm(release)
    built = replace(arm, kernel=replace(arm.kernel, compiler=compiler))
    return list(notices(built, cases, "--tree ~/linux", placebos))


def test_what_is_used_is_named_with_its_source() -> None:
    idle, loaded, none = _said("6.12.117")
    assert idle.startswith(
        "harmless changes of latency/cyclictest:idle on virt-arm64: 49 harmless kernels in 2 campaigns, "
    )
    assert idle.endswith("Linux 6.12.117, QEMU 7.2 of Debian 12")
    assert loaded.startswith(
        "harmless changes of latency/cyclictest:hackbench on virt-arm64: 18 harmless kernels in 2 campaigns, "
    )
    assert none == (
        "harmless changes of scheduling/pi_stress:idle on virt-arm64: none with this command and flavour; these "
        f"comparisons end without PASS, and only limits are judged; {LEARN}"
    )


def test_another_kernel_series_is_told_with_the_command_that_learns_it() -> None:
    other, _ = _said("6.18.2")
    assert other == (
        "harmless changes of latency/cyclictest:idle, latency/cyclictest:hackbench on virt-arm64: Linux 6.18, harmless "
        f"changes were measured on 6.12; these comparisons find regressions, and end without PASS; {LEARN}"
    )


@pytest.mark.parametrize(
    ("qemu", "debian"), [("7.2.22", "QEMU 7.2 of Debian 12"), ("10.0.2", "QEMU 10.0 of Debian 13")]
)
def test_a_kernel_whose_version_only_its_boots_tell_may_pass(
    monkeypatch: pytest.MonkeyPatch, qemu: str, debian: str
) -> None:
    """As two directories without build.json."""
    monkeypatch.setattr(placebo_notice, "version", lambda _: f"QEMU emulator version {qemu} (Debian)")
    idle, loaded, _ = _said("")
    for sentence in (idle, loaded):
        assert "end without PASS" not in sentence
        assert sentence.endswith(
            f"Linux 6.12.117, {debian}; whether these kernels are Linux 6.12 shows when they have booted"
        )


def test_every_line_that_an_unknown_kernel_may_be_of_is_named() -> None:
    both = Placebos(
        {key: (*many, *(replace(model, linux="6.18") for model in many)) for key, many in SHIPPED.cases.items()}
    )
    assert _said("", placebos=both)[0].endswith(
        "; whether these kernels are Linux 6.12 or 6.18 shows when they have booted"
    )


def test_another_qemu_is_told_of_a_kernel_whose_version_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placebo_notice, "version", lambda _: "QEMU emulator version 9.0.2")
    other, _ = _said("")
    assert other.endswith(
        ": QEMU 9.0, harmless changes were measured on 7.2; these comparisons find regressions, and end without PASS; "
        f"{LEARN}"
    )


def test_another_compiler_is_told() -> None:
    known = Placebos(
        {key: tuple(replace(one, compiler="gcc 12") for one in many) for key, many in SHIPPED.cases.items()}
    )
    assert _said("6.12.1", "gcc 14", known)[0].endswith("; built with gcc 12, these kernels with gcc 14")
    assert _said("6.12.1", "gcc 12", known) == _said("6.12.1", "", known) == _said("6.12.1")


def test_each_board_of_a_gate_is_told_by_its_own_placebos() -> None:
    cases = {"virt-arm64": (IDLE,), "virt-arm64-smp2": (LOADED,)}
    first, second = notices(_arm("6.12.117"), cases, "--tree ~/linux", SHIPPED)
    assert first.startswith("harmless changes of latency/cyclictest:idle on virt-arm64: 49 harmless kernels")
    assert second.startswith("harmless changes of latency/cyclictest:hackbench on virt-arm64-smp2: ")
    assert second.endswith("rtgate placebos learn --board virt-arm64-smp2 --tree ~/linux")
