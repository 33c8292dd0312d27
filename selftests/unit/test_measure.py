# SPDX-License-Identifier: MIT
from __future__ import annotations

import hashlib
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selftests.fake_target import FakeTarget, arm, files, measured

from rtgate.console.faults import scan
from rtgate.errors import InfrastructureError
from rtgate.judge.validity import Held, checks
from rtgate.measure import Case, flavour, measure, plan
from rtgate.record import LoadSeen, Record, Thread
from rtgate.target.outcome import LineQuality, Outcome, State
from rtgate.tools.cyclictest import Cyclictest

CASE = Case(suite="latency", tool=Cyclictest(), load="hackbench")


def _record(outcome: Outcome, time: str = "virtual") -> Record:
    return measure(CASE, arm(FakeTarget({None: outcome}), time=time), 3)[0]


def test_a_real_boot_becomes_a_valid_record() -> None:
    found = _record(replace(measured(), line=LineQuality(received=9, damaged=1, repeated=2)))
    assert (found.case, found.board, found.arm, found.profile) == (
        *("latency/cyclictest:hackbench", "virt-arm64", "candidate", "smoke"),
    )
    assert (found.state, found.message, found.seed) == ("measured", "", 3)
    assert found.boot_id == "2bc343bb-0303-4c11-899a-760055fa73c3"
    assert found.line == {"received": 9, "damaged": 1, "repeated": 2}
    assert len(found.measurements) == 6
    assert {check.held for check in checks(found, {})} == {Held.OK}


def test_the_environment_is_what_target_board_and_host_said() -> None:
    environment = _record(measured()).environment
    assert environment.time == "virtual"
    assert environment.instruction_ns == "8"
    assert environment.cpu_model == "cortex-a57"
    assert environment.emulator == "QEMU emulator version 7.2.22"
    assert environment.flavour == "preempt_rt"
    assert environment.kernel_release == "6.12.117"
    assert environment.kernel_version == "#1 SMP PREEMPT_RT Mon Jan  1 00:00:00 UTC 2024"
    assert len(environment.config_sha256) == 64
    assert environment.command_line == "console=ttyAMA0,115200 printk.time=1 nokaslr oops=panic panic=-1"
    assert (environment.clocksource, environment.rt_runtime_us, environment.online) == (
        "arch_sys_counter",
        "950000",
        "0",
    )
    assert environment.rootfs == "b" * 64


def test_the_versions_of_the_tools_are_those_of_the_root_filesystem() -> None:
    tools = _record(measured()).environment.tools.split(", ")
    assert "rt-tests 2.10-1" in tools
    assert "stress-ng 0.15.06-2" in tools


@pytest.mark.parametrize("listed", [None, b"", b"{", b"[]", b'{"packages": 3}', b'{"packages": [1]}', b"\xff"])
def test_a_root_filesystem_of_somebody_else_has_no_versions(listed: bytes | None) -> None:
    assert _record(measured(rootfs=listed)).environment.tools == ""


@pytest.mark.parametrize(("time", "cpu", "ns"), [("host", "cortex-a57", ""), ("real", "", "")])
def test_other_clocks_have_no_seed_and_no_instructions(time: str, cpu: str, ns: str) -> None:
    found = _record(measured(cyclictest_json=files()["cyclictest.json"]), time=time)
    assert found.seed is None
    assert (found.environment.cpu_model, found.environment.instruction_ns) == (cpu, ns)


def test_the_evidence_is_what_proc_showed() -> None:
    evidence = _record(measured()).evidence
    seen = {(thread.moment, thread.policy, thread.priority) for thread in evidence.threads}
    assert seen == {
        (moment, policy, priority) for moment in ("middle", "late") for policy, priority in ((0, 0), (1, 99))
    }
    assert evidence.load_seen == (
        LoadSeen(moment="start", processes=1, ticks=11),
        LoadSeen(moment="middle", processes=7, ticks=106),
        LoadSeen(moment="late", processes=3, ticks=201),
        LoadSeen(moment="end", processes=1, ticks=659),
    )
    assert evidence.elapsed_s == 8.15
    assert evidence.printk == "1"
    assert evidence.changed == ()
    assert evidence.asked["duration_s"] == 2


def test_a_thread_s_name_may_hold_spaces_and_brackets() -> None:
    line = files()["threads.late"].splitlines()[0].replace(b"(cyclictest)", b"(a) 1 (b))")
    found = _record(measured(threads_late=line, threads_middle=None)).evidence.threads
    assert found == (Thread(moment="late", name="a) 1 (b)", policy=1, priority=99, processor=0),)


def test_zombies_of_the_load_count_their_time_but_are_not_alive() -> None:
    dead = re.sub(rb"\) [A-Z] ", b") Z ", files()["processes.middle"])
    evidence = _record(measured(processes_middle=dead)).evidence
    (seen,) = (entry for entry in evidence.load_seen if entry.moment == "middle")
    assert (seen.processes, seen.ticks) == (0, 106)


@pytest.mark.parametrize("name", ["printk", "clocksource", "rt_runtime_us"])
def test_a_setting_that_changed_is_told(name: str) -> None:
    changed = _record(measured(**{f"{name}.end": b"7\n"})).evidence.changed
    assert len(changed) == 1
    assert changed[0].startswith(f"{name} was '")
    assert changed[0].endswith("' and became '7'")


@pytest.mark.parametrize("uptime", [None, b"", b"soon\n"])
def test_a_clock_that_was_not_read(uptime: bytes | None) -> None:
    assert _record(measured(uptime_end=uptime)).evidence.elapsed_s is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tool_rc": None}, "the tool's exit code is '': the plan did not see it end"),
        ({"tool_rc": b"-1\n"}, "the tool's exit code is '-1'"),
        ({"tool_rc": b"1\n", "tool_err": b"bad option"}, "cyclictest ended with exit code 1: bad option"),
        ({"tool_deadline": b"after 24 s\n"}, "cyclictest was stopped after 24 s"),
        ({"cyclictest_json": None}, "cyclictest wrote no JSON"),
        ({"cyclictest_json": b"{"}, "cyclictest's JSON is damaged"),
    ],
)
def test_output_that_cannot_be_read_is_a_record_that_says_so(changes: dict[str, bytes | None], message: str) -> None:
    found = _record(measured(**changes))
    assert found.state == "unreadable"
    assert found.message.startswith(message)
    assert found.measurements == ()


@pytest.mark.parametrize("state", [State.NO_BOOT, State.FAULT, State.HANG, State.LAB])
def test_a_boot_that_went_wrong_is_a_record_too(state: State) -> None:
    log = "[    1.0] Kernel panic - not syncing: no init\n"
    found = _record(Outcome(state=state, message="it did", faults=scan(log)))
    assert (found.state, found.message, found.measurements) == (state.value, "it did", ())
    assert [fault.kind for fault in found.faults] == ["panic"]
    assert found.environment.flavour == ""


def test_faults_of_console_and_kernel_log_count_once() -> None:
    line = "[    1.000000] WARNING: CPU: 0 PID: 1 at kernel/x.c:3 f+0x1/0x2\n"
    both = replace(measured(dmesg=(line + "[    2.000000] BUG: other\n").encode()), faults=scan(line))
    assert [fault.kind for fault in _record(both).faults] == ["warning", "bug"]


def test_a_machine_that_cannot_measure_is_no_record() -> None:
    with pytest.raises(InfrastructureError, match="no QEMU"):
        measure(CASE, arm(FakeTarget({None: InfrastructureError("no QEMU")})), 1)


def test_both_arms_carry_out_the_same_plan() -> None:
    target = FakeTarget()
    for name in ("baseline", "candidate"):
        measure(CASE, arm(target, name), 5)
    assert target.plans[0] == target.plans[1] == plan(CASE, arm(target), 5)
    assert target.plans[0].argv[0] == "cyclictest"
    assert target.plans[0].load.argv[0] == "hackbench"
    assert target.plans[0].duration_s == 2
    assert target.plans[0].nonce != plan(CASE, arm(target), 6).nonce


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("#1 SMP PREEMPT_RT Mon Jan  1 00:00:00 UTC 2024", "preempt_rt"),
        ("#1 SMP PREEMPT RT Thu Jan 1 00:00:00 UTC 1970", "preempt_rt"),
        ("#1 SMP PREEMPT_DYNAMIC @0", "generic"),
        ("#1 SMP PREEMPT_RTX", "generic"),
        ("#1 SMP", "generic"),
        ("", ""),
    ],
)
def test_flavours_by_uname(version: str, expected: str) -> None:
    assert flavour(version) == expected


@settings(max_examples=40)
@given(
    name=st.sampled_from(sorted(files())),
    start=st.integers(0, 600),
    length=st.integers(0, 60),
    new=st.binary(max_size=8),
)
def test_whatever_a_target_sends_there_is_a_record(name: str, start: int, length: int, new: bytes) -> None:
    data = files()[name]
    found = _record(measured(**{name: data[:start] + new + data[start + length :]}))
    assert found.state in {"measured", "unreadable"}
    assert hashlib.sha256(repr(found).encode("utf-8", "backslashreplace")).hexdigest()
