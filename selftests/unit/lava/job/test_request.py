# SPDX-License-Identifier: MIT
from __future__ import annotations

import functools
import json
import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate import strict_yaml
from rtgate.board import boards
from rtgate.board.storage import FileSystem, Overwrite, Storage
from rtgate.errors import ConfigError
from rtgate.lava.in_job import on_board
from rtgate.lava.in_job.cooling import LONGEST_S
from rtgate.lava.in_job.target import JobTarget
from rtgate.lava.job import cases as cases_file
from rtgate.lava.job import environment
from rtgate.lava.job import request as orders
from rtgate.lava.job.definition import Transport
from rtgate.lava.job.request import MeasurementRequest, in_turns
from rtgate.lava.job.server_definition import Definition
from rtgate.lava.results.boot_log import BootLog
from rtgate.lava.results.expected import write_dead_boot
from rtgate.lava.results.plain_text import plain_line
from rtgate.measure import case_plan, profiles
from rtgate.measure.case import Case
from rtgate.records.record import KernelIdentity
from rtgate.target.outcome import State
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.fio import FioRead
from rtgate.tools.registry import TOOLS

KERNEL = KernelIdentity(
    name="k", flavour="preempt_rt", release="6.12", image_sha256="a" * 64, source="debian", provenance="rtgate"
)
ORDER = MeasurementRequest(
    board="virt-arm64",
    kernels={"baseline": KERNEL, "candidate": KERNEL},
    boots=("baseline", "candidate", "candidate", "baseline"),
    cases=(Case(suite="latency", tool=Cyclictest(), load="idle"),),
    suites=("latency",),
    profile="quick",
    tuning="default",
    transport=Transport.DOCKER,
)


def definition(metadata: dict[str, str]) -> Definition:
    return Definition(strict_yaml.dump({"job_name": "x", "metadata": metadata}))


@given(st.text(max_size=4000), st.integers(1, 60))
def test_what_was_asked_for_comes_back(source: str, count: int) -> None:
    source = source.encode(errors="replace").decode()
    cases = tuple(Case(suite="latency", tool=Cyclictest(), load=f"load-{n}") for n in range(count))
    kernels = {arm: replace(KERNEL, source=source) for arm in ORDER.kernels}
    order = replace(ORDER, cases=cases, kernels=kernels)
    metadata = order.as_metadata()
    assert all(len(text) <= 1500 and text.isprintable() for text in metadata.values())
    # Who reads it may not be who wrote it. In the job, kernels get the same names.
    names = {arm: environment.kernel(json.dumps(asdict(kernel))) for arm, kernel in kernels.items()}
    read = orders.read(definition({**metadata, "branch": "x"}), "job 1")
    assert replace(read, kernels={}) == replace(order, kernels={})
    assert read.kernels == names
    assert {kernel.source for kernel in read.kernels.values()} == {plain_line(source)}


def test_a_job_of_somebody_else() -> None:
    for text in ("job_name: x\n", "metadata: [1]\n", "metadata: {a: b}\n", "- list\n", "[", "", "\0"):
        with pytest.raises(ConfigError, match="job 1 was not submitted by rtgate"):
            orders.read(Definition(text), "job 1")


@pytest.mark.parametrize("part", ["{", "[]", '{"format": 1}', "null", '{"format": 1, "board": {}}', "5"])
def test_damaged_metadata(part: str) -> None:
    with pytest.raises(ConfigError, match="job 1"):
        orders.read(definition({"rtgate.order.1": part}), "job 1")


def test_a_newer_format() -> None:
    with pytest.raises(ConfigError, match="request format 99"):
        orders.read(definition({"rtgate.order.1": '{"format": 99}'}), "job 1")


@pytest.mark.parametrize("name", ["../../etc", "/etc", "a/../../b", "x y", "", ".hidden", "a/b/c"])
def test_names_become_directories_and_so_are_checked(name: str) -> None:
    (case,) = ORDER.cases
    for order in (replace(ORDER, board=name), replace(ORDER, cases=(replace(case, suite=name),))):
        with pytest.raises(ConfigError, match="is not a name"):
            orders.read(definition(order.as_metadata()), "job 1")


@pytest.mark.parametrize("name", ["../../../../../pwned", "/etc", "a/b", "", "other"])
def test_arms_become_directories_and_so_are_checked(name: str) -> None:
    for order in (
        replace(ORDER, boots=("candidate", name)),
        replace(ORDER, kernels={**ORDER.kernels, name: KERNEL}),
        replace(ORDER, kernels={name: KERNEL}, boots=(name,)),
    ):
        with pytest.raises(ConfigError, match="is not a name of a kernel"):
            orders.read(definition(order.as_metadata()), "job 1")


@given(st.lists(st.text(max_size=12) | st.sampled_from(["baseline", "candidate"]), max_size=6))
def test_no_boot_is_of_an_arm_without_a_kernel(boots: list[str]) -> None:
    text = definition(replace(ORDER, boots=tuple(boots), kernels={"candidate": KERNEL}).as_metadata())
    if boots and set(boots) <= {"candidate"}:
        assert orders.read(text, "job 1").boots == tuple(boots)
        return
    with pytest.raises(ConfigError, match=r"is not a name of a kernel|of which it names no kernel|list no boots"):
        orders.read(text, "job 1")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernels": {}, "boots": ()}, "its metadata list no kernels, so it measures nothing"),
        ({"boots": ()}, "its metadata list no boots"),
        ({"cases": ()}, "its metadata list no cases"),
    ],
)
def test_a_job_that_measures_nothing_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"job 1: {message}"):
        orders.read(definition(replace(ORDER, **changes).as_metadata()), "job 1")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ([], "job 1 names no kernel"),
        ({**asdict(KERNEL), "name": 1}, "job 1 names no kernel"),
        ({"name": "k"}, "job 1 is not by this version of rtgate, .*: fetch with the version that submitted it"),
        ({**asdict(KERNEL), "later": "x"}, "job 1 is not by this version of rtgate"),
    ],
)
def test_a_kernel_in_metadata_is_read_as_strictly_as_in_a_job(entry: object, message: str) -> None:
    (text,) = ORDER.as_metadata().values()
    data = json.loads(text)
    data["kernels"]["candidate"] = entry
    with pytest.raises(ConfigError, match=message):
        orders.read(definition({"rtgate.order.1": json.dumps(data)}), "job 1")


@pytest.mark.parametrize("before", ["Infinity", "-3", "1.5", "true", '"2"', "1" * 4300])
def test_how_many_pairs_came_before_is_a_number_of_them(before: str) -> None:
    (text,) = replace(ORDER, before=7).as_metadata().values()
    with pytest.raises(ConfigError, match="job 1: its metadata are damaged"):
        orders.read(definition({"rtgate.order.1": text.replace('"before":7', f'"before":{before}')}), "job 1")
    assert orders.read(definition({"rtgate.order.1": text}), "job 1").before == 7


@pytest.mark.parametrize("load", ["..", "a/b", "x\0"])
def test_loads_are_part_of_a_name(load: str) -> None:
    order = replace(ORDER, cases=(replace(ORDER.cases[0], load=load),))
    if load == "..":
        assert orders.read(definition(order.as_metadata()), "job 1") == order  # `tool:..` leaves no directory
        return
    with pytest.raises(ConfigError, match="is not a name"):
        orders.read(definition(order.as_metadata()), "job 1")


def test_arms_in_turns() -> None:
    assert in_turns(("candidate",), 3) == ("candidate",) * 3
    assert "".join(arm[0] for arm in in_turns(("baseline", "candidate"), 4)) == "bccbbccb"


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MeasurementRequest:
    """Return a request with a site's profile that asks something else of the load on its board."""
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path))
    (tmp_path / "profiles.yaml").write_text(
        "ours: {description: d, duration: 1 s, seeds: 1, boots: 1, loads: {stress-ng: {cpu: 4}},\n"
        "  boards: {virt-arm64: {loads: {stress-ng: {cpu: 2}}}}}\n"
    )
    return replace(ORDER, profile="ours", cases=(replace(ORDER.cases[0], load="stress-ng"),))


def test_a_job_measures_what_the_profile_has_on_its_board(ours: MeasurementRequest, tmp_path: Path) -> None:
    """Also where only fetch makes a record: records of other options are judged by other limits."""
    boot = BootLog(number=1, attempts=1, firmware=(), faults=(), console="")
    (dead,) = write_dead_boot(ours.expected(), boot, State.NO_BOOT, "no prompt", tmp_path)
    assert dead.evidence.expectation.options == {"stress-ng cpu": 2}


def test_a_board_that_measures_by_itself_has_the_profile_of_the_board(ours: MeasurementRequest) -> None:
    fields = {
        "version": "1",
        "board": ours.board,
        "profile": ours.profile,
        "tuning": "default",
        "boot": 1,
        "arm": "candidate",
        "kernel": asdict(KERNEL),
        "cases": [{"case": cases_file.as_json(ours.cases[0]), "nonce": "F012345678"}],
    }
    expected = on_board.context(json.dumps(fields).encode()).expected
    assert expected.profile == ours.expected().profile
    assert expected.profile.loads == {"stress-ng": {"cpu": 2}}


def test_no_job_holds_a_board_for_hours() -> None:
    many = replace(ORDER, cases=ORDER.cases * 60, boots=in_turns(tuple(ORDER.kernels), 4))
    hanging = 2 * (2 * 10 + 20) + 60 + 90 + 20  # on host time
    assert (many.boot_s, many.usual_s) == (300 + 59 * (15 + 120) + hanging, 60 + 60 * 20)
    assert [part.boots for part in many.parts()] == [("baseline", "candidate"), ("candidate", "baseline")] * 2
    assert ORDER.parts() == (ORDER,)


@pytest.mark.parametrize("board", ["rk3568-evb1", "lab-virt-arm64"], ids=["real time", "host time"])
@pytest.mark.parametrize("profile", profiles.profiles())
def test_a_hang_is_found_before_lava_ends_the_test(board: str, profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nobody knows whose fault it is, and all of it is measured again."""
    for read in ((boards, "board"), (orders, "profile")):
        monkeypatch.setattr(*read, functools.cache(getattr(*read)))
    job = environment.read({"LAVA_CONNECTION_COMMAND": "telnet h 1"})
    waits = JobTarget.of(boards.board(board), job, profiles.profile(profile), threading.Event()).live.waits
    for kind in TOOLS.values():
        order = replace(ORDER, board=board, profile=profile, cases=(Case(suite="latency", tool=kind(), load="idle"),))
        deadline_s = case_plan.plan(order.cases[0], order.expected().arm(1), 1).deadline_s
        until_silence = waits.target * deadline_s + waits.spare
        assert order.boot_s >= 200 + until_silence + waits.hang + waits.attach, kind.name
        assert replace(order, cases=order.cases * 3).boot_s >= order.boot_s + 2 * (order.usual_s - 60)


def test_a_board_that_may_be_silent_for_long_is_given_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    board = boards.board("rk3568-evb1")
    before = replace(ORDER, board=board.name).boot_s
    patient = replace(board, console=replace(board.console, silence_s=600))
    monkeypatch.setattr(boards, "board", lambda _name: patient)
    assert replace(ORDER, board=board.name).boot_s == before + 2 * 600 - 60 - 45


def test_a_board_that_cools_down_is_given_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ORDER.boot_s
    board = boards.board(ORDER.board)
    monkeypatch.setattr(boards, "board", lambda _name: replace(board, cool_to=55))
    assert ORDER.boot_s == before + LONGEST_S


def test_a_board_that_writes_its_test_files_first_is_given_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    board = boards.board(ORDER.board)
    nvme = Storage(
        serial="1",
        model="",
        overwrite=Overwrite.PARTITION,
        name="rtgate-test",
        file_system=FileSystem.EXT4,
        size_mib=65536,
    )
    order = replace(ORDER, cases=(*ORDER.cases, Case(suite="nvme", tool=FioRead(), load="idle")))
    seconds = []
    for size in (20_000, 80_000):
        monkeypatch.setattr(boards, "board", lambda _name, size=size: replace(board, nvme=replace(nvme, size_mib=size)))
        seconds.append(order.boot_s)
    # Both while it is written as usual, and while the board hangs: its time is the host's, and may pass twice as fast.
    assert seconds[1] - seconds[0] == pytest.approx(2 * (60_000 << 20) / 20e6, abs=1)


def test_a_boot_that_takes_longer_than_an_hour_is_a_job_all_the_same() -> None:
    order = replace(ORDER, cases=ORDER.cases * 1000)
    assert [part.boots for part in order.parts()] == [("baseline", "candidate"), ("candidate", "baseline")]


def test_what_is_expected() -> None:
    expected = ORDER.expected()
    assert (expected.board.name, expected.boots, expected.cases) == ("virt-arm64", ORDER.boots, ORDER.cases)
    with pytest.raises(ConfigError, match="unknown name 'nowhere'"):
        replace(ORDER, board="nowhere").expected()
