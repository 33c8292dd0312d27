# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.errors import ParseError
from rtgate.tools import Output, Setting, Tool
from rtgate.tools.interrupt_rate import ElbiRate, MsiRate
from rtgate.tools.measurement import Better
from rtgate.units import Unit

SETTING = Setting(cpus=4, duration_s=5, virtual_time=False)
DATA = Path(__file__).resolve().parents[2] / "data" / "pcie"
MARK = "rtgate mark 9 100.00"
# The guide's own format, at 484 000 a second: it prints 2 us, which is the rate of anything from 333 334 to 500 000.
SNIPPET = [f"[{101 + number:5d}.000100] msi count={484_000 * number} 2us" for number in range(6)]
MODULE = [
    f"[{101 + number:5d}.{100 + number:06d}] rtgate_msi_count: msi count={484_000 * number} 2us +484000 in 1000004102ns"
    for number in range(6)
]


def _output(lines: list[str], deadline: str = "") -> Output:
    log = [f"[  100.000000] {MARK} begin", *lines, f"[  107.000000] {MARK} end", ""]
    files = {"tool.out": f"mark: {MARK}\n", "dmesg": "\n".join(log), "tool.deadline": deadline}
    return Output(files={name: text.encode() for name, text in files.items()}, exit_code=0, setting=SETTING)


def _file(lines: list[str]) -> str:
    """Return standard output, error and kernel log as a fuzzer takes them."""
    output = _output(lines)
    return f"{output.text('tool.out')}\0\0{output.text('dmesg')}"


ALL: tuple[tuple[Tool, str], ...] = (
    *((MsiRate(), _file(lines)) for lines in (SNIPPET, MODULE)),
    *((ElbiRate(), _file([line.replace("msi", "elbi") for line in lines])) for lines in (SNIPPET, MODULE)),
)


def _parse(lines: list[str], tool: MsiRate | None = None) -> dict[str, float]:
    found = (tool or MsiRate()).parse(_output(lines))
    assert {one.name for one in found} == set(MsiRate.reports)
    return {one.name: one.quantity.value for one in found if one.quantity is not None}


def test_the_guides_lines_are_exact_by_counts_and_times() -> None:
    found = _parse(SNIPPET)
    assert found["period"] == pytest.approx(1e6 / 484_000)
    assert found["rate"] == pytest.approx(484_000)
    assert (found["interrupts"], found["seconds.silent"]) == (5 * 484_000, 0)


def test_the_modules_lines_carry_the_exact_difference() -> None:
    found = _parse(MODULE)
    assert found["period"] == pytest.approx(1000.004102e3 / 484_000, rel=1e-9)
    without_times = [line.partition("] ")[2] for line in MODULE]
    assert _parse(without_times) == found


def test_what_the_module_printed_beside_a_real_driver() -> None:
    log = (DATA / "msi-count-nvme-virt-arm64.log").read_text(encoding="utf-8").splitlines()
    found = _parse(log, MsiRate(least_s=5))
    # The first line only begins the account: 451 came before it, of the 2061 that /proc/interrupts rose by.
    assert (found["interrupts"], found["seconds.silent"]) == (2061 - 451, 2)
    assert found["rate"] == pytest.approx(1610 / 4.099820304)


def test_units_and_directions() -> None:
    found = {one.name: (one.unit, one.better) for one in MsiRate().parse(_output(SNIPPET))}
    assert found["period"] == (Unit.US, Better.LOWER)
    assert found["rate"] == (Unit.PER_S, Better.HIGHER)


def test_elbi_has_its_own_lines() -> None:
    elbi = [line.replace("msi", "elbi") for line in SNIPPET]
    assert _parse(elbi, ElbiRate())["rate"] == pytest.approx(484_000)
    assert _parse([*elbi, *SNIPPET], ElbiRate())["interrupts"] == 5 * 484_000
    with pytest.raises(ParseError, match="0 lines `elbi count=`"):
        _parse(SNIPPET, ElbiRate())


def test_a_counter_that_wraps_goes_on() -> None:
    counts = [2**31 - 500_000, 2**31 - 16_000 - 2**32, -(2**31) + 468_000, -(2**31) + 952_000, -(2**31) + 1_436_000]
    counts[1] = 2**31 - 16_000
    counts.append(counts[-1] + 484_000)
    lines = [f"[{101 + number:5d}.000100] msi count={count} 2us" for number, count in enumerate(counts)]
    assert _parse(lines)["rate"] == pytest.approx(484_000)


def test_a_silent_second_is_counted_and_slows_the_rate() -> None:
    lines = [*SNIPPET[:3], "[  104.000100] msi count=968000 0us", "[  105.000100] msi count=1452000 2us"]
    lines.append("[  106.000100] msi count=1452010 100000us")
    found = _parse(lines)
    assert found["seconds.silent"] == 1
    assert found["rate"] == pytest.approx(1452010 / 5)
    assert found["period.max"] == pytest.approx(1e5)


@pytest.mark.parametrize("line", ["msi count=7 0us", "msi count=7 0us +0 in 1000000000ns"])
def test_an_interrupt_that_never_comes_is_no_result(line: str) -> None:
    with pytest.raises(ParseError, match=r"no MSI came in 5.0 s: is the sender loaded"):
        _parse([f"[{101 + number:5d}.000100] {line}" for number in range(6)])


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "has 0 lines `msi count=`, 3 are needed"),
        (SNIPPET[:2], "has 2 lines"),
        ([*SNIPPET[:2], *SNIPPET[3:]], r"came after 2\.000 s instead of 1: lines are missing"),
        (SNIPPET[:3], "counts stand for 2.0 s of 5 s: the printer stopped"),
        ([line.partition("] ")[2] for line in SNIPPET], "has no times"),
        ([SNIPPET[1], SNIPPET[0], *SNIPPET[2:]], "came after -1.000 s"),
        ([line.replace("+484000", "+484001") for line in MODULE], "the counts differ by 484000, not as the line says"),
        ([line.replace("1000004102ns", "900004102ns") for line in MODULE], "the log's times are 1.000 s apart"),
        ([line.replace("count=", "count=x") for line in SNIPPET], "has 0 lines"),
        ([line.replace("2us", "2us 3us") for line in SNIPPET], "has 0 lines"),
    ],
)
def test_lines_that_do_not_fit_are_refused(lines: list[str], reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        _parse(lines)


def test_a_run_that_was_stopped_is_refused() -> None:
    with pytest.raises(ParseError, match="was stopped after 30 s"):
        MsiRate().parse(_output(SNIPPET, deadline="after 30 s"))


def test_lines_before_the_run_are_not_ours() -> None:
    output = _output(SNIPPET)
    old = b"[   99.000000] msi count=1 9us\n"
    files = {**output.files, "dmesg": old + output.files["dmesg"] + b"[  108.000000] msi count=1 9us\n"}
    found = MsiRate().parse(Output(files=files, exit_code=0, setting=SETTING))
    assert found[0].quantity is not None
    assert found[0].quantity.value == pytest.approx(1e6 / 484_000)


@given(st.lists(st.text(alphabet="msielb count=0123456789us+n[]. ", max_size=60), max_size=8))
def test_any_text_is_read_or_refused(lines: list[str]) -> None:
    with pytest.raises(ParseError):
        _parse(lines)


@given(st.integers(1, 10**6), st.integers(0, 2**32 - 1), st.integers(4, 20))
def test_a_steady_rate_is_that_rate(each: int, start: int, many: int) -> None:
    counts = [(start + each * number + 2**31) % 2**32 - 2**31 for number in range(many)]
    lines = [f"[{101 + number:5d}.000100] msi count={count} {1000000 // each}us" for number, count in enumerate(counts)]
    if many < 5:
        with pytest.raises(ParseError, match=r"the printer stopped|no MSI"):
            _parse(lines[:3])
        return
    assert _parse(lines)["rate"] == pytest.approx(each)
