# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples
from selftests.unit.judge.conftest import BOARD, CASE, FLAVOUR, maximum, number, record, without

from rtgate.judge.figures import figure_status
from rtgate.judge.judging import Subject, judge
from rtgate.judge.thresholds import Threshold, Thresholds
from rtgate.judge.verdict import Status, Verdict
from rtgate.records.record import Record
from rtgate.units import Unit


def judged(measured: Record, limits: tuple[Threshold, ...]) -> tuple[Verdict, ...]:
    subject = Subject(case=CASE, board=BOARD, arm="candidate", flavour=FLAVOUR, records=(measured,))
    return judge(subject, Thresholds(limits))


@examples(50)
@given(st.lists(st.floats(31, 1000), min_size=1, max_size=4), st.floats(31, 1000))
def test_a_figure_says_what_its_case_says(values: list[float], most: float) -> None:
    """One figure for each CPU: those over the limit fail, and if one does the case does."""
    figures = tuple(number("latency.max", value, Unit.VIRTUAL_US, cpu) for cpu, value in enumerate(values))
    others = without("latency.max", record()).measurements
    measured = replace(record(), measurements=(*others, *figures))
    limits = (maximum(f"{most!r} virtual us"),)
    verdicts = judged(measured, limits)
    found = [figure_status(one, measured, limits, verdicts) for one in figures]
    assert found == [Status.FAIL if value > most else Status.PASS for value in values]
    assert (Status.FAIL in found) == any(one.status is Status.FAIL for one in verdicts)
    assert {figure_status(one, measured, limits, verdicts) for one in others if one.quantity} == {Status.DONE}


def test_a_limit_for_other_cpus_says_nothing_of_a_figure() -> None:
    big, little = (
        replace(number("latency.max", 50, Unit.VIRTUAL_US, cpu), labels={"cpu": str(cpu), "class": name})
        for cpu, name in ((4, "big"), (0, "little"))
    )
    measured = replace(record(), measurements=(*without("latency.max", record()).measurements, big, little))
    limits = (replace(maximum("10 virtual us"), cpu_class="big"),)
    verdicts = judged(measured, limits)
    assert figure_status(big, measured, limits, verdicts) is Status.FAIL
    assert figure_status(little, measured, limits, verdicts) is Status.DONE


def test_a_figure_of_an_invalid_measurement_keeps_no_limit() -> None:
    kept, over = number("latency.max", 35, Unit.VIRTUAL_US, 0), number("latency.max", 500, Unit.VIRTUAL_US, 1)
    measured = replace(record(), measurements=(*without("latency.max", record()).measurements, kept, over))
    limits = (maximum(),)
    verdicts = judged(measured, limits)
    assert [figure_status(one, measured, limits, verdicts) for one in (kept, over)] == [Status.PASS, Status.FAIL]
    invalid = replace(verdicts[0], status=Status.ERROR, measurement="")
    found = [figure_status(one, measured, limits, (*verdicts, invalid)) for one in (kept, over)]
    assert found == [Status.DONE, Status.FAIL]
