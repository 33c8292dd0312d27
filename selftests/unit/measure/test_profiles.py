# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate import site
from rtgate.board.instrument import Instrument
from rtgate.board.storage import FileSystem, Overwrite, Storage
from rtgate.errors import ConfigError
from rtgate.measure import profiles
from rtgate.tools import Setting, Tool
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.hackbench import Hackbench
from rtgate.tools.registry import SHIPPED, TOOLS, changed_options, options

DISK = Storage(serial="S", model="", overwrite=Overwrite.FILE, name="/mnt/t", file_system=FileSystem.NONE)
WIRES = Instrument(port="/dev/ttyS4", pulse="gpio3:12", answer="gpio3:13")
ALLOWED = "boards, boots, description, duration, loads, minimum, nfs, only, seeds, suites, tools"
GOOD = """\
mr:
  description: ours
  duration: 1.5 s
  seeds: 1-3,9
  boots: 2
"""

SEED = (
    GOOD
    + """\
  tools:
    cyclictest: {duration: 2 s, options: {threads: 4, affinity: none}}
    nvme/cyclictest: {options: {threads: 2}}
  loads:
    idle: {}
    stress: {cpu: 4, vm: 1, vm-bytes: 4M}
"""
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a site's profiles."""
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path))
    monkeypatch.delenv("RTGATE_TREE", raising=False)
    monkeypatch.delenv("RTGATE_SHARE", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "profiles.yaml"


def test_a_profile_is_read(path: Path) -> None:
    path.write_text(GOOD)
    lengths = profiles.Lengths(duration_s=1.5, seeds=(1, 2, 3, 9), boots=2)
    assert profiles.read(path) == {"mr": profiles.Profile(name="mr", description="ours", lengths=lengths)}


def test_tools_may_have_lengths_of_their_own(path: Path) -> None:
    path.write_text(GOOD + "  tools:\n    oslat: {duration: 2 s}\n    cyclictest: {seeds: 7, boots: 3}\n")
    found = profiles.read(path)["mr"]
    assert found.of("oslat") == profiles.Lengths(duration_s=2, seeds=(1, 2, 3, 9), boots=2)
    assert found.of("cyclictest") == profiles.Lengths(duration_s=1.5, seeds=(7,), boots=3)
    assert found.of("ssdd") == found.lengths
    assert found.has("scheduling", "ssdd")


def test_a_tool_may_have_other_lengths_in_one_suite(path: Path) -> None:
    path.write_text(GOOD + "  tools:\n    cyclictest: {seeds: 7}\n    nvme/cyclictest: {duration: 2 s}\n")
    found = profiles.read(path)["mr"]
    assert found.of("cyclictest", "latency").seeds == (7,)
    assert found.of("cyclictest", "nvme").duration_s == 2
    assert found.of("oslat", "nvme") == found.lengths


def test_a_tool_may_have_other_lengths_under_one_load(path: Path) -> None:
    own = "cyclictest: {seeds: 7}\n    cyclictest:hackbench: {duration: 5 s}\n    nvme/cyclictest:hackbench: {seeds: 9}"
    path.write_text(f"{GOOD}  tools:\n    {own}\n")
    found = profiles.read(path)["mr"]
    assert found.of("cyclictest", "latency", "idle").seeds == (7,)
    assert found.of("cyclictest", "latency", "hackbench") == profiles.Lengths(duration_s=5, seeds=(1, 2, 3, 9), boots=2)
    assert found.of("cyclictest", "nvme", "hackbench").seeds == (9,)


def test_an_unknown_load_is_a_mistake(path: Path) -> None:
    path.write_text(GOOD + "  tools: {cyclictest:hackbank: {boots: 1}}\n")
    with pytest.raises(ConfigError, match=r":6:11: unknown load 'hackbank' \(allowed: .*hackbench"):
        profiles.read(path)


@pytest.mark.parametrize(("text", "allowed"), [("", False), ("  nfs: false\n", False), ("  nfs: true\n", True)])
def test_a_profile_may_allow_a_root_on_the_network(path: Path, text: str, allowed: bool) -> None:
    path.write_text(GOOD + text)
    assert profiles.read(path)["mr"].nfs is allowed


def test_a_profile_may_measure_some_tools_only(path: Path) -> None:
    path.write_text(GOOD + "  only: [cyclictest]\n")
    found = profiles.read(path)["mr"]
    assert [found.has("latency", tool) for tool in ("cyclictest", "oslat")] == [True, False]
    assert found.has("nvme", "cyclictest")


def test_a_profile_may_measure_some_suites_only(path: Path) -> None:
    path.write_text(GOOD + "  only: [cyclictest]\n  suites: [latency]\n")
    found = profiles.read(path)["mr"]
    assert found.has("latency", "cyclictest")
    assert not found.has("nvme", "cyclictest")
    assert not found.has("latency", "oslat")


@pytest.mark.parametrize(
    ("text", "place"), [("  only: [cyclictest, oslate]\n", "6:22"), ("  tools: {oslate: {boots: 1}}\n", "6:11")]
)
def test_an_unknown_tool_is_a_mistake(path: Path, text: str, place: str) -> None:
    path.write_text(GOOD + text)
    with pytest.raises(ConfigError) as caught:
        profiles.read(path)
    assert str(caught.value) == f"{path}:{place}: unknown tool 'oslate' (allowed: {', '.join(sorted(TOOLS))})"


def test_the_sites_profile_hides_the_shipped_one_of_its_name_only(path: Path) -> None:
    shipped = profiles.profiles()
    path.write_text(GOOD + "own: {description: x, duration: 1 s, seeds: 7, boots: 1}\n")
    assert profiles.profile("mr").description == "ours"
    assert profiles.profile("own").lengths.seeds == (7,)
    assert profiles.profile("nightly") == shipped["nightly"]
    assert sorted(profiles.profiles()) == sorted({*shipped, "own"})


def test_an_unknown_profile_lists_the_profiles(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown profile 'fast' \(allowed: .*mr, nightly"):
        profiles.profile("fast")


@pytest.mark.parametrize(
    ("before", "after", "place", "message"),
    [
        ("  boots: 2\n", "", "2:3", "missing key 'boots'"),
        (
            "boots: 2",
            "boot: 2",
            "5:3",
            f"unknown key 'boot' (allowed: {ALLOWED})",
        ),
        ("boots: 2", "boots: 0", "5:10", "0 is out of range (allowed: at least 1)"),
        ("boots: 2", "boots: 1.5", "5:10", "expected a whole number, found a number"),
        ("1.5 s", "10", "3:13", "expected text, found a whole number"),
        ("1.5 s", "10 sec", "3:13", "'10 sec' is not a duration (examples: 90 s, 10 min, 2 h, 3 d)"),
        ("1.5 s", "10 virtual s", "3:13", "'10 virtual s' is not a duration (examples: 90 s, 10 min, 2 h, 3 d)"),
        ("1.5 s", "10 count", "3:13", "'10 count' is not a duration (examples: 90 s, 10 min, 2 h, 3 d)"),
        ("1.5 s", "999 ms", "3:13", "'999 ms' is not a duration (examples: 90 s, 10 min, 2 h, 3 d)"),
        ("1.5 s", "604801 s", "3:13", "'604801 s' is too short or too long (allowed: 1 s to 7 d)"),
        ("1.5 s", "0.9 s", "3:13", "'0.9 s' is too short or too long (allowed: 1 s to 7 d)"),
        ("1-3,9", "3-1", "4:10", "'3-1' names no seeds (allowed: a number, a range like 1-4, or several with commas)"),
        ("1-3,9", "0-3", "4:10", "'0-3' names no seeds from 1 to 100000"),
        ("1-3,9", "[1, 2]", "4:10", "expected text, found a list"),
        ("1-3,9", "-1", "4:10", "'-1' names no seeds (allowed: "),
        ("mr:", "mr: {}\nmr:", "2:1", "duplicate key 'mr' (first at line 1)"),
    ],
)
def test_mistakes_are_told_with_their_place(path: Path, before: str, after: str, place: str, message: str) -> None:
    assert before in GOOD
    path.write_text(GOOD.replace(before, after, 1))
    with pytest.raises(ConfigError) as caught:
        profiles.profiles()
    assert str(caught.value).startswith(f"{path}:{place}: {message}")


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("3", (3,)), ("1-4", (1, 2, 3, 4)), ("9, 1-3,2", (1, 2, 3, 9)), ("7-7", (7,)), ("100000", (100_000,))],
)
def test_seeds_are_sorted_and_stand_once(text: str, seeds: tuple[int, ...]) -> None:
    assert profiles.seeds(text) == seeds


# The long ones must be refused at once, not counted.
LONG = ("1-999999999999", "9" * 5000, "1-" + "9" * 18)


@pytest.mark.parametrize(
    "text",
    ["", ",", "1,", "1-", "-1", "1-2-3", "4-1", "0", "100001", "one", "1.5", "1e3", "1 - 3", "\u0661", *LONG],
    ids=lambda text: text[:20] or "nothing",
)
def test_anything_else_names_no_seeds(text: str) -> None:
    with pytest.raises(ConfigError, match="names no seeds"):
        profiles.seeds(text)


@given(st.text(alphabet="0123456789-, ", max_size=12))
def test_seeds_are_seeds_or_a_mistake(text: str) -> None:
    try:
        found = profiles.seeds(text)
    except ConfigError:
        return
    assert found == tuple(sorted(set(found)))
    assert 1 <= found[0] <= found[-1] <= 100_000


def test_a_profile_may_have_options_for_tools_and_loads(path: Path) -> None:
    path.write_text(SEED)
    found = profiles.read(path)["mr"]
    assert found.of("cyclictest").duration_s == 2
    assert found.fit(Cyclictest(), "latency") == Cyclictest(threads=4, affinity="none")
    assert found.fit(Cyclictest(), "nvme") == Cyclictest(threads=2)
    assert found.fit(Hackbench(loops=7), "scheduling") == Hackbench(loops=7)
    assert found.loads == {"idle": {}, "stress": {"cpu": 4, "vm": 1, "vm-bytes": "4M"}}
    assert found.asks("cyclictest", "nvme", "stress") == {
        "threads": 2,
        "stress cpu": 4,
        "stress vm": 1,
        "stress vm-bytes": "4M",
    }
    assert found.asks("hackbench", "scheduling", "idle") == {}


def test_a_limit_of_a_profile_is_for_the_options_that_its_records_have() -> None:
    for name, chosen in profiles.profiles().items():
        for tool_name, kind in TOOLS.items():
            for suite in kind.suites:
                tool = chosen.fit(kind(), suite)
                assert chosen.asks(tool_name, suite, "idle") == changed_options(tool), (name, suite, tool_name)


def test_an_option_that_says_what_the_tool_does_anyway_is_not_asked(path: Path) -> None:
    path.write_text(SEED.replace("affinity: none", "affinity: each"))
    found = profiles.read(path)["mr"]
    assert found.options_of("cyclictest", "latency") == {"threads": 4, "affinity": "each"}
    assert found.asks("cyclictest", "latency", "idle") == {"threads": 4}


def test_a_load_that_measures_may_be_named_and_has_the_options_of_its_tool(path: Path) -> None:
    path.write_text(GOOD + "  tools: {dmatest: {options: {channel: 3}}}\n  loads: {fio-write: {}, dmatest: {}}\n")
    found = profiles.read(path)["mr"]
    assert found.has("nvme", "cyclictest", "fio-write")
    assert not found.has("nvme", "cyclictest", "fio-randread")
    assert found.asks("cyclictest", "pcie", "dmatest") == {"dmatest channel": 3}
    assert found.asks("cyclictest", "nvme", "fio-write") == {}


def test_a_profile_that_names_loads_measures_under_no_other(path: Path) -> None:
    path.write_text(SEED)
    found = profiles.read(path)["mr"]
    assert found.has("latency", "cyclictest", "stress", named=True)
    assert found.has("latency", "cyclictest", "idle")
    assert not found.has("latency", "cyclictest", "hackbench")
    path.write_text(GOOD)
    plain = profiles.read(path)["mr"]
    assert plain.has("latency", "cyclictest", "hackbench")
    assert not plain.has("latency", "cyclictest", "stress", named=True)


def test_a_profile_may_measure_something_else_on_a_board_beside_another(path: Path) -> None:
    path.write_text(GOOD + "  boards: {virt-arm64-smp2: {beside: virt-arm64, only: [signaltest], loads: {idle: {}}}}\n")
    found = profiles.read(path)["mr"]
    assert found.on("virt-arm64") is found
    assert found.on(None) is found
    there = found.on("virt-arm64-smp2")
    assert there.has("signal", "signaltest", "idle")
    assert not there.has("signal", "signaltest", "hackbench")
    assert not there.has("latency", "cyclictest", "idle")
    assert there.lengths == found.lengths
    assert (found.further_boards("virt-arm64"), found.further_boards("virt-arm64-smp2")) == (
        ("virt-arm64-smp2",),
        (),
    )
    assert profiles.profile("mr") == profiles.profile("mr", "virt-arm64") == found
    assert profiles.profile("mr", "virt-arm64-smp2") == there


@pytest.mark.parametrize(
    ("boards", "said"),
    [
        ("{virt-arm65: {}}", "virt-arm65"),
        ("{virt-arm64-smp2: {beside: virt-arm65}}", "virt-arm65"),
        ("{virt-arm64-smp2: {beside: virt-arm64-smp2}}", ":6:38: virt-arm64-smp2 is beside itself: name the board"),
        ("{virt-arm64-smp2: {seeds: 1}}", "unknown key 'seeds' (allowed: beside, loads, only, suites)"),
    ],
)
def test_a_board_of_a_profile_must_be_there(path: Path, boards: str, said: str) -> None:
    path.write_text(GOOD + f"  boards: {boards}\n")
    with pytest.raises(ConfigError, match=re.escape(said)):
        profiles.read(path)


def test_a_comparison_of_one_cpu_has_signals_between_two() -> None:
    compare = profiles.read(site.shipped_directory() / "profiles.yaml")["compare"]
    assert compare.further_boards("virt-arm64") == ("virt-arm64-smp2",)
    assert compare.on("virt-arm64-smp2").has("signal", "signaltest", "idle")


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("  tools: {cyclictest: {options: {thread: 4}}}\n", "6:34", "cyclictest has no option 'thread'"),
        ("  tools: {cyclictest: {options: {threads: yes}}}\n", "6:43", "threads is True"),
        ("  tools: {cyclictest: {options: {threads: four}}}\n", "6:43", "threads is 'four'"),
        ("  tools: {cyclictest: {options: {threads: -1}}}\n", "6:43", "at least 0"),
        ("  tools: {cyclictest: {options: {interval_us: 0}}}\n", "6:47", "interval_us is 0 (allowed: at least 1)"),
        ("  tools: {rtla-osnoise: {options: {period_us: 0}}}\n", "6:47", "period_us is 0 (allowed: at least 1)"),
        ("  tools: {cyclictest: {options: {priority: 0}}}\n", "6:44", "priority is 0 (allowed: 1 to 99)"),
        ("  tools: {signaltest: {options: {priority: 0}}}\n", "6:44", "priority is 0 (allowed: 1 to 99)"),
        ("  tools: {cyclictest: {options: {priority: 200}}}\n", "6:44", "priority is 200 (allowed: 1 to 99)"),
        ("  tools: {queuelat: {options: {priority: 100}}}\n", "6:42", "priority is 100 (allowed: 0 to 99)"),
        ("  tools: {edu-msi: {options: {raise_priority: 0}}}\n", "6:47", "raise_priority is 0 (allowed: 1 to 99)"),
        ("  tools: {edu-msi: {options: {raise_priority: 200}}}\n", "6:47", "raise_priority is 200 (allowed: 1 to 99)"),
        (
            "  tools: {edu-msi: {options: {priority: 40}}}\n",
            "6:30",
            "raise_priority of edu-msi is 40 and its priority 40",
        ),
        ("  tools: {rt-migrate-test: {options: {priority: 99}}}\n", "6:38", "is 99 (allowed: at most 96: each task"),
        (
            "  tools: {rt-migrate-test: {options: {priority: 96, tasks: 4}}}\n",
            "6:38",
            "is 96 (allowed: at most 95",
        ),
        (
            "  tools: {rtla-osnoise: {options: {runtime_us: 200000}}}\n",
            "6:35",
            "runtime_us of rtla-osnoise is 200000 (allowed: at most 100000, its period_us)",
        ),
        ("  tools: {oslat: {options: {buckets: 2000}}}\n", "6:38", "buckets is 2000 (allowed: 5 to 1024)"),
        ("  tools: {oslat: {options: {buckets: 4}}}\n", "6:38", "buckets is 4 (allowed: 5 to 1024)"),
        (
            "  tools: {pmqtest: {options: {interval_us: 2000000}}}\n",
            "6:44",
            "interval_us is 2000000 (allowed: 1 to 999999)",
        ),
        ("  tools: {sigwaittest: {options: {interval_us: 0}}}\n", "6:48", "interval_us is 0 (allowed: 1 to 999999)"),
        ("  tools: {ssdd: {options: {forks: 0}}}\n", "6:35", "forks is 0 (allowed: at least 1)"),
        ("  tools: {ssdd: {options: {steps: 0}}}\n", "6:35", "steps is 0 (allowed: at least 1)"),
        ("  tools: {hackbench: {options: {senders: 0}}}\n", "6:42", "senders is 0 (allowed: at least 1)"),
        ("  tools: {dmatest: {options: {channel: 4}}}\n", "6:30", "channel of dmatest is 4 (allowed: 1, 2, or 3"),
        ("  tools: {cyclictest: {options: {affinity: all}}}\n", "6:33", "affinity of cyclictest is 'all'"),
        ("  tools: {cyclictest: {options: {taskset: [2]}}}\n", "6:43", "expected a whole number"),
        ("  loads: {stres: {}}\n", "6:11", "unknown load 'stres'"),
        ("  loads: {stress: {cpu: 4, cpu-load: 3}}\n", "6:19", "has no option 'cpu-load'"),
        ("  loads: {stress: {cpu: 0}}\n", "6:19", "whole number of at least 1"),
        ("  loads: {stress: {cpu: true}}\n", "6:19", "cpu of the load stress is True (allowed: a whole number"),
        ("  loads: {stress: {timeout: 4s}}\n", "6:19", "has no worker"),
        ("  loads: {hackbench: {groups: 4}}\n", "6:22", "allowed: none"),
        ("  loads: {dmatest: {channel: 3}}\n", "6:20", "dmatest is a tool as well: write its options below `tools`"),
    ],
)
def test_a_mistake_in_options_is_told_with_its_place(path: Path, text: str, place: str, said: str) -> None:
    path.write_text(GOOD + text)
    with pytest.raises(ConfigError) as caught:
        profiles.read(path)
    assert f"profiles.yaml:{place}: " in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize("tool", ["oslat", "queuelat"])
def test_a_tool_that_measures_without_a_priority_says_so(path: Path, tool: str) -> None:
    path.write_text(GOOD + f"  tools: {{{tool}: {{options: {{priority: 0}}}}}}\n")
    assert profiles.read(path)["mr"].options_of(tool) == {"priority": 0}


@pytest.mark.parametrize("tool", SHIPPED.values())
def test_the_usual_options_are_in_their_ranges(tool: type[Tool]) -> None:
    usual = options(tool())
    assert set(tool.ranges) <= set(usual)
    assert all(
        least <= usual[name] and (most is None or usual[name] <= most) for name, (least, most) in tool.ranges.items()
    )


_NUMBERS = [
    (name, option.name)
    for name, tool in TOOLS.items()
    for option in fields(cast("Any", tool))
    if type(option.default) is int
]


@pytest.mark.parametrize(("tool", "option"), _NUMBERS)
def test_what_a_profile_may_ask_for_can_be_measured(path: Path, tool: str, option: str) -> None:
    path.write_text(GOOD + f"  tools: {{{tool}: {{options: {{{option}: 0}}}}}}\n")
    try:
        (profile,) = profiles.read(path).values()
    except ConfigError:
        return  # refused, with its place
    asked = profile.fit(TOOLS[tool](), TOOLS[tool].suites[0])
    setting = Setting(cpus=2, duration_s=10, virtual_time=True)
    assert asked.expected(setting).duration_s >= 0
    assert TOOLS[tool].instrumented or asked.argv(setting)


def _takes_a_length(tool: str) -> bool:
    shared = Setting(cpus=2, duration_s=30.0, virtual_time=False, storage=DISK, instrument=WIRES)
    settings = [replace(shared, duration_s=seconds) for seconds in (30.0, 60.0)]
    return len({TOOLS[tool]().argv(setting) for setting in settings}) == 2


def test_a_night_measures_longer_with_every_tool_that_takes_a_length() -> None:
    shipped = profiles.read(site.shipped_directory() / "profiles.yaml")
    mr, nightly = shipped["mr"], shipped["nightly"]
    timed = [tool for tool in TOOLS if _takes_a_length(tool)]
    assert {"cyclictest", "signaltest", "oslat", "rt-migrate-test", "fio-read"} <= set(timed)
    assert not {"ssdd", "hackbench", "deadline_test", "pip_stress"} & set(timed)
    assert all(nightly.of(tool).duration_s >= 6 * mr.of(tool).duration_s for tool in timed)
    soaked = {tool for tool in timed if "pcie" not in TOOLS[tool].suites} - {"cyclictest"}
    assert all(nightly.of(tool).duration_s >= 12 * mr.of(tool).duration_s for tool in soaked)
