# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.errors import ParseError
from rtgate.tools import Count, Expected, Output, Setting
from rtgate.tools.pairs import Sigwaittest
from rtgate.tools.threads import Threads, ThreadScope

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
TWO = Setting(cpus=2, duration_s=2, virtual_time=True)


def _output(capture: str, setting: Setting) -> Output:
    data = (DATA / f"{capture}.json").read_bytes()
    return Output(files={"sigwaittest.json": data}, exit_code=0, setting=setting)


@pytest.mark.parametrize(
    ("capture", "setting", "rows"),
    # Of each pair: minimum, average, maximum, samples.
    [
        (
            "2.4/sigwaittest-bound",
            Setting(cpus=2, duration_s=1, virtual_time=False),
            [1, 2.41, 129, 2000, 1, 2.25, 59, 2000],
        ),
        (
            "2.10/sigwaittest-virtual-hackbench",
            Setting(cpus=1, duration_s=2, virtual_time=True),
            [44, 46.08, 75, 3000],
        ),
        ("2.10/sigwaittest-virtual-smp2", TWO, [44, 47.88, 250, 3000, 44, 49.84, 998, 2933]),
    ],
)
def test_a_capture_is_read(capture: str, setting: Setting, rows: list[float]) -> None:
    found = Sigwaittest().parse(_output(capture, setting))
    assert [one.quantity.value for one in found if one.quantity is not None] == rows


def test_an_unbound_run_is_refused() -> None:
    with pytest.raises(ParseError, match="was not bound to one CPU: it ran on 0 and 1"):
        Sigwaittest().parse(_output("2.4/sigwaittest-unbound", TWO))


def test_the_command_line_and_what_must_be_seen() -> None:
    setting = Setting(cpus=3, duration_s=10, virtual_time=False)
    assert Sigwaittest().argv(setting) == (
        *("sigwaittest", "--quiet", "--threads=3", "--affinity", "--prio=99", "--interval=1000", "--distance=0"),
        *("--loops=11000", "--json=sigwaittest.json"),
    )
    assert Sigwaittest().expected(setting) == Expected(
        threads=tuple(Threads(count=2, policy=1, priority=priority) for priority in (99, 98, 97)),
        duration_s=10,
        work_s=16.5,
        seen=ThreadScope.OWN,
        counts=(Count(measurement="samples", least=0.95 * 10_000 / 1.5),),
        clock=True,
        processors=3,
    )
    assert Sigwaittest.suites == ("signal",)
