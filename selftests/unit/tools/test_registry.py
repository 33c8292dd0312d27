# SPDX-License-Identifier: MIT
from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import pytest

from rtgate import site, tools
from rtgate.tools import Expected, Output, Reports, Setting, Tool
from rtgate.tools.cyclictest import JSON, Cyclictest
from rtgate.tools.edu import EduDma
from rtgate.tools.measurement import Measurement
from rtgate.tools.registry import TOOLS, changed_options
from rtgate.tools.threads import ThreadScope

ROOT = Path(__file__).resolve().parents[3]
CAPTURE = ROOT / "selftests" / "data" / "rt-tests" / "2.10" / "cyclictest-virtual-idle.json"
SETTINGS = {
    "one virtual CPU": Setting(cpus=1, duration_s=10, virtual_time=True),
    "two virtual CPUs": Setting(cpus=2, duration_s=2, virtual_time=True, memory_mib=1024),
    "a board": Setting(cpus=8, duration_s=3600, virtual_time=False, memory_mib=8192),
    "a part of a board": Setting(cpus=2, cpu_list="2-3", duration_s=60, virtual_time=False, memory_mib=4096),
}


def _kind(measurement: Measurement) -> Reports:
    if measurement.histogram is not None:
        return Reports.TIMES
    dimension = measurement.unit.dimension
    return Reports.TIME if dimension == "virtual time" else Reports(dimension)


def test_the_options_that_are_not_a_tool_s_own_fit_into_a_record() -> None:
    assert changed_options(Cyclictest()) == {}
    assert changed_options(Cyclictest(threads=4, mlock=True)) == {"threads": 4}
    assert changed_options(EduDma(sizes=(1, 2), virtual_s=0.5)) == {"sizes": "(1, 2)", "virtual_s": "0.5"}


def test_what_cyclictest_reports_is_what_limits_may_name() -> None:
    output = Output(
        files={JSON: CAPTURE.read_bytes()},
        exit_code=0,
        setting=Setting(cpus=1, duration_s=2, virtual_time=True),
    )
    reported = {one.name: _kind(one) for one in Cyclictest().parse(output)}
    assert reported == dict(TOOLS["cyclictest"].reports)


def _defined() -> dict[str, type[Tool]]:
    """Return every tool that a module of `rtgate.tools` defines, by module and class."""
    found: dict[str, type[Tool]] = {}
    for module in pkgutil.iter_modules(tools.__path__):
        content = importlib.import_module(f"rtgate.tools.{module.name}")
        for name, kind in inspect.getmembers(content, inspect.isclass):
            derived = kind.__module__ == content.__name__ and Tool in kind.__mro__[1:]
            # A class without a name of its own is what several tools have in common.
            if derived and "name" in vars(kind):
                found[f"{module.name}.{name}"] = cast("type[Tool]", kind)
    return found


DEFINED = _defined()


@pytest.mark.parametrize("place", sorted(DEFINED))
def test_every_tool_is_registered(place: str) -> None:
    tool = DEFINED[place]
    assert TOOLS.get(tool.name) is tool


def test_the_registry_holds_nothing_else() -> None:
    assert Cyclictest in TOOLS.values()
    assert set(TOOLS.values()) <= set(DEFINED.values())
    assert {name: tool.name for name, tool in TOOLS.items()} == {name: name for name in TOOLS}
    assert len(set(TOOLS.values())) == len(TOOLS)


@pytest.mark.parametrize("place", sorted(DEFINED))
@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_a_run_ends_with_threads_only_where_there_are_some(place: str, setting: Setting) -> None:
    """A plan would end the load at once, and look at the clock before the tool has measured for long enough."""
    expected = DEFINED[place]().expected(setting)
    assert expected.threads or expected.seen is not ThreadScope.OWN


@pytest.mark.parametrize("place", sorted(DEFINED))
def test_a_tool_says_what_it_is(place: str) -> None:
    tool = DEFINED[place]
    # Names stand in cases, `SUITE/TOOL:LOAD+TUNING`, and in file names.
    assert re.fullmatch(r"[a-z][a-z0-9_-]*", tool.name)
    assert isinstance(tool.suites, tuple)
    assert tool.suites
    assert len(set(tool.suites)) == len(tool.suites)
    assert tool.reports
    for name, kind in tool.reports.items():
        assert re.fullmatch(r"[a-z][a-z0-9_]*(?:\.[a-z0-9][a-z0-9_]*)*", name), name
        assert isinstance(kind, Reports)
    assert tool.__doc__
    assert tool.parse.__doc__
    assert tool.image in site.names("target/rootfs")
    assert all(need.test.strip() and need.reason.strip() for need in tool().required())
    assert all(write.path.startswith(("/proc/", "/sys/")) for write in tool.writes)


@pytest.mark.parametrize("place", sorted(DEFINED))
def test_a_tool_s_options_cannot_change_and_have_defaults(place: str) -> None:
    tool = DEFINED[place]
    options = {field.name for field in fields(cast("Any", tool))}
    assert getattr(tool, "__dataclass_params__").frozen  # noqa: B009 - private to dataclasses
    assert tool() == tool()
    assert not options & {"name", "suites", "reports", "image", "needs", "writes"}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("place", sorted(DEFINED))
def test_a_tool_can_be_planned_on_any_board(place: str, setting: str) -> None:
    tool, on = DEFINED[place](), SETTINGS[setting]
    argv = tool.argv(on)
    assert isinstance(argv, tuple)
    assert argv
    assert not [word for word in argv if "\0" in word]
    assert argv == tool.argv(on)  # the same plan is the same text
    expected = tool.expected(on)
    assert isinstance(expected, Expected)
    assert 0 <= expected.duration_s < 100_000
    assert expected.interval_us >= 0
    for group in expected.threads:
        assert group.count > 0
        assert group.policy in {0, 1, 2, 6}
        assert 1 <= group.priority <= 99 if group.policy in {1, 2} else group.priority == 0
    groups = [(group.policy, group.priority) for group in expected.threads]
    assert len(set(groups)) == len(groups)  # they are told apart by policy and priority
    counted = [count.measurement for count in expected.counts]
    assert set(counted) <= {name for name, kind in tool.reports.items() if kind is not Reports.TIMES}
    assert all(count.least > 0 for count in expected.counts)
    assert not expected.ends_with or tool.reports[expected.ends_with] in {Reports.FAILURES, Reports.LATENESS}
    if expected.interval_us:
        assert Reports.TIMES in tool.reports.values()


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_a_tool_has_a_suite_that_exists_and_measures_it(tool: str) -> None:
    for suite in TOOLS[tool].suites:
        assert (ROOT / "tests" / suite).is_dir()
        name = TOOLS[tool].__name__
        assert [
            path for path in (ROOT / "tests" / suite).glob("test_*.py") if re.search(rf"\b{name}\(", path.read_text())
        ]
