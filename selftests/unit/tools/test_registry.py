# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.measurement import Measurement
from rtgate.tools import Output, Setting
from rtgate.tools.cyclictest import JSON, Cyclictest
from rtgate.tools.registry import TOOLS, Reports

ROOT = Path(__file__).resolve().parents[3]
CAPTURE = ROOT / "selftests" / "data" / "rt-tests" / "2.10" / "cyclictest-virtual-idle.json"


def _kind(measurement: Measurement) -> Reports:
    if measurement.histogram is not None:
        return Reports.TIMES
    dimension = measurement.unit.dimension
    return Reports.TIME if dimension == "virtual time" else Reports(dimension)


def test_what_cyclictest_reports_is_what_limits_may_name() -> None:
    output = Output(
        files={JSON: CAPTURE.read_bytes()},
        exit_code=0,
        setting=Setting(cpus=1, duration_s=2, virtual_time=True),
    )
    reported = {one.name: _kind(one) for one in Cyclictest().parse(output)}
    assert reported == dict(TOOLS["cyclictest"].measurements)


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_a_tool_has_a_module_and_a_suite_that_exists(tool: str) -> None:
    assert (ROOT / "src" / "rtgate" / "tools" / f"{tool}.py").is_file()
    for suite in TOOLS[tool].suites:
        assert (ROOT / "tests" / suite).is_dir()
