# SPDX-License-Identifier: MIT
"""Every figure of the reference documents is a limit or has a reason; the documents keep their own limits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from selftests.conftest import COUNTS
from selftests.suites_in_process import listed_cases
from selftests.unit.report.conftest import Boot, make

from rtgate import site
from rtgate.board import boards
from rtgate.judge.judging import Subject, judge
from rtgate.judge.thresholds import LimitKind, Threshold, Thresholds
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.lava.results.expected import Expected
from rtgate.measure import profiles
from rtgate.measure.case import Case
from rtgate.measure.case_plan import plan
from rtgate.measure.case_record import make_record
from rtgate.records.expectation import Expectation
from rtgate.records.record import Record
from rtgate.target.outcome import Outcome, State
from rtgate.tools.case_name import CaseName
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.units import Quantity, Unit
from rtgate.workflow.arms import unknown_kernel
from rtgate.workflow.seeds import SeedLimit, seed_limits
from rtgate.workflow.verdicts import limits

ROOT = Path(__file__).resolve().parents[2]
FIGURES = yaml.safe_load((ROOT / "selftests" / "data" / "seeds" / "figures.yaml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "reference" / "seed-figures.md").read_text(encoding="utf-8")
SHIPPED = limits(None)
LIMITS = seed_limits(SHIPPED)
# What says how a block was measured, and not what came of it.
FACTS = frozenset(
    (
        *("id", "source", "setup", "board", "flavour", "label", "certainty", "note", "corrects", "corrected_by"),
        *("load_command", "command", "loadavg", "duration_stated_h", "duration_implied_h"),
        *("thread", "cpu", "interval_us", "loops", "samples", "raw", "alternatives", "ge_10us_events"),
        *("tool", "unit", "better", "link", "rc", "ep", "host", "ssd", "access"),
    )
)
THREAD = re.compile(r"(?P<block>.*)/t(?P<thread>\d)/(?P<what>max|avg)")


def _blocks() -> Iterator[dict[str, Any]]:
    pcie = (FIGURES["pcie"][name] for name in ("dma", "bar", "bar_width", "elbi", "msi"))
    plain = (FIGURES[name] for name in ("cyclictest", "irq_latency", "signaltest", "rt_tests"))
    yield from chain(*plain, *pcie, FIGURES["nvme"]["hosts"], *FIGURES["later_editions"].values())


BLOCKS = {block["id"]: block for block in _blocks()}


def _leaves(name: str, value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            if key not in FACTS:
                yield from _leaves(f"{name}/{key}", part)
    elif isinstance(value, list):
        for row in value:
            yield from _leaves(f"{name.removesuffix('/threads')}/t{row['thread']}", row)
    elif not isinstance(value, str) or name.endswith("/result"):
        yield name, value


PRINTED = dict(chain.from_iterable(_leaves(name, block) for name, block in BLOCKS.items()))


def _reasons(title: str) -> list[str]:
    """Return the patterns of a section of the page."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [pattern for row in rows for pattern in re.findall(r"`([^`]+)`", row)]


PARTS, WHOLE = _reasons("Parts of each block without a limit"), _reasons("Blocks without a limit")


def _matches(pattern: str) -> set[str]:
    return {name for name in PRINTED if fnmatchcase(name, pattern)}


def test_no_figure_is_forgotten(record_property: Callable[[str, object], None]) -> None:
    limited = {limit.figure for limit in LIMITS}
    reasoned = set(chain.from_iterable(map(_matches, (*PARTS, *WHOLE)))) - limited
    assert set(PRINTED) - limited - reasoned == set()
    assert limited - set(PRINTED) == set()
    counts = f"{len(PRINTED)} figures, {len(limited)} of them limits, {len(reasoned)} with a reason, none left"
    record_property(COUNTS, counts)
    assert counts in PAGE


def test_every_reason_is_of_a_figure_and_no_block_with_a_reason_has_a_limit() -> None:
    limited = {limit.figure for limit in LIMITS}
    assert [pattern for pattern in (*PARTS, *WHOLE) if not _matches(pattern) - limited] == []
    assert [pattern for pattern in WHOLE if _matches(pattern) & limited] == []


def _class(board: str, thread: int, profile: str) -> str:
    """Return the kind of CPU of a thread; empty where the board has one, or threads are not bound (only `-S` does)."""
    if profile != "core-rk3576j":
        return ""
    found = [name for name, cpus in boards.board(board).cpu_classes.items() if thread in cpus]
    return found[0] if found else ""


def test_a_thread_without_a_limit_was_not_the_worst() -> None:
    named = set(chain.from_iterable(map(_matches, WHOLE)))
    limited = {limit.figure: limit for limit in LIMITS}
    rows = [match for name in PRINTED if name not in named and (match := THREAD.fullmatch(name))]
    assert len(rows) > 200
    for row in rows:
        places = (f"{row['block']}/t{thread}/{row['what']}" for thread in range(8))
        mine = [limited[place] for place in places if place in limited]
        board = mine[0].limit.board
        (limit,) = [
            one for one in mine if one.limit.cpu_class == _class(board, int(row["thread"]), mine[0].limit.profile)
        ]
        block = BLOCKS[row["block"]]
        certain = {one["thread"]: one.get("certainty", "certain") == "certain" for one in block["threads"]}
        if certain[int(row["thread"])]:
            assert PRINTED[row[0]] <= PRINTED[limit.figure]


@pytest.mark.parametrize("seed", LIMITS, ids=lambda seed: f"{seed.figure} {seed.limit.kind.value}")
def test_a_limit_is_what_is_printed_with_the_margin_of_its_kind(seed: SeedLimit) -> None:
    limit, printed = seed.limit, PRINTED[seed.figure]
    assert float(seed.printed.split(" ")[0]) == printed
    allowed = limit.share if limit.limit is None else limit.limit.value
    if limit.kind is LimitKind.SHARE:
        events, total = _events(seed)
        least, most = 3.1 * events / total, 3.3 * events / total
    elif limit.measurement in {"duration", "inversions"}:
        least, most = (1.5 * printed, 1.6 * printed) if limit.kind is LimitKind.MAX else (printed / 1.6, printed / 1.5)
    elif limit.measurement == "period":
        least = most = printed + 1
    elif limit.kind is LimitKind.MIN:
        rounded = 0.5 if "rounds to it" in limit.margin else 0.0
        figure = (printed - rounded) * (1000 if limit.measurement == "iops" else 1)
        least, most = 0.95 * figure - 1, 0.95 * figure
    elif limit.measurement.endswith(".max"):
        least = most = 2 * printed
    else:
        assert limit.measurement.endswith(".avg")
        least = most = 1.5 * (printed + 1)
    assert least <= allowed <= most


def _events(seed: SeedLimit) -> tuple[int, int]:
    """Return how many samples a document counted above the level of a share, and of how many."""
    block, printed = BLOCKS[seed.figure.partition("/")[0]], PRINTED[seed.figure]
    if "samples" in block:
        assert printed / 100 == pytest.approx(block["ge_10us_events"] / block["samples"])
        return block["ge_10us_events"], block["samples"]
    (row,) = block["threads"]
    return printed, row["loops"]


def test_figures_of_stock_kernels_are_no_limits_of_real_time_kernels_nor_the_other_way_round() -> None:
    flavours = {"cobalt": "xenomai", "preempt_rt+jailhouse": "jailhouse"}
    for seed in LIMITS:
        block = BLOCKS[seed.figure.partition("/")[0]]
        printed = block.get("flavour", "generic")
        if block.get("tool"):
            printed = seed.figure.split("/")[1]
        assert seed.limit.flavour == flavours.get(printed, printed)


def test_pcie_limits_are_for_a_board_that_is_tuned_as_the_guide_did() -> None:
    guide = [seed.limit for seed in LIMITS if seed.document.startswith("Rockchip Developer Guide")]
    assert guide
    for limit in guide:
        tuning = boards.board(limit.board).tunings[limit.case.partition("+")[2]]
        assert tuning.description.startswith("the PCIe guide's")


Group = tuple[str, str, str, str]  # board, flavour, case, profile


def _groups() -> dict[Group, list[SeedLimit]]:
    found: dict[Group, list[SeedLimit]] = {}
    for seed in LIMITS:
        limit = seed.limit
        found.setdefault((limit.board, limit.flavour, limit.case, limit.profile), []).append(seed)
    return found


GROUPS = _groups()


Listed = Mapping[str, Mapping[str, Case]]  # cases by name, by profile; "" for those of all profiles


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Listed:
    """Return what the shipped profiles select of the suites."""
    directory = tmp_path_factory.mktemp("listed")
    shipped = profiles.read(site.shipped_directory() / "profiles.yaml")
    by_profile = {name: listed_cases(name, directory) for name in shipped}
    return {**by_profile, "": {name: case for cases in by_profile.values() for name, case in cases.items()}}


def _expectation(group: Group, listed: Listed) -> Expectation:
    """Return what a record of a group's case says was to be measured, as the suites select it with its profile."""
    board, flavour, name, profile = group
    case_name = CaseName.parse(name)
    case = replace(listed[profile or "nightly"][str(case_name.without_tuning)], tuning=case_name.tuning)
    arm = Expected(
        board=boards.board(board),
        profile=profiles.profile(profile or "nightly", board),
        tuning=case.tuning,
        cases=(case,),
        boots=("candidate",),
        kernels={"candidate": unknown_kernel(flavour)},
    ).arm(1)
    outcome = Outcome(state=State.NO_BOOT, message="")
    return make_record(case, arm, plan(case, arm, 1), outcome).evidence.expectation


def _measured(seed: SeedLimit) -> Iterator[Measurement]:
    """Yield what the document printed where it printed the figure of a limit: all threads' rows, if there are some."""
    block, limit = BLOCKS[seed.figure.partition("/")[0]], seed.limit
    if limit.kind is LimitKind.SHARE:
        assert limit.over is not None
        (events, total), above = _events(seed), math.ceil(limit.over.value + 0.001)  # 70 us; 10 us
        histogram = Histogram(unit=Unit.US, counts={above // 2: total - events, above: events}, overflow=0, limit=100)
        yield Measurement(name=limit.measurement, better=Better.LOWER, histogram=histogram, labels={"cpu": "0"})
        return
    assert limit.limit is not None
    row = THREAD.fullmatch(seed.figure)
    rows = [one for one in block["threads"] if row["what"] in one] if row else []
    values = [(one["thread"], one[row["what"]]) for one in rows if row] or [(0, PRINTED[seed.figure])]
    if limit.measurement.startswith("roundtrip"):
        values = values[:1]
    for thread, value in values:
        kind = _class(limit.board, thread, limit.profile)
        labels = {"cpu": str(thread), **({"class": kind} if kind else {})}
        if limit.cpu_class in {"", kind}:
            number = value * (1000 if seed.figure.endswith("/kiops") else 1)
            quantity = Quantity(number, limit.limit.unit)
            yield Measurement(name=limit.measurement, better=Better.LOWER, quantity=quantity, labels=labels)


def _record(group: Group, listed: Listed) -> Record:
    """Return the record of a boot that measured what the document printed."""
    board, flavour, case, _ = group
    expected = _expectation(group, listed)
    made = make(Boot(case=case, board=board, seed=None))
    return replace(
        made,
        measurements=tuple(one for seed in GROUPS[group] for one in _measured(seed)),
        kernel=replace(made.kernel, flavour=flavour),
        evidence=replace(
            made.evidence,
            elapsed_s=expected.duration_s,
            expectation=replace(
                made.evidence.expectation, options=expected.options, interval_us=0, duration_s=expected.duration_s
            ),
        ),
        environment=replace(made.environment, flavour=flavour),
    )


def _judged(measured: Record, group: Group, more: tuple[Threshold, ...] = ()) -> list[Verdict]:
    """Return what the limits of a group say of a record; what every kernel must keep is not looked at."""
    board, flavour, case, _ = group
    record = replace(measured, kernel=replace(measured.kernel, flavour=flavour))
    record = replace(record, environment=replace(record.environment, flavour=flavour))
    subject = Subject(case=case, board=board, arm="candidate", flavour=flavour, records=[record])
    found = judge(subject, Thresholds((*(more or limits_of(board)),)))
    assert [one for one in found if one.status is Status.ERROR] == []
    return [one for one in found if one.kind in {Kind.LIMIT, Kind.SHARE, Kind.NOT_APPLIED} or one.source]


@cache
def limits_of(board: str) -> tuple[Threshold, ...]:
    """Return the shipped limits of a board."""
    return tuple(one for one in SHIPPED.entries if one.board == board)


def _names(group: Group) -> str:
    return " ".join(group)


@pytest.mark.parametrize("group", GROUPS, ids=_names)
def test_what_a_document_prints_passes_its_own_limits(group: Group, listed: Listed) -> None:
    found = [one for one in _judged(_record(group, listed), group) if one.kind is not Kind.GUARANTEE]
    assert len(found) == len(GROUPS[group])
    assert {one.status for one in found} == {Status.PASS}


def _below(seed: SeedLimit) -> Threshold:
    """Return a limit that what is printed breaks, by a hundredth."""
    limit = seed.limit
    if limit.kind is LimitKind.SHARE:
        return replace(limit, share=limit.share / 10)
    assert limit.limit is not None
    values = [one.quantity.value for one in _measured(seed) if one.quantity is not None]
    worst = 1.01 * min(values) if limit.kind is LimitKind.MIN else 0.99 * max(values)
    return replace(limit, limit=Quantity(worst, limit.limit.unit))


@pytest.mark.parametrize("group", GROUPS, ids=_names)
def test_each_limit_below_what_is_printed_is_broken(group: Group, listed: Listed) -> None:
    below = {seed.limit: _below(seed) for seed in GROUPS[group]}
    limits = tuple(below.get(one, one) for one in limits_of(group[0]))
    failed = {one.source for one in _judged(_record(group, listed), group, limits) if one.status is Status.FAIL}
    assert [
        seed.figure for seed in GROUPS[group] if seed.limit.origin not in failed and PRINTED[seed.figure] != 0
    ] == []


@pytest.mark.parametrize("profile", sorted({one.profile for one in SHIPPED.entries}), ids=lambda name: name or "any")
def test_what_a_shipped_limit_is_for_is_measured(profile: str, listed: Listed) -> None:
    """With the limit's profile, or with any where it is for the tool's own options."""
    cases = {str(CaseName.parse(one.case).without_tuning) for one in SHIPPED.entries if one.profile == profile}
    assert cases - listed[profile].keys() == set()


# A stock kernel does as much work, or is better at it: throughput, and a test of one task.
NO_WORSE = ("scheduling/hackbench:idle", "scheduling/pi_stress:idle", "scheduling/rt-migrate-test:idle")
RT = [group for group in GROUPS if (group[0], "generic", *group[2:]) in GROUPS and group[1] != "generic"]


@pytest.mark.parametrize("group", RT, ids=_names)
def test_stock_kernels_fail_the_limits_of_real_time_kernels(group: Group, listed: Listed) -> None:
    board, _, *rest = group
    stock = _record((board, "generic", rest[0], rest[1]), listed)
    failed = Status.FAIL in {one.status for one in _judged(stock, group)}
    assert failed == (rest[0] not in NO_WORSE)


def test_every_document_with_both_kernels_has_such_a_test() -> None:
    assert {group[3] for group in RT} == {"", "core-rk3576j", "oee-rk3568", "nuc", "nuc-bound", "nuc-load"}
    assert {group[2] for group in RT if not group[3]} == {"irq/irq-instrument-hard:idle"}
    assert len(RT) > 15


@pytest.mark.parametrize("group", [group for group in GROUPS if group[3]], ids=_names)
def test_without_the_document_s_options_its_limits_are_not_applied(group: Group, listed: Listed) -> None:
    measured = _record(group, listed)
    own = replace(measured.evidence.expectation, options={})
    found = _judged(replace(measured, evidence=replace(measured.evidence, expectation=own)), group)
    assert {(one.status, one.kind) for one in found if one.kind is not Kind.GUARANTEE} == {
        (Status.DONE, Kind.NOT_APPLIED)
    }
