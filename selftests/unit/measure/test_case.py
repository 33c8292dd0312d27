# SPDX-License-Identifier: MIT
from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples
from selftests.fake_target import (
    CAPTURE,
    CLOCK,
    CPU,
    PACKAGES,
    PRINTK,
    ROOTFS,
    RUNTIME,
    FakeTarget,
    arm,
    facts,
    files,
    measured_outcome,
    skipped_outcome,
)

from rtgate.board import boards
from rtgate.board.instrument import Instrument
from rtgate.board.storage import FileSystem, Overwrite, Storage
from rtgate.board.tuning import Tuning, Write
from rtgate.console.faults import scan
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.judge.judging import Subject, judge
from rtgate.judge.thresholds import LimitKind, Threshold, Thresholds
from rtgate.judge.verdict import Kind, Status
from rtgate.measure.case import Case, reading, setting
from rtgate.measure.case_plan import beforehand, plan
from rtgate.measure.case_record import measure
from rtgate.measure.observations import LOG_GOES_ON, LOG_LOST, uname_flavour
from rtgate.measure.raw_output import Reading
from rtgate.records.evidence import LoadSample
from rtgate.records.record import Record
from rtgate.target.outcome import LineQuality, Outcome, State
from rtgate.target.plan import Plan, script
from rtgate.tools import Count, Expected, Output, Reports, Setting, Tool, companions, count, loads
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.dmatest import Dmatest
from rtgate.tools.fio import FioRandwrite
from rtgate.tools.hackbench import Hackbench
from rtgate.tools.irq_instrument import IrqInstrumentHard
from rtgate.tools.irq_response import IrqHard
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.needs import NEVER, Need, unmet_needs
from rtgate.tools.oslat import Oslat
from rtgate.tools.pairs import Pmqtest
from rtgate.tools.pi_stress import PiStress
from rtgate.tools.pip_stress import PipStress
from rtgate.tools.registry import TOOLS
from rtgate.tools.rt_migrate_test import RtMigrateTest
from rtgate.tools.ssdd import Ssdd
from rtgate.tools.threads import SCHED_DEADLINE, SCHED_FIFO, Threads, ThreadScope
from rtgate.tools.xenomai import XenomaiLatency
from rtgate.units import Quantity
from rtgate.validity import readings
from rtgate.validity.check import CheckResult
from rtgate.validity.registry import checks

CASE = Case(suite="latency", tool=Cyclictest(), load="hackbench")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stub(Tool):
    """A tool that has whatever a test is about."""

    seen: ThreadScope = ThreadScope.OWN
    threads: tuple[Threads, ...] = ()
    thread_name: str = ""
    clock: bool = False

    name: ClassVar[str] = "stub"
    suites: ClassVar[tuple[str, ...]] = ("latency",)
    reports: ClassVar[Mapping[str, Reports]] = {"samples": Reports.COUNT}
    image: ClassVar[str] = "full"
    needs: ClassVar[tuple[Need, ...]] = (Need(test="[ -e /dev/null ]", reason="no /dev/null"),)
    writes: ClassVar[tuple[Write, ...]] = (
        Write(path="/proc/sys/kernel/timer_migration", value="0"),
        Write(path=f"{CPU}/cpu*/power/control", value="on", reads=r"\bon\b"),
    )

    def argv(self, setting: Setting) -> tuple[str, ...]:
        return ("stub", f"--cpus={setting.cpus}", f"--memory={setting.memory_mib}")

    def expected(self, setting: Setting) -> Expected:
        return Expected(
            threads=self.threads,
            duration_s=setting.duration_s + 5,
            seen=self.seen,
            name=self.thread_name,
            counts=(Count(measurement="samples", least=10),),
            clock=self.clock,
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        return (count("samples", len(output.text("tool.out")), Better.NEITHER),)


def _record(outcome: Outcome, time: str = "virtual", case: Case = CASE) -> Record:
    made = measure(case, arm(FakeTarget({None: outcome}), time=time), 3)[0]
    # As it is written: with what it was made from.
    return replace(made, sources=dict.fromkeys(("console.log", *(f"raw/{name}" for name in outcome.files)), "0" * 64))


def _stub(outcome: Outcome, tool: Stub, load: str = "idle") -> Record:
    return _record(outcome, case=Case(suite="latency", tool=tool, load=load))


def _failed(found: Record) -> dict[str, str]:
    return {check.name: check.sentence for check in checks(found, {}) if check.result is CheckResult.FAILED}


def test_a_real_boot_becomes_a_valid_record() -> None:
    found = _record(replace(measured_outcome(), line=LineQuality(received=9, damaged=1, repeated=2)))
    assert (found.case, found.board, found.arm, found.profile) == (
        *("latency/cyclictest:hackbench", "virt-arm64", "candidate", "smoke"),
    )
    assert (found.state, found.message, found.seed) == ("measured", "", 3)
    assert found.boot_id == "2bc343bb-0303-4c11-899a-760055fa73c3"
    assert found.line == {"received": 9, "damaged": 1, "repeated": 2}
    assert len(found.measurements) == 6
    held = {check.name: check.result for check in checks(found, {})}
    # What a board's file has to ask for.
    assert {name for name in held if held[name] is CheckResult.NOT_APPLICABLE} == {"temperature", "firmware"}
    assert {held[name] for name in held if name not in {"temperature", "firmware"}} == {CheckResult.OK}


def test_options_that_a_suite_gives_a_tool_are_not_the_tool_s_own() -> None:
    """Limits for those are not for it."""
    suites = Case(suite="latency", tool=Cyclictest(interval_us=10_000, mlock=True), load="idle")
    made = _record(measured_outcome(), case=suites)
    assert made.evidence.expectation.options == {"interval_us": 10_000}
    subject = Subject(case=suites.name, board=made.board, arm="candidate", flavour="preempt_rt", records=[made])
    limit = Threshold(
        board=made.board,
        flavour="preempt_rt",
        case=suites.name,
        kind=LimitKind.MAX,
        source="s",
        measurement="latency.max",
        limit=Quantity.parse("1 virtual us"),
    )
    (verdict,) = judge(subject, Thresholds((limit,)))
    assert (verdict.status, verdict.kind) == (Status.DONE, Kind.NOT_APPLIED)
    assert verdict.sentence.endswith("measured with interval_us 10000")


def test_the_environment_is_what_target_board_and_host_said() -> None:
    environment = _record(measured_outcome()).environment
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
    assert environment.isolated == ""
    assert environment.rootfs == ROOTFS
    assert _record(replace(measured_outcome(), machine={})).environment.rootfs == ""


@pytest.mark.parametrize(("tool", "kept"), [(Cyclictest(), True), (Pmqtest(), False)])
def test_a_tool_that_does_not_stay_on_the_tuning_s_cpus_is_skipped(tool: Tool, kept: bool) -> None:
    tuned = replace(arm(FakeTarget()), tuning=Tuning(name="isolated", description="", cpus="1"))
    made = plan(Case(suite=tool.suites[0], tool=tool, load="idle", tuning="isolated"), tuned, 1)
    reasons = [need.reason for need in made.needs if need.test == "false"]
    assert reasons == ([] if kept else [f"{tool.name} is not kept on CPUs 1, which the tuning isolated asks for"])


@pytest.mark.parametrize(
    ("board", "there"), [("virt-arm64", "one CPU"), ("virt-arm64-smp2", "2 CPUs"), ("rk3568-evb1", "")]
)
def test_a_cpu_that_the_board_has_not_is_known_before_it_boots(board: str, there: str) -> None:
    case = Case(suite="latency", tool=Cyclictest(taskset="2", threads=1, affinity="none"), load="idle")
    on = arm(FakeTarget(), board=board)
    reasons = [need.reason for need in plan(case, on, 1).needs if need.test == NEVER]
    assert reasons == ([f"cyclictest should measure on CPU 2, and {board} has {there}"] if there else [])
    assert (measure(case, on, 1)[0].state == "skipped") == bool(there)


def test_the_versions_of_the_tools_are_those_of_the_root_filesystem() -> None:
    tools = _record(measured_outcome()).environment.tools.split(", ")
    assert "rt-tests 2.10-1" in tools
    assert "stress-ng 0.15.06-2" in tools


@pytest.mark.parametrize("listed", [None, b"", b"{", b"[]", b'{"packages": 3}', b'{"packages": [1]}', b"\xff"])
def test_a_root_filesystem_of_somebody_else_has_no_versions(listed: bytes | None) -> None:
    assert _record(measured_outcome(facts=facts("facts", {PACKAGES: listed}))).environment.tools == ""


FACTS = {
    "/sys/firmware/devicetree/base/model": b"Board: one, V1.0\0",
    f"{CPU}/nohz_full": b"1-3\n",
    f"{CPU}/isolated": b"2-3\n",
    f"{CPU}/cpu0/cpufreq/scaling_governor": b"performance\n",
    f"{CPU}/cpu1/cpufreq/scaling_governor": b"schedutil\n",
    f"{CPU}/cpu10/cpufreq/scaling_governor": b"performance\n",
    f"{CPU}/cpu0/cpufreq/scaling_min_freq": b"408000\n",
    f"{CPU}/cpu0/cpuidle/state0/name": b"WFI\n",
    f"{CPU}/cpu0/cpuidle/state1/name": b"cpu-sleep\n",
    f"{CPU}/cpu0/cpuidle/state1/disable": b"1\n",
    f"{CPU}/cpu1/cpuidle/state0/name": b"WFI\n",
    f"{CPU}/vulnerabilities/spectre_v2": b"Mitigation: CSV2, BHB\n",
    f"{CPU}/vulnerabilities/meltdown": b"Not affected\n",
    "/proc/irq/9/smp_affinity_list": b"0-3\n",
    "/proc/irq/11/smp_affinity_list": b"1\n",
    "/proc/irq/default_smp_affinity": b"f\n",
}


def test_what_an_expert_asks_for_is_kept() -> None:
    environment = _record(measured_outcome(facts=facts("facts", FACTS))).environment
    assert environment.model == "Board: one, V1.0"
    assert (environment.isolated, environment.nohz_full) == ("2-3", "1-3")
    assert environment.governors == "performance, schedutil"
    assert environment.idle_states == "WFI, cpu-sleep"
    assert environment.mitigations == "meltdown Not affected, spectre_v2 Mitigation: CSV2, BHB"
    assert environment.irq_affinity == "11 1, 9 0-3"


def test_frequencies_and_idle_states_that_are_off_are_kept() -> None:
    told = {
        f"{CPU}/cpu{cpu}/{path}": value
        for cpu, values in (
            (0, (b"408000\n", b"408000\n", b"1992000\n", b"0\n", b"0\n")),
            (4, (b"2016000\n", b"408000\n", b"2016000\n", b"0\n", b"1\n")),
            (10, (b"2016000\n", b"408000\n", b"2016000\n", b"0\n", b"1\n")),
        )
        for path, value in zip(
            (
                *(f"cpufreq/scaling_{name}_freq" for name in ("cur", "min", "max")),
                *(f"cpuidle/state{state}/disable" for state in (0, 1)),
            ),
            values,
            strict=True,
        )
    }
    told |= {f"{CPU}/cpu{cpu}/cpuidle/state1/name": b"cpu-sleep\n" for cpu in (0, 4, 10)}
    found = _record(measured_outcome(facts=facts("facts", told))).environment
    assert (found.frequency, found.frequency_min) == ("408000, 2016000", "408000")
    assert (found.frequency_max, found.idle_disabled) == ("1992000, 2016000", "cpu-sleep on CPU 4, 10")
    # A governor's lowest and highest are settings; what it has chosen last is not.
    same = replace(found, frequency="600000")
    assert found.incomparable(same) == ()
    assert len(found.incomparable(replace(found, frequency_max="1608000", idle_disabled=""))) == 2


def test_what_a_target_does_not_have_is_empty() -> None:
    environment = _record(measured_outcome()).environment
    rest = (
        *("model", "nohz_full", "governors", "idle_states", "idle_disabled", "mitigations", "irq_affinity"),
        *("frequency", "frequency_min", "frequency_max"),
    )
    assert {getattr(environment, name) for name in rest} == {""}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a:b::c\n", "a:b::c"),
        (b"root=/dev/mmcblk0p1: x=/proc/version:1\n", "root=/dev/mmcblk0p1: x=/proc/version:1"),
        (b"first\nsecond: third\n\nfifth\n", "first\nsecond: third\n\nfifth"),
        (b":\n", ":"),
        (b" spaces \t\n", "spaces"),
        (b"no newline at the end", "no newline at the end"),
        (b"\n", ""),
        (b"", ""),
        (b"\xff\xfe\n", "\ufffd\ufffd"),
        (b"/proc/sys/kernel/version:#1 SMP\n", "/proc/sys/kernel/version:#1 SMP"),
    ],
)
def test_facts_may_hold_colons_and_lines(content: bytes, expected: str) -> None:
    environment = _record(measured_outcome(facts=facts("facts", {"/proc/cmdline": content}))).environment
    assert environment.command_line == expected
    assert environment.flavour == "preempt_rt"  # no fact disturbs another one
    assert environment.kernel_version == "#1 SMP PREEMPT_RT Mon Jan  1 00:00:00 UTC 2024"


def test_where_a_lab_has_put_files_for_one_boot_is_no_difference_of_the_board() -> None:
    """Two boots of one kernel, as GRUB and LAVA start them."""
    lines = [
        f"BOOT_IMAGE=(tftp,10.0.0.1)/{job}/tftp-deploy-{where}/kernel/bzImage console=ttyS0 root=/dev/nfs rw "
        f"nfsroot=10.0.0.1:/var/lib/lava/dispatcher/tmp/{job}/extract-nfsrootfs-{where},tcp,hard isolcpus=1"
        for job, where in ((12, "a1b2"), (13, "c3d4"))
    ]
    found = [
        _record(measured_outcome(facts=facts("facts", {"/proc/cmdline": line.encode()}))).environment.command_line
        for line in lines
    ]
    assert found == ["console=ttyS0 root=/dev/nfs rw nfsroot=10.0.0.1:*,tcp,hard isolcpus=1"] * 2


@pytest.mark.parametrize("text", [b"", b"grep: no such file", b"\n\n", b"/proc/cmdline", b"/proc/cmdline\0"])
def test_facts_without_a_path_say_nothing(text: bytes) -> None:
    found = _record(measured_outcome(facts=text))
    assert (found.environment.flavour, found.environment.command_line, found.boot_id) == ("", "", "")
    assert set(_failed(found)) == {"flavour", "cpus"}


@pytest.mark.parametrize(("time", "cpu", "ns"), [("host", "cortex-a57", ""), ("real", "", "")])
def test_other_clocks_have_no_seed_and_no_instructions(time: str, cpu: str, ns: str) -> None:
    found = _record(measured_outcome(cyclictest_json=files()["cyclictest.json"]), time=time)
    assert found.seed is None
    assert (found.environment.cpu_model, found.environment.instruction_ns) == (cpu, ns)


def test_the_evidence_is_what_proc_showed() -> None:
    evidence = _record(measured_outcome()).evidence
    seen = {(thread.moment, thread.policy, thread.priority) for thread in evidence.threads}
    assert seen == {
        (moment, policy, priority) for moment in ("middle", "late") for policy, priority in ((0, 0), (1, 99))
    }
    assert evidence.load_seen == (
        LoadSample(moment="start", processes=1, ticks=11),
        LoadSample(moment="middle", processes=7, ticks=106),
        LoadSample(moment="late", processes=3, ticks=201),
        LoadSample(moment="end", processes=1, ticks=659),
    )
    assert evidence.elapsed_s == 8.15
    assert evidence.settings == {
        PRINTK: ("1\t4\t1\t7", "1\t4\t1\t7"),
        RUNTIME: ("950000", "950000"),
        CLOCK: ("arch_sys_counter", "arch_sys_counter"),
    }
    assert evidence.writes == {}
    assert set(evidence.processes) >= {"init", "kthreadd", "sh", "ksoftirqd/0", "irq/13-uart-pl011"}
    assert evidence.processes.count("sh") == 1  # there were two
    assert evidence.load == "hackbench"
    assert evidence.load_processes == loads.load("hackbench", arm(FakeTarget()).board).processes
    expected, found = Cyclictest().expected(setting(CASE, arm(FakeTarget()))), evidence.expectation
    assert {one.name: getattr(found, one.name) for one in fields(expected)} == {
        one.name: getattr(expected, one.name) for one in fields(expected)
    }
    assert found.threads == (Threads(count=1, policy=1, priority=99),)
    assert (found.duration_s, found.interval_us, found.seen, found.cpus) == (2, 1000, ThreadScope.OWN, ())
    assert (found.counts, found.clock, found.name) == ((), False, "")


def test_a_thread_s_name_may_hold_spaces_and_brackets() -> None:
    line = files()["threads.late"].splitlines()[0].replace(b"(cyclictest)", b"(a) 1 (b))")
    found = _record(measured_outcome(threads_late=line, threads_middle=None)).evidence.threads
    (thread,) = found
    assert (thread.moment, thread.name, thread.policy, thread.priority) == ("late", "a) 1 (b)", 1, 99)
    fields = line.decode().rpartition(")")[2].split()
    assert (thread.minor_faults, thread.major_faults) == (int(fields[7]), int(fields[9]))


def test_zombies_of_the_load_count_their_time_but_are_not_alive() -> None:
    dead = re.sub(rb"\) [A-Z] ", b") Z ", files()["processes.middle"])
    evidence = _record(measured_outcome(processes_middle=dead)).evidence
    (seen,) = (entry for entry in evidence.load_seen if entry.moment == "middle")
    assert (seen.processes, seen.ticks) == (0, 106)


SETTINGS = {PRINTK: "1\t4\t1\t7", RUNTIME: "950000", CLOCK: "arch_sys_counter"}


@pytest.mark.parametrize("path", SETTINGS)
def test_a_setting_that_changed_is_told(path: str) -> None:
    found = _record(measured_outcome(facts_end=facts("facts.end", {path: b"7\n"})))
    assert found.evidence.settings[path] == (SETTINGS[path], "7")
    assert _failed(found) == {"settings": f"{path} was {SETTINGS[path]!r} and became '7'"}


@pytest.mark.parametrize("path", SETTINGS)
@pytest.mark.parametrize("name", ["facts.start", "facts.end"])
def test_a_setting_that_was_not_read_is_invalid(path: str, name: str) -> None:
    found = _record(measured_outcome(**{name: facts(name, {path: None})}))
    pair = ("", SETTINGS[path]) if name == "facts.start" else (SETTINGS[path], "")
    assert found.evidence.settings[path] == pair
    assert _failed(found) == {"settings": f"{path} was not read"}


@pytest.mark.parametrize("text", [None, b"", b"not found\n"])
def test_settings_of_which_none_was_read_are_invalid(text: bytes | None) -> None:
    found = _record(measured_outcome(facts_start=text, facts_end=text))
    assert found.evidence.settings == dict.fromkeys(SETTINGS, ("", ""))
    assert _failed(found) == {"settings": "; ".join(f"{path} was not read" for path in sorted(SETTINGS))}


def test_kernel_messages_that_were_let_through_are_invalid() -> None:
    loud = {PRINTK: b"4\t4\t1\t7\n"}
    found = _record(measured_outcome(facts_start=facts("facts.start", loud), facts_end=facts("facts.end", loud)))
    assert _failed(found) == {"settings": "the console's log level was 4, so kernel messages could disturb"}


def test_tsc_early_is_tsc_before_its_calibration() -> None:
    def clock(before: bytes, after: bytes) -> Record:
        start, end = facts("facts.start", {CLOCK: before}), facts("facts.end", {CLOCK: after})
        return _record(measured_outcome(facts_start=start, facts_end=end))

    calibrated = clock(b"tsc-early\n", b"tsc\n")
    assert calibrated.evidence.settings[CLOCK] == ("tsc", "tsc")
    assert _failed(calibrated) == {}
    assert _failed(clock(b"tsc-early\n", b"hpet\n")) == {"settings": f"{CLOCK} was 'tsc' and became 'hpet'"}


@pytest.mark.parametrize("processes", [None, b"", b"\n"])
def test_processes_that_were_not_read(processes: bytes | None) -> None:
    assert _record(measured_outcome(processes=processes)).evidence.processes == ()


def test_each_process_is_named_once() -> None:
    named = b"init\nsh\nWeb Content\nsh\nkworker/0:1-events\n"
    found = _record(measured_outcome(processes=named)).evidence.processes
    assert found == ("init", "sh", "Web Content", "kworker/0:1-events")


@pytest.mark.parametrize(("name", "held"), [("chronyd", False), ("crond", True)])
def test_a_clock_keeper_on_the_target_spoils_a_tool_that_needs_the_clock(name: str, *, held: bool) -> None:
    outcome = measured_outcome(processes=f"init\n{name}\n".encode())
    assert ("clock" not in _failed(_stub(outcome, Stub(clock=True)))) is held
    assert "clock" not in _failed(_stub(outcome, Stub(clock=False)))


# --- whose threads


def _stat(pid: int, name: str, *, session: int, policy: int, priority: int = 0, state: str = "S") -> bytes:
    fields = [state, "1", "1", str(session), *["0"] * 40]
    fields[36:39] = ["2", str(priority), str(policy)]
    return f"{pid} ({name}) {' '.join(fields)}\n".encode()


SEEN = b"".join(
    [
        _stat(1, "init", session=0, policy=0),
        _stat(20, "ksoftirqd/0", session=0, policy=1, priority=1),
        _stat(21, "osnoise/0", session=0, policy=1, priority=95),
        _stat(22, "osnoise/1", session=0, policy=1, priority=95),
        _stat(66, "stub", session=66, policy=0),
        _stat(67, "stub", session=66, policy=1, priority=80),
        _stat(68, "helper (1)", session=66, policy=6),
        _stat(69, "gone", session=66, policy=1, priority=80, state="Z"),
        _stat(70, "going", session=66, policy=1, priority=80, state="X"),
        _stat(80, "stub", session=660, policy=1, priority=80),
        _stat(666, "other", session=6, policy=1, priority=80),
    ]
)


def _names(tool: Stub, pid: bytes | None = b"66\n") -> list[str]:
    outcome = measured_outcome(threads_middle=SEEN, threads_late=None, tool_pid=pid)
    found = _stub(outcome, tool).evidence.threads
    assert {thread.moment for thread in found} <= {"middle"}
    return [f"{thread.name} {thread.policy} {thread.priority}" for thread in found]


def test_a_session_s_threads_are_those_of_the_processes_that_the_tool_started() -> None:
    assert _names(Stub(seen=ThreadScope.SESSION)) == ["stub 0 0", "stub 1 80", "helper (1) 6 0"]


@pytest.mark.parametrize("pid", [None, b"", b"67\n", b"not a number"])
def test_without_its_session_no_thread_is_the_tool_s(pid: bytes | None) -> None:
    assert _names(Stub(seen=ThreadScope.SESSION), pid) == []


def test_threads_of_the_kernel_are_found_by_name() -> None:
    assert _names(Stub(seen=ThreadScope.SYSTEM, thread_name="osnoise/")) == ["osnoise/0 1 95", "osnoise/1 1 95"]
    assert _names(Stub(seen=ThreadScope.SYSTEM, thread_name="noise")) == []
    assert _names(Stub(seen=ThreadScope.SYSTEM, thread_name="ksoftirqd"), None) == ["ksoftirqd/0 1 1"]


def test_what_the_plan_saw_of_its_own_process_is_the_tool_s() -> None:
    assert len(_names(Stub(seen=ThreadScope.OWN), None)) == len(SEEN.splitlines())


GROUPS = (Threads(count=1, policy=SCHED_FIFO, priority=80), Threads(count=1, policy=SCHED_DEADLINE, priority=0))


@pytest.mark.parametrize(
    ("tool", "sentence"),
    [
        (Stub(seen=ThreadScope.SESSION, threads=GROUPS), ""),
        (Stub(seen=ThreadScope.SESSION, threads=GROUPS[:1]), ""),
        (
            Stub(seen=ThreadScope.SESSION, threads=(replace(GROUPS[0], count=2), GROUPS[1])),
            "1 of 2 measuring threads ran at SCHED_FIFO 80",
        ),
        (Stub(seen=ThreadScope.OWN, threads=GROUPS), "5 of 1 measuring threads ran at SCHED_FIFO 80"),
        (
            Stub(seen=ThreadScope.SYSTEM, thread_name="osnoise/", threads=(replace(GROUPS[0], count=3, priority=95),)),
            "2 of 3 measuring threads ran at SCHED_FIFO 95; seen: osnoise/0 SCHED_FIFO 95, osnoise/1 SCHED_FIFO 95",
        ),
        (Stub(seen=ThreadScope.SYSTEM, thread_name="timerlat/", threads=GROUPS), "no thread of the tool was seen"),
    ],
)
def test_a_tool_s_groups_of_threads_are_checked_where_they_are_found(tool: Stub, sentence: str) -> None:
    outcome = measured_outcome(threads_middle=SEEN, threads_late=None, tool_pid=b"66\n")
    found = _failed(_stub(outcome, tool)).get("threads", "")
    assert found.startswith(sentence) if sentence else not found


# --- needs and writes


def test_a_case_has_the_needs_writes_and_image_of_its_tool_and_its_load() -> None:
    board = arm(FakeTarget()).board
    for name in loads.SHIPPED:
        load = loads.load(name, board)
        made = plan(Case(suite="latency", tool=Stub(seen=ThreadScope.SESSION), load=name), arm(FakeTarget()), 1)
        assert made.load == load
        assert made.needs == (*Stub.needs, *load.needs)
        assert made.writes == Stub.writes
        assert (made.image, made.thread_scope, made.duration_s) == ("full", ThreadScope.SESSION, 7)
        assert made.argv == ("stub", f"--cpus={board.cpus}", f"--memory={board.memory_mib}")
        plain = plan(Case(suite="latency", tool=Cyclictest(), load=name), arm(FakeTarget()), 1)
        assert (plain.needs, plain.writes, plain.image) == (load.needs, (), load.image)


TIMER = "/proc/sys/kernel/timer_migration"


def test_what_a_killed_tool_leaves_in_the_kernel_is_undone_where_the_boot_goes_on() -> None:
    """A boot of a virtual board ends with the plan, and another byte in its script moves what is measured."""
    for name, tool in sorted(TOOLS.items()):
        case = Case(suite="latency", tool=tool(), load="idle")
        live, virtual = (plan(case, arm(FakeTarget({}), time=time), 1).cleanup for time in ("real", "virtual"))
        assert virtual == ""
        assert bool(live) is (name in {"hwlatdetect", "rtla-timerlat", "rtla-osnoise"})


def _written(**values: bytes) -> dict[str, str]:
    """Return the failed checks of a boot on which these settings were written and read back."""
    paths = {"timer": TIMER, "one": f"{CPU}/cpu0/power/control", "other": f"{CPU}/cpu1/power/control"}
    read = {paths[name]: value for name, value in values.items()}
    outcome = measured_outcome(facts_start=facts("facts.start", read), facts_end=facts("facts.end", read))
    found = _failed(_stub(outcome, Stub()))
    return {name: sentence for name, sentence in found.items() if name == "settings"}


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"timer": b"0\n", "one": b"on\n", "other": b"auto [on]\n"}, ""),
        ({"timer": b"1\n", "one": b"on\n"}, f"{TIMER} should be "),
        ({"timer": b"10\n", "one": b"on\n"}, f"{TIMER} should be "),  # the whole value, not a part of it
        ({"one": b"on\n"}, f"{TIMER} should be "),
        ({"timer": b"0\n"}, f"{CPU}/cpu*/power/control should be "),
        ({"timer": b"0\n", "one": b"on\n", "other": b"auto\n"}, f"{CPU}/cpu*/power/control should be "),
        ({"timer": b"0\n", "one": b"once\n"}, f"{CPU}/cpu*/power/control should be "),
    ],
)
def test_what_was_written_must_read_back(values: dict[str, bytes], sentence: str) -> None:
    found = _written(**values)
    if sentence:
        assert found["settings"].startswith(sentence)
    else:
        assert found == {}


def test_a_target_that_lacks_what_the_tool_needs_is_a_record_with_the_reasons() -> None:
    found = _record(skipped_outcome("needs two CPUs\nneeds a tracer: osnoise\n"))
    assert (found.state, found.message) == ("skipped", "needs two CPUs; needs a tracer: osnoise")
    assert found.measurements == ()
    assert found.environment.flavour == "preempt_rt"  # a lost flavour is told all the same
    assert found.boot_id == "2bc343bb-0303-4c11-899a-760055fa73c3"
    assert found.evidence.threads == ()
    assert found.evidence.elapsed_s is None


def test_what_the_board_s_file_says_ends_a_case_before_a_boot() -> None:
    target = FakeTarget()
    bare = arm(target, board="virt-arm64")
    case = Case(suite="scheduling", tool=RtMigrateTest(), load="idle")
    found, outcome = measure(case, bare, 3)
    assert target.plans == []
    assert (found.state, found.message) == ("skipped", "needs two CPUs: on one, no task can move to another")
    assert (outcome.state, outcome.files, outcome.console) == (State.SKIPPED, {}, b"")
    # What the file says stands; a kernel said nothing, and nothing was run.
    told = found.environment
    assert (told.board, told.arch, told.time, told.cpus) == ("virt-arm64", "arm64", "virtual", "1")
    assert {told.flavour, told.kernel_release, told.config_sha256, told.emulator, told.rootfs, told.online} == {""}
    assert (found.boot_id, found.boot, found.seconds) == ("", "seed 3", {})
    assert found.machine == {"boot": "3", "ran": "nothing"}
    assert (found.measurements, found.faults, found.evidence.threads, found.evidence.log) == ((), (), (), "")
    assert found.argv == RtMigrateTest().argv(setting(case, bare))


def test_cobalt_is_looked_for_on_a_kernel_of_which_nobody_knows_the_flavour() -> None:
    case, built = Case(suite="latency", tool=XenomaiLatency(), load="idle"), arm(FakeTarget())
    unknown = replace(built, kernel=replace(built.kernel, provenance="unknown"))
    named = replace(built, kernel=replace(built.kernel, provenance="unknown", flavour="generic"))
    known = [bool(unmet_needs(plan(case, one, 1).needs, 1)) for one in (built, unknown, named)]
    assert known == [True, False, True]


def test_a_board_with_two_cpus_boots_and_asks_there() -> None:
    target = FakeTarget()
    two = arm(target, board="virt-arm64-smp2")
    measure(Case(suite="scheduling", tool=RtMigrateTest(), load="idle"), two, 1)
    (made,) = target.plans
    assert '[ "$(nproc)" -gt 1 ] || echo' in script(made)


@pytest.mark.parametrize(
    ("needs", "reasons"),
    [
        ((), ()),
        ((Need(test="[ -e /x ]", reason="a"),), ()),
        ((Need(test="[ -e /x ]", reason="a"), Need(test=NEVER, reason="b"), Need(test=NEVER, reason="c")), ("b", "c")),
        ((Need(test="true", reason="a", cpus=2),), ()),
        ((Need(test="true", reason="a", cpus=3),), ("a",)),
    ],
)
def test_what_is_known_beforehand(needs: tuple[Need, ...], reasons: tuple[str, ...]) -> None:
    assert unmet_needs(needs, 2) == reasons


@pytest.mark.parametrize("reasons", [None, b""])
def test_without_a_reason_nothing_is_skipped(reasons: bytes | None) -> None:
    assert _record(measured_outcome(skip=reasons)).state == "measured"
    assert _record(measured_outcome(skip=reasons, tool_rc=None)).state == "unreadable"


@pytest.mark.parametrize("state", [State.NO_BOOT, State.FAULT, State.HANG, State.LAB, State.UNREADABLE])
def test_a_boot_that_went_wrong_is_not_skipped(state: State) -> None:
    assert _record(replace(skipped_outcome(), state=state, message="it did")).state == state.value


@pytest.mark.parametrize("uptime", [None, b"", b"soon\n"])
def test_a_clock_that_was_not_read(uptime: bytes | None) -> None:
    assert _record(measured_outcome(uptime_end=uptime)).evidence.elapsed_s is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tool_rc": None}, "the tool's exit code is '': the plan did not see it end"),
        ({"tool_rc": b"-1\n"}, "the tool's exit code is '-1'"),
        ({"tool_rc": b"1\n", "tool_err": b"bad option"}, "cyclictest ended with exit code 1: bad option"),
        ({"cyclictest_json": None}, "cyclictest wrote no JSON"),
        ({"cyclictest_json": b"{"}, "cyclictest's JSON is damaged"),
    ],
)
def test_output_that_cannot_be_read_is_a_record_that_says_so(changes: dict[str, bytes | None], message: str) -> None:
    found = _record(measured_outcome(**changes))
    assert found.state == "unreadable"
    assert found.message.startswith(message)
    assert found.measurements == ()


def test_a_tool_that_never_ended_was_left_waiting_by_the_kernel() -> None:
    found = _record(measured_outcome(tool_deadline=b"after 24 s\n"))
    assert (found.state, found.measurements) == ("hang", ())
    assert found.message == "cyclictest was stopped after 24 s: it did not end by itself"


@pytest.mark.parametrize(
    ("time", "host_wait", "expected"),
    [("host", None, "lab"), ("host", 0.5, "lab"), ("host", 0.1, "hang"), ("real", None, "hang")],
)
def test_a_tool_that_never_ended_on_an_emulated_board_of_a_lab_blames_nobody(
    time: str, host_wait: float | None, expected: str
) -> None:
    found = _record(replace(measured_outcome(tool_deadline=b"after 24 s\n"), host_wait=host_wait), time=time)
    assert found.state == expected
    assert "cyclictest was stopped after 24 s" in found.message


_NEVER_WOKE = (CAPTURE.parents[1] / "rt-tests/2.4/cyclictest-zero-cycles.json").read_bytes()


@pytest.mark.parametrize("host_wait", [None, 0.1])
def test_a_thread_that_never_woke_up_on_host_time_shows_a_busy_host(host_wait: float | None) -> None:
    asleep = replace(measured_outcome(cyclictest_json=_NEVER_WOKE), host_wait=host_wait)
    found = _record(asleep, "host")
    assert (found.state, found.measurements) == ("lab", ())
    said = "host too busy: cyclictest reports a thread that never woke up (0 of 2000 cycles); measure again on a host"
    assert found.message == f"{said} with less to do"


@pytest.mark.parametrize("time", ["virtual", "real"])
def test_a_thread_that_never_woke_up_elsewhere_is_output_nobody_understands(time: str) -> None:
    assert _record(measured_outcome(cyclictest_json=_NEVER_WOKE), time).state == "unreadable"


HACKBENCH = Case(suite="scheduling", tool=Hackbench(), load="idle")
_STAT = "{} (hackbench) R 1 66 {} 0 -1 0 0 0 0 0 {} 7 0 0 20 0 1 0 5 0 0" + " 0" * 12 + " 17 0 0 0 0 0 0\n"


@pytest.mark.parametrize(
    ("later", "session", "expected"), [(51, 66, "unreadable"), (50, 66, "hang"), (51, 67, "hang"), (None, 66, "hang")]
)
def test_a_tool_that_was_still_at_work_when_its_time_was_over_was_not_left_waiting(
    later: int | None, session: int, expected: str
) -> None:
    looks = {} if later is None else {"late1": 50, "late2": later}
    changes = {f"processes.{name}": _STAT.format(66, session, ticks).encode() for name, ticks in looks.items()}
    stopped = measured_outcome(tool_out=b"Running\n", tool_rc=b"143\n", tool_deadline=b"after 60 s\n")
    outcome = replace(stopped, host_wait=0.1, files={**stopped.files, **changes})
    found = _record(outcome, "host", HACKBENCH)
    assert (found.state, found.message) == (expected, "hackbench was stopped after 60 s: it did not end by itself")
    assert _record(replace(outcome, host_wait=0.9), "host", HACKBENCH).state == "lab"


def test_tests_of_ssdd_that_ended_well_are_a_sign_of_work_where_nobody_looked() -> None:
    said = b"#main : 50\nforktest#0/55: EXITING, no error\n"
    outcome = measured_outcome(tool_out=said, tool_rc=b"143\n", tool_deadline=b"after 20 s\n")
    found = _record(outcome, case=Case(suite="scheduling", tool=Ssdd(), load="idle"))
    assert (found.state, found.message) == (
        "unreadable",
        "ssdd was stopped after 20 s, when 1 of 10 tests had ended, all well",
    )


def test_oslat_on_all_cpus_of_a_board_has_its_main_thread_on_one_of_them() -> None:
    everywhere = Tuning(name="all", description="", cpus="0-1")
    made = replace(arm(FakeTarget(), board="virt-arm64-smp2"), tuning=everywhere)
    argv = plan(Case(suite="latency", tool=Oslat(), load="idle", tuning="all"), made, 1).argv
    assert {"--cpu-list=0,1", "--cpu-main-thread=0"} < set(argv)


def test_the_plan_waits_longer_for_more_work() -> None:
    made = Case(suite="scheduling", tool=Ssdd(steps=100_000), load="idle")
    assert plan(made, arm(FakeTarget()), 1).tool_deadline_s == 1300


@pytest.mark.parametrize("tool", [PipStress(), PiStress()])
@pytest.mark.parametrize(
    ("time", "host_wait", "expected"),
    [
        ("host", None, "lab"),
        ("host", 0.5, "lab"),
        ("host", 0.1, "measured"),
        ("real", None, "measured"),
        ("virtual", None, "measured"),
        ("virtual", 0.9, "measured"),  # the deadline is of virtual time, which waits for the host
    ],
)
def test_a_lock_that_was_never_given_up_is_the_kernel_s_failure_unless_the_host_was_busy(
    tool: Tool, time: str, host_wait: float | None, expected: str
) -> None:
    silent = measured_outcome(tool_out=b"", tool_err=b"", tool_rc=b"143\n", tool_deadline=b"after 20 s\n")
    found = _record(replace(silent, host_wait=host_wait), time, Case(suite="scheduling", tool=tool, load="idle"))
    assert found.state == expected
    failures = [one.quantity.value for one in found.measurements if one.quantity]
    assert failures == ([1] if expected == "measured" else [])
    assert ("stopped after 20 s" in found.message) is (expected == "lab")


def test_a_failure_that_the_tool_told_of_stands_on_a_busy_host() -> None:
    said = measured_outcome(tool_err=b"WATCHDOG triggered: group 0 is deadlocked!\n", tool_deadline=b"after 20 s\n")
    case = Case(suite="scheduling", tool=PiStress(), load="idle")
    assert _record(replace(said, host_wait=0.9), "host", case).state == "measured"


@pytest.mark.parametrize(
    ("state", "host_wait", "expected"),
    [
        (State.HANG, 0.5, "lab"),
        (State.NO_BOOT, 0.5, "lab"),
        (State.UNREADABLE, 0.5, "lab"),
        (State.HANG, 0.3, "hang"),
        (State.HANG, None, "hang"),  # nobody knows
        (State.FAULT, 0.9, "kernel fault"),  # no host makes a kernel panic
    ],
)
def test_a_kernel_that_did_not_get_to_run_is_not_to_blame(state: State, host_wait: float | None, expected: str) -> None:
    outcome = replace(measured_outcome(), state=state, message="silence", host_wait=host_wait)
    record, _ = measure(CASE, arm(FakeTarget({None: outcome})), 1)
    assert record.state == expected
    assert record.message.endswith("silence")


@pytest.mark.parametrize(
    ("log", "host_wait", "expected"),
    [
        ("Oops: Oops: 0000 [#1] PREEMPT_RT SMP", 0.9, "no boot"),  # waiting makes no kernel oops
        ("Oops: int3: 0000 [#1] PREEMPT_RT SMP", 0.1, "lab"),
        ("Oops: int3: 0000 [#1] PREEMPT_RT SMP", None, "no boot"),  # a real processor, or virtual time
        ("Oops: int3: 0000 [#1] PREEMPT_RT SMP\nKernel panic - not syncing: Fatal exception", 0.1, "lab"),
        ("Oops: int3: 0000 [#1] PREEMPT_RT SMP\nOops: Oops: 0000 [#2] PREEMPT_RT SMP", 0.1, "no boot"),
        ("Oops: Oops: 0000 [#1] PREEMPT_RT SMP\nOops: int3: 0000 [#2] PREEMPT_RT SMP", 0.1, "no boot"),
    ],
)
def test_an_oops_while_booting_is_the_kernel_s_unless_qemu_is_known_to_make_it(
    log: str, host_wait: float | None, expected: str
) -> None:
    faults = scan("".join(f"[    0.738417] {line}\n" for line in log.split("\n")))
    assert faults
    outcome = replace(measured_outcome(), state=State.NO_BOOT, message="it died", host_wait=host_wait, faults=faults)
    record, _ = measure(CASE, arm(FakeTarget({None: outcome})), 1)
    assert record.state == expected
    assert record.message.endswith("it died")
    assert bool(record.faults) is (expected == "no boot")  # a fault that stands is judged, whatever the state


def test_what_was_measured_on_a_busy_host_stays() -> None:
    record, _ = measure(CASE, arm(FakeTarget({None: replace(measured_outcome(), host_wait=0.9)})), 1)
    assert record.state == "measured"


def test_cobalt_shows_itself_beside_uname() -> None:
    assert (
        _record(measured_outcome(facts=facts("facts", {"/proc/xenomai/version": b"3.2.4"}))).environment.flavour
        == "xenomai"
    )


@pytest.mark.parametrize(
    ("version", "enabled", "flavour"),
    [
        (b"#1 SMP PREEMPT_RT Mon Jan  1", b"1", "jailhouse"),
        (b"#1 SMP PREEMPT Mon Jan  1", b"1", "generic"),
        (b"#1 SMP PREEMPT_RT Mon Jan  1", b"0", "preempt_rt"),
        (None, b"1", ""),
    ],
)
def test_a_root_cell_of_jailhouse_has_preempt_rt(version: bytes | None, enabled: bytes, flavour: str) -> None:
    told = facts("facts", {"/sys/devices/jailhouse/enabled": enabled, "/proc/sys/kernel/version": version})
    assert _record(measured_outcome(facts=told)).environment.flavour == flavour


@pytest.mark.parametrize(
    ("dmesg", "time", "log"),
    [
        (b"[    0.000000] Linux version 6.12\n", "virtual", "whole"),
        (b"[    9.000000] late\n", "virtual", "late"),
        (b"[    0.100000] some\n", "real", "some"),
        (b"no stamp\n[    0.529999] some\n[    9.000000] more\n", "real", "some"),
        (b"[    0.540000] the measurement began at 0.53\n", "real", "late"),
        (b"[    9.000000] late\n", "real", "late"),
        (b"no stamps at all\n", "real", "some"),
        (f"{LOG_GOES_ON}\n".encode(), "host", "new"),
        (f"{LOG_GOES_ON}\n[    9.000000] new\n".encode(), "real", "new"),
        (f"{LOG_LOST}\n[    9.000000] new\n".encode(), "real", "late"),
        (b"", "real", ""),
        (None, "virtual", ""),
    ],
)
def test_how_much_of_the_kernel_s_log_there_is(dmesg: bytes | None, time: str, log: str) -> None:
    assert _record(measured_outcome(dmesg=dmesg), time=time).evidence.log == log


@pytest.mark.parametrize(("attached", "log"), [(True, "some"), (False, "late")])
def test_a_board_that_was_running_before_may_have_lost_its_first_lines(attached: bool, log: str) -> None:
    made = arm(FakeTarget({None: measured_outcome(dmesg=b"[    0.500000] late\n")}), time="host")
    assert measure(CASE, replace(made, attached=attached), 1)[0].evidence.log == log


@pytest.mark.parametrize("start", [None, b"", b"soon\n"])
def test_a_log_is_not_late_for_a_measurement_of_which_nobody_knows_when_it_began(start: bytes | None) -> None:
    outcome = measured_outcome(dmesg=b"[    9.000000] late\n", uptime_start=start)
    assert _record(outcome, time="real").evidence.log == "some"


@pytest.mark.parametrize("state", [State.NO_BOOT, State.FAULT, State.HANG, State.LAB])
def test_a_boot_that_went_wrong_is_a_record_too(state: State) -> None:
    log = "[    1.0] Kernel panic - not syncing: no init\n"
    found = _record(Outcome(state=state, message="it did", faults=scan(log)))
    assert (found.state, found.message, found.measurements) == (state.value, "it did", ())
    assert [fault.kind for fault in found.faults] == ["panic"]
    assert found.environment.flavour == ""


def test_faults_of_console_and_kernel_log_count_once() -> None:
    line = "[    1.000000] WARNING: CPU: 0 PID: 1 at kernel/x.c:3 f+0x1/0x2\n"
    both = replace(measured_outcome(dmesg=(line + "[    2.000000] BUG: other\n").encode()), faults=scan(line))
    assert [fault.kind for fault in _record(both).faults] == ["warning", "bug"]


SPLAT = """\
[{0:12.6f}] BUG: sleeping function called from invalid context at kernel/locking/spinlock_rt.c:48
[{0:12.6f}] Call trace:
[{0:12.6f}]  dump_stack_lvl+0x1/0x2
[{0:12.6f}]  __might_resched+0x1/0x2
[{0:12.6f}]  {1}+0x1/0x2
[{0:12.6f}] ordinary
"""
WARNED = "[{:12.6f}] WARNING: CPU: 0 PID: 1 at kernel/x.c:3 f+0x1/0x2\n"


def test_two_faults_with_one_first_line_are_two() -> None:
    log = SPLAT.format(10, "foo") + SPLAT.format(20, "bar")
    for console in ("", log, SPLAT.format(10, "foo"), SPLAT.format(20, "bar")):
        found = _record(replace(measured_outcome(dmesg=log.encode()), faults=scan(console))).faults
        assert [[name for name in ("foo", "bar") if name in one.text] for one in found] == [["foo"], ["bar"]]


def test_of_a_fault_that_the_console_shows_in_part_the_log_s_copy_stays() -> None:
    log = SPLAT.format(10, "foo")
    short = replace(measured_outcome(dmesg=log.encode()), faults=scan(log.split("\n")[0]))
    assert ["foo" in one.text for one in _record(short).faults] == [True]
    other = replace(short, faults=scan(SPLAT.format(11, "bar")))
    assert ["bar" in one.text for one in _record(other).faults] == [True, False]
    alone = replace(measured_outcome(dmesg=b""), faults=scan(log))
    assert ["foo" in one.text for one in _record(alone).faults] == [True]


def test_what_happens_a_thousand_times_is_one_fault_the_last() -> None:
    log = "".join(WARNED.format(number) for number in range(1000))
    (fault,) = _record(measured_outcome(dmesg=log.encode())).faults
    assert "[  999.000000] " in fault.text
    (fault,) = _record(replace(measured_outcome(dmesg=log.encode()), faults=scan(WARNED.format(2000)))).faults
    assert "[ 2000.000000] " in fault.text


@pytest.mark.parametrize("time", ["virtual", "host", "real"])
def test_when_a_measurement_began_is_a_reading_but_not_on_virtual_time(time: str) -> None:
    found = _record(measured_outcome(), time=time).evidence.readings
    assert readings.began_s(found) == (None if time == "virtual" else 0.53)
    nothing = _record(measured_outcome(uptime_start=None, uptime_end=None), time=time).evidence.readings
    assert (readings.UPTIME in nothing, readings.began_s(nothing)) == (False, None)


def test_a_machine_that_cannot_measure_is_no_record() -> None:
    with pytest.raises(InfrastructureError, match="no QEMU"):
        measure(CASE, arm(FakeTarget({None: InfrastructureError("no QEMU")})), 1)


def test_every_state_of_an_outcome_can_be_a_record() -> None:
    assert {state.value for state in State} == {
        *("measured", "skipped", "no boot", "kernel fault", "hang", "unreadable", "not repeated", "lab", "device lost"),
    }


def test_both_arms_carry_out_the_same_plan() -> None:
    target = FakeTarget()
    for name in ("baseline", "candidate"):
        measure(CASE, arm(target, name), 5)
    assert target.plans[0] == target.plans[1] == plan(CASE, arm(target), 5)
    assert target.plans[0].argv[0] == "cyclictest"
    assert target.plans[0].load.argv[0] == "hackbench"
    assert target.plans[0].duration_s == 2
    assert target.plans[0].thread_scope is ThreadScope.OWN
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
    assert uname_flavour(version) == expected


@examples(40)
@given(
    name=st.sampled_from(sorted(files())),
    start=st.integers(0, 600),
    length=st.integers(0, 60),
    new=st.binary(max_size=8),
)
def test_whatever_a_target_sends_there_is_a_record(name: str, start: int, length: int, new: bytes) -> None:
    data = files()[name]
    found = _record(measured_outcome(**{name: data[:start] + new + data[start + length :]}))
    assert found.state in {"measured", "unreadable"}
    assert [check.name for check in checks(found, {})]
    assert hashlib.sha256(repr(found).encode("utf-8", "backslashreplace")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDevices(Stub):
    """A tool that needs devices."""

    devices: ClassVar[tuple[str, ...]] = ("edu", "nvme")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnAll(Stub):
    """A tool that needs all devices."""

    devices: ClassVar[tuple[str, ...]] = ("all",)


def _made(tool: Tool, board: str, time: str = "virtual") -> tuple[Plan, Setting]:
    case = Case(suite="latency", tool=tool, load="idle")
    on = arm(FakeTarget(), time=time, board=board)
    return plan(case, on, 1), setting(case, on)


def test_a_virtual_boot_gets_the_devices_that_its_case_asks_for() -> None:
    made, given = _made(OnDevices(), "virt-arm64")
    assert made.devices == ("nvme", "edu")  # as the board's file has them
    assert set(given.pcie) == {"nvme", "edu"}
    assert not any(need.test == "false" for need in made.needs)
    assert _made(OnAll(), "virt-arm64")[0].devices == ("nvme", "edu", "endpoint")


def test_other_boots_get_none_and_their_plan_stays() -> None:
    made, given = _made(Cyclictest(), "virt-arm64")
    assert (made.devices, given.pcie) == ((), {})
    # The bytes of the script are part of what limits were learnt with.
    bare = arm(FakeTarget(), board="virt-arm64")
    assert script(made) == script(plan(Case(suite="latency", tool=Cyclictest(), load="idle"), bare, 1))


def test_devices_that_a_board_does_not_list_are_why_a_case_is_skipped() -> None:
    made, _ = _made(OnDevices(), "nuc-j3455", "real")
    assert [need.reason for need in made.needs if need.test == "false"] == [
        "nuc-j3455 lists no PCI Express function named edu",
        "nuc-j3455 lists no PCI Express function named nvme",
    ]
    made, _ = _made(OnAll(), "nuc-j3455", "real")
    assert [need.reason for need in made.needs if need.test == "false"] == ["nuc-j3455 lists no PCI Express function"]


@pytest.mark.parametrize(("pci", "skipped"), [("y", False), ("n", True), (None, False)])
def test_a_virtual_board_s_kernel_without_pci_is_known_before_it_boots(pci: str | None, skipped: bool) -> None:
    on = replace(arm(FakeTarget(), board="virt-arm64"), configuration={} if pci is None else {"PCIEPORTBUS": pci})
    case = Case(suite="pcie", tool=OnAll(), load="idle")
    made = plan(case, on, 1)
    reasons = [need.reason for need in made.needs if need.test == NEVER]
    assert reasons == (
        [f"{on.kernel.name} was built without PCI Express (CONFIG_PCIEPORTBUS); the build virt-arm64-pcie has it"]
        if skipped
        else []
    )
    unmade = beforehand(case, made, on, 1)
    assert (unmade is not None) is skipped
    assert unmade is None or unmade.machine["other_build"] == "virt-arm64-pcie"
    bare = plan(Case(suite="latency", tool=Cyclictest(), load="idle"), on, 1)
    assert not any(need.test == NEVER for need in bare.needs)


@pytest.mark.parametrize(
    ("configuration", "lacks"),
    [
        ({"PCIEPORTBUS": "y", "RTGATE_IRQ_RESPONSE": "y"}, ""),
        ({"PCIEPORTBUS": "y"}, "built without the driver CONFIG_RTGATE_IRQ_RESPONSE; the build virt-arm64-irq has it"),
        ({"PCIEPORTBUS": "n"}, "built without the driver CONFIG_RTGATE_IRQ_RESPONSE; the build virt-arm64-irq has it"),
        ({}, ""),
    ],
)
def test_a_kernel_without_our_driver_is_known_before_it_boots(configuration: dict[str, str], lacks: str) -> None:
    on = replace(arm(FakeTarget(), board="virt-arm64"), configuration=configuration)
    case = Case(suite="irq", tool=IrqHard(), load="idle")
    made = plan(case, on, 1)
    assert made.devices == ("rtl8139",)
    unmade = beforehand(case, made, on, 1)
    assert (unmade is not None) is bool(lacks)
    if unmade is not None:
        assert unmade.message.endswith(lacks)
        assert unmade.machine["other_build"] == "virt-arm64-irq"


def test_a_timer_is_not_one_of_all_functions() -> None:
    made, _ = _made(OnAll(), "virt-arm64")
    assert "rtl8139" not in made.devices
    absent, _ = _made(IrqHard(), "rk3588-evb1", "real")
    assert "rk3588-evb1 lists no PCI Express function named rtl8139" in [need.reason for need in absent.needs]


def test_a_real_board_s_kernel_without_pci_must_show_its_devices_all_the_same() -> None:
    bare = arm(FakeTarget(), time="real", board="rk3588-evb1")
    functions = boards.board("virt-arm64").pcie
    on = replace(bare, board=replace(bare.board, pcie=functions), configuration={"PCIEPORTBUS": "n"})
    made = plan(Case(suite="pcie", tool=OnAll(), load="idle"), on, 1)
    assert not any(need.test == NEVER for need in made.needs)


@pytest.mark.parametrize(
    ("built", "lacks"), [({}, []), (dict.fromkeys(("CPU_ISOLATION", "NO_HZ_FULL", "RCU_NOCB_CPU"), "y"), [])]
)
def test_a_kernel_that_can_isolate_or_of_which_nobody_knows_boots(built: dict[str, str], lacks: list[str]) -> None:
    assert _isolating(built) == lacks


def test_a_kernel_that_cannot_isolate_is_known_before_it_boots() -> None:
    (reason,) = _isolating({"PREEMPT_RT": "y", "CPU_ISOLATION": "y", "NO_HZ_FULL": "n"})
    assert reason == (
        "fake was built without CONFIG_NO_HZ_FULL, which nohz_full needs, and CONFIG_RCU_NOCB_CPU, which rcu_nocbs "
        "needs; the build virt-arm64-isolation has them"
    )


def test_a_kernel_that_lost_its_flavour_as_well_boots_and_fails_for_that() -> None:
    assert _isolating({"PREEMPT_RT": "n", "CPU_ISOLATION": "y", "NO_HZ_FULL": "n"}) == []


def _isolating(built: dict[str, str]) -> list[str]:
    """Return why an isolated case of a kernel with this configuration is not booted."""
    on = replace(arm(FakeTarget(), board="virt-arm64-smp2"), configuration=built)
    on = replace(on, tuning=on.board.tuning("isolated"), kernel=replace(on.kernel, name="fake"))
    case = Case(suite="latency", tool=Cyclictest(), load="idle", tuning="isolated")
    record, _ = measure(case, on, 1)
    reasons = [need.reason for need in plan(case, on, 1).needs if need.test == NEVER]
    assert (record.state == "skipped") == bool(reasons)
    assert record.message == "; ".join(reasons) or not reasons
    return reasons


def test_the_environment_names_the_devices() -> None:
    case = Case(suite="latency", tool=OnDevices(), load="idle")
    environment = measure(case, arm(FakeTarget(), board="virt-arm64"), 1)[0].environment
    assert environment.machine == "virt,gic-version=3,iommu=smmuv3 with nvme, edu"
    assert _record(measured_outcome()).environment.machine == "virt,gic-version=3"


# --- storage, and loads that measure

FIO = Path(__file__).parents[2] / "data" / "fio" / "3.39"
INTERFERENCE = Case(suite="nvme", tool=Cyclictest(), load="fio-randwrite")
HEALTHY = b'{"critical_warning": 0, "temperature": 310, "percent_used": 0, "media_errors": 0}'


def _with_fio(**changes: bytes | None) -> Outcome:
    """Return the outcome of a real boot with cyclictest beside a real fio, of another machine, on the board's disk."""
    mine: dict[str, bytes | None] = {
        "load.json": (FIO / "fio-randwrite-ended.json").read_bytes(),
        "fill.json": (FIO / "fio-randwrite-fill.json").read_bytes(),
        "load.rc": b"128\n",
        "storage": b"QEMU NVMe Ctrl, firmware 7.2.22, 2097152 sectors\n[none] mq-deadline\n",
        "health.start": HEALTHY,
        "health.end": HEALTHY,
    }
    return measured_outcome(**{**mine, **changes})


def _on(storage: Storage | None, outcome: Outcome, case: Case = INTERFERENCE) -> Record:
    made = arm(FakeTarget({None: outcome}), board="virt-arm64")
    return measure(case, replace(made, board=replace(made.board, nvme=storage)), 3)[0]


SCRATCH = Storage(
    serial="rtgate-nvme", model="", overwrite=Overwrite.DISK, name="", file_system=FileSystem.EXT4, size_mib=16
)  # fmt: skip


def test_both_numbers_stand_in_one_record() -> None:
    found = _on(SCRATCH, _with_fio())
    assert (found.state, found.message) == ("measured", "")
    values = {one.name: str(one.quantity) for one in found.measurements}
    assert values["fio-randwrite.iops"] == "70366.057 virtual /s"
    assert values["latency.max"] == "45360 virtual ns"
    assert found.environment.storage == "QEMU NVMe Ctrl, firmware 7.2.22, 2097152 sectors, disk, ext4, libaio"
    assert found.evidence.expectation.health == "fio-randwrite.disk"
    assert Count(measurement="fio-randwrite.time", least=1.8) in found.evidence.expectation.counts


def test_a_load_that_measured_for_less_than_the_tool_is_invalid() -> None:
    assert "fio-randwrite.time was 0.601, at least 1.8 are needed" in _failed(_on(SCRATCH, _with_fio()))["counts"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"load.rc": b"137\n"}, "fio did not run until it was ended: no message (exit code 137)"),
        ({"load.rc": None}, "the load's exit code is '': the plan did not see it end"),
        ({"load.json": b"{"}, "fio's JSON is damaged"),
        ({"load.json": None}, "fio wrote no JSON"),
        ({"tool.rc": b"1\n"}, "cyclictest ended with exit code 1"),
    ],
)
def test_neither_number_stands_without_the_other(changes: dict[str, bytes | None], message: str) -> None:
    found = _on(SCRATCH, _with_fio(**changes))
    assert found.state == "unreadable"
    assert message in found.message
    assert found.measurements == ()


def test_a_load_that_measures_brings_its_device_image_and_storage_to_the_plan() -> None:
    board = arm(FakeTarget(), board="virt-arm64").board
    made = plan(INTERFERENCE, replace(arm(FakeTarget(), board="virt-arm64"), board=replace(board, nvme=SCRATCH)), 1)
    assert (made.image, made.devices, made.load.measures) == ("full", ("nvme",), True)
    assert made.storage is not None
    assert (made.storage.size, made.storage.directory) == (16 << 20, "/run/rtgate")
    assert made.deadline_s > made.tool_deadline_s + 60
    assert made.load.argv == FioRandwrite().argv(
        replace(setting(INTERFERENCE, arm(FakeTarget(), board="virt-arm64")), storage=SCRATCH, beside=True)
    )
    reasons = [need.reason for need in made.needs]
    assert (reasons[0], reasons[-1]) == ("the target has no fio", "the kernel has no ext4 file system")


def test_a_board_that_names_no_storage_skips_the_case_and_writes_nothing() -> None:
    board = replace(arm(FakeTarget(), board="virt-arm64").board, nvme=None)
    for case in (INTERFERENCE, Case(suite="nvme", tool=FioRandwrite(), load="idle")):
        made = plan(case, replace(arm(FakeTarget(), board="virt-arm64"), board=board), 1)
        assert made.storage is None
        (need,) = [need for need in made.needs if need.test == "false"]
        assert need.reason == "virt-arm64.yaml names no NVMe storage that is free to overwrite (nvme:)"


def test_a_load_that_measures_has_the_options_of_the_profile() -> None:
    case = Case(suite="pcie", tool=Cyclictest(), load="dmatest")
    usual = arm(FakeTarget(), board="rk3588-evb1", time="real")
    both_channels = replace(usual.profile, options={"dmatest": {"channel": 3}})
    usual_script, script = (
        plan(case, replace(usual, profile=chosen), 1).load.argv[-1] for chosen in (usual.profile, both_channels)
    )
    assert usual_script != script == companions.as_load(Dmatest(channel=3), setting(case, usual)).argv[-1]
    made = replace(usual, profile=both_channels)
    options = measure(case, made, 1)[0].evidence.expectation.options
    assert options == {"dmatest channel": 3} == both_channels.asks("cyclictest", "pcie", "dmatest")
    how = reading(case, made)
    assert (how.companion, how.as_json()["load_options"]) == (Dmatest(channel=3), {"channel": 3})
    assert Reading.from_json(json.loads(json.dumps(how.as_json()))) == how
    assert "load_options" not in reading(case, usual).as_json()


def test_two_tools_do_not_share_the_storage() -> None:
    case = Case(suite="nvme", tool=FioRandwrite(), load="fio-read")
    with pytest.raises(ConfigError, match="both fio-randwrite and fio-read overwrite the board's storage"):
        plan(
            case,
            replace(
                arm(FakeTarget(), board="virt-arm64"),
                board=replace(arm(FakeTarget(), board="virt-arm64").board, nvme=SCRATCH),
            ),
            1,
        )


def test_refused_storage_is_for_the_lab() -> None:
    found = _on(SCRATCH, measured_outcome(refused=b"/dev/nvme0n1 is mounted: nothing was written\n", tool_rc=None))
    assert found.state == "lab"
    assert found.message == "the storage is refused: /dev/nvme0n1 is mounted: nothing was written"
    assert found.measurements == ()


def test_a_disk_that_is_not_there_is_a_state_of_its_own() -> None:
    found = _on(SCRATCH, measured_outcome(lost=b"the kernel shows no NVMe disk\n", tool_rc=None))
    assert (found.state, found.message) == ("device lost", "the kernel shows no NVMe disk")


def test_without_a_disk_the_environment_names_none() -> None:
    assert _record(measured_outcome()).environment.storage == ""


def test_a_tool_that_measures_with_an_instrument_gets_the_board_s() -> None:
    case = Case(suite="irq", tool=IrqInstrumentHard(), load="idle")
    bare = arm(FakeTarget(), time="real", board="rk3568-evb1")
    unmade = beforehand(case, plan(case, bare, 1), bare, 1)
    assert unmade is not None
    assert unmade.message == "rk3568-evb1.yaml names no instrument (instrument:)"
    without = plan(Case(suite="irq", tool=IrqHard(), load="idle"), bare, 1)
    assert not any("names no instrument" in need.reason for need in without.needs)
    wires = Instrument(port="/dev/ttyS4", pulse="gpio3:12", answer="gpio3:13")
    wired = replace(bare, board=replace(bare.board, instrument=wires))
    assert beforehand(case, plan(case, wired, 1), wired, 1) is None
    assert "echo 'hard gpio3:12 gpio3:13' >&4" in plan(case, wired, 1).argv[2]
    assert Reading.from_json(reading(case, wired).as_json()).setting.instrument == wires
    assert plan(case, wired, 1).cleanup == r"[ ! -c /dev/ttyS4 ] || printf '\nstop\n' >/dev/ttyS4"
    assert plan(case, bare, 1).cleanup == ""
