# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from selftests.unit.judge.conftest import BOUND

from rtgate.cli import main, sections
from rtgate.errors import InfrastructureError
from rtgate.explain.cache_models import MODELS
from rtgate.explain.handler_lengths import HandlerContext, InterruptHandler
from rtgate.explain.lock_holds import RawLock
from rtgate.explain.misses import Misses, SectionMisses, WakeUpMisses
from rtgate.explain.path import Profile
from rtgate.explain.section_changes import SiteChange
from rtgate.explain.section_path import SectionPaths
from rtgate.explain.sections import BootSections, Context, Kind, Section, Site, Spot
from rtgate.records.bound import Delay
from rtgate.workflow.sections import SectionsRequest

WORDS = ("sections", "--board", "virt-arm64", "--kernel", "new", "--profile", "smoke")
SITE = Site(Kind.IRQSOFF, Context.SOFTIRQ, Spot("run_timer_softirq", "_raw_spin_lock_irq"), Spot("run_timer_softirq"))
OLD = (Section(SITE, 5, 500, 110, 1, 7, 117, (0, 0, 0, 0, 0, 0, 5)),)
NEW = (Section(SITE, 6, 9000, 7610, 1, 7, 7617, (0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 1)),)
QUEUES = RawLock("runqueues", "__schedule", 50, 9000, 2125, 1)
DISK = InterruptHandler("nvme_irq", HandlerContext.THREAD, 20, 40_000, 7500, 1)
TIMER = InterruptHandler("arch_timer_handler_virt", HandlerContext.HARDIRQ, 100, 250_000, 9125, 1)
LONGER = replace(BOUND, seed=1, postponed=Delay(7610, "run_timer_softirq"))
MISSES = [SectionMisses(total=Misses(*total), longest=Misses(9, 8, 7)) for total in ((60, 30, 3), (10, 25, 5))]
WAKE_UPS = [
    WakeUpMisses(count=count, instructions=30_000, total=Misses(*total), most=Misses(50, 40, 30))
    for count, total in ((10, (200, 100, 1)), (20, (200, 300, 4)))
]
FOUND = {
    "new": BootSections(NEW, LONGER, (RawLock("", "try_to_wake_up", 7, 70, 20, 1), QUEUES), handlers=(DISK, TIMER)),
    "old": BootSections(
        OLD,
        replace(LONGER, postponed=Delay(110, "run_timer_softirq")),
        (replace(QUEUES, longest=1000),),
        handlers=(replace(TIMER, longest=9000), replace(DISK, context=HandlerContext.HARDIRQ)),
    ),
    "no bound": BootSections(NEW),
    "cached": BootSections((replace(NEW[0], misses=MISSES[0]),), LONGER, wakeup_misses=WAKE_UPS[0]),
    "cached-old": BootSections((replace(OLD[0], misses=MISSES[1]),), LONGER, wakeup_misses=WAKE_UPS[1]),
    "broken": BootSections(NEW, replace(LONGER, measured=20_000)),
}


class _Boots:
    """Kernels whose sections are known."""

    asked: ClassVar[list[SectionsRequest]] = []
    lengths: ClassVar[tuple[int, int]] = (110, 7610)

    def __init__(self, request: SectionsRequest) -> None:
        self.request = request

    @classmethod
    def of(cls, request: SectionsRequest) -> _Boots:
        cls.asked.append(request)
        return cls(request)

    def follow(self) -> dict[str, dict[int, BootSections]]:
        self.request.tell("booting")
        return {arm: {1: FOUND[directory.name]} for arm, directory in self.request.kernels.items()}

    def paths(self, change: SiteChange) -> SectionPaths:
        assert change.site == SITE
        baseline, candidate = (
            Profile(own={"f": 110.0}, total=110),
            Profile(own={"f": 100.0, "__delay": 7510.0}, blamed={"run_timer_softirq": 7510.0}, total=7610),
        )
        names = {"run_timer_softirq"}
        return SectionPaths(baseline=baseline, candidate=candidate, changed=names, lengths=self.lengths)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[SectionsRequest]:
    monkeypatch.setattr(sections, "SectionBoots", _Boots)
    _Boots.asked = []
    return _Boots.asked


def test_one_kernel_is_listed(
    requests: list[SectionsRequest], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*WORDS, "--seeds", "1-3", "-o", str(tmp_path / "file")]) == 0
    assert requests[0].seeds == (1, 2, 3)
    output = capsys.readouterr()
    row = next(line for line in output.out.splitlines() if "run_timer" in line).split("  ")
    assert [word.strip() for word in row if word.strip()] == [
        "run_timer_softirq (_raw_spin_lock_irq)", "irqsoff", "softirq", "6", "1,500", "7,610", "60.9",
    ]  # fmt: skip
    assert "sections:    0 s: booting" in output.err
    file = json.loads((tmp_path / "file").read_text())
    assert (file["board"], file["case"], file["instruction_ns"]) == ("virt-arm64", "latency/cyclictest:idle", 8)
    spots = {
        "begin": {"function": "run_timer_softirq", "helper": "_raw_spin_lock_irq"},
        "end": {"function": "run_timer_softirq", "helper": ""},
    }
    assert file["kernels"]["candidate"]["bound"]["postponed"] == {"instructions": 7610, "place": "run_timer_softirq"}
    assert file["kernels"]["candidate"]["sections"] == [
        {
            "site": {"kind": "irqsoff", "context": "softirq", **spots, "switches": False},
            "count": 6,
            "total": 9000,
            "longest": 7610,
            "seed": 1,
            "start": 7,
            "end": 7617,
            "buckets": list(NEW[0].buckets),
            "calls": [],
            "boots": [],
            "misses": None,
        }
    ]


def test_raw_locks_are_listed_with_those_of_the_baseline(
    requests: list[SectionsRequest], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*WORDS]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [" ".join(line.split()) for line in lines if "lock" in line or "queues" in line][1:] == [
        "raw lock locked longest by times mean longest virtual us",
        "runqueues __schedule 50 180 2,125 17.0",
        "allocated, locked by try_to_wake_up 7 10 20 0.2",
    ]
    assert main.main([*WORDS, "--baseline", "old"]) == 0
    lines = capsys.readouterr().out.splitlines()
    row = next(" ".join(line.split()) for line in lines if line.startswith("runqueues"))
    assert row == "runqueues __schedule 50 180 1,000 2,125 17.0"


def test_handlers_are_listed_with_those_of_the_baseline(
    requests: list[SectionsRequest], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rows() -> list[str]:
        lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        start = next(number for number, line in enumerate(lines) if line.startswith("interrupt handler"))
        return lines[start : start + 4]

    assert main.main([*WORDS, "-o", str(tmp_path / "file")]) == 0
    assert rows() == [
        "interrupt handler context times mean longest virtual us",
        "arch_timer_handler_virt hardirq 100 2,500 9,125 73.0",
        "nvme_irq thread 20 2,000 7,500 60.0",
        "",
    ]
    assert json.loads((tmp_path / "file").read_text())["kernels"]["candidate"]["handlers"][1] == {
        "function": "nvme_irq",
        "context": "thread",
        "count": 20,
        "total": 40_000,
        "longest": 7500,
        "seed": 1,
    }
    assert main.main([*WORDS, "--baseline", "old"]) == 0
    assert rows() == [
        "interrupt handler context times mean baseline longest virtual us",
        "arch_timer_handler_virt hardirq 100 2,500 9,000 9,125 73.0",
        "nvme_irq thread 20 2,000 - 7,500 60.0",
        "",
    ]
    assert main.main([*WORDS[:4], "no bound", *WORDS[5:]]) == 0
    assert "interrupt handler" not in capsys.readouterr().out


def test_misses_of_caches_are_listed_and_their_change(
    requests: list[SectionsRequest], capsys: pytest.CaptureFixture[str]
) -> None:
    words = (*WORDS[:4], "cached", *WORDS[5:], "--caches", "cortex-a55")
    assert main.main([*words]) == 0
    assert requests[0].caches == MODELS["cortex-a55"]
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0].endswith(" longest virtual us L1I misses L1D misses L2 misses")
    assert lines[1].endswith(" 1,500 7,610 60.9 10.0 5.0 0.5")
    assert [line for line in lines if "wake-up" in line or line.startswith("candidate")][-3:] == [
        "wake-up path instructions L1I misses L1D misses L2 misses",
        "candidate, mean of 10 3,000.0 20.0 10.0 0.1",
        "candidate, most in one 50 40 30",
    ]
    assert main.main([*words, "--baseline", "cached-old"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert next(line for line in lines if "run_timer" in line).endswith(" +60.0 10.0 (+8.0) 5.0 (+0.0) 0.5 (-0.5)")
    assert "baseline, mean of 20 1,500.0 10.0 15.0 0.2" in lines
    assert "change of the mean +1,500.0 +10.0 -5.0 -0.1" in lines


def test_caches_are_those_of_one_cpu(requests: list[SectionsRequest], capsys: pytest.CaptureFixture[str]) -> None:
    words = (WORDS[0], "--board", "virt-arm64-smp2", *WORDS[3:], "--caches", "cortex-a55")
    assert main.main([*words]) == 2
    assert "virt-arm64-smp2 has 2 CPUs, and caches are modelled for one CPU" in capsys.readouterr().err
    assert not requests


@pytest.mark.usefixtures("requests")
def test_a_file_that_cannot_be_written_takes_nothing_of_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*WORDS, "-o", str(tmp_path)]) == 3
    output = capsys.readouterr()
    assert "run_timer_softirq" in output.out
    assert f"{tmp_path} cannot be written: Is a directory" in output.err


def test_two_kernels_are_compared(requests: list[SectionsRequest], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*WORDS, "--baseline", "old"]) == 0
    assert requests[0].kernels == {"candidate": Path("new"), "baseline": Path("old")}
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if "run_timer" in line).split("  ")
    assert [word.strip() for word in row if word.strip()][3:] == ["6", "110", "7,610", "+7,500", "+60.0"]
    assert lines[-1].startswith("interrupts off for 7,500 instructions (60.0 virtual us) more in run_timer_softirq: ")
    cells = {line.split("  ")[0]: " ".join(line.split()) for line in lines if line.startswith(("sched", "bound  "))}
    # Of the baseline scheduling takes longer than anything outside of it.
    where = "schedule -> run_timer_softirq"
    assert cells["scheduler postponed"] == f"scheduler postponed 2,816 22.5 7,610 60.9 {where}"
    assert cells["bound"] == "bound 11,393 91.1 16,187 129.5 seed 1"


@pytest.mark.usefixtures("requests")
def test_without_a_bound_none_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*WORDS[:4], "no bound", *WORDS[5:], "--baseline", "old"]) == 0
    assert "bound" not in capsys.readouterr().out


@pytest.mark.usefixtures("requests")
@pytest.mark.parametrize("more", [(), ("--baseline", "old")])
def test_a_wake_up_longer_than_its_bound_is_our_error(
    more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*WORDS[:4], "broken", *WORDS[5:], *more, "-o", str(tmp_path / "file")]) == 4
    assert (tmp_path / "file").is_file()  # to be reported
    said = capsys.readouterr()
    assert "20,000" in said.out
    assert "a wake-up of 20,000 instructions is longer than its bound of 16,187 (seed 1)" in said.err


def test_a_board_that_is_not_virtual_is_refused(
    requests: list[SectionsRequest], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*WORDS[:2], "rk3568-evb1", *WORDS[3:]]) == 2
    assert "rk3568-evb1 is not a virtual board of arm64 or x86_64" in capsys.readouterr().err
    assert not requests


def test_the_function_that_made_a_section_longer_is_named(
    requests: list[SectionsRequest], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*WORDS, "--baseline", "old", "--explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].endswith("; +7,510 instructions in run_timer_softirq (changed and slower)")
    assert next(line for line in lines if line.startswith("__delay")).split() == ["__delay", "0", "7,510", "+7,510"]
    assert next(line for line in lines if line.startswith("f ")).split() == ["f", "110", "100", "-10"]


@pytest.mark.usefixtures("requests")
def test_no_function_is_named_if_what_ran_is_not_the_section(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_Boots, "lengths", (110, 7000))
    assert main.main([*WORDS, "--baseline", "old", "--explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    why = "no function can be named, as 7,610 instructions of the candidate's section were found, and it has 7,000"
    assert lines[-1].endswith(f"; {why}")
    assert not [line for line in lines if line.startswith("__delay")]


def test_what_was_followed_is_written_before_it_is_explained(
    requests: list[SectionsRequest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def paths(*_: object) -> SectionPaths:
        raise InfrastructureError("the machine stopped a traced boot")

    monkeypatch.setattr(_Boots, "paths", paths)
    assert main.main([*WORDS, "--baseline", "old", "--explain", "-o", str(tmp_path / "file")]) == 3
    assert set(json.loads((tmp_path / "file").read_text())["kernels"]) == {"baseline", "candidate"}


def test_nothing_is_explained_without_a_baseline(
    requests: list[SectionsRequest], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*WORDS, "--explain"]) == 2
    assert "--baseline DIR is missing" in capsys.readouterr().err
    assert not requests
