# SPDX-License-Identifier: MIT
"""Outputs of rt-tests 2.6, as Debian 13 packages it, read by every tool that this version can run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rtgate.errors import ParseError
from rtgate.tools import Output, Setting, Tool
from rtgate.tools.cyclicdeadline import Cyclicdeadline
from rtgate.tools.pip_stress import PipStress
from rtgate.tools.registry import TOOLS

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests" / "2.6"
NAMES = sorted({path.stem for path in DATA.iterdir() if path.suffix in {".out", ".json"}})
# Of two tools with a common start the longer name.
# Refused, as they must be: below, and in test_queuelat.py.
MEASURED_NOTHING = ("pip_stress", "queuelat")
BY_LENGTH = sorted(TOOLS, key=len, reverse=True)


def _tool(name: str) -> Tool:
    found = next(tool for tool in BY_LENGTH if name.startswith(f"{tool}-"))
    # 2.6 has no --histogram for it.
    return Cyclicdeadline(range_us=0) if found == "cyclicdeadline" else TOOLS[found]()


def _output(name: str) -> Output:
    files = {f"{_tool(name).name}.json": DATA / f"{name}.json", "tool.out": DATA / f"{name}.out"}
    return Output(
        files={inside: path.read_bytes() for inside, path in files.items() if path.exists()},
        exit_code=0,
        setting=Setting(cpus=2 if "smp2" in name else 1, duration_s=2, virtual_time=True),
    )


def test_every_tool_that_writes_json_was_captured_in_this_version() -> None:
    versions = {
        name: json.loads(path.read_text())["rt_test_version:"]
        for name in NAMES
        if (path := DATA / f"{name}.json").exists()
    }
    assert set(versions.values()) == {"2.60"}
    assert len(versions) == 12


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(MEASURED_NOTHING)])
def test_a_capture_of_2_6_is_read(name: str) -> None:
    tool = _tool(name)
    found = tool.parse(_output(name))
    reported = set(tool.reports) - ({"latency"} if isinstance(tool, Cyclicdeadline) else set())
    names = {one.name for one in found}
    assert names <= reported
    counts = {one.measurement for one in tool.expected(_output(name).setting).counts}
    assert counts <= names
    assert all(one.quantity is None or one.quantity.value >= 0 for one in found)
    assert all(one.histogram is None or one.histogram.total > 0 for one in found)


def test_pip_stress_before_2_9_brings_about_no_inversion_and_so_is_skipped() -> None:
    with pytest.raises(ParseError, match="no inversion"):
        PipStress().parse(_output("pip_stress-not-tested"))
    assert [need.reason for need in PipStress().required()] == [
        "needs pip_stress with --usleep (rt-tests 2.9 or newer)"
    ]


def test_cyclicdeadline_before_2_7_has_no_histogram_and_so_is_skipped() -> None:
    (need,) = Cyclicdeadline().required()
    assert "--histogram" in need.test
    assert need.reason == "needs cyclicdeadline with --histogram (rt-tests 2.7 or newer)"


ALL = DATA.parent
# Read by hand from the captures. Of each: version and name, the tool, CPUs and seconds asked for, whether time was
# virtual, and by measurement and label what it holds.
PAIRS = ("latency.min", "latency.avg", "latency.max", "samples")
VALUES: list[tuple[str, Tool, int, float, bool, dict[str, dict[str, float]]]] = [
    (
        "2.4/pmqtest-bound",
        TOOLS["pmqtest"](),
        *(2, 1, False),
        {
            "0": dict(zip(PAIRS, (1, 1.48, 60, 2000), strict=True)),
            "1": dict(zip(PAIRS, (1, 1.51, 11, 2000), strict=True)),
        },
    ),
    (
        "2.4/ptsematest-bound",
        TOOLS["ptsematest"](),
        *(2, 1, False),
        {
            "0": dict(zip(PAIRS, (1, 1.53, 73, 1880), strict=True)),
            "1": dict(zip(PAIRS, (1, 1.56, 113, 1877), strict=True)),
        },
    ),
    (
        "2.4/svsematest-bound",
        TOOLS["svsematest"](),
        *(2, 1, False),
        {
            "0": dict(zip(PAIRS, (1, 1.24, 13, 2000), strict=True)),
            "1": dict(zip(PAIRS, (1, 1.27, 47, 2000), strict=True)),
        },
    ),
    (
        "2.4/sigwaittest-bound",
        TOOLS["sigwaittest"](),
        *(2, 1, False),
        {
            "0": dict(zip(PAIRS, (1, 2.41, 129, 2000), strict=True)),
            "1": dict(zip(PAIRS, (1, 2.25, 59, 2000), strict=True)),
        },
    ),
    (
        "2.4/signaltest-three",
        TOOLS["signaltest"](),
        *(3, 1, False),
        {
            "0": {"roundtrip.min": 26, "roundtrip.avg": 52.72, "roundtrip.max": 1322, "samples": 1425},
            "2": {"samples": 1425},
        },
    ),
    (
        "2.4/cyclicdeadline",
        Cyclicdeadline(interval_us=10_000, range_us=0),
        *(1, 2, False),
        {"0": {"latency.avg": 23.28, "latency.max": 140, "wakeups": 200, "wakeups.lost": 0}},
    ),
    (
        "2.4/rt-migrate-test-three",
        TOOLS["rt-migrate-test"](),
        *(2, 1, False),
        {
            "": {"failures": 0, "rounds": 5},
            "0": {"latency.min": 32, "latency.avg": 12047, "latency.max": 20062},
            "2": {"latency.min": 39, "latency.avg": 55, "latency.max": 75},
        },
    ),
    (
        "2.6/cyclicdeadline-virtual-idle",
        Cyclicdeadline(range_us=0),
        *(1, 2, True),
        {"0": {"latency.avg": 9.52, "latency.max": 24, "wakeups": 500}},
    ),
    (
        "2.6/cyclictest-virtual-idle",
        TOOLS["cyclictest"](),
        *(1, 2, True),
        {
            "0": {
                "latency.min": 22736,
                "latency.avg": 28425.78,
                "latency.max": 40432,
                "wakeups": 2000,
                "wakeups.lost": 0,
            }
        },
    ),
    (
        "2.6/cyclictest-virtual-hackbench",
        TOOLS["cyclictest"](),
        *(1, 2, True),
        {"0": {"latency.min": 22224, "latency.avg": 28142.02, "latency.max": 45504, "wakeups": 2000}},
    ),
    (
        "2.6/deadline_test-virtual-idle",
        TOOLS["deadline_test"](),
        *(1, 10, True),
        {
            "0": {
                "deadlines.missed": 0,
                "periods": 1000,
                "runtime.min": 1234,
                "runtime.avg": 1237,
                "runtime.max": 1264,
            },
            "1": {"periods.missed": 0, "periods": 952, "runtime.min": 1296, "runtime.avg": 1369, "runtime.max": 2632},
        },
    ),
    ("2.6/hackbench-virtual-idle", TOOLS["hackbench"](), *(1, 2, True), {"": {"duration": 579_000}}),
    (
        "2.6/hwlatdetect-virtual-idle",
        TOOLS["hwlatdetect"](),
        *(1, 2, True),
        {"": {"samples": 0, "samples.exceeding": 0}},
    ),
    (
        "2.6/oslat-virtual-smp2-idle",
        TOOLS["oslat"](),
        *(2, 2, True),
        {"1": {"latency.min": 1, "latency.max": 4750, "samples": 4_566_714}},
    ),
    ("2.6/pi_stress-virtual-idle", TOOLS["pi_stress"](), *(1, 2, True), {"": {"inversions": 8541, "failures": 0}}),
    (
        "2.6/pmqtest-virtual-hackbench",
        TOOLS["pmqtest"](),
        *(1, 2, True),
        {"0": dict(zip(PAIRS, (30, 31.32, 61, 3000), strict=True))},
    ),
    (
        "2.6/ptsematest-virtual-hackbench",
        TOOLS["ptsematest"](),
        *(1, 2, True),
        {"0": dict(zip(PAIRS, (26, 27.59, 57, 2353), strict=True))},
    ),
    (
        "2.6/svsematest-virtual-hackbench",
        TOOLS["svsematest"](),
        *(1, 2, True),
        {"0": dict(zip(PAIRS, (31, 32.15, 63, 3000), strict=True))},
    ),
    (
        "2.6/sigwaittest-virtual-hackbench",
        TOOLS["sigwaittest"](),
        *(1, 2, True),
        {"0": dict(zip(PAIRS, (45, 46.7, 77, 3000), strict=True))},
    ),
    (
        "2.6/rt-migrate-test-virtual-smp2-idle",
        TOOLS["rt-migrate-test"](),
        *(2, 2, True),
        {
            "": {"failures": 0, "rounds": 10},
            "0": {"latency.min": 20176, "latency.avg": 20747, "latency.max": 21365},
            "1": {"latency.min": 78, "latency.avg": 301, "latency.max": 890},
            "2": {"latency.min": 77, "latency.avg": 2421, "latency.max": 20221},
        },
    ),
    (
        "2.6/signaltest-virtual-smp2-idle",
        TOOLS["signaltest"](),
        *(2, 2, True),
        {
            "0": {"roundtrip.min": 121, "roundtrip.avg": 147.64, "roundtrip.max": 2263, "samples": 2369},
            "1": {"samples": 2369},
        },
    ),
    ("2.6/ssdd-virtual-idle", TOOLS["ssdd"](), *(1, 2, True), {"": {"failures": 0, "tests": 10}}),
    (
        "2.10/signaltest-virtual-idle",
        TOOLS["signaltest"](),
        *(1, 2, True),
        {"0": {"roundtrip.min": 91, "roundtrip.avg": 93.57, "roundtrip.max": 123, "samples": 2625}},
    ),
    (
        "2.10/pmqtest-virtual-smp2",
        TOOLS["pmqtest"](),
        *(2, 2, True),
        {
            "0": dict(zip(PAIRS, (30, 31.82, 177, 3000), strict=True)),
            "1": dict(zip(PAIRS, (30, 32.17, 945, 2916), strict=True)),
        },
    ),
    (
        "2.10/oslat-virtual-smp2-idle",
        TOOLS["oslat"](),
        *(2, 2, True),
        {"1": {"latency.min": 0, "latency.max": 15444, "samples": 4_952_601}},
    ),
    ("2.10/pi_stress-virtual-idle", TOOLS["pi_stress"](), *(1, 2, True), {"": {"inversions": 8725, "failures": 0}}),
    (
        "2.10/cyclicdeadline-virtual-idle",
        Cyclicdeadline(),
        *(1, 2, True),
        # Its own minimum, 1, leaves out the 14 samples of 0 in its histogram.
        {"0": {"latency.min": 0, "latency.avg": 10.2, "latency.max": 22, "wakeups": 500}},
    ),
]


@pytest.mark.parametrize(
    ("name", "tool", "cpus", "seconds", "virtual", "values"), VALUES, ids=[one[0] for one in VALUES]
)
def test_a_capture_holds_what_stands_in_it(
    name: str, tool: Tool, cpus: int, seconds: float, virtual: bool, values: dict[str, dict[str, float]]
) -> None:
    files = {f"{tool.name}.json": ALL / f"{name}.json", "tool.out": ALL / f"{name}.out"}
    output = Output(
        files={inside: path.read_bytes() for inside, path in files.items() if path.exists()},
        exit_code=0,
        setting=Setting(cpus=cpus, duration_s=seconds, virtual_time=virtual),
    )
    found: dict[str, dict[str, float]] = {}
    for one in tool.parse(output):
        if one.quantity is not None:
            label = one.labels.get("cpu") or one.labels.get("thread") or one.labels.get("task", "")
            found.setdefault(label, {})[one.name] = one.quantity.value
    for label, wanted in values.items():
        assert {measurement: found[label].get(measurement) for measurement in wanted} == wanted


def test_every_capture_of_2_6_has_values() -> None:
    assert {f"2.6/{name}" for name in NAMES if not name.startswith(MEASURED_NOTHING)} == {
        name for name, *_ in VALUES if name.startswith("2.6/")
    }
