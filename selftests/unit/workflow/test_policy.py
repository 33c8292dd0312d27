# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest
from selftests.commands.test_check import BOARD

from rtgate.errors import ConfigError
from rtgate.kernel.build_limits import BuildLimits
from rtgate.workflow.policy import LabBoard, Policy, Screen, read, read_policy

DEFAULT = Policy(screens=(Screen(board="virt-arm64", build="virt-arm64-preempt_rt"),))


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".rtgate").mkdir()
    monkeypatch.setenv("RTGATE_TREE", str(tmp_path))
    return tmp_path / ".rtgate" / "policy.yaml"


def test_without_a_policy_one_board_screens_and_what_is_unproven_blocks(written: Path) -> None:
    assert read_policy() == DEFAULT
    assert not DEFAULT.unproven


def test_a_policy_says_which_boards_and_builds(written: Path) -> None:
    written.write_text(
        "screen:\n  - board: virt-arm64\n    profile: smoke\n    select: idle\n    sections: true\n"
        "  - {board: virt-x86_64, sections: false}\n"
        "builds: [virt-arm64-generic]\nunproven: allow\n"
    )
    assert read_policy() == Policy(
        screens=(
            Screen(board="virt-arm64", build="virt-arm64-preempt_rt", profile="smoke", select="idle", sections=True),
            Screen(board="virt-x86_64", build="virt-x86_64-preempt_rt"),
        ),
        builds=("virt-arm64-generic",),
        unproven=True,
    )


def test_a_board_whose_cases_another_screen_leaves_out_may_be_a_screen(written: Path) -> None:
    written.write_text("screen: [{board: virt-arm64, select: cyclictest and idle}, {board: virt-arm64-smp2}]")
    assert [screen.board for screen in read_policy().screens] == ["virt-arm64", "virt-arm64-smp2"]


def test_a_policy_says_what_a_build_may_take(written: Path) -> None:
    written.write_text("build_time: 90 min\nbuild_disk: 900 MiB\n")
    assert read_policy().limits == BuildLimits(time_s=5400.0, disk=900 << 20)


def test_boards_of_the_lab_have_a_budget_and_measure_what_is_asked(written: Path) -> None:
    written.write_text(
        "boards:\n  - {board: rk3588-evb1, build: virt-arm64-preempt_rt, budget: 45 min, tags: [ours], cases: all}\n"
        "  - {board: lab-virt-arm64, build: virt-arm64-preempt_rt, profile: smoke, suites: [latency, signal]}\n"
    )
    assert read_policy().boards == (
        LabBoard(board="rk3588-evb1", build="virt-arm64-preempt_rt", budget=45.0, tags=("ours",), all_cases=True),
        LabBoard(board="lab-virt-arm64", build="virt-arm64-preempt_rt", profile="smoke", suites=("latency", "signal")),
    )


@pytest.mark.parametrize(
    ("select", "refused"),
    [("", True), (", select: signaltest", True), (", select: cyclictest", False)],
)
def test_a_board_beside_two_screens_is_refused(written: Path, select: str, *, refused: bool) -> None:
    """Both would measure it into the same records."""
    (written.parent / "profiles.yaml").write_text(
        "mine:\n  {description: d, duration: 1 s, seeds: 1-2, boots: 1,\n"
        "   boards: {virt-arm64-smp2: {beside: virt-x86_64, only: [signaltest], suites: [signal]}}}\n"
    )
    written.write_text(f"screen: [{{board: virt-arm64}}, {{board: virt-x86_64, profile: mine{select}}}]")
    if not refused:
        assert [screen.board for screen in read(written).screens] == ["virt-arm64", "virt-x86_64"]
        return
    with pytest.raises(ConfigError) as raised:
        read(written)
    assert (
        "1:9: compare measures virt-arm64-smp2 beside virt-arm64, and mine measures it beside virt-x86_64: its boots "
        "would be taken for each other's"
    ) in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1:1: the file is empty"),
        ("board: []", "1:1: unknown key 'board' (allowed: boards, build_disk, build_time, builds, screen, unproven)"),
        ("boards: [{board: virt-arm64, build: virt-arm64-preempt_rt}]", "1:18: virt-arm64 is a virtual board"),
        ("build_disk: 20", "1:13: "),
        ("build_disk: 0 GiB", "1:13: '0 GiB' is not a size (allowed: a number and MiB or GiB, for example 512 MiB)"),
        ("build_time: 20", "1:13: "),
        ("boards: [{board: rk3588-evb1}]", "1:10: missing key 'build'"),
        ("boards: [{board: rk3588-evb1, build: virt-x86_64-preempt_rt}]", "1:38: "),
        ("boards: [{board: rk3588-evb1, build: virt-arm64-preempt_rt, budget: long}]", "1:69: "),
        ("boards: [{board: rk3588-evb1, build: virt-arm64-preempt_rt, cases: some}]", "1:68: unknown value 'some'"),
        (
            "boards: [{board: rk3588-evb1, build: virt-arm64-preempt_rt, suites: [latancy]}]",
            "1:70: unknown value 'latancy' (allowed: irq, latency, ",
        ),
        ("boards: [{board: mine, build: virt-arm64-preempt_rt}]", "1:18: mine is in no lab: its file has no `lava`"),
        ("screen: []", "1:9: names no board"),
        ("screen: [{board: nobody}]", "1:18: unknown value 'nobody'"),
        ("screen: [{board: rk3588-evb1}]", "1:18: rk3588-evb1 is not a virtual board"),
        (
            "screen: [{board: virt-arm64}, {board: virt-arm64-smp2, build: virt-arm64-generic}]",
            "1:9: compare measures virt-arm64-smp2 beside virt-arm64, and virt-arm64-smp2 is a screen of its own",
        ),
        (
            "screen: [{board: virt-arm64, select: not hackbench}, {board: virt-arm64-smp2, build: virt-arm64-generic}]",
            "1:9: compare measures virt-arm64-smp2 beside virt-arm64, and virt-arm64-smp2 is a screen of its own",
        ),
        ("screen: [{board: virt-arm64}, {board: virt-arm64}]", "1:9: names a board twice"),
        ("screen: [{board: virt-arm64, build: mine}]", "1:37: unknown name 'mine'"),
        ("screen: [{board: virt-arm64, build: virt-x86_64-preempt_rt}]", "1:37: "),
        ("screen: [{board: virt-arm64, profile: daily}]", "1:39: unknown value 'daily'"),
        (
            "screen: [{board: virt-riscv64, sections: true}]",
            "1:42: virt-riscv64 is not a virtual board of arm64 or x86_64",
        ),
        ("screen: [{board: virt-arm64, sections: some}]", "1:40: "),
        ("builds: [nothing]", "1:10: unknown value 'nothing'"),
        ("unproven: maybe", "1:11: unknown value 'maybe' (allowed: allow, block)"),
    ],
)
def test_a_mistake_is_said_with_its_place(written: Path, text: str, message: str) -> None:
    (written.parent / "boards").mkdir()
    (written.parent / "boards" / "mine.yaml").write_text(BOARD)
    written.write_text(text)
    with pytest.raises(ConfigError) as raised:
        read(written)
    assert f"{written}:{message}" in str(raised.value)
