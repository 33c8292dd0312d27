# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.tools import Count, Expected, Output, Setting
from rtgate.tools.pairs import Pmqtest
from rtgate.tools.threads import Threads, ThreadScope

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"


@pytest.mark.parametrize(
    ("capture", "setting", "rows"),
    # Of each pair: minimum, average, maximum, samples.
    [
        (
            "2.4/pmqtest-bound",
            Setting(cpus=2, duration_s=1, virtual_time=False),
            [1, 1.48, 60, 2000, 1, 1.51, 11, 2000],
        ),
        ("2.10/pmqtest-virtual-hackbench", Setting(cpus=1, duration_s=2, virtual_time=True), [30, 30.76, 61, 3000]),
        (
            "2.10/pmqtest-virtual-smp2",
            Setting(cpus=2, duration_s=2, virtual_time=True),
            [30, 31.82, 177, 3000, 30, 32.17, 945, 2916],
        ),
    ],
)
def test_a_capture_is_read(capture: str, setting: Setting, rows: list[float]) -> None:
    data = (DATA / f"{capture}.json").read_bytes()
    found = Pmqtest().parse(Output(files={"pmqtest.json": data}, exit_code=0, setting=setting))
    assert [one.quantity.value for one in found if one.quantity is not None] == rows


def test_the_command_line_and_what_must_be_seen() -> None:
    setting = Setting(cpus=4, duration_s=60, virtual_time=False)
    assert Pmqtest().argv(setting) == (
        *("pmqtest", "--quiet", "--smp", "--prio=99", "--interval=1000", "--distance=0", "--loops=61000"),
        "--json=pmqtest.json",
    )
    assert Pmqtest().expected(setting) == Expected(
        threads=(Threads(count=8, policy=1, priority=99),),
        duration_s=60,
        work_s=91.5,
        seen=ThreadScope.OWN,
        counts=(Count(measurement="samples", least=0.95 * 40_000),),
        clock=True,
        processors=4,
    )


def test_options_reach_the_command_line() -> None:
    argv = Pmqtest(interval_us=500, priority=80).argv(Setting(cpus=1, duration_s=2, virtual_time=True))
    assert {"--prio=80", "--interval=500", "--loops=6000"} < set(argv)


def test_it_belongs_to_scheduling_and_needs_message_queues() -> None:
    assert Pmqtest.name == "pmqtest"
    assert Pmqtest.suites == ("scheduling",)
    (need,) = Pmqtest.needs
    assert "CONFIG_POSIX_MQUEUE" in need.reason
