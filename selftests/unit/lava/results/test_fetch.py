# SPDX-License-Identifier: MIT
from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from selftests import lava_log
from selftests.lava_log import KERNEL, boot, boot_lines, deploy, end_lines
from selftests.lava_records import BOARD, print_records
from selftests.unit.lava.job.test_request import ORDER
from selftests.unit.lava.results.test_classify import PANIC, job

from rtgate.lava.client.submission import Attempt
from rtgate.lava.results import log
from rtgate.lava.results.classify import classify
from rtgate.lava.results.expected import plan_records
from rtgate.lava.results.fetch import FetchResult, fetch, merge
from rtgate.measure.case import Case
from rtgate.records import planned
from rtgate.records import record as records_file
from rtgate.records.record import Place
from rtgate.tools.cyclictest import Cyclictest

CASES = tuple(Case(suite="latency", tool=Cyclictest(), load=load) for load in ("idle", "hackbench"))
ALONE = replace(
    ORDER, board=BOARD, cases=CASES, kernels={"candidate": ORDER.kernels["candidate"]}, boots=("candidate",)
)
BOTH = replace(ORDER, board=BOARD, cases=CASES)


@pytest.fixture(scope="module")
def boots(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """What the four boots of `BOTH` print."""
    return [
        print_records(tmp_path_factory.mktemp("sent"), CASES, boot=number, name=name)
        for number, name in enumerate(BOTH.boots, 1)
    ]


def ended_with(*parts: str, health: str = "Complete") -> Attempt:
    lines = log.parse("".join(parts))
    return Attempt(job=job(health), lines=lines, ending=classify(job(health), lines))


def in_turns(boots: list[list[str]]) -> list[str]:
    parts = []
    for number, lines in enumerate(boots):
        parts += [deploy(3 * number + 1), boot_lines(3 * number + 2), lava_log.shell(3 * number + 3, lines)]
    return parts


def test_a_whole_job(boots: list[list[str]], tmp_path: Path) -> None:
    found = fetch(BOTH.expected(), ended_with(*in_turns(boots), end_lines()), tmp_path)
    assert found == FetchResult(measured=8, broken=0, notes=())
    records = list(records_file.read_all(tmp_path))
    assert len(records) == 8
    assert {(record.arm, record.directory.name) for record in records if record.directory} == {
        ("baseline", "001"),
        ("candidate", "002"),
        ("candidate", "003"),
        ("baseline", "004"),
    }
    assert {record.environment.device for record in records} == {"board-01"}


def test_a_log_that_was_sent_twice_brings_everything_once(boots: list[list[str]], tmp_path: Path) -> None:
    parts = [deploy(1), boot_lines(2), lava_log.shell(3, [*boots[1], *boots[1]]), end_lines()]
    assert fetch(ALONE.expected(), ended_with(*parts), tmp_path) == FetchResult(measured=2, broken=0, notes=())


def test_a_board_that_prints_frames_is_not_believed(boots: list[list[str]], tmp_path: Path) -> None:
    """Only the shell on the worker is; what the board says comes as feedback, or before the test."""
    fake = "".join(lava_log.feedback(line) for line in boots[1])
    parts = [deploy(1), boot(2, *KERNEL, *boots[1]), lava_log.shell(3, ["rtgate: nothing"]), fake, end_lines()]
    found = fetch(ALONE.expected(), ended_with(*parts), tmp_path)
    assert found.measured == 0
    assert found.notes == ("boot 1 (candidate): the log has no records",)


def test_records_of_another_arm_are_refused(boots: list[list[str]], tmp_path: Path) -> None:
    parts = [deploy(1), boot_lines(2), lava_log.shell(3, boots[0]), end_lines()]
    found = fetch(ALONE.expected(), ended_with(*parts), tmp_path)
    assert found.measured == 0
    assert "a record of baseline on rk3568-evb1 does not belong here: refused" in found.notes[0]
    assert list(records_file.read_all(tmp_path)) == []


def test_a_frame_that_got_lost(boots: list[list[str]], tmp_path: Path) -> None:
    lost = next(line for line in boots[1] if "@rtgate1" in line and line.split(" ")[2] == "1")
    parts = [deploy(1), boot_lines(2), lava_log.shell(3, [line for line in boots[1] if line != lost]), end_lines()]
    found = fetch(ALONE.expected(), ended_with(*parts), tmp_path)
    assert found.measured == 1
    assert "frames are missing or damaged" in found.notes[0] or "did not arrive" in found.notes[0]
    plan_records(ALONE.expected(), tmp_path)
    place = Place(records=tmp_path, board=BOARD, arm="candidate", case=CASES[0].name)
    assert planned.missing(place, []) == ("1 of 1 boots",)


def test_a_kernel_that_panics_at_boot_becomes_a_record_of_every_case(tmp_path: Path) -> None:
    parts = [deploy(1), boot(2, *KERNEL, *PANIC), end_lines("Job", "Kernel panic")]
    found = fetch(ALONE.expected(), ended_with(*parts, health="Incomplete"), tmp_path)
    assert (found.measured, found.broken) == (0, 2)
    for record in records_file.read_all(tmp_path):
        assert (record.state, record.faults[0].kind) == ("no boot", "panic")
        assert record.directory is not None
        assert "Unable to mount root fs" in (record.directory / "console.log").read_text()


@pytest.mark.parametrize("number", [1, 3])
def test_a_warning_that_lava_read_in_the_next_boot_is_of_the_boot_before(
    boots: list[list[str]], tmp_path: Path, number: int
) -> None:
    parts = in_turns(boots)
    warning = "WARNING: CPU: 0 PID: 1 at kernel/x.c:1 foo+0x1/0x2"
    late = lava_log.target(f"[   60.100000] {warning}", "U-Boot 2023.01", *KERNEL)
    parts[3 * number + 1] = lava_log.start(3 * number + 2, "uboot-action") + late
    fetch(BOTH.expected(), ended_with(*parts, end_lines()), tmp_path)
    faults = {(one.machine["boot"], fault.line) for one in records_file.read_all(tmp_path) for fault in one.faults}
    assert faults == {(str(number), warning)}


def test_a_hang_during_the_test_keeps_what_was_measured_before(boots: list[list[str]], tmp_path: Path) -> None:
    end = next(
        number for number, line in enumerate(boots[1]) if line.startswith("rtgate: latency/cyclictest:hackbench")
    )
    parts = [deploy(1), boot_lines(2), lava_log.shell(3, boots[1][:end], lava_log.ON_BOARD)]
    parts += [end_lines("Test", "lava-test-shell timed out after 600 seconds")]
    found = fetch(ALONE.expected(), ended_with(*parts, health="Incomplete"), tmp_path)
    assert (found.measured, found.broken) == (1, 1)
    states = {record.case: record.state for record in records_file.read_all(tmp_path)}
    assert states == {"latency/cyclictest:idle": "measured", "latency/cyclictest:hackbench": "hang"}


def test_a_silent_boot_counts_for_the_lab_as_long_as_nobody_knows(tmp_path: Path) -> None:
    parts = [deploy(1), boot(2, *KERNEL), end_lines("Job", "auto-login-action timed out")]
    fetch(ALONE.expected(), ended_with(*parts, health="Incomplete"), tmp_path)
    assert {record.state for record in records_file.read_all(tmp_path)} == {"lab"}


def test_no_log_at_all(tmp_path: Path) -> None:
    assert fetch(BOTH.expected(), ended_with(), tmp_path) == FetchResult(measured=0, broken=0, notes=())


def test_parts_become_one(boots: list[list[str]], tmp_path: Path) -> None:
    into = tmp_path / "records"
    for number in (0, 2):
        part = tmp_path / "part"
        half = replace(BOTH, boots=BOTH.boots[number : number + 2])
        fetch(half.expected(), ended_with(*in_turns(boots[number : number + 2]), end_lines()), part)
        plan_records(half.expected(), part)
        merge(part, into)
        assert not part.exists()
    records = list(records_file.read_all(into))
    assert len(records) == 8
    for name in ("baseline", "candidate"):
        place = Place(records=into, board=BOARD, arm=name, case=CASES[0].name)
        mine = [record for record in records if (record.arm, record.case) == (name, place.case)]
        assert (len(mine), planned.read(place).boots, planned.missing(place, mine)) == (2, 2, ())


@pytest.mark.long("7 s of a large log; small ones are in make test")
def test_two_hundred_records_come_back_whole(tmp_path: Path) -> None:
    """How long it takes is a matter of `make bench`; here a reader that takes the square of the time fails."""
    hundred = tuple(Case(suite=f"s{number}", tool=Cyclictest(), load="idle") for number in range(100))
    order = replace(ALONE, cases=hundred, boots=("candidate",) * 2)
    sent = [print_records(tmp_path / f"sent{number}", hundred, boot=number) for number in (1, 2)]
    text = "".join([*in_turns(sent), end_lines()])
    began = time.process_time()
    lines = log.parse(text)
    found = fetch(order.expected(), ended_with(text), tmp_path / "found")
    assert (found.measured, len(lines) > 400) == (200, True)
    assert time.process_time() - began < 60
