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


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("pip_stress")])
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
