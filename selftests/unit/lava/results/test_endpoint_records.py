# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from selftests import lava_log
from selftests.fake_target import measured_outcome
from selftests.lava_log import boot_lines, deploy, end_lines
from selftests.lava_records import print_on_board
from selftests.unit.lava.job.test_request import ORDER
from selftests.unit.lava.results.test_classify import job

from rtgate.lava.client.submission import Attempt
from rtgate.lava.results import log
from rtgate.lava.results.blame import ending_of_endpoint
from rtgate.lava.results.classify import classify
from rtgate.lava.results.fetch import fetch
from rtgate.measure.case import Case
from rtgate.records import record as records_file
from rtgate.records.record import Record
from rtgate.tools.cyclictest import Cyclictest

CASES = tuple(Case(suite="latency", tool=Cyclictest(), load=load) for load in ("idle", "hackbench"))
ALONE = replace(ORDER, cases=CASES, kernels={"candidate": ORDER.kernels["candidate"]}, boots=("candidate",))
OOPS = b"[   61.000000] Internal error: Oops: 0000000096000004 [#1] PREEMPT_RT SMP\n"
WARNING = b"[   60.000000] WARNING: CPU: 0 PID: 1 at drivers/pci/endpoint/x.c:1 foo+0x1/0x2\n"


def fetched(printed: list[str], directory: Path, health: str = "Complete") -> dict[str, Record]:
    """Return the records of an endpoint's job, by load."""
    over = end_lines() if health == "Complete" else end_lines("Test", "multinode-test timed out after 60 seconds")
    lines = log.parse("".join([deploy(1), boot_lines(2), lava_log.shell(3, printed, lava_log.TOGETHER), over]))
    ending = ending_of_endpoint(classify(job(health), lines))
    fetch(ALONE.expected(), Attempt(job=job(health), lines=lines, ending=ending), directory)
    return {record.case.rpartition(":")[2]: record for record in records_file.read_all(directory)}


def test_a_case_during_which_the_kernel_died_is_the_lab_s_and_its_warnings_stay(tmp_path: Path) -> None:
    """Nobody saw it on the console, so the job came to its end."""
    records = fetched(print_on_board(CASES, ORDER.board, outcome=measured_outcome(dmesg=WARNING + OOPS)), tmp_path)
    for record in records.values():
        assert record.state == "lab"
        assert record.message.startswith("the endpoint's kernel died: oops: ")
        assert [fault.kind.value for fault in record.faults] == ["warning"]


@pytest.mark.parametrize(("health", "state"), [("Complete", "unreadable"), ("Incomplete", "lab")])
def test_results_that_are_not_whole_are_the_lab_s_if_the_job_broke(health: str, state: str, tmp_path: Path) -> None:
    printed = print_on_board(CASES, ORDER.board)
    nonce = next(line.split(" ")[3] for line in printed if line.startswith("rtgate: case 1 "))
    records = fetched([line for line in printed if not line.startswith(f"{nonce} 2 ")], tmp_path, health)
    assert records["idle"].state == state
    assert "1 of " in records["idle"].message
    assert records["hackbench"].state == "measured"
