# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

from selftests.unit.judge.compare.test_comparing import arm

from rtgate.board.boot import State
from rtgate.judge.compare.looked_at import PROPERTIES, not_looked_at

RECORD = arm("candidate")[0]
RECORD = replace(RECORD, environment=replace(RECORD.environment, cpus="1"))
TWO = replace(RECORD, environment=replace(RECORD.environment, cpus="2"))


def test_a_gate_of_wake_ups_looks_at_nothing_else() -> None:
    assert not_looked_at([("latency/cyclictest:idle", RECORD)]) == tuple(one.name for one in PROPERTIES)


def test_what_was_measured_is_left_out() -> None:
    cases = ("signal/signaltest:idle", "scheduling/pi_stress:idle", "nvme/fio-read:idle")
    assert not_looked_at([(case, RECORD) for case in cases]) == ("wake-ups across CPUs", "deadline tasks")
    assert "wake-ups across CPUs" not in not_looked_at([("signal/signaltest:idle", TWO)])


def test_a_boot_that_did_not_measure_looked_at_nothing() -> None:
    assert "signals" in not_looked_at([("signal/signaltest:idle", replace(RECORD, state=State.FAULT))])
