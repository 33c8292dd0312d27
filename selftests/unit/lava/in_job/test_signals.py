# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.fake_target import FakeTarget, arm

from rtgate.judge.verdict import Kind, Status, Verdict, exit_code
from rtgate.lava.in_job import signals
from rtgate.lava.results.plain_text import plain_line
from rtgate.measure.case import Case
from rtgate.measure.case_record import measure
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.measurement import Better, Measurement
from rtgate.units import Quantity, Unit

# `lava_dispatcher/actions/test/shell.py` and what `handle_testcase` makes of the match.
LAVA = re.compile(r"<LAVA_SIGNAL_(\S+) ([^>]+)>")
RECORD, _ = measure(Case(suite="latency", tool=Cyclictest(), load="hackbench"), arm(FakeTarget(), time="real"), 1)


def taken(line: str) -> dict[str, str]:
    """Return what LAVA 2023.01 takes from a signal."""
    found = LAVA.fullmatch(line)
    assert found is not None, line
    assert found[1] == "TESTCASE"
    pairs = [word.split("=") for word in found[2].split()]
    assert all(len(pair) == 2 for pair in pairs), line
    data = {key.lower(): value for key, value in pairs}
    float(data.get("measurement", "0"))
    return data


def about(status: Status, kind: Kind = Kind.LIMIT, measurement: str = "") -> Verdict:
    return Verdict(
        status=status,
        kind=kind,
        sentence="s",
        board=RECORD.board,
        arm=RECORD.arm,
        flavour="preempt_rt",
        case=RECORD.case,
        measurement=measurement,
    )


UNJUDGED = (about(Status.DONE, Kind.UNJUDGED),)


def test_a_record_gives_its_case_and_its_measurements() -> None:
    found = [taken(line) for line in signals.record_signals(RECORD, (), UNJUDGED)]
    assert found[0] == {"test_case_id": "latency.cyclictest.hackbench", "result": "unknown"}
    assert {one["result"] for one in found} == {"unknown"}
    by_name = {one["test_case_id"]: one for one in found}
    worst = next(one.quantity for one in RECORD.measurements if one.name == "latency.max")
    assert worst is not None
    one = by_name["latency.cyclictest.hackbench.latency.max.cpu0"]
    assert (one["units"], float(one["measurement"])) == ("ns", worst.value)


PASSED = about(Status.PASS)


@pytest.mark.parametrize(
    ("verdicts", "result"),
    [
        ((PASSED,), "pass"),
        ((PASSED, about(Status.FAIL)), "fail"),
        ((about(Status.SKIP, Kind.UNJUDGED),), "skip"),
        ((PASSED, about(Status.SKIP, Kind.UNJUDGED)), "pass"),
        # What has no data, or was not judged, is never pass.
        ((), "unknown"),
        (UNJUDGED, "unknown"),
        ((PASSED, about(Status.ERROR, Kind.VALIDITY)), "unknown"),
        ((PASSED, about(Status.MISS, Kind.MISSING)), "unknown"),
        ((PASSED, about(Status.DONE, Kind.INCONCLUSIVE)), "unknown"),
        ((about(Status.PASS, Kind.GUARANTEE), *UNJUDGED), "unknown"),
    ],
)
def test_the_result_of_a_case(verdicts: tuple[Verdict, ...], result: str) -> None:
    assert signals.case_result(verdicts) == result


@given(st.lists(st.builds(about, st.sampled_from(Status), st.sampled_from(Kind)), max_size=4))
def test_pass_is_said_only_where_rtgate_ends_with_0(verdicts: list[Verdict]) -> None:
    assert (signals.case_result(verdicts) == "pass") <= (exit_code(verdicts) == 0)
    assert (signals.case_result(verdicts) == "fail") == (exit_code(verdicts) == 1)


@given(st.text(), st.text(), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(Unit))
def test_whatever_a_measurement_is_called_lava_takes_it(name: str, label: str, value: float, unit: Unit) -> None:
    one = Measurement(
        name=name, better=Better.LOWER, quantity=Quantity(value, unit), labels={"cpu": label, "a=b >": "x"}
    )
    found = [taken(line) for line in signals.record_signals(replace(RECORD, measurements=(one,)), (), UNJUDGED)]
    assert len(found) == (2 if abs(value) < 1e19 else 1)
    for entry in found[1:]:
        assert float(entry["measurement"]) == pytest.approx(value, abs=1e-10)


def test_a_record_with_thousands_of_measurements_does_not_flood_the_table() -> None:
    many = tuple(
        Measurement(name=f"m{number}", better=Better.LOWER, quantity=Quantity(1, Unit.US)) for number in range(5000)
    )
    assert len(list(signals.record_signals(replace(RECORD, measurements=many), (), UNJUDGED))) == 201


def test_a_url_cannot_end_a_signal() -> None:
    assert LAVA.fullmatch(signals.reference("records", "https://h/x?a=b")) is not None
    assert LAVA.fullmatch(signals.reference("records", "https://h/>\n<LAVA_SIGNAL_TESTCASE x>")) is not None


@given(st.text())
def test_plain_text_is_one_line_without_signals(text: str) -> None:
    frame = "@rtgate1 0123456789ab 1 1/1 QQ== 12345678"
    line = plain_line(f"{text}{frame} <LAVA_SIGNAL_TESTCASE TEST_CASE_ID=x RESULT=pass><LAVA_TEST_RUNNER EXIT>")
    assert line.isprintable() or not line
    assert LAVA.search(line) is None
    assert "<LAVA_TEST_RUNNER EXIT>" not in line
    assert "@rtgate1" not in line
