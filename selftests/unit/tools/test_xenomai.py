# SPDX-License-Identifier: MIT
"""Outputs made here with the format strings of Xenomai's own source, and captured ones of a virtual board."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ParseError
from rtgate.tools import Count, Expected, Output, Setting, Tool
from rtgate.tools.measurement import Histogram, Measurement
from rtgate.tools.threads import SCHED_FIFO, Threads, ThreadScope
from rtgate.tools.xenomai import (
    XenomaiLatency,
    XenomaiLatencyIrq,
    XenomaiLatencyKernel,
    XenomaiSwitchtest,
)
from rtgate.tools.xenomai_cyclictest import XenomaiCyclictest
from rtgate.units import Unit

SETTING = Setting(cpus=2, duration_s=5, virtual_time=False)
CAPTURED = Path(__file__).resolve().parents[2] / "data" / "xenomai" / "3.3.1"  # SOURCES.md there says how
PATH = ("env", "PATH=/usr/xenomai/bin:/usr/bin:/usr/sbin:/bin:/sbin")


def _parse(tool: Tool, out: str, err: str = "", code: int = 0, setting: Setting = SETTING) -> tuple[Measurement, ...]:
    files = {"tool.out": out.encode(), "tool.err": err.encode()}
    return tool.parse(Output(files=files, exit_code=code, setting=setting))


def _number(measurements: tuple[Measurement, ...], name: str, **labels: str) -> float:
    (found,) = (one.quantity for one in measurements if one.name == name and labels.items() <= one.labels.items())
    assert found is not None
    return found.value


def _histogram(measurements: tuple[Measurement, ...], cpu: int = 0) -> Histogram:
    (found,) = (one for one in measurements if one.name == "latency" and one.labels["cpu"] == str(cpu))
    assert found.histogram is not None
    return found.histogram


def _rts(
    low: float, mean: float, high: float, overruns: int = 0, switches: int = 0, clock: str = "00:00:05/00:00:05"
) -> str:
    return f"RTS|{low:11.3f}|{mean:11.3f}|{high:11.3f}|{overruns:8d}|{switches:6d}|    {clock}\n"


def _cells(cells: Mapping[int, int]) -> str:
    total = sum(cells.values())
    rows = "".join(f"HSD|    avg| {n:3d} -{n + 1:3d} | {hits:8d}\n" for n, hits in sorted(cells.items()))
    return (
        "---|--param|----range-|--samples\nHSD|    min|   1 -  2 |        5\n---|--param|----range-|--samples\n"
        + rows
        + "---|--param|----range-|--samples\nHSD|    max|  44 - 45 |        5\n"
        + "HSH|--param|--samples-|--average--|---stddev--\n"
        + f"HSS|    min| {5:9d}| {1.0:10.3f}| {0.0:10.3f}\nHSS|    avg| {total:9d}| {4.2:10.3f}| {1.0:10.3f}\n"
        + f"HSS|    max| {5:9d}| {44.0:10.3f}| {0.0:10.3f}\n"
    )


RULE = "---|-----------|-----------|-----------|--------|------|-------------------------\n"
HEAD = (
    "== Sampling period: 1000 us\n== Test mode: periodic user-mode task\n== All results in microseconds\n"
    "warming up...\n"
)
ROWS = (
    "RTT|  00:00:01  (periodic user-mode task, 1000 us period, priority 99)\n"
    "RTH|----lat min|----lat avg|----lat max|-overrun|---msw|---lat best|--lat worst\n"
    "RTD|     -0.542|      4.182|     44.958|       0|     0|     -0.542|     44.958\n"
    "RTD|      1.999|      4.708|     38.499|       0|     0|     -0.542|     44.958\n"
)
CELLS = {0: 3, 19: 40, 41: 4900, 384: 30, 449: 27}
"""Samples by cell of 100 ns."""
LATENCY = HEAD + ROWS + _cells(CELLS) + RULE + _rts(-0.542, 4.445, 44.958)


class TestLatency:
    def test_the_summary_is_read(self) -> None:
        found = _parse(XenomaiLatency(), LATENCY)
        assert {one.name: one.quantity.value for one in found if one.quantity is not None} == {
            "latency.min": -542,
            "latency.avg": 4445,
            "latency.max": 44958,
            "wakeups": 5000,
            "overruns": 0,
            "modeswitches": 0,
        }
        assert {one.unit for one in found if one.name.startswith("latency")} == {Unit.NS}
        assert {tuple(one.labels.items()) for one in found} == {(("cpu", "0"), ("context", "user"))}
        histogram = _histogram(found)
        counts = {cell * 100: samples for cell, samples in CELLS.items()}
        assert (dict(histogram.counts), histogram.overflow, histogram.limit) == (counts, 0, 1_000_000)

    def test_overruns_and_mode_switches_are_counted(self) -> None:
        text = LATENCY.replace(_rts(-0.542, 4.445, 44.958), _rts(-0.542, 4.445, 44.958, 3, 2))
        text += "Warning! some latency peaks may have been due to involuntary mode switches.\n"
        found = _parse(XenomaiLatency(), text)
        assert (_number(found, "overruns"), _number(found, "modeswitches")) == (3, 2)

    def test_the_last_cell_holds_what_is_beyond(self) -> None:
        tool = XenomaiLatency(range_us=44)
        found = _parse(tool, LATENCY.replace("449", "440").replace("450", "441"))
        assert (_histogram(found).overflow, _histogram(found).total) == (27, 5000)
        assert 44_000 not in _histogram(found).counts

    def test_a_latency_in_the_last_broken_second_is_the_maximum(self) -> None:
        late = LATENCY.replace(_cells(CELLS), _cells({**CELLS, 7000: 1}))
        assert _number(_parse(XenomaiLatency(), late), "latency.max") == 700_000
        beyond = LATENCY.replace(_cells(CELLS), _cells({**CELLS, 10000: 1}))
        assert _number(_parse(XenomaiLatency(), beyond), "latency.max") == 1_000_000

    def test_a_cell_of_values_below_zero_is_no_maximum(self) -> None:
        early = HEAD + _cells({**CELLS, 800: 1}) + RULE + _rts(-80.25, 4.445, 44.958)
        assert _number(_parse(XenomaiLatency(), early), "latency.max") == 44958

    def test_quiet_versions_have_no_rows(self) -> None:
        assert _parse(XenomaiLatency(), LATENCY.replace(ROWS, "")) == _parse(XenomaiLatency(), LATENCY)

    @pytest.mark.parametrize(
        ("tool", "number", "context", "line"),
        [
            (XenomaiLatencyKernel(), "1", "kernel", "in-kernel periodic task"),
            (XenomaiLatencyIrq(), "2", "irq", "in-kernel timer handler"),
        ],
    )
    def test_the_kernels_own_contexts_are_told_apart(self, tool: Tool, number: str, context: str, line: str) -> None:
        assert f"-t {number} " in " ".join(tool.argv(SETTING))
        with pytest.raises(ParseError, match=f"did not say '== Test mode: {line}'"):
            _parse(tool, LATENCY)
        found = _parse(tool, LATENCY.replace("periodic user-mode task", line))
        assert {one.labels["context"] for one in found} == {context}
        assert tool.expected(SETTING).threads == ()

    @pytest.mark.parametrize(
        ("before", "after", "reason"),
        [
            (_rts(-0.542, 4.445, 44.958), "", "printed 0 results"),
            (_rts(-0.542, 4.445, 44.958), _rts(-0.542, 4.445, 44.958) * 2, "printed 2 results"),
            ("00:00:05/00:00:05", "00:00:04/00:00:05", "measured for 4 s of 5 s, and 5 s"),
            ("00:00:05/00:00:05", "00:00:06/00:00:06", "measured for 6 s of 6 s, and 5 s"),
            ("00:00:05/00:00:05", "00:00:05/", "printed 0 results"),
            (_rts(-0.542, 4.445, 44.958), _rts(10000, 0, -10000), "contradicts itself"),
            (_rts(-0.542, 4.445, 44.958), _rts(-0.542, 44.959, 44.958), "contradicts itself"),
            (_rts(-0.542, 4.445, 44.958), _rts(-0.542, 4.445, 44.957), "up to 44.958 in a second"),
            ("Sampling period: 1000", "Sampling period: 100", "did not say '== Sampling period: 1000 us'"),
            ("HSS|    avg|      5000", "HSS|    avg|      5001", "holds 5000 samples of 5001"),
            ("HSS|    avg|", "HSS|    ave|", "printed 0 results"),
            ("HSD|    avg| 449 -450 |       27\n", "HSD|    avg|  41 - 42 |       27\n", "damaged at cell 41"),
            ("HSD|    avg| 449 -", "HSD|    avg|10449 -", "damaged at cell 10449"),
        ],
    )
    def test_what_is_damaged_is_refused(self, before: str, after: str, reason: str) -> None:
        assert before in LATENCY
        with pytest.raises(ParseError, match=reason):
            _parse(XenomaiLatency(), LATENCY.replace(before, after, 1))

    def test_no_sample_at_all_is_refused(self) -> None:
        empty = HEAD + _cells({}) + RULE + _rts(0, 0, 0)
        with pytest.raises(ParseError, match="holds 0 samples of 0"):
            _parse(XenomaiLatency(), empty)

    @pytest.mark.parametrize(
        ("err", "code", "reason"),
        [
            ("latency: watchdog triggered (period too short?)\n", 1, "exit code 1: latency: watchdog"),
            ("latency: open sampler device (modprobe xeno_timerbench?): No such file\n", 1, "modprobe xeno_timerbench"),
            ("env: can't execute 'latency': No such file or directory\n", 127, "exit code 127"),
            ("", 2, "exit code 2: no message"),
        ],
    )
    def test_a_failed_run_says_why(self, err: str, code: int, reason: str) -> None:
        with pytest.raises(ParseError, match=reason):
            _parse(XenomaiLatency(), "", err, code)

    def test_the_command_line_and_what_it_must_be_seen_to_do(self) -> None:
        setting = Setting(cpus=4, duration_s=9.5, virtual_time=False)
        assert XenomaiLatency(cpu=1).argv(setting) == (
            *(*PATH, "latency", "-h", "-B", "100", "-H", "10001", "-t", "0", "-p", "1000", "-P", "99", "-c", "1"),
            *("-T", "10"),
        )
        assert XenomaiLatency().expected(setting) == Expected(
            threads=(Threads(count=1, policy=SCHED_FIFO, priority=99),),
            duration_s=10,
            seen=ThreadScope.SESSION,
            counts=(Count(measurement="wakeups", least=9500),),
        )

    @examples(100)
    @given(end=st.integers(0, len(LATENCY) - 2))
    def test_a_truncated_output_is_refused(self, end: int) -> None:
        with pytest.raises(ParseError):
            _parse(XenomaiLatency(), LATENCY[:end])

    @examples(100)
    @given(
        cells=st.dictionaries(st.integers(0, 10_000), st.integers(1, 10**7), min_size=1, max_size=20),
        low=st.floats(-50, 0),
        high=st.floats(0, 2000),
    )
    def test_cells_come_out_as_they_went_in(self, cells: dict[int, int], low: float, high: float) -> None:
        text = HEAD + _cells(cells) + RULE + _rts(low, (low + high) / 2, high)
        found = _parse(XenomaiLatency(), text)
        histogram = _histogram(found)
        assert histogram.total == sum(cells.values()) == _number(found, "wakeups")
        beyond = {1_000_000: histogram.overflow} if histogram.overflow else {}
        assert dict(histogram.counts) | beyond == {cell * 100: samples for cell, samples in cells.items()}
        assert _number(found, "latency.max") >= round(round(high, 3) * 1000)


def _switching(cpus: Sequence[int], seconds: int = 3, *, smp: bool = True) -> str:
    kinds = ("sleeper_ufps", "rtk", "rtk_fp", "rtup_ufpp", "rtus_ufps", "rtuo_ufpp_ufps")
    names = [f" {kind}{cpu if smp else ''}-{number}" for cpu in cpus for number, kind in enumerate(kinds)]
    lines = ["== Threads:" + "".join(names), "RTT|  00:00:01"]
    lines.append("RTH|---------cpu|ctx switches|-------total" if smp else "RTH|ctx switches|-------total")
    for second in range(1, seconds + 1):
        for cpu in reversed(cpus):
            more = 500 + cpu
            lines.append(
                f"RTD|{cpu:12d}|{more:12d}|{more * second:12d}" if smp else f"RTD|{more:12d}|{more * second:12d}"
            )
    return "\n".join(lines) + "\n"


class TestSwitchtest:
    def test_switches_are_counted_per_cpu(self) -> None:
        found = _parse(XenomaiSwitchtest(), _switching([0, 1]), "== FPU check routines: OK.\n")
        assert (_number(found, "failures"), len(found)) == (0, 3)
        assert _number(found, "switches", cpu="0") == 1500
        assert _number(found, "switches", cpu="1") == 1503

    def test_without_smp_there_is_no_number_of_a_cpu(self) -> None:
        found = _parse(XenomaiSwitchtest(), _switching([0], smp=False))
        assert _number(found, "switches", cpu="0") == 1500

    def test_cobalt_may_have_fewer_cpus_than_the_board(self) -> None:
        found = _parse(XenomaiSwitchtest(), _switching([1]))
        assert [one.labels for one in found if one.name == "switches"] == [{"cpu": "1"}]

    @pytest.mark.parametrize(
        "said",
        [
            "Error after context switch from task 3(rtup0-3) to task 4(rtup0-4),\nFPU registers were set to 1003\n",
            "No context switches during one second, aborting.\n",
            "fpu stress task failure! dot: 98597\n",
            "Switch to primary mode failed in rtuo.",
        ],
    )
    def test_a_kernel_that_fails_has_failed(self, said: str) -> None:
        found = _parse(XenomaiSwitchtest(), _switching([0, 1]), "== FPU check routines: OK.\n" + said, code=1)
        assert [(one.name, one.quantity.value) for one in found if one.quantity] == [("failures", 1)]
        with pytest.raises(ParseError, match="exit code 0"):
            _parse(XenomaiSwitchtest(), _switching([0, 1]), said, code=0)

    @pytest.mark.parametrize(
        ("out", "err", "code", "reason"),
        [
            (
                "",
                "switchtest: cannot open /dev/rtdm/switchtest\n(modprobe xeno_switchtest?)\n",
                1,
                "cannot open /dev/rtdm",
            ),
            ("", "sem_wait FAILED (4)\n", 77, "exit code 77"),
            ("", "", 0, "no context switches on CPU .*: no message"),
            (_switching([0, 1], seconds=0), "", 0, "no context switches on CPU 0, 1"),
            (
                _switching([0, 1]).replace("RTD|           1|", "RTX|           1|"),
                "",
                0,
                "no context switches on CPU 1",
            ),
            (_switching([0, 1]).replace("== Threads:", "== Strands:"), "", 0, "no context switches on CPU"),
            (_switching([0, 1]).replace("1500", "1501"), "", 0, "CPU 0 went from 1000 by 500 to 1501"),
            (_switching([0, 1]).replace("0-0 rtk", "7-0 rtk"), "", 0, "no context switches on CPU 7"),
        ],
    )
    def test_what_counted_nothing_is_refused(self, out: str, err: str, code: int, reason: str) -> None:
        with pytest.raises(ParseError, match=reason):
            _parse(XenomaiSwitchtest(), out, err, code)

    def test_the_command_line_and_what_it_must_be_seen_to_do(self) -> None:
        assert XenomaiSwitchtest().argv(SETTING) == (*PATH, "switchtest", "-T", "5")
        assert XenomaiSwitchtest().expected(SETTING) == Expected(
            threads=(Threads(count=12, policy=SCHED_FIFO, priority=1),),
            duration_s=5,
            seen=ThreadScope.SESSION,
            ends_with="failures",
        )


def _cyclictest(threads: Sequence[Sequence[int]], limit: int = 100) -> str:
    lines = ["# Histogram"]
    lines += [f"{i:06d} " + "\t".join(f"{list(one).count(i):06d}" for one in threads) for i in range(limit)]
    inside = [[value for value in one if value < limit] for one in threads]
    lines.append("# Total:" + "".join(f" {len(one):09d}" for one in inside))
    lines.append("# Min Latencies:" + "".join(f" {min(one, default=1000000):05d}" for one in threads))
    lines.append("# Avg Latencies:" + "".join(f" {sum(one) // max(1, len(one)):05d}" for one in threads))
    lines.append("# Max Latencies:" + "".join(f" {max(one, default=0):05d}" for one in threads))
    lines.append(
        "# Histogram Overflows:"
        + "".join(f" {len(one) - len(put):05d}" for one, put in zip(threads, inside, strict=True))
    )
    lines.append("# Histogram Overflow at cycle number:")
    lines += [f"# Thread {number}:" for number in range(len(threads))]
    return "\n".join(lines) + "\n\n"


CYCLES = _cyclictest([[3, 3, 4, 9, 150], [5, 5, 6]])
CYCLICTEST = XenomaiCyclictest(range_us=100)


class TestCyclictest:
    def test_threads_are_read(self) -> None:
        found = _parse(CYCLICTEST, "# /dev/cpu_dma_latency set to 0us\n" + CYCLES)
        assert len(found) == 12
        histogram = _histogram(found, 0)
        assert (dict(histogram.counts), histogram.overflow, histogram.limit) == ({3: 2, 4: 1, 9: 1}, 1, 100)
        assert [_number(found, f"latency.{name}", cpu="0") for name in ("min", "avg", "max")] == [3, 33, 150]
        assert [_number(found, f"latency.{name}", cpu="1") for name in ("min", "avg", "max")] == [5, 5, 6]
        assert (_number(found, "wakeups", cpu="1"), _number(found, "wakeups.lost", cpu="1")) == (3, 4997)
        assert _histogram(found, 1).unit is Unit.US

    @pytest.mark.parametrize(
        ("before", "after", "reason"),
        [
            ("# Max Latencies: 00150 00006\n", "", "printed no whole histogram"),
            ("000050 000000\t000000\n", "", "printed no whole histogram"),
            ("000050 000000\t000000\n", "000050 000000\n", r"measured with \{.*\} threads, not 2"),
            ("# Histogram Overflows: 00001 00000", "# Histogram Overflows: 00001", r"threads, not 2"),
            ("# Total: 000000004", "# Total: 000000005", "contradicts itself on CPU 0: 4 of 5 samples"),
            ("# Min Latencies: 00003", "# Min Latencies: 00034", "contradicts itself on CPU 0"),
            ("# Max Latencies: 00150", "# Max Latencies: 00050", "1 beyond 100 us.* maximum 50"),
            ("Latencies: 00150 00006", "Latencies: 00150 00007", "0 beyond 100 us.* maximum 7"),
            ("# Max Latencies: 00150", "# Max Latencies: 18446744073709551615", "woke up too early"),
            ("# Histogram\n", "# Break value: 150\n# Histogram\n", "broke off at its break value"),
        ],
    )
    def test_what_is_damaged_is_refused(self, before: str, after: str, reason: str) -> None:
        assert before in CYCLES
        with pytest.raises(ParseError, match=reason):
            _parse(CYCLICTEST, CYCLES.replace(before, after, 1))

    def test_a_thread_that_never_woke_up_is_refused(self) -> None:
        with pytest.raises(ParseError, match="on CPU 1: 0 of 0 samples"):
            _parse(CYCLICTEST, _cyclictest([[3], []]))

    def test_a_mode_switch_ends_it(self) -> None:
        said = "invoked syscall, aborting.\n(enabling CONFIG_XENO_OPT_DEBUG_TRACE_RELAX may help)\n"
        with pytest.raises(ParseError, match="exit code 152: invoked syscall, aborting"):
            _parse(CYCLICTEST, "", said, 152)
        with pytest.raises(ParseError, match="printed no whole histogram: no message"):
            _parse(CYCLICTEST, "")

    def test_it_is_never_linuxs_cyclictest(self) -> None:
        argv = XenomaiCyclictest().argv(Setting(cpus=4, duration_s=9.5, virtual_time=False))
        assert argv == (
            *("env", "PATH=/usr/xenomai/demo:/usr/demo", "cyclictest", "-q", "-m", "-n", "-p99", "-t4", "-a"),
            *("-i1000", "-h1000", "-D10"),
        )
        assert XenomaiCyclictest().expected(SETTING) == Expected(
            threads=(Threads(count=2, policy=SCHED_FIFO, priority=99),),
            duration_s=5,
            seen=ThreadScope.SESSION,
            interval_us=1000,
        )

    @examples(50)
    @given(threads=st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=30), min_size=1, max_size=3))
    def test_samples_come_out_as_they_went_in(self, threads: list[list[int]]) -> None:
        setting = Setting(cpus=len(threads), duration_s=1, virtual_time=False)
        found = _parse(CYCLICTEST, _cyclictest(threads), setting=setting)
        for cpu, samples in enumerate(threads):
            histogram = _histogram(found, cpu)
            assert dict(histogram.counts) == {
                value: samples.count(value) for value in sorted(set(samples)) if value < 100
            }
            assert histogram.total == len(samples)


ALL: tuple[tuple[Tool, str], ...] = (
    (XenomaiLatency(), LATENCY),
    (XenomaiSwitchtest(), _switching([0, 1])),
    (CYCLICTEST, CYCLES),
)


@pytest.mark.parametrize("tool", [tool for tool, _ in ALL])
def test_they_are_skipped_without_cobalt(tool: Tool) -> None:
    need = tool.needs[0]
    assert (need.test, need.reason) == ("[ -e /proc/xenomai/version ]", "no Cobalt core (/proc/xenomai is missing)")


@pytest.mark.parametrize(
    ("content", "runs"), [(b"\x7fELF\0libcobalt.so.2\0", True), (b"\x7fELF\0libc.so.6\0", False), (None, False)]
)
def test_a_cyclictest_without_cobalt_s_library_is_skipped(tmp_path: Path, content: bytes | None, *, runs: bool) -> None:
    """A document's figures of Cobalt were those of Linux: its cyclictest was the stock one."""
    if content is not None:
        (tmp_path / "cyclictest").write_bytes(content)
        (tmp_path / "cyclictest").chmod(0o755)
    test = XenomaiCyclictest.needs[1].test.replace("/usr/xenomai/demo", str(tmp_path))
    assert (subprocess.run(["sh", "-c", test], check=False, timeout=60).returncode == 0) is runs


def test_what_measures_wakes_up_on_time() -> None:
    for tool in (XenomaiLatency, XenomaiCyclictest):
        assert [(write.path, write.value, write.reads) for write in tool.writes] == [
            ("/proc/xenomai/latency", "0", "^0$")
        ]


@pytest.mark.parametrize(("tool", "text"), ALL)
def test_reports_are_what_limits_may_name(tool: Tool, text: str) -> None:
    assert {one.name for one in _parse(tool, text)} == set(tool.reports)


@examples(200)
@given(
    which=st.sampled_from(ALL),
    edits=st.lists(
        st.tuples(st.integers(0, 10_000), st.integers(0, 8), st.text("0123456789 |:-.\n\txRTSK", max_size=8)),
        max_size=4,
    ),
    code=st.sampled_from([0, 0, 0, 1]),
)
def test_damaged_text_is_read_or_refused(which: tuple[Tool, str], edits: list[tuple[int, int, str]], code: int) -> None:
    tool, text = which
    for start, length, new in edits:
        text = text[: start % len(text)] + new + text[start % len(text) + length :]
    try:
        found = _parse(tool, text, code=code)
    except ParseError:
        return
    assert found
    for one in found:
        if one.histogram is not None:
            assert one.histogram.total > 0
        else:
            assert one.quantity is not None
            assert math.isfinite(one.quantity.value)


@examples(100)
@given(text=st.text(), which=st.sampled_from(ALL))
def test_any_text_is_refused(text: str, which: tuple[Tool, str]) -> None:
    with pytest.raises(ParseError):
        _parse(which[0], text)


VIRTUAL = Setting(cpus=1, duration_s=10, virtual_time=True)


def captured(tool: Tool, setting: Setting = VIRTUAL, code: int = 0) -> tuple[Measurement, ...]:
    return _parse(tool, (CAPTURED / f"{tool.name}.out").read_text(), code=code, setting=setting)


def test_latency_as_a_virtual_board_printed_it() -> None:
    found = captured(XenomaiLatency())
    times = [_number(found, f"latency.{name}") for name in ("min", "avg", "max")]
    assert times == [17232, 17872, 19312]
    assert (_number(found, "overruns"), _number(found, "modeswitches")) == (0, 0)


@pytest.mark.parametrize(
    ("tool", "times"),
    [(XenomaiLatencyKernel(), [6928, 8382, 9296]), (XenomaiLatencyIrq(), [4240, 5485, 8700])],
)
def test_latency_in_the_kernel_as_a_virtual_board_printed_it(tool: Tool, times: list[float]) -> None:
    found = captured(tool)
    assert [_number(found, f"latency.{name}") for name in ("min", "avg", "max")] == times
    assert {one.labels["context"] for one in found} == {tool.name.removeprefix("xenomai-latency-")}


def test_cyclictest_as_a_virtual_board_printed_it() -> None:
    found = captured(XenomaiCyclictest())
    assert [_number(found, f"latency.{name}", cpu="0") for name in ("min", "avg", "max")] == [11, 15, 23]


def test_switchtest_as_a_virtual_board_printed_it() -> None:
    found = captured(XenomaiSwitchtest())
    assert _number(found, "failures") == 0
    assert _number(found, "switches", cpu="0") > 1000
