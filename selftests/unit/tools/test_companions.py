# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from rtgate.board.storage import FileSystem, Overwrite, Storage
from rtgate.tools import Bound, Count, Expected, Setting, Tool, companions
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.edu import EduDma
from rtgate.tools.fio import FioRead
from rtgate.tools.loads import SHIPPED
from rtgate.tools.registry import COMPANIONS, TOOLS, reports

STORAGE = Storage(serial="S6", model="", overwrite=Overwrite.DISK, name="", file_system=FileSystem.EXT4)
SETTING = Setting(cpus=1, duration_s=10, virtual_time=False, storage=STORAGE)


@pytest.mark.parametrize("name", ["idle", "fio", "cyclictest", "nothing"])
def test_other_loads_are_no_companions(name: str) -> None:
    assert companions.companion(name) is None


def test_no_load_and_no_companion_have_one_name() -> None:
    assert not set(SHIPPED) & set(COMPANIONS)


def test_a_companion_is_a_load_that_measures_until_it_is_ended() -> None:
    load = companions.as_load(FioRead(), SETTING)
    assert (load.name, load.measures, load.repeat, load.image, load.devices) == (
        *("fio-read", True, False, "full", ("nvme",)),
    )
    assert load.argv == FioRead().argv(companions.companion_setting(SETTING)) != FioRead().argv(SETTING)


def test_dma_is_a_companion_too() -> None:
    load = companions.as_load(EduDma(), SETTING)
    assert (load.measures, load.repeat, load.image, load.devices) == (True, False, "full", ("edu",))
    both = companions.with_companion(Cyclictest().expected(SETTING), EduDma(), SETTING)
    assert (both.counts, both.health) == ((Count(measurement="edu-dma.transfers", least=80),), "")
    assert "edu-dma.bytes.wrong" in reports("pcie/cyclictest:edu-dma")


def test_both_must_do_what_they_had_to_and_the_disk_be_well() -> None:
    expected = Cyclictest().expected(SETTING)
    assert companions.with_companion(expected, FioRead(), SETTING) == replace(
        expected, counts=(Count(measurement="fio-read.time", least=9.0),), health="fio-read.disk"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Demanding(EduDma):
    """A companion that measures with the wall clock, and of which the board's file demands something."""

    def expected(self, setting: Setting) -> Expected:
        return Expected(threads=(), duration_s=1, clock=True, bounds=(BOUND,))


BOUND = Bound(measurement="lanes", labels={"function": "nvme"}, value=4, source="b.yaml")


def test_what_a_companion_demands_of_clock_and_board_holds_for_both() -> None:
    both = companions.with_companion(replace(Cyclictest().expected(SETTING), bounds=(BOUND,)), Demanding(), SETTING)
    assert both.clock
    assert both.bounds == (BOUND, replace(BOUND, measurement="edu-dma.lanes"))


@pytest.mark.parametrize("name", COMPANIONS)
def test_no_companion_has_what_a_plan_ignores_in_a_load(name: str) -> None:
    tool = COMPANIONS[name]
    assert (tool.writes, tool.cleanup, tool.driver, tool.instrumented) == ((), "", None, False)
    assert tool.undo is Tool.undo


def test_a_case_reports_what_both_report() -> None:
    found = reports("nvme/cyclictest:fio-read+fast")
    assert set(TOOLS["cyclictest"].reports) < set(found)
    assert {name.removeprefix("fio-read.") for name in found if name.startswith("fio-read.")} == set(FioRead.reports)
    assert reports("latency/cyclictest:idle") == TOOLS["cyclictest"].reports
