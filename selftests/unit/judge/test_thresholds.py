# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rtgate import site
from rtgate.board import boards
from rtgate.board.boards import FLAVOURS
from rtgate.errors import ConfigError
from rtgate.judge.thresholds import LimitKind, ProfileCase, Thresholds, excerpt, guarantees, load_thresholds
from rtgate.kernel.version import KernelVersion
from rtgate.strict_yaml import Value
from rtgate.tools import loads
from rtgate.tools.case_name import CaseName
from rtgate.tools.registry import COMPANIONS, TOOLS
from rtgate.units import Quantity
from rtgate.workflow.limit_profiles import LimitProfiles

BOARDS = {"virt": True, "rk": False}
HEAD = "virt:\n  preempt_rt:\n    latency/cyclictest:idle:\n"
GOOD = '{measurement: latency.max, kind: max, limit: 100 virtual us, source: "60 seeds"}'
SHARE = "{measurement: latency, kind: share, over: 70 virtual us, limit: 2e-6, source: s}"

Read = Callable[[str], Thresholds]


def _case(named: Value, board: str, case: CaseName) -> ProfileCase:
    """Return how the only profile there is measures a case."""
    if named.text() != "report":
        named.fail(f"unknown value {named.text()!r} (allowed: report)")
    return ProfileCase({"threads": 4, "board": board, "case": str(case)}, 60.0)


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def load(text: str) -> Thresholds:
        path = tmp_path / "thresholds.yaml"
        path.write_text(text, encoding="utf-8")
        return load_thresholds([path], BOARDS, _case)

    return load


def _with(limit: str) -> str:
    return f"{HEAD}      - {limit}\n"


def test_a_maximum(read: Read) -> None:
    (found,) = read(_with(GOOD)).of("virt", "preempt_rt", "latency/cyclictest:idle")
    assert (found.kind, found.measurement) == (LimitKind.MAX, "latency.max")
    assert found.limit == Quantity.parse("100 virtual us")
    assert found.origin == "60 seeds; thresholds.yaml:4"
    assert found.location is not None
    assert (found.location.line, found.location.column) == (4, 9)


def test_a_share(read: Read) -> None:
    (found,) = read(_with(SHARE.replace("source", "confidence: 0.9, margin: twice, source"))).entries
    assert (found.share, found.confidence, found.margin) == (2e-6, 0.9, "twice")
    assert found.over == Quantity.parse("70 virtual us")
    assert read(_with(SHARE)).entries[0].confidence == 0.99


def test_a_limit_may_be_for_one_kind_of_cpu(read: Read) -> None:
    (found,) = read(_with(GOOD.replace("source", "class: big, source"))).entries
    assert found.cpu_class == "big"
    (found,) = read(_with(SHARE.replace("source", "class: little, source"))).entries
    assert found.cpu_class == "little"
    assert read(_with(GOOD)).entries[0].cpu_class == ""


def test_a_limit_may_be_for_the_options_of_a_profile(read: Read) -> None:
    found = read(_with(GOOD.replace("source", "profile: report, source")))
    (limit,) = found.entries
    assert (limit.profile, limit.options["threads"]) == ("report", 4)
    assert (limit.options["board"], limit.options["case"]) == ("virt", "latency/cyclictest:idle")
    where = ("virt", "preempt_rt", "latency/cyclictest:idle")
    assert found.of(*where) == found.for_options(*where, limit.options) == (limit,)
    assert found.for_options(*where, {}) == ()
    (plain,) = read(_with(GOOD)).for_options(*where, {})
    assert (plain.profile, plain.options) == ("", {})


def test_only_a_least_count_is_for_the_length_of_its_profile(read: Read) -> None:
    count = "{measurement: inversions, kind: KIND, limit: 6000 count, profile: report, source: s}"
    lines = [count.replace("KIND", kind) for kind in ("min", "max")]
    case = HEAD.replace("latency/cyclictest:idle", "scheduling/pi_stress:idle")
    least, most = read(case + "".join(f"      - {line}\n" for line in lines)).entries
    assert (least.duration_s, most.duration_s) == (60.0, 0.0)
    assert read(_with(GOOD.replace("source", "profile: report, source"))).entries[0].duration_s == 0.0
    assert read(_with(SHARE.replace("source", "profile: report, source"))).entries[0].duration_s == 0.0


def test_a_limit_may_be_for_a_range_of_kernels(read: Read) -> None:
    (found,) = read(_with(SHARE.replace("source", 'kernels: ">= 6.1 and < 6.13", source'))).entries
    assert KernelVersion(6, 12, 117) in found.kernels
    assert KernelVersion(6, 13) not in found.kernels
    assert KernelVersion(2, 6) in read(_with(GOOD)).entries[0].kernels


def test_a_limit_may_be_for_a_tuning(read: Read) -> None:
    tuned = read(_with(GOOD).replace(":idle", ":idle+isolated"))
    assert len(tuned.of("virt", "preempt_rt", "latency/cyclictest:idle+isolated")) == 1
    assert not tuned.of("virt", "preempt_rt", "latency/cyclictest:idle")


@pytest.mark.parametrize(("policy", "fails"), [("fail", True), ("report", False)])
def test_a_policy_for_a_fault(read: Read, policy: str, fails: bool) -> None:
    (found,) = read(_with(f"{{kind: fault, fault: rcu-stall, policy: {policy}, source: s}}")).entries
    assert (found.kind, found.fault, found.fails) == (LimitKind.FAULT, "rcu-stall", fails)


@pytest.mark.parametrize("kind", ["max", "min", "exact"])
def test_a_count_on_any_board(read: Read, kind: str) -> None:
    limit = f"{{measurement: wakeups.lost, kind: {kind}, limit: 0 count, source: s}}"
    assert read(_with(limit)).entries[0].limit == Quantity.parse("0 count")
    assert read(_with(limit).replace("virt", "rk")).entries[0].kind is LimitKind(kind)


def test_limits_apply_to_their_board_flavour_and_case_only(read: Read) -> None:
    found = read(_with(GOOD))
    assert not found.of("rk", "preempt_rt", "latency/cyclictest:idle")
    assert not found.of("virt", "generic", "latency/cyclictest:idle")
    assert not found.of("virt", "preempt_rt", "latency/cyclictest:hackbench")


ALL_TOOLS = ", ".join(sorted(TOOLS))
ALL_LOADS = ", ".join((*loads.names(), *COMPANIONS))
ALL_KINDS = "max, min, exact, share, fault"
FIGURES = "latency, latency.avg, latency.bound, latency.max, latency.min"
MEASUREMENTS = f"irqsoff, {FIGURES}, preemptirqsoff, preemptoff, rawlock, wakeups, wakeups.lost"
UNITS = (
    "ns, us, ms, s, virtual ns, virtual us, virtual ms, virtual s, "
    "B/s, MB/s, MiB/s, virtual MB/s, /s, virtual /s, count, ratio, celsius"
)
FAULT = "{kind: fault, fault: oops, policy: fail, source: s}"
VIRTUAL = "virt measures this as virtual time, not as"
OUT = "is out of range (allowed: more than"


def _changed(old: str, new: str, limit: str = GOOD) -> str:
    assert old in limit
    return _with(limit.replace(old, new))


# The file, the last place in it where this text stands, the message.
NAMES = [
    (_with(GOOD).replace("virt:", "vert:"), "vert", "unknown board 'vert' (allowed: rk, virt)"),
    (_with(GOOD).replace("mpt_rt", "mpt"), "preempt:", f"unknown flavour 'preempt' (allowed: {', '.join(FLAVOURS)})"),
    (
        _with(GOOD).replace("latency/", "latency:"),
        "latency:cyclictest",
        "'latency:cyclictest:idle' is not a case (allowed: SUITE/TOOL:LOAD, for example latency/cyclictest:idle; ",
    ),
    (
        _with(GOOD).replace("test:idle", "test"),
        "latency/",
        "'latency/cyclictest' is not a case (allowed: SUITE/TOOL:LOAD",
    ),
    (_with(GOOD).replace("cyclictest", "sundial"), "latency/", f"unknown tool 'sundial' (allowed: {ALL_TOOLS})"),
    (
        _with(GOOD).replace("latency/", "irq/"),
        "irq/",
        "cyclictest is not in the suite 'irq' (allowed: latency, nvme, pcie)",
    ),
    (_with(GOOD).replace(":idle", ":doom"), "latency/", f"unknown load 'doom' (allowed: {ALL_LOADS})"),
    (_with(GOOD).replace(":idle", ":doom+tuned"), "latency/", f"unknown load 'doom' (allowed: {ALL_LOADS})"),
    (
        _changed("latency.max", "latency.p99"),
        "latency.p99",
        f"cyclictest reports no 'latency.p99' (allowed: {MEASUREMENTS})",
    ),
    (
        _changed("latency.max, kind: max", "latency.bound, kind: min"),
        "min",
        "latency.bound is a longest length: use max",
    ),
    (
        _changed("latency.max, kind: max", "latency.bound, kind: max, class: big"),
        "big",
        "latency.bound is of the board's only CPU: leave class away",
    ),
    (
        _changed(
            "latency.max, kind: max, limit: 100 virtual us", "failures, kind: max, limit: 2 count, class: big"
        ).replace("latency/cyclictest", "scheduling/pi_stress"),
        "big",
        "a kernel that works has no failures, on whatever CPU: leave class away",
    ),
    (_changed("latency.max, kind: max", "irqsoff, kind: exact"), "exact", "irqsoff is a longest length: use max"),
    (
        _changed("kind: max", "kind: max, function: schedule"),
        "schedule",
        "latency.max is not of a function: leave function away (it goes with irqsoff, preemptoff, preemptirqsoff)",
    ),
    (
        _changed("latency.max, kind: max", "irqsoff, kind: max, lock: tick_lock"),
        "tick_lock",
        "irqsoff is not of a lock: leave lock away (it goes with rawlock)",
    ),
    (_changed("latency.max, kind: max", "rawlock, kind: exact"), "exact", "rawlock is a longest length: use max"),
    (_changed("oops", "hiccup", FAULT), "hiccup", "unknown value 'hiccup' (allowed: aer, atomic-sleep, bug, "),
]
KEYS = [
    (_changed("source", "profile: reprot, source"), "reprot", "unknown value 'reprot' (allowed: report)"),
    (_changed("source", "kernels: 6.12, source"), "6.12", "expected text, found a number"),
    (
        _changed("source", 'kernels: "<= 6.12", source'),
        '"<=',
        "'<= 6.12' is not a condition (allowed: >= VERSION, < VERSION, joined by 'and')",
    ),
    (
        _changed("source", "profile: report, source", FAULT),
        "profile",
        "unknown key 'profile' (allowed: fault, kind, policy, source)",
    ),
    (
        _changed("source", "sauce"),
        "sauce",
        "unknown key 'sauce' (allowed: class, function, kernels, kind, limit, lock, margin, measurement, profile, ",
    ),
    (_changed(', source: "60 seeds"', ""), "{", "missing key 'source'"),
    (_changed('"60 seeds"', '""'), '""', "expected text, found an empty one"),
    (_changed('"60 seeds"', "60"), "60", "expected text, found a whole number"),
    (_changed(", limit: 100 virtual us", ""), "{", "missing key 'limit'"),
    (_changed("measurement: latency.max, ", ""), "{", "missing key 'measurement'"),
    (_changed("over: 70 virtual us, ", "", SHARE), "{", "missing key 'over'"),
    (_changed("policy: fail, ", "", FAULT), "{", "missing key 'policy'"),
    (_changed("kind: max, ", ""), "{", f"missing key 'kind' (allowed values: {ALL_KINDS})"),
    (_changed("kind: max", "kind: top"), "top", "unknown value 'top' (allowed: exact, fault, max, min, share)"),
    (_changed("kind: max", "kind: max, kind: min"), "kind: min", "duplicate key 'kind' (first at line 4)"),
    (_with(GOOD) + _with(GOOD), "virt:", "duplicate key 'virt' (first at line 1)"),
    (_with(GOOD) + _with(GOOD)[6:], "preempt_rt", "duplicate key 'preempt_rt' (first at line 2)"),
    (_with(GOOD) + _with(GOOD)[20:], "latency/", "duplicate key 'latency/cyclictest:idle' (first at line 3)"),
    (
        _changed("limit", "over: 3 virtual us, limit"),
        "over",
        "unknown key 'over' (allowed: class, function, kernels, kind, limit, ",
    ),
    (_changed("source", "limit: 3, source", FAULT), "limit", "unknown key 'limit' (allowed: fault, kind, policy, "),
]
VALUES = [
    (_changed("100 virtual us", "100 us"), "100 us", f"{VIRTUAL} time: write it in virtual us"),
    (_with(GOOD).replace("virt:", "rk:"), "100", "rk measures this as time, not as virtual time: write it in us"),
    (_changed("100 virtual us", "100 count"), "100", f"{VIRTUAL} count: write it in virtual us"),
    (_changed("70 virtual us", "70 us", SHARE), "70", f"{VIRTUAL} time: write it in virtual us"),
    (
        _changed("latency.max", "wakeups"),
        "100",
        "virt measures this as count, not as virtual time: write it in count",
    ),
    (_changed("100 virtual us", "100"), "100", "expected text, found a whole number"),
    (_changed("100 virtual us", "fast"), "fast", f"'fast' is not a number with a unit (units: {UNITS})"),
    (_changed("100 virtual us", "1 parsec"), "1 parsec", f"'1 parsec' has an unknown number or unit (units: {UNITS})"),
    (_changed("latency.max", "latency"), "max,", "latency is a histogram: use share"),
    (_changed("latency,", "latency.max,", SHARE), "share", "latency.max is a number: share is for histograms"),
    (_changed("2e-6", "0", SHARE), "0, source", f"0 {OUT} 0, less than 1)"),
    (_changed("2e-6", "1", SHARE), "1, source", f"1 {OUT} 0, less than 1)"),
    (_changed("2e-6", "nan", SHARE), "nan, source", "expected a number, found text"),
    (_changed("2e-6", "2 %", SHARE), "2 %", "expected a number, found text"),
    (_changed("source", "confidence: 99, source", SHARE), "99", f"99 {OUT} 0.5, less than 1)"),
    (_changed("fail", "shrug", FAULT), "shrug", "unknown value 'shrug' (allowed: fail, report)"),
]
SHAPES = [
    ("", "", "the file is empty"),
    ("# only a comment\n", "# only", "the file is empty"),
    ("[]", "[", "expected a mapping, found a list"),
    ("virt: 3", "3", "expected a mapping, found a whole number"),
    (HEAD + f"      {GOOD}\n", "{", "expected a list, found a mapping"),
    (_with("latency.max"), "latency.max", "expected a mapping, found text"),
    ("virt: {a: ]", "]", "not YAML: "),
    (_with(f"&a {GOOD}") + "      - *a\n", "*a", "aliases are not allowed: write the value out"),
]


@pytest.mark.parametrize(("text", "at", "message"), [*NAMES, *KEYS, *VALUES, *SHAPES])
def test_a_mistake_is_told_with_its_place_and_what_is_allowed(read: Read, text: str, at: str, message: str) -> None:
    before = text[: text.rindex(at)] if at else ""
    place = f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
    with pytest.raises(ConfigError) as caught:
        read(text)
    told = re.fullmatch(r".*/thresholds\.yaml:(\d+:\d+): (.*)", str(caught.value), re.DOTALL)
    assert told is not None
    assert told[1] == place
    assert told[2].startswith(message)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_thresholds([tmp_path / "none.yaml"], BOARDS, _case)


def test_a_site_s_board_hides_the_shipped_one_whole(tmp_path: Path) -> None:
    mine, shipped = tmp_path / "site.yaml", tmp_path / "shipped.yaml"
    mine.write_text(_with(GOOD.replace("100", "80")))
    more = f"    latency/cyclictest:hackbench:\n      - {GOOD}\n"
    shipped.write_text(_with(GOOD) + more + _with(GOOD).replace("virt", "rk").replace("100 rkual", "100"))
    found = load_thresholds([mine, shipped], BOARDS, _case)
    (limit,) = found.of("virt", "preempt_rt", "latency/cyclictest:idle")
    assert limit.limit == Quantity.parse("80 virtual us")
    assert limit.origin == "60 seeds; site.yaml:4"
    assert not found.of("virt", "preempt_rt", "latency/cyclictest:hackbench")
    assert found.of("rk", "preempt_rt", "latency/cyclictest:idle")


def test_a_longest_section_may_be_limited_for_one_function(tmp_path: Path) -> None:
    text = _with(GOOD.replace("latency.max", "irqsoff").replace("source", "function: schedule, source"))
    (tmp_path / "thresholds.yaml").write_text(text)
    found = load_thresholds([tmp_path / "thresholds.yaml"], BOARDS, _case)
    (limit,) = found.of("virt", "preempt_rt", "latency/cyclictest:idle")
    assert (limit.measurement, limit.function) == ("irqsoff", "schedule")


def test_a_longest_hold_may_be_limited_for_one_lock(tmp_path: Path) -> None:
    text = _with(GOOD.replace("latency.max", "rawlock").replace("source", "lock: tick_broadcast_lock, source"))
    (tmp_path / "thresholds.yaml").write_text(text)
    found = load_thresholds([tmp_path / "thresholds.yaml"], BOARDS, _case)
    (limit,) = found.of("virt", "preempt_rt", "latency/cyclictest:idle")
    assert (limit.name, limit.lock, limit.function) == ("rawlock tick_broadcast_lock", "tick_broadcast_lock", "")


def test_a_mistake_in_what_is_hidden_is_an_error_too(tmp_path: Path) -> None:
    mine, shipped = tmp_path / "site.yaml", tmp_path / "shipped.yaml"
    mine.write_text(_with(GOOD))
    shipped.write_text(_with(GOOD.replace("max,", "maximum,")))
    with pytest.raises(ConfigError, match=r"shipped\.yaml:4:"):
        load_thresholds([mine, shipped], BOARDS, _case)


def test_the_shipped_limits_are_right() -> None:
    known = {name: boards.board(name).virtual for name in site.names("boards")}
    assert load_thresholds([site.shipped_directory() / "thresholds.yaml"], known, LimitProfiles().case).entries


BESIDE = """\
virt:
  preempt_rt:
    nvme/cyclictest:fio-write:
      - {measurement: NAME, kind: min, limit: LIMIT, source: s}
"""


def test_a_load_that_measures_may_have_limits_under_its_name(read: Read) -> None:
    (found,) = read(BESIDE.replace("NAME", "fio-write.bandwidth").replace("LIMIT", "300 virtual MB/s")).entries
    assert (found.measurement, str(found.limit)) == ("fio-write.bandwidth", "300 virtual MB/s")


def test_its_figures_have_no_limits_without_its_name(read: Read) -> None:
    with pytest.raises(ConfigError, match="cyclictest reports no 'bandwidth'"):
        read(BESIDE.replace("NAME", "bandwidth").replace("LIMIT", "300 virtual MB/s"))


def test_an_io_error_of_a_load_that_measures_is_a_failure() -> None:
    assert [one.measurement for one in guarantees("nvme/cyclictest:fio-write", ())] == ["fio-write.io.errors"]
    assert [one.measurement for one in guarantees("nvme/fio-read:idle+fast", ())] == ["io.errors"]


def test_the_limits_of_some_cases_in_a_file_of_their_own(tmp_path: Path) -> None:
    files, every = site.files("thresholds.yaml"), {name: boards.board(name).virtual for name in site.names("boards")}
    all_of = load_thresholds(files, every, LimitProfiles().case)
    cases = {"latency/cyclictest:idle", "pcie/edu-msi:idle"}
    path = tmp_path / "limits.yaml"
    for board in every:
        path.write_text(excerpt(files, all_of, board, dict.fromkeys(cases, ProfileCase({}, 10)), "quick"))
        mine = [one for one in all_of.entries if one.board == board and one.case in cases and not one.profile]
        read = load_thresholds([path], every, LimitProfiles().case).entries
        assert [replace(one, location=None) for one in read] == [replace(one, location=None) for one in mine]
    assert "virt-arm64" in {one.board for one in all_of.entries if one.case in cases}


def test_an_excerpt_is_of_the_first_file_that_has_the_board_and_of_one_profile(tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("virt: {}\n")
    second.write_text(_with(GOOD))
    third = tmp_path / "third.yaml"
    third.write_text(_with(GOOD.replace("source", "profile: report, source")))
    case = "latency/cyclictest:idle"

    def text(paths: list[Path], profile: str, where: str = "virt", **options: int | str) -> str:
        profile_cases = {case: ProfileCase(options, 60)}
        return excerpt(paths, load_thresholds(paths, BOARDS, _case), where, profile_cases, profile)

    assert text([first, second], "quick") == "virt: {}\n"
    assert "100 virtual us" in text([second, first], "quick")
    assert text([second], "quick", "rk") == "rk: {}\n"
    # By the options: a site may have another profile of the limit's name, or one of another name that asks the same.
    assert "100 virtual us" not in text([third], "quick")
    assert "100 virtual us" not in text([third], "report", threads=2)
    same = text([third], "mine", threads=4, board="virt", case=case)
    assert "100 virtual us" in same
    assert "profile: mine" in same
