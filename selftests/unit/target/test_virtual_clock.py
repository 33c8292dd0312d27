# SPDX-License-Identifier: MIT
from __future__ import annotations

import calendar
from typing import Any

import pytest

from rtgate.arches import ARCHES
from rtgate.target.virtual_clock import virtual_seconds

EPOCH = calendar.timegm((2024, 1, 1, 0, 0, 0))
NS = (EPOCH + 65) * 1_000_000_000 + 999_999_999
DATE = {"tm_year": 124, "tm_mon": 0, "tm_mday": 1, "tm_hour": 0, "tm_min": 1, "tm_sec": 5, "tm_wday": 1}
# What QEMU 7.2 answers 65 virtual seconds after power-on, as `hmp_memory_dump` and QOM write it.
ANSWERS = {
    "arm64": f"0000000009010000: {EPOCH + 65:#010x}\r\n",
    "x86_64": DATE,
    "riscv64": f"0000000000101000: {NS & 0xFFFFFFFF:#010x} {NS >> 32:#010x}\r\n",
}


class _Monitor:
    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def ask(self, command: str, **arguments: str) -> Any:
        assert command in {"human-monitor-command", "qom-get"}
        return self._answer


@pytest.mark.parametrize("arch", ARCHES)
def test_the_seconds_since_power_on(arch: str) -> None:
    monitor: Any = _Monitor(ANSWERS[arch])
    assert virtual_seconds(monitor, arch) == 65.0


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("answer", [None, ""])
def test_a_silent_qemu_has_no_clock(arch: str, answer: str | None) -> None:
    monitor: Any = _Monitor(answer)
    assert virtual_seconds(monitor, arch) is None
