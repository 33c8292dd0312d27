# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.errors import ParseError
from rtgate.tools import Count, Expected, Output, Setting
from rtgate.tools.pairs import Svsematest
from rtgate.tools.threads import Threads, ThreadScope

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
TWO = Setting(cpus=2, duration_s=2, virtual_time=True)


def _output(capture: str, setting: Setting) -> Output:
    data = (DATA / f"{capture}.json").read_bytes()
    return Output(files={"svsematest.json": data}, exit_code=0, setting=setting)


@pytest.mark.parametrize(
    ("capture", "setting", "rows"),
    # Of each pair: minimum, average, maximum, samples.
    [
        (
            "2.4/svsematest-bound",
            Setting(cpus=2, duration_s=1, virtual_time=False),
            [1, 1.24, 13, 2000, 1, 1.27, 47, 2000],
        ),
        (
            "2.10/svsematest-virtual-hackbench",
            Setting(cpus=1, duration_s=2, virtual_time=True),
            [31, 31.8, 61, 3000],
        ),
        ("2.10/svsematest-virtual-smp2", TWO, [31, 32.84, 239, 3000, 31, 33.44, 1077, 2991]),
    ],
)
def test_a_capture_is_read(capture: str, setting: Setting, rows: list[float]) -> None:
    found = Svsematest().parse(_output(capture, setting))
    assert [one.quantity.value for one in found if one.quantity is not None] == rows


def test_a_run_without_a_key_ends_with_0_and_is_refused() -> None:
    said = (DATA / "2.10" / "svsematest-no-key.err").read_bytes()
    with pytest.raises(ParseError, match="wrote no JSON: ftok: No such file or directory"):
        Svsematest().parse(Output(files={"tool.err": said}, exit_code=0, setting=TWO))


def test_an_unbound_run_is_refused() -> None:
    with pytest.raises(ParseError, match="was not bound to one CPU: it ran on 1 and 0"):
        Svsematest().parse(_output("2.4/svsematest-unbound", TWO))


def test_the_command_line_and_what_must_be_seen() -> None:
    setting = Setting(cpus=2, duration_s=10, virtual_time=False)
    assert Svsematest().argv(setting) == (
        *("env", "_=/proc/self/exe", "svsematest", "--quiet", "--smp", "--prio=99", "--interval=1000"),
        *("--distance=0", "--loops=11000", "--json=svsematest.json"),
    )
    assert Svsematest().expected(setting) == Expected(
        threads=(Threads(count=4, policy=1, priority=99),),
        duration_s=10,
        work_s=16.5,
        seen=ThreadScope.OWN,
        counts=(Count(measurement="samples", least=0.95 * 10_000 / 1.5),),
        clock=True,
        processors=2,
    )
    assert Svsematest.suites == ("scheduling",)
    assert ["CONFIG_SYSVIPC" in need.reason for need in Svsematest.needs] == [True]
