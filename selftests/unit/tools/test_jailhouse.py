# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ParseError
from rtgate.tools import Output, Setting
from rtgate.tools.jailhouse import JailhouseDemo
from rtgate.tools.measurement import Measurement
from rtgate.units import Unit

# Its SOURCES.md says from what.
CAPTURED = Path(__file__).resolve().parents[2] / "data" / "jailhouse" / "0.12"
HEAD = "ID      Name                    State             Assigned CPUs           Failed CPUs"


def cell(number: int, name: str, state: str = "running") -> str:
    """Return a line of `jailhouse cell list`, which fills its columns with spaces."""
    return f"{number:<8}{name:<24}{state:<18}{number:<24}{'':<24}\n"


CELLS = f"{HEAD:<98}\n{cell(0, 'rt-root')}"
INMATE = cell(1, "rt-inmate")


def fired(jitter: int, least: int = 100, most: int = 9000) -> str:
    """Return a line of the inmate's."""
    return f"Timer fired, jitter: {jitter:6d} ns, min: {least:6d} ns, max: {most:6d} ns\n"


def printed(*lines: str, kept: int = 0, before: str = INMATE, after: str = INMATE) -> str:
    """Return what the tool leaves."""
    return f"{CELLS}{before}kept {kept}\n{''.join(lines)}\n{CELLS}{after}"


def parse(text: str, *, virtual: bool = True, exit_code: int = 0, seconds: float = 1.0) -> tuple[Measurement, ...]:
    setting = Setting(cpus=1, duration_s=seconds, virtual_time=virtual)
    return JailhouseDemo().parse(Output(files={"tool.out": text.encode()}, exit_code=exit_code, setting=setting))


def values(measurements: tuple[Measurement, ...]) -> dict[str, tuple[float, Unit]]:
    return {one.name: (one.quantity.value, one.quantity.unit) for one in measurements if one.quantity}


def test_what_jailhouse_printed_is_read() -> None:
    found = parse((CAPTURED / "jailhouse-demo-virt-arm64.out").read_text(), seconds=10)
    (histogram,) = (one.histogram for one in found if one.histogram)
    assert ({"cell": "rt-inmate"}, Unit.VIRTUAL_NS) == (found[0].labels, histogram.unit)
    assert {2225: 99} == histogram.counts
    assert 2225 == values(found)["latency.max"][0]


def test_a_load_in_the_root_cell_is_seen_in_the_inmate() -> None:
    found = values(parse((CAPTURED / "jailhouse-demo-hackbench-virt-arm64.out").read_text(), seconds=10))
    assert [80, 2225, 622_080] == [found[name][0] for name in ("wakeups", "latency.min", "latency.max")]


def test_what_the_console_had_kept_is_left_out() -> None:
    found = values(parse(printed(fired(9000), fired(200), fired(300), kept=1)))
    assert found["wakeups"][0] == 2
    times = [found[f"latency.{name}"][0] for name in ("min", "avg", "max")]
    assert times == [200, 250, 300]


def test_off_virtual_time_it_is_real_time() -> None:
    assert Unit.NS == values(parse(printed(fired(200)), virtual=False))["latency.max"][1]


def test_what_is_beyond_the_range_is_counted() -> None:
    (histogram,) = (one.histogram for one in parse(printed(fired(2_000_000, most=3_000_000))) if one.histogram)
    assert (1, {}) == (histogram.overflow, histogram.counts)


def test_lines_of_a_ring_may_be_broken_at_its_ends() -> None:
    text = printed("er fired, jitter:    200 ns, min: 1 ns\n", fired(200), "Timer fired, jit")
    assert (1, Unit.COUNT) == values(parse(text))["wakeups"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "listed its cells 0 times"),
        (printed(fired(200), before="", after=""), "one inmate must run, before and after: of Jailhouse's ran none"),
        (printed(fired(200), after=""), "ran rt-inmate, and none afterwards"),
        (printed(fired(200), after=cell(1, "rt-inmate", "shut down")), "ran rt-inmate, and none afterwards"),
        (printed(fired(200), before=INMATE + cell(2, "other")), "one inmate must run"),
        (printed(fired(200)).replace("kept 0\n", ""), "nobody counted"),
        (printed(fired(200), kept=1), "printed nothing while its console was read"),
        (printed(), "printed nothing while its console was read"),
        (printed(fired(50)), "contradicts itself: 50 ns is not between 100 and 9000 ns"),
        (printed(fired(9001)), "contradicts itself"),
        (printed(fired(200), fired(200).replace(" ns", "", 1), fired(200)), "a line of the inmate is damaged"),
    ],
)
def test_anything_else_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse(text)


def test_a_command_that_fails_is_refused() -> None:
    with pytest.raises(ParseError, match="127"):
        parse(printed(fired(200)), exit_code=127)


@examples(200)
@given(st.integers(0, 300), st.text(st.characters(codec="ascii"), max_size=3))
def test_a_damaged_output_is_refused_or_says_the_same(place: int, noise: str) -> None:
    whole = printed(fired(200), fired(250), fired(300))
    place = min(place, len(whole))
    try:
        found = values(parse(whole[:place] + noise + whole[place:]))
    except ParseError:
        return
    assert found["wakeups"][0] in {2, 3, 4}


def test_it_is_kept_on_the_cpus_of_the_tuning() -> None:
    setting = Setting(cpus=1, duration_s=9.5, virtual_time=True, cpu_list="0")
    argv = JailhouseDemo().argv(setting)
    assert ("taskset", "1", "sh", "-c") == argv[:4]
    assert "timeout 10 jailhouse console --follow" in argv[4]
    (least,) = JailhouseDemo().expected(setting).counts
    assert ("wakeups", 50.0) == (least.measurement, least.least)
