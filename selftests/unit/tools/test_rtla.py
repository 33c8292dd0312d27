# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ParseError
from rtgate.tools import Count, Expected, Output, Setting, Tool
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.tools.rtla import RtlaOsnoise, RtlaTimerlat
from rtgate.tools.threads import SCHED_FIFO, Threads, ThreadScope
from rtgate.units import Unit

DATA = Path(__file__).resolve().parents[2] / "data" / "rtla" / "6.12"
VIRTUAL = Setting(cpus=1, duration_s=5, virtual_time=True)
HOST = Setting(cpus=2, duration_s=5, virtual_time=False)
SMALL = (DATA / "timerlat-virtual-overflow.out").read_text()
SMALL_TOOL = RtlaTimerlat(virtual_range_us=10)
NOISE = (DATA / "osnoise-host-smp2.out").read_text()


def _capture(name: str) -> str:
    return (DATA / name).read_text()


def _parse(tool: Tool, out: str, err: str = "", code: int = 0, setting: Setting = VIRTUAL) -> tuple[Measurement, ...]:
    files = {"tool.out": out.encode(), "tool.err": err.encode()}
    return tool.parse(Output(files=files, exit_code=code, setting=setting))


def _number(measurements: tuple[Measurement, ...], name: str, **labels: str) -> tuple[float, Unit]:
    (found,) = (one.quantity for one in measurements if one.name == name and one.labels == labels)
    assert found is not None
    return found.value, found.unit


def _histogram(measurements: tuple[Measurement, ...], name: str, cpu: str = "0") -> Histogram:
    (found,) = (one for one in measurements if one.name == name and one.labels["cpu"] == cpu)
    assert found.histogram is not None
    return found.histogram


Column = tuple[str, int, str, int, int, int, int, int]


@pytest.mark.parametrize(
    ("capture", "tool", "setting", "columns"),
    # Of each column: name, CPU, context, samples, overflow, minimum, average, maximum.
    [
        (
            "timerlat-virtual-idle.out",
            RtlaTimerlat(),
            VIRTUAL,
            [
                ("irq.latency", 0, "irq", 5000, 0, 6592, 8752, 104768),
                ("latency", 0, "thread", 5000, 0, 29568, 37385, 129584),
            ],
        ),
        (
            "timerlat-virtual-hackbench.out",
            RtlaTimerlat(),
            VIRTUAL,
            [
                ("irq.latency", 0, "irq", 5000, 0, 5216, 7241, 76352),
                ("latency", 0, "thread", 5000, 0, 28528, 34641, 104208),
            ],
        ),
        (
            "timerlat-virtual-user.out",
            RtlaTimerlat(user_threads=True),
            VIRTUAL,
            [
                ("irq.latency", 0, "irq", 4995, 0, 6592, 8561, 130400),
                ("thread.latency", 0, "thread", 4995, 0, 32656, 33338, 171904),
                ("latency", 0, "user", 4995, 0, 50592, 51408, 190704),
            ],
        ),
        (
            "timerlat-virtual-overflow.out",
            SMALL_TOOL,
            VIRTUAL,
            [
                ("irq.latency", 0, "irq", 5000, 85, 6592, 8829, 112704),
                ("latency", 0, "thread", 5000, 5000, 28576, 37178, 137536),
            ],
        ),
        (
            "timerlat-host-smp2.out",
            RtlaTimerlat(),
            HOST,
            [
                ("irq.latency", 0, "irq", 4938, 22, 1, 69, 5333),
                ("latency", 0, "thread", 4938, 24, 13, 105, 7799),
                ("irq.latency", 1, "irq", 4926, 24, 5, 93, 7092),
                ("latency", 1, "thread", 4926, 30, 39, 133, 9093),
            ],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_capture_is_read(capture: str, tool: RtlaTimerlat, setting: Setting, columns: list[Column]) -> None:
    found = _parse(tool, _capture(capture), setting=setting)
    unit = Unit.VIRTUAL_NS if setting.virtual_time else Unit.US
    assert len(found) == 4 * len(columns) + 3 * setting.cpus
    for name, cpu, context, samples, overflow, low, mean, high in columns:
        labels = {"cpu": str(cpu), "context": context}
        histogram = _histogram(found, name, str(cpu))
        assert (histogram.total, histogram.overflow, histogram.unit) == (samples, overflow, unit)
        numbers = [_number(found, f"{name}.{word}", **labels) for word in ("min", "avg", "max")]
        assert numbers == [(low, unit), (mean, unit), (high, unit)]


def test_what_all_cpus_have_together_is_not_added_to_the_last() -> None:
    text = _capture("timerlat-host-smp2.out")
    assert "ALL:        IRQ       Thr\ncount:     9864      9864" in text
    assert sum(_histogram(_parse(RtlaTimerlat(), text, setting=HOST), "latency", cpu).total for cpu in "01") == 9864
    # Versions without that block end earlier.
    assert _parse(RtlaTimerlat(), text[: text.index("ALL:")], setting=HOST) == _parse(
        RtlaTimerlat(), text, setting=HOST
    )


def test_buckets_on_virtual_time_are_one_instruction_wide() -> None:
    histogram = _histogram(_parse(RtlaTimerlat(), _capture("timerlat-virtual-idle.out")), "irq.latency")
    assert histogram.limit == 200_000
    assert (min(histogram.counts), max(histogram.counts)) == (6592, 104768)
    assert all(value % 8 == 0 for value in histogram.counts)
    assert RtlaTimerlat(range_us=300)._buckets(HOST) == (1, 300)


def test_lost_periods_are_accounted_for_by_the_latencies_that_skipped_them() -> None:
    found = _parse(RtlaTimerlat(), _capture("timerlat-host-smp2.out"), setting=HOST)
    assert _number(found, "wakeups", cpu="0") == (4938, Unit.COUNT)
    assert _number(found, "wakeups.lost", cpu="0") == (62, Unit.COUNT)
    # 24 samples of 1 ms or more, each at most 7.8 ms.
    assert _number(found, "periods", cpu="0") == (4938 + 24 * 7, Unit.COUNT)


def test_a_quiet_run_has_every_period() -> None:
    found = _parse(RtlaTimerlat(), _capture("timerlat-virtual-hackbench.out"))
    assert _number(found, "periods", cpu="0")[0] == 5000
    assert _number(found, "wakeups.lost", cpu="0")[0] == 0
    user = _parse(RtlaTimerlat(user_threads=True), _capture("timerlat-virtual-user.out"))
    assert _number(user, "wakeups.lost", cpu="0")[0] == 5
    (needed,) = RtlaTimerlat(user_threads=True).expected(VIRTUAL).counts
    assert _number(user, "periods", cpu="0")[0] >= needed.least == 4950


def test_directions() -> None:
    found = {one.name: one.better for one in _parse(RtlaTimerlat(), _capture("timerlat-virtual-idle.out"))}
    assert (found.pop("wakeups"), found.pop("periods")) == (Better.NEITHER, Better.NEITHER)
    assert set(found.values()) == {Better.LOWER}


def test_tracing_that_was_stopped_is_no_success_although_the_exit_code_says_so() -> None:
    for tool, name in ((RtlaTimerlat(), "timerlat"), (RtlaOsnoise(), "osnoise")):
        with pytest.raises(ParseError, match=f"rtla {name} was stopped: something switched the kernel's tracing off"):
            _parse(tool, _capture(f"{name}-stopped.out"))
    with pytest.raises(ParseError, match="was stopped: something"):  # from 6.16 on
        _parse(RtlaTimerlat(), _capture("timerlat-stopped.out"), code=2)


def test_an_interrupted_run_differs_in_its_duration_only() -> None:
    text = _capture("timerlat-interrupted.out")
    assert "ALL:" in text
    with pytest.raises(ParseError, match="measured for 3 s of the 8 s asked for"):
        _parse(RtlaTimerlat(least_s=8), text, setting=HOST)


def test_the_duration_may_be_one_second_off_and_more_than_a_day() -> None:
    text = _capture("timerlat-virtual-idle.out")
    assert _parse(RtlaTimerlat(), re.sub("00:00:0[56]", "00:00:04", text))
    assert _parse(RtlaTimerlat(), re.sub(r"  0 00:00:0[56]", "  1 00:00:00", text))
    with pytest.raises(ParseError, match="measured for 3 s"):
        _parse(RtlaTimerlat(), re.sub("00:00:0[56]", "00:00:03", text))


@pytest.mark.parametrize(
    ("tool", "out", "err", "code", "reason"),
    [
        (RtlaTimerlat(), "", "timerlat-bad-option.err", 0, "printed no result: hist: unrecognized option"),
        (RtlaTimerlat(), "", "timerlat-no-dma-latency.err", 1, "exit code 1: Error opening /dev/cpu_dma_latency"),
        (RtlaTimerlat(), "", "timerlat-no-tracefs.err", 1, "exit code 1: Could not init osnoise hist"),
        (RtlaOsnoise(), "", "osnoise-no-tracefs.err", 1, "exit code 1: Could not init osnoise top"),
        (RtlaOsnoise(), "osnoise-no-workload.out", "", 0, "measured CPUs none of 1: no line"),
    ],
)
def test_a_run_that_measured_nothing_says_why(tool: Tool, out: str, err: str, code: int, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        _parse(tool, _capture(out) if out else "", _capture(err) if err else "", code)


@pytest.mark.parametrize("tool", [RtlaTimerlat(), RtlaOsnoise()])
def test_a_tracer_or_tool_that_is_missing_is_an_error(tool: Tool) -> None:
    # The messages of enable_tracer_by_name (utils.c) and of busybox.
    with pytest.raises(ParseError, match="Tracer timerlat not found!"):
        _parse(tool, "", "Tracer timerlat not found!\nFailed to enable timerlat tracer\n", 1)
    with pytest.raises(ParseError, match="Tracer timerlat not found!"):
        _parse(tool, "", "Tracer timerlat not found!\n", 0)
    with pytest.raises(ParseError, match="exit code 127"):
        _parse(tool, "", "nice: can't execute 'rtla': No such file or directory\n", 127)
    with pytest.raises(ParseError, match="printed no result: no message"):
        _parse(tool, "", "", 0)


def test_lost_events_are_told_of_by_later_versions() -> None:
    for missed in ("unknown number of events missed", "17 (0.34%) events missed"):
        text = _capture("timerlat-virtual-idle.out") + f"{missed}, results might not be accurate\n"
        with pytest.raises(ParseError, match="rtla timerlat lost data"):
            _parse(RtlaTimerlat(), text)


def test_a_run_that_the_plan_stopped_is_refused() -> None:
    files = {"tool.out": SMALL.encode(), "tool.deadline": b"after 30 s\n"}
    with pytest.raises(ParseError, match="was stopped after 30 s"):
        SMALL_TOOL.parse(Output(files=files, exit_code=143, setting=VIRTUAL))


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("# Time unit is nanoseconds (ns)\n", "", "in no unit"),
        ("nanoseconds (ns)", "microseconds (us)", "in us"),
        ("Index   IRQ-000   Thr-000\n", "", "printed no histogram"),
        ("Index   IRQ-000   Thr-000\n", "Index\n", "has no column"),
        ("IRQ-000   Thr-000", "IRQ-000   Soft-00", "damaged at 'Index"),
        ("IRQ-000   Thr-000", "IRQ-000   IRQ-000", "damaged at 'Index"),
        ("IRQ-000   Thr-000", "IRQ-000   Thr-001", "irq of CPU 0, thread of CPU 1 on a board with 1 CPU"),
        ("IRQ-000   Thr-000", "IRQ-000   Usr-000", "irq of CPU 0, user of CPU 0"),
        ("over:        85      5000", "over:        85", "damaged at 'over:"),
        ("over:        85      5000 \n", "", "damaged at 'count:"),
        ("over:        85      5000", "over:        84      5000", "holds 4999 samples of 5000"),
        ("count:     5000      5000", "count:     5001      5000", "holds 5000 samples of 5001"),
        ("count:     5000      5000", "count:        0      5000", "holds 5000 samples of 0"),
        ("min:       6592", "min:       9592", "contradicts itself: minimum 9592"),
        ("max:     112704", "max:       9704", "maximum 9704, 85 over"),
        ("max:     112704    137536 \nALL", "max:     112704         - \nALL", "damaged at 'max:"),
        ("\n6592 ", "\n-592 ", "damaged at '-592"),
        ("\n6592 ", "\n99992 ", "damaged at '99992"),
        ("\n6592 ", "\nfour ", "damaged at 'four"),
        ("\n6592 ", "\n\n6592 ", "damaged at ''"),
        ("\n6592 ", "\n[   12.3] random: crng init done\n6592 ", "damaged at '"),
    ],
)
def test_what_is_damaged_is_refused(before: str, after: str, reason: str) -> None:
    assert before in SMALL
    with pytest.raises(ParseError, match=reason):
        _parse(SMALL_TOOL, SMALL.replace(before, after, 1))


def test_a_maximum_inside_the_range_is_in_the_last_row() -> None:
    text = _capture("timerlat-virtual-idle.out").replace("max:     104768", "max:     104760", 1)
    with pytest.raises(ParseError, match="irq of CPU 0 contradicts itself"):
        _parse(RtlaTimerlat(), text)


def test_rows_out_of_order_are_refused() -> None:
    rows = [line for line in SMALL.splitlines(keepends=True) if line[0].isdigit()]
    with pytest.raises(ParseError, match="damaged at"):
        _parse(SMALL_TOOL, SMALL.replace(rows[0] + rows[1], rows[1] + rows[0]))


def test_a_cpu_without_a_sample_is_a_cpu_that_was_not_measured() -> None:
    # The tool leaves its columns out.
    with pytest.raises(ParseError, match=r"on a board with 2 CPUs: .*thread of CPU 1 were asked for"):
        _parse(SMALL_TOOL, SMALL, setting=Setting(cpus=2, duration_s=5, virtual_time=True))


def _clean_or_refused(tool: Tool, text: str, setting: Setting) -> None:
    """Read it, or refuse it: nothing else may happen, and nothing that is read may be nonsense."""
    try:
        found = _parse(tool, text, setting=setting)
    except ParseError:
        return
    assert found
    for one in found:
        if one.histogram is not None:
            assert one.histogram.total > 0
        else:
            assert one.quantity is not None
            assert math.isfinite(one.quantity.value)
            assert one.quantity.value >= 0


@examples(60)
@given(end=st.integers(0, len(SMALL)))
def test_a_truncated_histogram_is_refused_or_whole(end: int) -> None:
    if end >= SMALL.index("ALL:") - 2:  # the last number is there; behind it is a blank
        assert _parse(SMALL_TOOL, SMALL[:end]) == _parse(SMALL_TOOL, SMALL)
    else:
        try:
            found = _parse(SMALL_TOOL, SMALL[:end])
        except ParseError:
            return
        # Cut inside the last number, which the range alone bounds.
        assert SMALL[:end].rstrip().splitlines()[-1].startswith("max:")
        assert len(found) == len(_parse(SMALL_TOOL, SMALL))


EDITS = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 8), st.text("0123456789 :-#.\nxIRQ", max_size=8)), max_size=4
)


def _edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    for start, length, new in edits:
        text = text[: start % len(text)] + new + text[start % len(text) + length :]
    return text


@examples(200)
@given(edits=EDITS)
def test_damaged_text_is_read_or_refused(edits: list[tuple[int, int, str]]) -> None:
    _clean_or_refused(SMALL_TOOL, _edited(SMALL, edits), VIRTUAL)
    _clean_or_refused(RtlaOsnoise(), _edited(NOISE, edits), HOST)


@examples(100)
@given(text=st.text())
def test_any_text_is_refused(text: str) -> None:
    for tool in (SMALL_TOOL, RtlaOsnoise()):
        with pytest.raises(ParseError):
            _parse(tool, text)


@examples(100)
@given(
    samples=st.lists(
        st.tuples(
            st.lists(st.integers(0, 3000), min_size=1, max_size=20),
            st.lists(st.integers(0, 3000), min_size=1, max_size=20),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_the_samples_of_any_histogram_come_out_as_they_went_in(samples: list[tuple[list[int], list[int]]]) -> None:
    columns = [
        (values, f"{name}-{cpu:03}")
        for cpu, pair in enumerate(samples)
        for values, name in zip(pair, ("IRQ", "Thr"), strict=True)
    ]
    inside = sorted({value for values, _ in columns for value in values if value < 1000})

    def line(name: str, numbers: list[int]) -> str:
        return f"{name:<6}" + "".join(f"{number:9d} " for number in numbers) + "\n"

    text = "# RTLA timerlat histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:05\n"
    text += "Index" + "".join(f"   {name}" for _, name in columns) + "\n"
    text += "".join(line(f"{value}", [values.count(value) for values, _ in columns]) for value in inside)
    text += line("over:", [sum(value >= 1000 for value in values) for values, _ in columns])
    text += line("count:", [len(values) for values, _ in columns])
    text += line("min:", [min(values) for values, _ in columns])
    text += line("avg:", [sum(values) // len(values) for values, _ in columns])
    text += line("max:", [max(values) for values, _ in columns])
    setting = Setting(cpus=len(samples), duration_s=5, virtual_time=False)
    found = _parse(RtlaTimerlat(), text, setting=setting)
    for cpu, (irq, thread) in enumerate(samples):
        for name, values in (("irq.latency", irq), ("latency", thread)):
            histogram = _histogram(found, name, str(cpu))
            assert dict(histogram.counts) == {
                value: values.count(value) for value in sorted(set(values)) if value < 1000
            }
            assert histogram.overflow == sum(value >= 1000 for value in values)
        skipped = sum(value // 1000 for value in thread)
        assert _number(found, "periods", cpu=str(cpu))[0] >= len(thread) + skipped


def test_the_command_line_of_timerlat() -> None:
    assert RtlaTimerlat().argv(VIRTUAL) == (
        *("nice", "-n", "-20", "rtla", "timerlat", "hist", "--kernel-threads", "--duration", "5s", "--period", "1000"),
        *("--priority", "f:95", "--bucket-size", "8", "--entries", "25000", "--nano"),
    )
    tool = RtlaTimerlat(period_us=500, priority=80, range_us=300, user_threads=True)
    argv = tool.argv(Setting(cpus=4, duration_s=59.5, virtual_time=False))
    assert argv[6:] == (
        *("--user-threads", "--duration", "60s", "--period", "500"),
        *("--priority", "f:80", "--bucket-size", "1", "--entries", "300"),
    )


def test_what_timerlat_must_be_seen_to_do() -> None:
    assert RtlaTimerlat().expected(HOST) == Expected(
        threads=(Threads(count=2, policy=SCHED_FIFO, priority=95),),
        duration_s=5,
        seen=ThreadScope.SYSTEM,
        name="timerlat/",
        counts=(Count(measurement="periods", least=4950),),
    )
    assert RtlaTimerlat(user_threads=True).expected(HOST).seen is ThreadScope.SESSION
    assert RtlaTimerlat().expected(Setting(cpus=1, duration_s=1, virtual_time=True)).duration_s == 5


def test_osnoise_is_read() -> None:
    found = _parse(RtlaOsnoise(), NOISE, setting=HOST)
    assert len(found) == 18
    assert _number(found, "noise", cpu="1") == (1930653 / 3926464, Unit.RATIO)
    assert _number(found, "noise.max", cpu="0") == (9071, Unit.US)
    assert _number(found, "noise.period.max", cpu="0") == (56737, Unit.US)
    counts = [_number(found, "interruptions", cpu="0", source=source)[0] for source in ("hardware", "nmi", "irq")]
    assert counts == [1875, 0, 1575]
    assert _number(found, "interruptions", cpu="1", source="thread") == (1, Unit.COUNT)
    assert _number(found, "periods", cpu="1") == (49, Unit.COUNT)


@pytest.mark.parametrize(
    ("capture", "noise", "longest", "irqs"),
    [
        ("osnoise-virtual-idle.out", 100362 / 4000008, 51, 4001),
        ("osnoise-virtual-hackbench.out", 100469 / 4000010, 51, 4002),
        ("osnoise-virtual-threshold1.out", 3999943 / 4000034, 50, 4002),
    ],
)
def test_osnoise_on_virtual_time(capture: str, noise: float, longest: int, irqs: int) -> None:
    found = _parse(RtlaOsnoise(), _capture(capture))
    assert _number(found, "noise", cpu="0")[0] == noise
    assert _number(found, "noise.max", cpu="0") == (longest, Unit.VIRTUAL_US)
    assert _number(found, "interruptions", cpu="0", source="irq")[0] == irqs


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("CPU Period ", "CPU Periods", "printed no table"),
        ("  0 #49 ", "  2 #49 ", "measured CPUs 2, 1 of 2"),
        ("  1 #49 ", "  0 #49 ", "measured CPUs 0, 0 of 2"),
        ("  1 #49 ", "  1 49 ", "measured CPUs 0 of 2"),
        ("  1 #49 ", "[   33.1] random: crng init done\n  1 #49 ", "measured CPUs 0, 1 of 2: .*crng"),
        ("#49          3956508", "#59          3956508", "ran for 3956508 us in 59 periods of 80000 us each"),
        ("#49          3956508", "#0                 0", "ran for 0 us in 0 periods"),
        ("48.45065", "48.45066", "contradicts itself"),
        ("      2039554", "      4039554", "contradicts itself"),
        ("       56737         9071", "        6737         9071", "contradicts itself"),
        ("       56737         9071", "     9956737         9071", "contradicts itself"),
    ],
)
def test_osnoise_that_is_damaged_is_refused(before: str, after: str, reason: str) -> None:
    assert before in NOISE
    with pytest.raises(ParseError, match=reason):
        _parse(RtlaOsnoise(), NOISE.replace(before, after, 1), setting=HOST)


def test_the_last_period_may_be_cut_short() -> None:
    text = NOISE.replace("#49          3956508", "#50          3956508")
    assert _number(_parse(RtlaOsnoise(), text, setting=HOST), "periods", cpu="0")[0] == 50


def test_the_command_line_of_osnoise_and_what_it_must_be_seen_to_do() -> None:
    setting = Setting(cpus=4, duration_s=10, virtual_time=False)
    assert RtlaOsnoise().argv(setting) == (
        *("nice", "-n", "-20", "rtla", "osnoise", "top", "--quiet", "--duration", "10s"),
        *("--period", "100000", "--runtime", "80000", "--priority", "f:1", "--threshold", "5"),
    )
    assert RtlaOsnoise().expected(setting) == Expected(
        threads=(Threads(count=4, policy=SCHED_FIFO, priority=1),),
        duration_s=10,
        seen=ThreadScope.SYSTEM,
        name="osnoise/",
        counts=(Count(measurement="periods", least=95),),
    )


def test_they_are_skipped_without_their_tracer() -> None:
    needs = [need for tool in (RtlaTimerlat, RtlaOsnoise) for need in tool.needs]
    assert [need.reason for need in needs] == [
        "the kernel has no timerlat tracer (CONFIG_TIMERLAT_TRACER)",
        "the kernel has no osnoise tracer (CONFIG_OSNOISE_TRACER)",
    ]
    assert needs[0].test == "grep -qw timerlat /sys/kernel/tracing/available_tracers"


def test_every_capture_is_in_a_test() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    captures = sorted(path.name for path in DATA.glob("*.[oe]*"))
    assert len(captures) == 17
    assert not [name for name in captures if name not in text and "-stopped." not in name]
