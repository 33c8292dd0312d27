# SPDX-License-Identifier: MIT
"""What derives from the registry: names, what plans read, and what of that is evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtgate import site
from rtgate.board import boards, isolation, suspend, thermal
from rtgate.board.boot import TimeBase
from rtgate.board.tuning import DEFAULT
from rtgate.validity import links, registry
from rtgate.validity.check import PlanInputs, ValidityCheck

MODULES = Path(registry.__file__).parent
PORT = "/sys/bus/pci/devices/0000:00:08.0/vendor"


def test_every_module_with_a_check_is_registered_once() -> None:
    there = [path.stem for path in MODULES.glob("*.py") if "\nCHECK = ValidityCheck(" in path.read_text()]
    names = [check.name for check in (*registry.OF_THE_RECORD, *registry.CHECKS)]
    assert len(there) == len(names) == len(set(names))


@pytest.mark.parametrize("check", registry.CHECKS, ids=lambda check: check.name)
def test_some_plan_reads_what_the_readings_of_a_check_are(check: ValidityCheck) -> None:
    read = {
        pattern
        for board in map(boards.board, site.names("boards"))
        for tuning in board.tunings.values()
        for pattern in check.reads(PlanInputs(time=TimeBase.REAL, tuning=tuning, functions=board.pcie))
    }
    assert set(check.readings) <= read


def test_a_plan_on_virtual_time_reads_nothing_for_a_check() -> None:
    assert registry.files(PlanInputs(time=TimeBase.VIRTUAL, tuning=DEFAULT)) == ()
    functions = boards.board("virt-arm64").pcie
    assert registry.files(PlanInputs(time=TimeBase.VIRTUAL, tuning=DEFAULT, functions=functions)) == links.WATCHED
    assert registry.files(PlanInputs(time=TimeBase.HOST, tuning=DEFAULT)) == (*thermal.WATCHED, *suspend.WATCHED)


def test_what_no_check_reads_is_a_setting() -> None:
    around = dict.fromkeys(
        (isolation.DEFAULT_AFFINITY, isolation.INTERRUPTS, PORT, "/proc/sys/kernel/printk"), ("a", "b")
    )
    assert set(registry.readings(around)) == {isolation.INTERRUPTS, PORT}
