# SPDX-License-Identifier: MIT
"""The changes with which comparisons are tested are whole, and what was measured of them can be read."""

from __future__ import annotations

import hashlib
import lzma
import re
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from selftests.campaigns import comparisons
from selftests.campaigns.comparisons import (
    BUILD,
    DATA,
    EMULATOR,
    IDLE,
    SHOWS,
    UNPATCHED,
    Change,
    Place,
    all_campaigns,
    builds,
    campaign,
    campaigns,
    changes,
    keep,
    places,
    records,
)
from selftests.fake_target import FakeTarget

from rtgate.board import boards
from rtgate.board.boot import ArmName, TimeBase
from rtgate.errors import ConfigError
from rtgate.judge.compare.placebos import version
from rtgate.kernel.fragments import load_fragment
from rtgate.measure.case import Arm, Case
from rtgate.measure.case_plan import plan
from rtgate.measure.profiles import profile
from rtgate.records import record as records_file
from rtgate.target.plan import script
from rtgate.tools.registry import COMPANIONS, TOOLS

CHANGES = changes()
HARMFUL = [change for change in CHANGES.values() if change.group == "harmful"]
PLACEBOS = [change for change in CHANGES.values() if change.group == "placebos"]
CAMPAIGNS = campaigns()
MEASURED = [
    (directory, path.name.removesuffix(".json.xz")) for directory in all_campaigns() for path in directory.iterdir()
]


def build_of(directory: Path) -> str:
    """Return the build of a campaign's kernels."""
    name = directory.parent.name
    return BUILD if name == "measured" or name.startswith("qemu-") else name


def emulator_of(directory: Path) -> str:
    """Return the version of QEMU of a campaign."""
    return next((one.name.removeprefix("qemu-") for one in directory.parents if one.name.startswith("qemu-")), EMULATOR)


def test_there_are_enough_of_each() -> None:
    assert len(PLACEBOS) >= 32
    assert len(HARMFUL) >= 13
    assert len({change.kind for change in PLACEBOS}) >= 10
    assert len({change.kind for change in HARMFUL}) >= 10


@pytest.mark.parametrize("change", CHANGES.values(), ids=lambda change: change.name)
def test_each_change_is_made_in_one_way(change: Change) -> None:
    ways = (change.patches, change.fragment, change.command_line, change.elsewhere)
    assert sum(map(bool, ways)) == 1
    assert change.does
    assert change.size


@pytest.mark.parametrize("group", ["placebos", "harmful"])
def test_each_directory_is_a_change(group: str) -> None:
    listed = {name for name, change in CHANGES.items() if change.group == group}
    assert {path.name for path in (DATA / group).iterdir()} <= listed


@pytest.mark.parametrize("path", sorted(DATA.glob("*/*/*.patch")), ids=lambda path: path.parent.name)
def test_each_patch_says_what_it_does_and_how_it_is_licensed(path: Path) -> None:
    head, _, changed = path.read_text(encoding="utf-8").partition("\n---\n")
    first, second, empty, *body = head.split("\n")
    assert first == "SPDX-License-Identifier: GPL-2.0-only"
    assert second.startswith("Subject: [PATCH] ")
    assert empty == ""
    assert "".join(body).strip()
    assert changed.startswith("diff --git a/")


@pytest.mark.parametrize("path", sorted(DATA.glob("*/*/*.patch")), ids=lambda path: path.parent.name)
def test_hunks_are_as_long_as_they_say(path: Path) -> None:
    for hunk in re.split(r"^(?=@@ )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        said, *lines = re.split(r"^diff --git ", hunk, flags=re.MULTILINE)[0].splitlines()
        old, new = (int(count or 1) for count in re.findall(r"[-+]\d+(?:,(\d+))?", said)[:2])
        kinds = Counter(line[:1] for line in lines)
        assert (kinds[" "] + kinds["-"], kinds[" "] + kinds["+"]) == (old, new)


@pytest.mark.parametrize("path", sorted(DATA.glob("*/*/series")), ids=lambda path: path.parent.name)
def test_no_patch_is_left_out_of_its_series(path: Path) -> None:
    assert set(CHANGES[path.parent.name].patches) == set(path.parent.glob("*.patch"))


@pytest.mark.parametrize("path", sorted(DATA.glob("*/*/extra.config")), ids=lambda path: path.parent.name)
def test_each_fragment_asks_for_something(path: Path) -> None:
    assert load_fragment(path)


@pytest.mark.parametrize("change", HARMFUL, ids=lambda change: change.name)
def test_harm_must_show_at_a_board_in_a_case_that_exist(change: Change) -> None:
    assert boards.board(change.board).virtual
    suite, tool, load = re.split("[/:]", change.case)
    assert suite in TOOLS[tool].suites
    assert load in {"idle", "hackbench", "stress-ng", *COMPANIONS}
    assert change.shows in SHOWS


@pytest.mark.parametrize("change", [change for change in HARMFUL if change.patches], ids=lambda change: change.name)
def test_the_function_to_blame_is_in_the_patch(change: Change) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in change.patches)
    # A function that is inlined into the one to blame stands in the patch by its own name.
    inlined = {"arch_timer_handler_virt": "timer_handler", "task_blocks_on_rt_mutex": "rt_mutex_adjust_prio"}
    assert inlined.get(change.function, change.function) in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("placebos: {}", "missing key 'harmful'"),
        ("placebos: {a: {kind: x, does: y}}\nharmful: {}", "missing key 'size'"),
        ("placebos: {a: {kind: x, does: y, size: z, function: f}}\nharmful: {}", "unknown key 'function'"),
        ("placebos: {}\nharmful: {a: {kind: x, does: y, size: z, board: b, case: c}}", "missing key 'shows'"),
        ("placebos: {unpatched: {kind: x, does: y, size: z}}\nharmful: {}", "'unpatched' is taken"),
    ],
)
def test_mistakes_are_found(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "changes.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(said)):
        changes(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "missing key 'places'"),
        ("places: {virt-arm64: [a]}", "'virt-arm64': expected another board and case"),
        ("places: {virt-arm64 latency/cyclictest:idle: [a]}", "expected another board and case"),
        ("places: {virt-arm64 latency/cyclictest:disk: [b]}", "unknown value 'b' (allowed: a)"),
        ("places: {}\nbuilds: {other: {virt-arm64 x/y:z: [b]}}", "unknown value 'b' (allowed: a)"),
        ("places: {virt-arm64 x/y:z: [a]}\nbuilds: {other: {virt-arm64 x/y:z: [a]}}", "another board"),
    ],
)
def test_mistakes_of_places_are_found(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "changes.yaml"
    path.write_text(f"placebos: {{a: {{kind: x, does: y, size: z}}}}\nharmful: {{}}\n{text}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(said)):
        places(path)


def test_a_place_of_another_build_has_its_changes_and_the_harm_that_must_show_there(tmp_path: Path) -> None:
    harm = "board: virt-arm64, case: pcie/edu-msi:idle, shows: body"
    path = tmp_path / "changes.yaml"
    path.write_text(
        "placebos: {a: {kind: x, does: y, size: z}, b: {kind: x, does: y, size: z}}\n"
        f"harmful: {{h: {{kind: x, does: y, size: z, {harm}}}}}\nplaces: {{virt-arm64 latency/cyclictest:disk: [b]}}\n"
        "builds: {pcie: {virt-arm64 pcie/edu-msi:idle: [a], virt-arm64 pcie/edu-dma:idle: [a]}}\n",
        encoding="utf-8",
    )
    msi, dma, disk = (
        ("virt-arm64", case) for case in ("pcie/edu-msi:idle", "pcie/edu-dma:idle", "latency/cyclictest:disk")
    )
    # What is built only there is not measured idle.
    assert places(path) == {IDLE: ("a", "b"), disk: ("b",), msi: ("a", "h"), dma: ("a",)}
    assert builds(path) == {IDLE: BUILD, disk: BUILD, msi: "pcie", dma: "pcie"}


def test_harm_is_measured_where_it_must_show() -> None:
    everywhere = places()
    for name, change in CHANGES.items():
        harm = [(change.board, change.case)] if change.case else []
        assert all(name in everywhere[place] for place in (*harm, *change.also))


LATER = ("virt-arm64-smp4", "signal/signaltest:idle")
"""A place that was added to one campaign: to the other two the root file system, or the QEMU, did not come back."""
WITH_LATER = comparisons.MEASURED / "rootfs-fbbdee09"


def places_of(kernel: str, directory: Path) -> set[Place]:
    return {(record.board, record.case) for record in records(kernel, directory)}


def test_what_was_measured_is_what_changes_yaml_names() -> None:
    """A campaign may lack a change: an old root file system does not come back for a new one."""
    everywhere = places()
    for name in (UNPATCHED, *CHANGES):
        where = [directory for directory, kernel in MEASURED if kernel == name]
        assert where
        for directory in where:
            of_build = {place for place, build in builds().items() if build == build_of(directory)}
            of_campaign = of_build if directory == WITH_LATER else of_build - {LATER}
            named = {place for place in of_campaign if name in {UNPATCHED, *everywhere[place]}}
            assert places_of(name, directory) == named


def test_every_campaign_has_what_all_is_compared_with() -> None:
    assert {directory for directory, kernel in MEASURED if kernel == UNPATCHED} == set(all_campaigns())


@pytest.mark.parametrize(
    "directory", [path for path in CAMPAIGNS if build_of(path) == BUILD], ids=lambda path: path.name
)
def test_the_unpatched_kernel_was_measured_with_more_seeds_than_the_others(directory: Path) -> None:
    found = records(UNPATCHED, directory)
    assert {record.seed for record in found if (record.board, record.case) == IDLE} >= set(range(1, 25))
    assert {record.arm for record in found} == {"baseline"}


@pytest.mark.parametrize(("directory", "kernel"), sorted(MEASURED), ids=lambda value: getattr(value, "name", value))
def test_what_was_measured_is_complete(directory: Path, kernel: str) -> None:
    assert kernel in {*CHANGES, UNPATCHED}
    found = records(kernel, directory)
    # What is compared has one image; the place that was added later was booted with a newer one.
    for late in (False, True):
        images = {one.kernel.image_sha256 for one in found if ((one.board, one.case) == LATER) is late}
        assert len(images) == (LATER in places_of(kernel, directory) if late else 1)
    place = (build_of(directory), emulator_of(directory))
    assert {campaign(record.environment.rootfs, *place) for record in found} == {directory}
    assert {version(record.environment.emulator) for record in found} == {place[1]}
    seeds: dict[tuple[str, str], list[int | None]] = {}
    for record in found:
        seeds.setdefault((record.board, record.case), []).append(record.seed)
    # From 1 on, without a gap: kernels are compared seed by seed.
    assert all(sorted(map(int, map(str, boots))) == list(range(1, len(boots) + 1)) for boots in seeds.values())
    for record in found:
        for measurement in record.measurements:
            if measurement.histogram is not None:
                (woken,) = (
                    other.quantity.value
                    for other in record.measurements
                    if other.name in {"wakeups", "interrupts"}
                    and other.labels == measurement.labels
                    and other.quantity is not None
                )
                assert measurement.histogram.total == woken


def test_what_is_kept_is_read_back_as_it_was(tmp_path: Path) -> None:
    before = records(UNPATCHED, CAMPAIGNS[0])[:2]
    keep("again", [records_file.as_json(record) for record in before], tmp_path)
    after = records("again", tmp_path)
    assert list(map(records_file.digest_source, after)) == list(map(records_file.digest_source, before))
    assert [record.environment for record in after] == [record.environment for record in before]


def test_places_that_are_not_measured_again_stay(tmp_path: Path) -> None:
    every = [record for record in records(UNPATCHED, CAMPAIGNS[0]) if record.seed == 1]
    place = ("virt-arm64-smp2", "signal/signaltest:idle")
    signals = [record for record in every if (record.board, record.case) == place]
    keep("again", [records_file.as_json(record) for record in every], tmp_path)
    again = [records_file.as_json(replace(record, seed=99)) for record in signals]
    keep("again", again, tmp_path, [place])
    after = sorted((record.case, record.seed) for record in records("again", tmp_path))
    assert len(signals) == 1 < len(every)
    assert after == sorted((record.case, 99 if record in signals else 1) for record in every)


def test_other_formats_are_refused(tmp_path: Path) -> None:
    (tmp_path / "new.json.xz").write_bytes(lzma.compress(b'{"format": 99, "kernel": "new", "records": []}'))
    with pytest.raises(ValueError, match="format 99"):
        records("new", tmp_path)


def test_plans_of_virtual_time_are_to_the_byte_those_that_the_campaigns_were_measured_with() -> None:
    """16 other bytes in the initramfs move the histogram: limits, placebos and campaigns would have to be made anew."""
    told = {}
    for record in chain.from_iterable(records(UNPATCHED, place) for place in all_campaigns()[1:]):
        if record.machine.get("plan") and record.seed in {1, 24}:
            suite, tool, load = re.split("[/:]", record.case)
            case = Case(suite=suite, tool=TOOLS[tool](), load=load, tuning="default")
            arm = Arm(
                name=ArmName.CANDIDATE,
                board=boards.board(record.board),
                kernel=record.kernel,
                profile=profile(record.profile),
                time=TimeBase.VIRTUAL,
                target=FakeTarget({}),
            )
            made = script(plan(case, arm, record.seed))
            told[record.board, record.case, record.seed] = (
                record.machine["plan"],
                hashlib.sha256(made.encode()).hexdigest()[:16],
            )
    assert len(told) >= 5
    assert [one for one, (before, now) in told.items() if before != now] == []
