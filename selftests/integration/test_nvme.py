# SPDX-License-Identifier: MIT
"""Storage of a virtual board that is not as its file says, and one that goes while it is written to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from selftests.campaigns.comparisons import with_evidence

from rtgate.board.storage import Overwrite, Storage
from rtgate.judge.judging import Subject, judge
from rtgate.judge.thresholds import Thresholds
from rtgate.judge.verdict import Status, Verdict, worst
from rtgate.measure.case import Arm, Case
from rtgate.measure.case_plan import plan
from rtgate.measure.case_record import make_record, measure
from rtgate.records.record import Record
from rtgate.tools.fio import FioWrite
from rtgate.tools.loads import Load
from rtgate.workflow.arms import ArmRequest, make_arms

CASE = Case(suite="nvme", tool=FioWrite(), load="idle")
PULL = "sleep 2; echo 1 >/sys/bus/pci/devices/0000:01:00.0/remove; exec sleep 1000"


@pytest.fixture(scope="module")
def arm(pcie_kernel: Path) -> Arm:
    request = ArmRequest(board="virt-arm64", kernels={"candidate": pcie_kernel}, profile="smoke")
    (made,) = make_arms(request)
    return made


def _verdicts(record: Record) -> tuple[Verdict, ...]:
    subject = Subject(
        case=record.case,
        board=record.board,
        arm=record.arm,
        flavour=record.kernel.flavour,
        records=(with_evidence(record),),  # never written, so no file names its raw output
        not_applicable={"steady": "an emulated disk is as fast as the host lets it be"},
    )
    return judge(subject, Thresholds())


def test_a_disk_that_goes_while_it_is_written_to_fails_the_kernel(arm: Arm) -> None:
    asked = plan(CASE, arm, 1)
    asked = replace(asked, load=Load(name="idle", argv=("sh", "-c", PULL)), duration_s=6)
    outcome = arm.target.run(asked)
    record = make_record(CASE, arm, asked, outcome)
    assert record.state == "measured"
    errors = [one for one in record.measurements if one.name == "io.errors"]
    assert errors
    assert all(one.labels["error"].startswith(("EIO", "ENODEV", "EROFS")) for one in errors)
    found = _verdicts(record)
    assert worst(found) is Status.FAIL
    assert any("io.errors was 1 count" in verdict.sentence for verdict in found)


def test_the_scheduler_of_the_board_s_file_is_used_and_put_back(arm: Arm) -> None:
    assert arm.board.nvme is not None
    scheduled = replace(arm, board=replace(arm.board, nvme=replace(arm.board.nvme, scheduler="kyber")))
    asked = plan(CASE, scheduled, 1)
    outcome = scheduled.target.run(replace(asked, kernel_log="cat /sys/block/nvme0n1/queue/scheduler"))
    assert [line.split() for line in outcome.files["storage"].splitlines()[1:]] == [
        b"none [mq-deadline] kyber".split(),
        b"none mq-deadline [kyber]".split(),
    ]
    assert outcome.files["dmesg"].split() == b"none [mq-deadline] kyber".split()  # read when the storage was released
    record = make_record(CASE, scheduled, asked, outcome)
    assert record.environment.storage.endswith(", ext4, libaio, kyber")


def _refused(arm: Arm, **changes: object) -> Record:
    assert arm.board.nvme is not None
    storage: Storage = replace(arm.board.nvme, **changes)  # type: ignore[arg-type]
    record, outcome = measure(CASE, replace(arm, board=replace(arm.board, nvme=storage)), 1)
    assert "tool.out" not in outcome.files
    assert "fill.json" not in outcome.files
    return record


def test_another_disk_is_not_written_to(arm: Arm) -> None:
    record = _refused(arm, serial="S64DNX0T123456")
    assert record.state == "device lost"
    assert record.message == (
        "the kernel shows no NVMe disk with the serial number S64DNX0T123456 (there are: rtgate-nvme)"
    )
    assert worst(_verdicts(record)) is Status.MISS


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model": "Samsung SSD 980 1TB"}, "is a QEMU NVMe Ctrl and not a Samsung SSD 980 1TB"),
        ({"overwrite": Overwrite.PARTITION, "name": "rtgate"}, "nvme0n1 has no partition called rtgate"),
        ({"overwrite": Overwrite.FILE, "name": "/tmp/rtgate.test"}, "/tmp does not lie on the disk rtgate-nvme"),
        ({"scheduler": "bfq"}, "the kernel has no I/O scheduler bfq for nvme0n1 (it has: none [mq-deadline] kyber)"),
        ({"size_mib": 4096}, "/dev/nvme0n1 is too small for a test file of 4294967296 bytes"),
    ],
)
def test_what_is_not_as_the_board_s_file_says_is_refused(arm: Arm, changes: dict[str, object], reason: str) -> None:
    record = _refused(arm, **changes)
    assert record.state == "lab"
    assert reason in record.message
    assert record.message.endswith("nothing was written")
    assert worst(_verdicts(record)) is Status.MISS
