# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.fake_target import PRINTK, FakeTarget, arm, facts, measured_outcome

from rtgate.board import thermal
from rtgate.measure.case import Case
from rtgate.measure.case_plan import plan
from rtgate.measure.case_record import measure
from rtgate.records.record import Record
from rtgate.target.outcome import Outcome
from rtgate.target.plan import script
from rtgate.tools.cyclictest import Cyclictest
from rtgate.validity.check import CheckResult
from rtgate.validity.registry import checks

ZONE = "/sys/class/thermal/thermal_zone"
CASE = Case(suite="latency", tool=Cyclictest(), load="hackbench")


@pytest.mark.parametrize(
    ("text", "degrees"),
    [
        ("", None),
        ("cat: can't open\n", None),
        ("45000\n61250\n", 61.25),
        ("-5000\n", -5.0),
        ("274000\n45000\n", 45.0),
        ("45000 1 2\n", None),
        ("[  1.0] usb\n45000\n", 45.0),
    ],
)
def test_the_hottest_sensor_counts(text: str, degrees: float | None) -> None:
    assert thermal.hottest(text) == degrees


def test_zones_have_the_names_of_their_types() -> None:
    readings = {
        f"{ZONE}1/temp": ("45000", "61250"),
        f"{ZONE}0/temp": ("40000", ""),
        f"{ZONE}0/type": ("soc-thermal", "soc-thermal"),
        f"{ZONE}2/type": ("off", "off"),
        f"{ZONE}3/temp": ("274000", "nonsense"),
    }
    found = thermal.zones(readings)
    assert [(zone.name, zone.before, zone.after, zone.highest) for zone in found] == [
        ("soc-thermal", 40.0, None, 40.0),
        ("thermal_zone1", 45.0, 61.25, 61.25),
    ]


@given(st.dictionaries(st.sampled_from([f"{ZONE}0/temp", f"{ZONE}0/type"]), st.tuples(st.text(), st.text())))
def test_whatever_a_sensor_says_is_read(readings: dict[str, tuple[str, str]]) -> None:
    for zone in thermal.zones(readings):
        assert -100 < zone.highest < 200


def _recorded(outcome: Outcome, time: str) -> Record:
    return measure(CASE, arm(FakeTarget({None: outcome}), time=time), 1)[0]


def test_live_boards_are_asked_and_virtual_time_is_left_alone() -> None:
    real, virtual = (plan(CASE, arm(FakeTarget(), time=time), 1) for time in ("real", "virtual"))
    assert set(thermal.WATCHED) <= set(real.watched)
    assert f" {thermal.SENSORS}" in script(real).partition("facts() {")[2].partition("}")[0]
    # Every read more would move what limits were learnt with.
    assert virtual.watched == ()


def test_temperatures_are_readings_and_no_settings() -> None:
    around = {
        f"facts.{moment}": facts(f"facts.{moment}", {f"{ZONE}0/temp": temperature, f"{ZONE}0/type": b"cpu\n"})
        for moment, temperature in (("start", b"45000\n"), ("end", b"52000\n"))
    }
    found = _recorded(measured_outcome(**around), "real")
    zone = {path: values for path, values in found.evidence.readings.items() if path.startswith(ZONE)}
    assert zone == {f"{ZONE}0/temp": ("45000", "52000"), f"{ZONE}0/type": ("cpu", "cpu")}
    assert PRINTK in found.evidence.settings
    assert not set(found.evidence.readings) & set(found.evidence.settings)
    assert {check.name: check.result for check in checks(found, {})}["settings"] is CheckResult.OK
