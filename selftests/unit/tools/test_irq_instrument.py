# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.board.instrument import Instrument
from rtgate.errors import ConfigError, ParseError
from rtgate.files import cksum
from rtgate.tools import Expected, Output, Setting
from rtgate.tools.irq_instrument import (
    BUCKETS,
    DRIVER,
    LEAST_PERIOD_US,
    MOST_PERIOD_US,
    RAW,
    TICKS_PER_US,
    IrqInstrumentHard,
    IrqInstrumentThreaded,
)
from rtgate.tools.measurement import Measurement
from rtgate.tools.threads import ThreadScope
from rtgate.units import Quantity, Unit

ROOT = Path(__file__).resolve().parents[3]
CAPTURED = ROOT / "selftests" / "data" / "irq" / "instrument-1"  # SOURCES.md above it says from what
WIRES = Instrument(port="/dev/ttyS4", pulse="gpio3:12", answer="gpio3:13")
BOARD = Setting(cpus=4, duration_s=0.2, virtual_time=False, instrument=WIRES)
HARD = IrqInstrumentHard()
HEAD = (
    "id rtgate-instrument 1 clock=crystal ticks_per_s=12000000 buckets=4000",
    "selftest pass pulses=100 answers=100 min=1203 max=1203",
    "started pulses=200 period_us=1000",
)
FIELDS = {
    "pulses": 200,
    "period_us": 1000,
    "answers": 200,
    "missed": 0,
    "early": 0,
    "doubled": 0,
    "beyond": 0,
    "min": 60,
    "max": 120,
    "sum": 12_060,
}
COUNTS = {60: 199, 120: 1}


def _seal(*texts: str) -> str:
    return "".join(f"{text} {cksum(f'{text}{chr(10)}'.encode())}\n" for text in texts)


def _result(fields: Mapping[str, int] = FIELDS, counts: Mapping[int, int] = COUNTS) -> str:
    head = "result " + " ".join(f"{name}={value}" for name, value in fields.items())
    lines = _seal(head, *(f"bucket {ticks} {number}" for ticks, number in counts.items()))
    return lines + _seal(f"end lines={len(counts) + 1} total={cksum(lines.encode())}")


def _parse(raw: str, answered: str = "answered 200\n", exit_code: int = 0, error: str = "") -> tuple[Measurement, ...]:
    files = {RAW: raw.encode(), "tool.out": answered.encode(), "tool.err": error.encode()}
    return HARD.parse(Output(files=files, exit_code=exit_code, setting=BOARD))


def _values(measurements: tuple[Measurement, ...]) -> dict[str, Quantity]:
    return {one.name: one.quantity for one in measurements if one.quantity}


def test_the_response_is_read_in_nanoseconds() -> None:
    measurements = _parse(_seal(*HEAD) + _result() * 2)
    [histogram] = [one.histogram for one in measurements if one.histogram]
    assert (histogram.counts, histogram.unit, histogram.overflow, histogram.limit) == (
        *({5000: 199, 10_000: 1}, Unit.NS, 0, 333_333),
    )
    assert _values(measurements) == {
        "pulses": Quantity(200, Unit.COUNT),
        "interrupts": Quantity(200, Unit.COUNT),
        "answers": Quantity(200, Unit.COUNT),
        "answers.missed": Quantity(0, Unit.COUNT),
        "answers.doubled": Quantity(0, Unit.COUNT),
        "response.min": Quantity(5000, Unit.NS),
        "response.avg": Quantity(5025, Unit.NS),
        "response.max": Quantity(10_000, Unit.NS),
    }
    assert {one.name for one in measurements} == set(HARD.reports)
    # The reference document counts responses of 10 us and more.
    assert histogram.over(Quantity(9.999, Unit.US)) == 1
    assert histogram.over(Quantity(10, Unit.US)) == 0


def test_a_missed_answer_is_counted() -> None:
    fields = {**FIELDS, "answers": 199, "missed": 1, "sum": 11_940, "max": 60}
    assert _values(_parse(_seal(*HEAD) + _result(fields, {60: 199})))["answers.missed"].value == 1


def test_an_answer_beyond_the_buckets_is_overflow_with_its_maximum() -> None:
    fields = {**FIELDS, "beyond": 1, "max": 9000, "sum": 199 * 60 + 9000}
    measurements = _parse(_seal(*HEAD) + _result(fields, {60: 199}))
    [histogram] = [one.histogram for one in measurements if one.histogram]
    assert (histogram.total, histogram.overflow) == (200, 1)
    assert _values(measurements)["response.max"] == Quantity(750_000, Unit.NS)


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({"pulses": 100}, {}),
        ({"period_us": 500}, {}),
        ({"answers": 199}, {}),
        ({"missed": 1}, {}),
        ({"early": 1}, {}),
        ({"beyond": 1}, {}),
        ({"min": 59}, {}),
        ({"max": 121}, {}),
        ({"max": 60}, {}),
        ({"sum": 12_061}, {}),
        ({}, {61: 1}),
        ({"max": 4000, "sum": 60 * 199 + 4000}, {60: 199, 4000: 1}),
        ({"max": 12_000, "beyond": 1, "sum": 60 * 199 + 12_000}, {60: 199}),
        ({"answers": 201}, {60: 200, 120: 1}),
        ({}, {120: 1, 60: 199}),
        ({}, {60: 199, 61: 0, 120: 1}),
    ],
)
def test_a_result_that_contradicts_itself_is_refused(fields: dict[str, int], counts: dict[int, int]) -> None:
    with pytest.raises(ParseError, match="contradicts itself or the command"):
        _parse(_seal(*HEAD) + _result({**FIELDS, **fields}, counts or COUNTS))


def _replace(old: str, new: str) -> Callable[[str], str]:
    return lambda raw: raw.replace(old, new)


def _sealed(number: int, text: str) -> Callable[[str], str]:
    """Put another line, whose checksum is right, in the place of one of the head."""
    return lambda _: _seal(*HEAD[:number], text, *HEAD[number + 1 :]) + _result()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_replace("bucket 60 199", "bucket 61 199"), "a line of the instrument is damaged, 'bucket 61 199"),
        (_replace(_seal("bucket 120 1"), ""), "missing or repeated"),
        (_replace(_seal("bucket 120 1"), _seal("bucket 120 1") * 2), "missing or repeated"),
        (lambda raw: raw.partition("end ")[0], "missing or repeated"),
        (lambda raw: raw.partition("result ")[0], "sent no whole result"),
        (_replace("id rtgate", "id rt-gate"), "damaged, 'id rt-gate"),
        (lambda raw: raw.partition("\n")[2], "sent 'selftest pass .* in place of 'id rtgate-instrument 1 "),
        (lambda raw: raw.partition("\n")[0] + "\n" + raw, "sent 'id rtgate-.* in place of 'selftest pass "),
        (_replace(_seal(HEAD[1]), ""), "sent 'started .* in place of 'selftest pass "),
        (lambda raw: raw + _seal(HEAD[0].replace("id", "reset")), "the instrument began anew.*reset rtgate-instrument"),
        (lambda raw: raw + _seal("error there is no result"), "did not measure to its end, 'error there is no result"),
        (lambda raw: raw + _result({**FIELDS, "doubled": 1}), "two results that differ"),
        (_sealed(0, HEAD[0].replace("crystal", "internal")), "clock=internal .* in place of 'id .*=crystal "),
        (_sealed(0, HEAD[0].replace("4000", "1000")), "buckets=1000 .* in place of .* buckets=4000': check"),
        (_sealed(0, HEAD[0].replace("instrument 1", "instrument 2")), "sent 'id rtgate-instrument 2 .*firmware"),
        (_sealed(1, "selftest fail pulses=0 answers=0 min=0 max=0"), "sent 'selftest fail .* place of 'selftest pass "),
        (_sealed(2, HEAD[2].replace("200", "2000")), "sent 'started pulses=2000 .* in place of 'started pulses=200 "),
        (lambda _: "", "a line of the instrument is damaged"),
    ],
)
def test_what_is_not_a_whole_measurement_is_refused(change: Callable[[str], str], message: str) -> None:
    with pytest.raises(ParseError, match=message):
        _parse(change(_seal(*HEAD) + _result()))


def test_one_whole_copy_is_enough() -> None:
    damaged = _result().replace("bucket 60 199", "bucket 60 198")
    whole = _parse(_seal(*HEAD) + _result())
    assert _parse(_seal(*HEAD) + damaged + _result()) == whole
    assert _parse(_seal(*HEAD) + _result() + damaged[:40]) == whole
    with pytest.raises(ParseError, match="damaged"):
        _parse(_seal(*HEAD) + damaged * 2)


SILENT: tuple[Mapping[str, int], Mapping[int, int]] = (
    {**FIELDS, "answers": 0, "missed": 200, "min": 0, "max": 0, "sum": 0},
    {},
)


def _seen(answers: int, **others: int) -> tuple[Mapping[str, int], Mapping[int, int]]:
    """Return a result with so many answers of 200 pulses, each of 60 ticks."""
    counts = {"answers": answers, "missed": 200 - answers, "max": 60, "sum": 60 * answers}
    return {**FIELDS, **counts, **others}, {60: answers}


EARLY: tuple[Mapping[str, int], Mapping[int, int]] = (
    {**FIELDS, "answers": 199, "early": 1, "max": 60, "sum": 11_940},
    {60: 199},
)


@pytest.mark.parametrize(
    ("answered", "result", "message"),
    [
        ("answered 0\n", SILENT, "no pulse reached the kernel: check the pulse's wire"),
        ("answered 200\n", SILENT, "answered 200 times, and the instrument saw nothing of it: check the answer's wire"),
        ("answered 0\n", SILENT, "another kernel answered.*GPIO interrupts may not work with this one"),
        (
            "answered 199\n",
            (FIELDS, COUNTS),
            "saw 200 answers or more, the kernel gave 199: the answer's wire is noisy",
        ),
        ("answered 200\n", ({**FIELDS, "doubled": 1}, COUNTS), "saw 201 answers or more, the kernel gave 200"),
        ("answered 200\n", _seen(197), "answered 200 times, the instrument saw 197: the answer's wire loses answers"),
        ("answered 200\n", _seen(100, doubled=10), "200 times, the instrument saw 110: the answer's wire loses"),
        ("answered 201\n", (FIELDS, COUNTS), "the kernel saw 201 edges of 200 pulses: the pulse's wire is noisy"),
        ("answered 200\n", EARLY, "an answer came within 1 us of a pulse, 1 times: .*crosstalk"),
        ("answered 200 threaded\n", (FIELDS, COUNTS), "did not run in hard-interrupt context.*to another chip"),
        ("", (FIELDS, COUNTS), "did not say how many edges it answered"),
        ("answered 200\nanswered 200\n", (FIELDS, COUNTS), "did not say how many edges it answered"),
    ],
)
def test_what_the_kernel_and_the_instrument_say_must_agree(
    answered: str, result: tuple[Mapping[str, int], Mapping[int, int]], message: str
) -> None:
    with pytest.raises(ParseError, match=message):
        _parse(_seal(*HEAD) + _result(*result), answered)


def test_more_edges_than_answers_are_shown() -> None:
    """A response that is later than the period: a missed answer, and one more edge in the next period."""
    fields = {**FIELDS, "answers": 199, "missed": 1, "doubled": 1, "max": 60, "sum": 11_940}
    values = _values(_parse(_seal(*HEAD) + _result(fields, {60: 199})))
    assert (values["interrupts"].value, values["answers.doubled"].value) == (200, 1)


@pytest.mark.parametrize(
    ("answered", "result"),
    [
        (100, _seen(100)),  # pulses that raised no interrupt
        (102, _seen(100)),  # two late ones behind the last period
        (112, _seen(100, doubled=10)),
        (132, _seen(100, doubled=10)),  # the most of a late kernel: four edges in each such period, and two at the end
    ],
)
def test_a_kernel_that_answers_late_or_not_at_all_is_not_taken_for_a_wire(
    answered: int, result: tuple[Mapping[str, int], Mapping[int, int]]
) -> None:
    values = _values(_parse(_seal(*HEAD) + _result(*result), f"answered {answered}\n"))
    assert values["answers.missed"].value == 100


def test_a_script_that_gave_up_says_why() -> None:
    with pytest.raises(ParseError, match="ended with exit code 4: the instrument on /dev/ttyS4 does not answer"):
        _parse("", exit_code=4, error="the instrument on /dev/ttyS4 does not answer: ")


def test_the_command_line() -> None:
    program, option, script = HARD.argv(BOARD)
    assert (program, option) == ("sh", "-c")
    assert f"exec 3<>/dev/ttyS4 4<>{DRIVER}\n" in script
    assert "echo 'hard gpio3:12 gpio3:13' >&4" in script
    assert "start 200 1000" in script
    assert "\nsleep 1.2\nhas end 1 16\n" in script
    assert not re.findall(r"@[A-Z]+@", script)
    night = replace(BOARD, duration_s=50_000)
    assert "start 25000000 2000" in IrqInstrumentThreaded(period_us=2000).argv(night)[2]
    assert "echo 'threaded gpio3:12" in IrqInstrumentThreaded().argv(night)[2]
    assert HARD.expected(night) == Expected(
        threads=(), duration_s=50_000, work_s=61 + 50_000 + 2 * 515, seen=ThreadScope.SESSION
    )
    assert HARD.argv(replace(BOARD, instrument=None)) == ("false",)


@pytest.mark.parametrize("period_us", [-1, 0, 99, 5001])
def test_a_period_that_the_firmware_refuses_is_refused_before_anything_runs(period_us: int) -> None:
    assert (IrqInstrumentHard(period_us=100).period_us, IrqInstrumentHard(period_us=5000).period_us) == (100, 5000)
    with pytest.raises(
        ConfigError, match=f"^period_us of irq-instrument-threaded is {period_us} .allowed: 100 to 5000.$"
    ):
        IrqInstrumentThreaded(period_us=period_us)


@pytest.mark.parametrize(("tool", "average"), [(HARD, 5237.6), (IrqInstrumentThreaded(), 9007.4)])
def test_a_captured_session_is_read(tool: IrqInstrumentHard, average: float) -> None:
    files = {
        RAW: (CAPTURED / f"{tool.name}.lines").read_bytes(),
        "tool.out": (CAPTURED / f"{tool.name}.out").read_bytes(),
    }
    values = _values(tool.parse(Output(files=files, exit_code=0, setting=replace(BOARD, duration_s=1))))
    assert [values[name].value for name in ("answers", "answers.missed", "answers.doubled")] == [999, 1, 1]
    assert values["response.max"] == Quantity(341_666, Unit.NS)
    assert values["response.avg"].value == pytest.approx(average, abs=0.1)


def test_what_the_firmware_says_without_its_hardware_is_refused() -> None:
    captured = (CAPTURED / "qemu-7.2-stm32vldiscovery.out").read_text()
    identity = next(line for line in captured.splitlines(keepends=True) if line.startswith("id "))
    with pytest.raises(ParseError, match="sent 'id rtgate-instrument 1 clock=internal "):
        _parse(identity + _seal(*HEAD[1:]) + _result())


def test_parser_and_firmware_count_alike() -> None:
    header = (ROOT / "target" / "instrument" / "instrument.h").read_text()
    assert re.findall(r"#define (TICKS_PER_US|BUCKETS) (\d+)", header) == [
        *(("TICKS_PER_US", str(TICKS_PER_US)), ("BUCKETS", str(BUCKETS)))
    ]
    assert re.findall(r"(?:LEAST|MOST)_PERIOD_US = (\d+)", header) == [str(LEAST_PERIOD_US), str(MOST_PERIOD_US)]
    assert (ROOT / "target" / "modules" / f"{Path(DRIVER).name}.c").is_file()  # KBUILD_MODNAME names the device


@given(st.text(max_size=200), st.text(max_size=20))
def test_any_text_is_a_parse_error(raw: str, answered: str) -> None:
    with pytest.raises(ParseError):
        _parse(raw, answered)


@given(st.text(max_size=200))
def test_any_text_behind_the_head_is_a_parse_error(raw: str) -> None:
    with pytest.raises(ParseError):
        _parse(_seal(*HEAD) + raw)
