# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.errors import ParseError
from rtgate.tools import Count, Expected, Output, Setting
from rtgate.tools.pairs import Ptsematest
from rtgate.tools.threads import Threads, ThreadScope

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
ONE = Setting(cpus=1, duration_s=2, virtual_time=True)
TWO = Setting(cpus=2, duration_s=2, virtual_time=False)


def _output(capture: str, setting: Setting) -> Output:
    data = (DATA / f"{capture}.json").read_bytes()
    return Output(files={"ptsematest.json": data}, exit_code=0, setting=setting)


@pytest.mark.parametrize(
    ("capture", "setting", "rows"),
    # Of each pair: minimum, average, maximum, samples.
    [
        ("2.4/ptsematest-bound", TWO, [1, 1.53, 73, 1880, 1, 1.56, 113, 1877]),
        ("2.10/ptsematest-virtual-hackbench", ONE, [26, 27.13, 57, 2370]),
        ("2.10/ptsematest-virtual-smp2", TWO, [26, 30.4, 175, 2637, 26, 35.48, 999, 2531]),
    ],
)
def test_a_capture_is_read(capture: str, setting: Setting, rows: list[float]) -> None:
    found = Ptsematest().parse(_output(capture, setting))
    assert [one.quantity.value for one in found if one.quantity is not None] == rows


def test_a_run_of_a_time_may_have_any_number_of_samples() -> None:
    # Whether there are enough is a matter of validity: `Expected.counts`.
    longer = Setting(cpus=1, duration_s=600, virtual_time=True)
    assert Ptsematest().parse(_output("2.10/ptsematest-virtual-hackbench", longer))


@pytest.mark.parametrize(
    ("capture", "setting", "reason"),
    [
        ("2.4/ptsematest-interval-9s", ONE, "interval of 0 us, 1000 us were asked for"),
        ("2.4/ptsematest-one-loop", TWO, "had pairs on the CPUs 0, not one on each of 2"),
        ("2.4/ptsematest-unbound", TWO, "was not bound to one CPU"),
    ],
)
def test_a_run_with_other_options_is_refused(capture: str, setting: Setting, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        Ptsematest().parse(_output(capture, setting))


def test_the_command_line_and_what_must_be_seen() -> None:
    setting = Setting(cpus=2, duration_s=9.5, virtual_time=False)
    assert Ptsematest().argv(setting) == (
        *("ptsematest", "--quiet", "--smp", "--prio=99", "--interval=1000", "--distance=0", "--duration=11"),
        "--json=ptsematest.json",
    )
    assert Ptsematest().expected(setting) == Expected(
        threads=(Threads(count=4, policy=1, priority=99),),
        duration_s=9.5,
        seen=ThreadScope.OWN,
        counts=(Count(measurement="samples", least=0.95 * 9500 / 1.5),),
        clock=True,
        processors=2,
    )
    assert Ptsematest.suites == ("scheduling",)


@pytest.mark.parametrize("capture", ["2.10/ptsematest-virtual-hackbench", "2.10/ptsematest-virtual-smp2"])
def test_captures_have_the_samples_that_are_demanded(capture: str) -> None:
    setting = Setting(cpus=2 if "smp2" in capture else 1, duration_s=2, virtual_time=True)
    (least,) = Ptsematest().expected(setting).counts
    found = Ptsematest().parse(_output(capture, setting))
    assert min(one.quantity.value for one in found if one.name == "samples" and one.quantity) >= least.least
