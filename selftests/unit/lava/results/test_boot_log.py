# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.fake_target import FakeTarget, arm

from rtgate.board import boards
from rtgate.console.faults import Fault, FaultKind, banner
from rtgate.lava.results import boot_log, expected
from rtgate.lava.results.boot_log import BootLog
from rtgate.lava.results.expected import Expected
from rtgate.lava.results.log import LogLine
from rtgate.lava.results.phases import Beginning, boots
from rtgate.measure.case import Case
from rtgate.measure.case_record import measure
from rtgate.measure.profiles import profile
from rtgate.records import planned
from rtgate.records import record as records_file
from rtgate.records.record import KernelIdentity, Place, Record
from rtgate.target.outcome import State
from rtgate.tools.cyclictest import Cyclictest
from rtgate.validity.registry import checks

BOARD = "virt-arm64"


def line(level: str, text: str) -> LogLine:
    return LogLine(number=0, time="", level=level, message=text, namespace="common")


def lava(text: str) -> LogLine:
    return line("info", text)


def board(text: str) -> list[LogLine]:
    return [line("target", said) for said in text.strip("\n").split("\n")]


FIRMWARE = """
DDR V1.13 25cee80c4f cym 23/08/11-09:31:58,fwver: v1.13
U-Boot SPL 2017.09-g9ddc0787bd-231018 #zjh (Oct 18 2023 - 16:50:08)
NOTICE:  BL31: v2.3():v2.3-589-g3389cfdda:derrick.huang, fwver: v1.02
NOTICE:  BL31: Built : 10:14:29, Nov  2 2023
INFO:    L3 cache partition cfg-cc33
I/TC: OP-TEE version: 3.13.0-723-gdcfdd61d0 #hisping.lin
U-Boot 2017.09-g3f4a0b1 (Nov 20 2023 - 10:00:00 +0800)
Hit any key to stop autoboot:  0
=> booti 0x280000 0xa200000 0x8300000
Starting kernel ...
[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x412fd050]
[    0.000000] Linux version 6.12.107 (a@b) (gcc) #1 SMP PREEMPT_RT
[    0.000000] psci: PSCIv1.1 detected in firmware.
"""
TOLD = (
    "DDR V1.13 25cee80c4f cym 23/08/11-09:31:58,fwver: v1.13",
    "U-Boot SPL 2017.09-g9ddc0787bd-231018 #zjh (Oct 18 2023 - 16:50:08)",
    "NOTICE:  BL31: v2.3():v2.3-589-g3389cfdda:derrick.huang, fwver: v1.02",
    "NOTICE:  BL31: Built : 10:14:29, Nov  2 2023",
    "L3 cache partition cfg-cc33",
    "I/TC: OP-TEE version: 3.13.0-723-gdcfdd61d0 #hisping.lin",
    "U-Boot 2017.09-g3f4a0b1 (Nov 20 2023 - 10:00:00 +0800)",
    "psci: PSCIv1.1 detected in firmware.",
)
PANIC = "[    1.000000] Kernel panic - not syncing: VFS: Unable to mount root fs\n"
WARNING = "[    0.500000] WARNING: CPU: 0 PID: 1 at kernel/x.c:1 f+0x1/0x2\n[    0.500100] Modules linked in:\n"


def job(*boots: str, ends: str = "test") -> list[LogLine]:
    """Return the log of a job; the last boot may end without a test."""
    log: list[LogLine] = [lava("lava-dispatcher, installed at version: 2023.01")]
    number = 0
    for index, text in enumerate(boots):
        log += [lava(f"start: {number + 1} tftp-deploy (timeout 00:10:00) [common]"), line("debug", "downloading")]
        log += [lava(f"end: {number + 1} tftp-deploy (duration 00:00:01) [common]")]
        log += [lava(f"start: {number + 2} uboot-action (timeout 00:08:00) [common]")]
        log += [line("debug", f"start: {number + 2}.1 reset-device (timeout 00:00:30) [common]"), *board(text)]
        if index < len(boots) - 1 or ends == "test":
            log += [lava(f"end: {number + 2} uboot-action (duration 00:00:10) [common]")]
            log += [lava(f"start: {number + 3} lava-docker-test-retry (timeout 00:30:00) [common]")]
            log += [line("debug", f"start: {number + 3}.1 lava-docker-test-shell (timeout 00:30:00) [common]")]
            log += [*board("U-Boot 2099.01 of a liar\n" + PANIC), line("feedback", PANIC)]
            log += [lava(f"end: {number + 3} lava-docker-test-retry (duration 00:00:30) [common]")]
        number += 3
    return [*log, lava(f"start: {number + 1} finalize (timeout 00:00:30) [common]"), *board(PANIC)]


def told(log: Sequence[LogLine]) -> tuple[BootLog, ...]:
    return tuple(boot_log.parse_boot_log(boot) for boot in boots(log))


def test_firmware_and_faults_of_each_boot_are_told_apart() -> None:
    first, second = told(job(FIRMWARE, FIRMWARE + WARNING))
    assert (first.number, first.attempts, first.firmware, first.faults) == (1, 1, TOLD, ())
    assert [fault.kind.value for fault in second.faults] == ["warning"]


def test_what_newer_kernels_print_of_the_board_is_no_firmware() -> None:
    bios = "DMI: Intel Corporation NUC6CAYH/NUC6CAYB, BIOS AYAPLCEL.86A.0066.2020.1202.1127 12/02/2020"
    (boot,) = told(job(f"[    0.000000] {bios}\n[    0.000000] DMI: Memory slots populated: 2/2\n"))
    assert boot.firmware == (bios,)


@pytest.mark.parametrize(
    "version",
    [
        "U-Boot 2023.01+dfsg-2+deb12u3 (Jun 22 2026 - 08:38:07 +0000)",
        "barebox 2023.08.0-00042-gabcdef #1 Tue Aug 22 10:00:00 UTC 2023",
        "iPXE 1.21.1 -- Open Source Network Boot Firmware -- http://ipxe.org",
        "GNU GRUB  version 2.06-13+deb12u1",
        "UEFI firmware (version 2022.11-6 built at 00:00:00 on Jan  1 2023)",
        "SeaBIOS (version 1.16.2-debian-1.16.2-1)",
    ],
)
def test_every_boot_loader_is_firmware_and_begins_a_boot(version: str) -> None:
    (boot,) = told(job(f"{version}\n[    0.000000] Linux version 6.12"))
    assert boot.firmware == (version,)
    assert banner(f"rtgate: plan started\r\n{version}\r\n") == version
    assert Beginning().matches(version)
    assert not banner(f"rtgate: {version[:6]} is what the board boots with\r\n")


def test_a_panic_in_an_attempt_that_was_repeated_stays() -> None:
    (boot,) = told(job(FIRMWARE + PANIC + FIRMWARE))
    assert (boot.attempts, [fault.kind.value for fault in boot.faults]) == (2, ["panic"])


def test_a_lost_end_of_a_test_hides_no_boot() -> None:
    log = [one for one in job(FIRMWARE, FIRMWARE + WARNING) if not one.text.startswith("end: 3 ")]
    assert [len(boot.faults) for boot in told(log)] == [0, 1]


@pytest.mark.parametrize(
    ("text", "attempts"),
    [
        ("U-Boot 2023.01\n=> tftp\nTIMEOUT", 0),
        ("U-Boot 2023.01\nStarting kernel ...", 0),
        ("iPXE 1.21.1 -- Open Source\n[    0.000000] Linux version 6.12", 1),
    ],
)
def test_how_often_a_kernel_started(text: str, attempts: int) -> None:
    (boot,) = told(job(text, ends="boot"))
    assert boot.attempts == attempts


@given(st.lists(st.tuples(st.sampled_from(["target", "info", "debug"]), st.text(max_size=60)), max_size=20))
def test_any_log_is_read_and_nothing_of_it_can_control_a_terminal(entries: list[tuple[str, str]]) -> None:
    log = [*job(FIRMWARE)[:8], *(line(level, f"U-Boot 2020.01 {text}") for level, text in entries)]
    for boot in told(log):
        assert all(word.isprintable() for word in boot.firmware)


# --- what a job owes

CASES = tuple(Case(suite="latency", tool=Cyclictest(), load=load) for load in ("idle", "hackbench"))
KERNELS = {
    name: KernelIdentity(name=name, flavour="preempt_rt", release="", image_sha256="", source="", provenance="unknown")
    for name in ("baseline", "candidate")
}
BOOTS = ("baseline", "candidate", "candidate", "baseline")


def owed(boots: tuple[str, ...] = BOOTS) -> Expected:
    return Expected(
        board=boards.board(BOARD),
        profile=profile("smoke"),
        tuning="default",
        cases=CASES,
        boots=boots,
        kernels=KERNELS,
    )


CLOSED = "the console socket://lab:7001 closed: connection reset"


def measured(
    directory: Path, number: int, state: str = "measured", message: str = "", cases: tuple[Case, ...] = CASES
) -> None:
    """Write the records of one boot."""
    for case in cases:
        made = arm(FakeTarget(), BOOTS[number - 1], time="real")
        record, outcome = measure(case, made, number)
        record = replace(record, machine={"boot": str(number)}, state=State(state), message=message)
        records_file.write(record, outcome.files, outcome.console, directory)


def missed(directory: Path, name: str) -> dict[str, tuple[str, ...]]:
    found = {}
    for case in CASES:
        place = Place(records=directory, board=BOARD, arm=name, case=case.name)
        there = [one for one in records_file.read_all(directory) if (one.arm, one.case) == (name, case.name)]
        found[case.load] = planned.missing(place, there)
    return found


def test_a_job_that_never_measured_is_missed(tmp_path: Path) -> None:
    expected.plan_records(owed(), tmp_path)
    assert missed(tmp_path, "candidate") == {"idle": ("2 of 2 boots",), "hackbench": ("2 of 2 boots",)}
    expected.plan_records(owed(), tmp_path)
    assert missed(tmp_path, "candidate")["idle"] == ("2 of 2 boots",)


def test_a_kernel_that_dies_at_boot_fails_every_case_of_that_boot(tmp_path: Path) -> None:
    (boot,) = told(job(FIRMWARE + PANIC, ends="boot"))
    boot = replace(boot, number=2)
    found = expected.write_dead_boot(owed(), boot, State.NO_BOOT, "the kernel panicked", tmp_path)
    assert [(one.case, one.arm, one.state) for one in found] == [
        ("latency/cyclictest:idle", "candidate", "no boot"),
        ("latency/cyclictest:hackbench", "candidate", "no boot"),
    ]
    assert [fault.kind for fault in found[0].faults] == ["panic"]
    assert found[0].machine["boot"] == "2"
    assert found[0].directory is not None
    assert b"Kernel panic" in (found[0].directory / "console.log").read_bytes()


def records(directory: Path) -> list[Record]:
    return list(records_file.read_all(directory))


def test_what_lava_saw_goes_into_the_records_of_its_boot_once(tmp_path: Path) -> None:
    measured(tmp_path, 1)
    measured(tmp_path, 2)
    seen = told(job(FIRMWARE, FIRMWARE + WARNING))
    for _ in range(2):
        expected.with_boots(tmp_path, seen, "rk3568-07")
    for one in records(tmp_path):
        assert one.environment.firmware == "; ".join(TOLD)
        assert one.environment.device == "rk3568-07"
        assert [fault.kind for fault in one.faults] == (["warning"] if one.machine["boot"] == "2" else [])
        assert one.directory is not None
        assert b"U-Boot SPL" in (one.directory / "boot.log").read_bytes()
    assert not records(tmp_path)[0].environment.incomparable(records(tmp_path)[-1].environment)


def test_a_fault_of_the_boot_that_the_kernel_log_has_too_is_there_once(tmp_path: Path) -> None:
    measured(tmp_path, 1)
    (boot,) = told(job(FIRMWARE + WARNING))
    one = records(tmp_path)[0]
    line = "WARNING: CPU: 0 PID: 1 at kernel/x.c:1 f+0x1/0x2"
    same = Fault(kind=FaultKind("warning"), line=line, text=WARNING)
    assert boot_log.merge_boot(replace(one, faults=(same,)), boot, "x").faults == (same,)
    trace = f"[    9.000000] {line}\npc : {{}}+0x1/0x2\n"
    again, other = (Fault(kind=FaultKind("warning"), line=line, text=trace.format(name)) for name in ("f", "g"))
    assert boot_log.merge_boot(replace(one, faults=(again,)), boot, "x").faults == (again,)
    assert [fault.text for fault in boot_log.merge_boot(replace(one, faults=(other,)), boot, "x").faults] == [
        WARNING.rstrip("\n"),
        other.text,
    ]


def test_pins_hold_for_what_lava_saw(tmp_path: Path) -> None:
    """What a board's file pins is in the record from the job, what was told comes from LAVA's log."""
    made = arm(FakeTarget(), time="real")
    pinned = replace(made.board, firmware={"BL31": r"BL31: v2\.3.*fwver: v1\.02$", "DDR": "^DDR V1.13 "})
    record, outcome = measure(CASES[0], replace(made, board=pinned), 1)
    records_file.write(replace(record, machine={"boot": "1"}), outcome.files, outcome.console, tmp_path)
    assert _pinned(tmp_path) == "failed"
    expected.with_boots(tmp_path, told(job(FIRMWARE)), "rk3568-07")
    assert _pinned(tmp_path) == "ok"
    (record,) = records(tmp_path)
    changed = replace(record.environment, firmware=record.environment.firmware.replace("v1.02", "v1.01"))
    records_file.rewrite(replace(record, environment=changed), {})
    assert _pinned(tmp_path) == "failed"


def _pinned(directory: Path) -> str:
    (record,) = records(directory)
    (found,) = (check.result.value for check in checks(record, {}) if check.name == "firmware")
    return found


def test_records_of_two_devices_are_not_compared(tmp_path: Path) -> None:
    measured(tmp_path / "a", 1)
    measured(tmp_path / "b", 1)
    seen = told(job(FIRMWARE))
    expected.with_boots(tmp_path / "a", seen, "rk3568-07")
    expected.with_boots(tmp_path / "b", seen, "rk3568-08")
    found = records(tmp_path / "a")[0].environment.incomparable(records(tmp_path / "b")[0].environment)
    assert found == ("device: 'rk3568-07' against 'rk3568-08'",)


def test_a_pair_that_the_lab_broke_is_discarded_whole(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        measured(tmp_path, number)
    measured(tmp_path, 4, state="lab", message=CLOSED)
    expected.plan_records(owed(), tmp_path)
    told = expected.without_broken_pairs(tmp_path, BOOTS)
    assert told == ("boots 3 and 4 are left out: the lab failed in one of them",)
    assert {one.machine["boot"] for one in records(tmp_path)} == {"1", "2"}
    assert missed(tmp_path, "candidate")["idle"] == ()
    assert missed(tmp_path, "baseline")["idle"] == ()


def test_a_boot_without_records_breaks_its_pair_and_is_missed(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        measured(tmp_path, number)
    _left_out_and_missed(tmp_path)


@pytest.mark.parametrize(
    "message",
    [
        "no shell came up: the target does not answer",
        f"not measured: no shell came up for latency/cyclictest:idle, earlier; {CLOSED}",
        "not measured: the log has nothing of this case",
        "the console socket://lab:7001 does not take data: Write timeout",
        "the board is at 80 C after 600 s of rest; 55 C is asked",
        "",
    ],
)
def test_a_pair_that_a_frozen_kernel_may_have_broken_is_missed(message: str, tmp_path: Path) -> None:
    for number in (1, 2, 4):
        measured(tmp_path, number)
    measured(tmp_path, 3, cases=CASES[:1])
    measured(tmp_path, 3, state="lab", message=message, cases=CASES[1:])
    _left_out_and_missed(tmp_path)


def test_a_pair_in_which_a_case_has_no_record_is_missed(tmp_path: Path) -> None:
    """The kernel may have frozen in that case, before the lab lost the console."""
    for number in (1, 2):
        measured(tmp_path, number)
    measured(tmp_path, 3, state="lab", message=CLOSED, cases=CASES[:1])
    measured(tmp_path, 4, cases=CASES[:1])
    _left_out_and_missed(tmp_path)


def _left_out_and_missed(directory: Path) -> None:
    expected.plan_records(owed(), directory)
    told = expected.without_broken_pairs(directory, BOOTS)
    assert told == ("boots 3 and 4 are left out: one of them is not whole, and that is missed",)
    assert {one.machine["boot"] for one in records(directory)} == {"1", "2"}
    assert set(missed(directory, "candidate").values()) == {("1 of 2 boots",)}


@pytest.mark.parametrize("state", ["kernel fault", "hang", "no boot"])
def test_a_kernel_that_failed_is_no_broken_pair(state: str, tmp_path: Path) -> None:
    for number in (1, 2, 4):
        measured(tmp_path, number)
    measured(tmp_path, 3, state=state)
    assert expected.without_broken_pairs(tmp_path, BOOTS) == ()
    assert len(records(tmp_path)) == 8


def test_the_last_pair_is_never_discarded(tmp_path: Path) -> None:
    measured(tmp_path, 1)
    expected.plan_records(owed(), tmp_path)
    assert expected.without_broken_pairs(tmp_path, BOOTS) == ()
    assert missed(tmp_path, "candidate")["idle"] == ("2 of 2 boots",)
