# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

import pytest

from rtgate.board.storage import FileSystem, Overwrite, Storage
from rtgate.tools import Count, Setting, companions
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


def test_a_case_reports_what_both_report() -> None:
    found = reports("nvme/cyclictest:fio-read+fast")
    assert set(TOOLS["cyclictest"].reports) < set(found)
    assert {name.removeprefix("fio-read.") for name in found if name.startswith("fio-read.")} == set(FioRead.reports)
    assert reports("latency/cyclictest:idle") == TOOLS["cyclictest"].reports
