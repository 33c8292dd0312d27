# SPDX-License-Identifier: MIT
from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from rtgate.board.boards import Board, board
from rtgate.board.tuning import Tuning
from rtgate.errors import ConfigError
from rtgate.explain.path import Profile
from rtgate.explain.replay import Replay
from rtgate.explain.section_changes import SiteChange
from rtgate.explain.sections import BootSections, Context, Kind, Section, Site, Spot
from rtgate.kernel.differing import Differences
from rtgate.workflow import sections
from rtgate.workflow.sections import SectionBoots, SectionsRequest, unfollowed

SITE = Site(Kind.IRQSOFF, Context.THREAD, Spot("f"), Spot("f"))
SECTION = Section(SITE, 1, 20, 20, 7, 9000, 9020, (0, 0, 0, 0, 1))


def _slower(one: Board) -> Board:
    assert one.qemu is not None
    return replace(one, qemu=replace(one.qemu, shift=4))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (board("rk3568-evb1"), "rk3568-evb1 is not a virtual board of arm64 or x86_64"),
        (board("virt-riscv64"), "virt-riscv64 is not a virtual board of arm64 or x86_64"),
        (_slower(board("virt-arm64")), "virt-arm64 cannot be followed, but of boards with 8 ns per instruction"),
        (replace(board("virt-arm64"), cpus=9), "at most 8 CPUs"),
        (replace(board("virt-arm64"), command_line="irqchip.gicv3_pseudo_nmi=1"), "masks interrupts by priority"),
    ],
)
def test_boards_that_cannot_be_followed_are_refused(changed: Board, reason: str) -> None:
    assert reason in unfollowed(changed)


@pytest.mark.parametrize("name", ["virt-arm64", "virt-arm64-smp2", "virt-arm64-xenomai"])
def test_virtual_arm64_boards_can_be_followed(name: str) -> None:
    assert unfollowed(board(name)) == ""


def test_a_tuning_that_masks_interrupts_by_priority_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its kernel arguments are those of the boot, too. What is measured without it can be followed."""
    tuned = board("virt-arm64-smp2")
    by_priority = Tuning(name="nmi", description="", command_line="isolcpus=1 irqchip.gicv3_pseudo_nmi=1")
    tuned = replace(tuned, tunings={**tuned.tunings, "nmi": by_priority})
    assert unfollowed(tuned) == unfollowed(tuned, "isolated") == ""
    assert unfollowed(tuned, "nmi").startswith("tuning nmi of virt-arm64-smp2 masks interrupts by priority")
    monkeypatch.setattr(sections, "board", lambda _: tuned)
    request = two_kernels(tmp_path)
    request.check()
    with pytest.raises(ConfigError, match="tuning nmi of virt-arm64-smp2 masks"):
        replace(request, case="latency/cyclictest:idle+nmi").check()


def test_what_ran_in_a_section_is_looked_for_in_a_boot_that_repeats_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A board with a disk may boot otherwise the second time: other code ran where the section had been."""
    expected: set[object] = set()

    def section_profiles(replay: Replay, *_: object) -> list[Profile]:
        expected.add(replay.expected)
        return [Profile()]

    monkeypatch.setattr(
        sections, "trace_sections", lambda replay, *_, **__: (f"record of {replay.arm}", BootSections(()))
    )
    monkeypatch.setattr(sections, "section_profiles", section_profiles)
    boots = _boots()
    boots.follow()
    paths = boots.paths(SiteChange(SITE, SECTION, replace(SECTION, longest=30), SECTION))
    assert paths.lengths == (20, 30)
    assert expected == {"record of the baseline", "record of the candidate"}


def test_sections_of_the_baseline_have_the_candidates_names_and_are_kept_under_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The candidate's own function `f` is another one, so it keeps its name."""
    kept = Mock(**{"find.return_value": None})
    named: list[object] = []

    def section_profiles(replay: Replay, *_: object) -> list[Profile]:
        named.append(replay.kernel)
        return [Profile()]

    monkeypatch.setattr(sections, "trace_sections", lambda *_, **__: ("a record", BootSections((SECTION,))))
    monkeypatch.setattr(sections, "section_profiles", section_profiles)
    boots = _boots(
        differences=Differences(renames={"f": "g"}, options={}),
        cache=kept,
        expected={"baseline": {7: "b"}, "candidate": {7: "c"}},
    )
    by_arm = boots.follow()
    assert {arm: own[7].sections[0].site.begin.function for arm, own in by_arm.items()} == {
        "baseline": "g",
        "candidate": "f",
    }
    assert {call.args[2].sections for call in kept.keep.call_args_list} == {(SECTION,)}
    kept.find.return_value = BootSections((SECTION,))
    assert boots.follow() == by_arm
    boots.paths(SiteChange(SITE, SECTION, SECTION, SECTION))
    assert [name for name in named if isinstance(name, tuple)] == [("the baseline", {"f": "g"})]
    assert len(named) == 2


@pytest.mark.parametrize("stages", [True, False])
def test_stages_are_measured_where_somebody_shows_them(monkeypatch: pytest.MonkeyPatch, stages: bool) -> None:
    trace = Mock(return_value=("a record", BootSections((SECTION,))))
    monkeypatch.setattr(sections, "trace_sections", trace)
    _boots(stages=stages).follow()
    assert [call.kwargs["stages"] for call in trace.call_args_list] == [stages, stages]


def _boots(**values: Any) -> SectionBoots:
    arms: Any = {"baseline": "the baseline", "candidate": "the candidate"}
    kernels: Any = {
        arm: SimpleNamespace(with_names=partial(_named, name), function_names=dict) for arm, name in arms.items()
    }
    case: Any = None
    stop = threading.Event()
    return SectionBoots(case=case, seeds=[7], arms=arms, kernels=kernels, stop=stop, tell=lambda _: None, **values)


def _named(kernel: str, names: dict[str, str]) -> tuple[str, dict[str, str]]:
    return kernel, names


def two_kernels(directory: Path) -> SectionsRequest:
    """Return a request of two kernels, both in one directory."""
    return SectionsRequest(
        board="virt-arm64",
        kernels={"candidate": directory, "baseline": directory},
        case="latency/cyclictest:idle",
        profile="smoke",
        seeds=(1,),
        tell=lambda _: None,
    )


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a"], "a -> new_a"),
        (["a", "b", "c"], "a -> new_a, b -> new_b, c -> new_c"),
        (["a", "b", "c", "d", "e"], "a -> new_a, b -> new_b, c -> new_c and 2 more"),
    ],
)
def test_names_that_were_translated_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names: list[str], words: str
) -> None:
    monkeypatch.setattr(sections, "pin_kernel", lambda directory: SimpleNamespace(directory=directory))
    monkeypatch.setattr(sections, "open_vmlinux", lambda _, directory: directory)
    monkeypatch.setattr(sections, "make_arms", lambda *_: ())
    renames = {name: f"new_{name}" for name in names}
    monkeypatch.setattr(sections, "differing", lambda *_: Differences(renames=renames, options={}))
    said: list[str] = []
    request = replace(two_kernels(tmp_path), tell=said.append)
    boots = SectionBoots.of(request)
    assert (boots.differences.renames, boots.stages) == (renames, True)
    assert said == [f"renamed functions, listed by the candidate's names: {words}"]
    said.clear()
    assert SectionBoots.of(replace(request, kernels={"candidate": tmp_path})).differences.renames == {}
    assert said == []


def test_a_kernel_that_cannot_boot_is_refused_before_code_is_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sections, "pin_kernel", lambda directory: SimpleNamespace(directory=directory))
    monkeypatch.setattr(sections, "open_vmlinux", lambda _, directory: directory)
    monkeypatch.setattr(sections, "make_arms", Mock(side_effect=ConfigError("a kernel for another board")))
    monkeypatch.setattr(sections, "differing", Mock(side_effect=ConfigError("no function in common")))
    request = two_kernels(tmp_path)
    with pytest.raises(ConfigError, match="another board"):
        SectionBoots.of(request)
