# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.lava.job import cases
from rtgate.measure.case import Case
from rtgate.tools.registry import TOOLS
from rtgate.workflow import suites


@pytest.mark.parametrize("name", TOOLS)
def test_a_case_of_every_tool_comes_back(name: str, tmp_path: Path) -> None:
    case = Case(suite=TOOLS[name].suites[0], tool=TOOLS[name](), load="idle", tuning="isolated")
    cases.write([case], tmp_path / "cases.json")
    assert cases.read(tmp_path / "cases.json") == (case,)


GOOD = cases.as_json(Case(suite="latency", tool=TOOLS["cyclictest"](), load="idle"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "[1]",
        "[{}]",
        json.dumps([{**GOOD, "tool": "none"}]),
        json.dumps([{**GOOD, "options": {"none": 1}}]),
        json.dumps([{**GOOD, "options": None}]),
    ],
)
def test_what_is_no_list_of_cases_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "cases.json").write_text(text)
    with pytest.raises(ConfigError):
        cases.read(tmp_path / "cases.json")


@pytest.mark.long("starts pytest twice; test_suites does, too, in make test")
def test_suites_are_collected_as_pytest_does() -> None:
    found = suites.cases(["latency", "signal"], "mr", "default", "idle")
    names = [case.name for case in found]
    assert "latency/cyclictest:idle" in names
    assert "signal/signaltest:idle" in names
    assert not [name for name in names if not name.endswith(":idle") or name.startswith("scheduling")]
    assert {case.tool.name for case in suites.cases(["latency"], "quick", "default")} == {"cyclictest"}


def test_suites_without_cases_are_refused() -> None:
    with pytest.raises(ConfigError, match="no cases"):
        suites.cases(["latency"], "mr", "default", "nothing-is-called-so")
    with pytest.raises(ConfigError, match="unknown suite"):
        suites.cases(["../latency"], "mr", "default")
