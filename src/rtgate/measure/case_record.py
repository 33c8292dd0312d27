# SPDX-License-Identifier: MIT
"""Measuring: carry out a case's plan on a boot, and make the record of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from rtgate.board import firmware
from rtgate.board.boot import TimeBase
from rtgate.board.tuning import cpus
from rtgate.console.faults import FATAL, OF_TIME
from rtgate.errors import ParseError
from rtgate.kernel import build_id
from rtgate.measure import observations, storage_use
from rtgate.measure.case import Arm, Case, companion_of, functions_of, load_of, reading, setting
from rtgate.measure.case_plan import beforehand, plan
from rtgate.records.environment import Environment
from rtgate.records.evidence import Evidence
from rtgate.records.expectation import Expectation
from rtgate.records.record import Record
from rtgate.target import host
from rtgate.target.outcome import Outcome, State
from rtgate.target.plan import Plan
from rtgate.tools import Expected, companions
from rtgate.tools.measurement import Measurement
from rtgate.tools.registry import changed_options
from rtgate.validity import clock, duration, links, registry, settings, suspend, threads
from rtgate.validity import isolation as isolation_check
from rtgate.validity import load as load_check
from rtgate.validity.plan_files import text


def measure(case: Case, arm: Arm, seed: int) -> tuple[Record, Outcome]:
    """Carry out a case on one boot and return its record, with the outcome that holds the raw output.

    A kernel that breaks and a lab that fails are records too: judging says whose turn it is.

    Raises:
        InfrastructureError: this machine cannot carry out plans at all.
    """
    boot_plan = plan(case, arm, seed)
    outcome = beforehand(case, boot_plan, arm, seed) or arm.target.run(boot_plan)
    return make_record(case, arm, boot_plan, outcome), outcome


def make_record(case: Case, arm: Arm, boot_plan: Plan, outcome: Outcome) -> Record:
    """Return the record of what came of a case's plan."""
    state, message = outcome.state, outcome.message
    measurements: tuple[Measurement, ...] = ()
    if state is State.MEASURED and outcome.files.get("skip"):
        state, message = State.SKIPPED, "; ".join(text(outcome.files, "skip").splitlines())
    elif state is State.MEASURED and outcome.files.get("lost"):
        state, message = State.LOST, text(outcome.files, "lost")
    elif state is State.MEASURED and outcome.files.get("refused"):
        state, message = State.LAB, f"the storage is refused: {text(outcome.files, 'refused')}"
    elif state is State.MEASURED:
        try:
            measurements = reading(case, arm).measurements(outcome.files)
        except ParseError as error:
            state, message = host.unread(outcome, error, arm.time)
            # What was still at work was not left waiting by the kernel.
            state = State.UNREADABLE if state is State.HANG and observations.at_work(outcome.files, error) else state
        timeout = host.excuse_timeout(outcome, arm.time)
        if measurements and timeout:
            state, message, measurements = State.LAB, timeout, ()
    excuse = host.excuse(state, outcome)
    if excuse:
        state, message = State.LAB, f"{excuse}: {message}"
        excused_kinds = FATAL | OF_TIME if outcome.host_stopped else FATAL
        outcome = replace(outcome, faults=tuple(fault for fault in outcome.faults if fault.kind not in excused_kinds))
    return _record(case, arm, boot_plan, _Result(outcome, state, message, measurements))


@dataclass(frozen=True, slots=True)
class _Result:
    """An outcome and what was read from it."""

    outcome: Outcome
    state: State
    message: str
    measurements: tuple[Measurement, ...]


def _record(case: Case, arm: Arm, boot_plan: Plan, result: _Result) -> Record:
    outcome = result.outcome
    return Record(
        case=case.name,
        board=arm.board.name,
        arm=arm.name,
        profile=arm.profile.name,
        seed=boot_plan.seed if arm.virtual_time else None,
        boot_id=observations.facts(outcome.files, "facts").get("/proc/sys/kernel/random/boot_id", ""),
        state=result.state,
        message=result.message,
        argv=boot_plan.argv,
        kernel=arm.kernel,
        environment=_environment(arm, outcome, boot_plan.devices),
        evidence=_evidence(case, arm, outcome.files),
        measurements=result.measurements,
        faults=observations.faults(outcome, functions_of(case, arm)),
        line={"received": outcome.line.received, "damaged": outcome.line.damaged, "repeated": outcome.line.repeated},
        seconds=outcome.seconds,
        machine=outcome.machine,
        reading=reading(case, arm).as_json() if result.measurements else {},
    )


def _environment(arm: Arm, outcome: Outcome, devices: tuple[str, ...]) -> Environment:
    files, board = outcome.files, arm.board
    qemu = board.qemu if arm.time != TimeBase.REAL else None
    facts, before = observations.facts(files, "facts"), observations.facts(files, "facts.start")
    return Environment(
        board=board.name,
        soc=board.soc,
        arch=board.arch,
        time=arm.time,
        cpus=str(board.cpus),
        cpu_model=qemu.cpu if qemu else "",
        memory_mib=str(board.memory_mib),
        instruction_ns=str(qemu.instruction_ns) if qemu and arm.virtual_time else "",
        emulator=outcome.machine.get("qemu", ""),
        machine=qemu.machine_with(devices) + (f" with {', '.join(devices)}" if devices else "") if qemu else "",
        rootfs=outcome.machine.get("rootfs", ""),
        tools=observations.tools(facts),
        flavour=observations.flavour(facts),
        kernel_release=facts.get("/proc/sys/kernel/osrelease", ""),
        kernel_version=facts.get("/proc/sys/kernel/version", ""),
        build_id=build_id.in_notes(files.get("notes", b"")),
        config_sha256=text(files, "config.sha256").split(" ")[0],
        command_line=observations.command_line(facts),
        tuning=arm.tuning.name,
        clocksource=observations.clocksource(before),
        rt_runtime_us=before.get("/proc/sys/kernel/sched_rt_runtime_us", ""),
        isolated=facts.get(f"{observations.CPU}/isolated", ""),
        nohz_full=facts.get(f"{observations.CPU}/nohz_full", ""),
        online=facts.get(f"{observations.CPU}/online", ""),
        model=facts.get("/sys/firmware/devicetree/base/model", "").rstrip("\0"),
        firmware=firmware.before_kernel(board.firmware, outcome.console.decode(errors="replace")) if qemu else "",
        governors=observations.by_cpu(facts, r"/cpufreq/scaling_governor"),
        idle_states=observations.by_cpu(facts, r"/cpuidle/state\d+/name"),
        idle_disabled=observations.disabled_idle_states(facts),
        frequency=observations.by_cpu(facts, r"/cpufreq/scaling_cur_freq"),
        frequency_min=observations.by_cpu(facts, r"/cpufreq/scaling_min_freq"),
        frequency_max=observations.by_cpu(facts, r"/cpufreq/scaling_max_freq"),
        mitigations=observations.list_values(facts, f"{observations.CPU}/vulnerabilities/"),
        irq_affinity=observations.list_values(facts, "/proc/irq/", "/smp_affinity_list"),
        storage=storage_use.describe(files, board.nvme),
    )


def _expectation(case: Case, arm: Arm, demands: Expected) -> Expectation:
    companion = companion_of(case, arm.profile)
    both = companions.with_companion(demands, companion, setting(case, arm)) if companion else demands
    of_tool = {attribute.name: getattr(both, attribute.name) for attribute in fields(both)}
    return Expectation(
        **{**of_tool, "cpus": demands.cpus or (cpus(arm.tuning.cpus) if arm.tuning.cpus else ())},
        options={**changed_options(case.tool), **arm.profile.asks_of_load(case.load, case.suite)},
        command_line=arm.tuning.command_line,
        priorities=dict(arm.tuning.priorities),
        irq_affinity=arm.tuning.irq_affinity,
        counters=links.counter_owners(functions_of(case, arm)),
        temperature_limit=arm.board.temperature_limit,
        firmware=dict(arm.board.firmware),
    )


def _evidence(case: Case, arm: Arm, files: Mapping[str, bytes]) -> Evidence:
    demands = case.tool.expected(setting(case, arm))
    around = observations.around(files)
    readings = registry.readings(around)
    return Evidence(
        expectation=_expectation(case, arm, demands),
        load=case.load,
        load_processes=load_of(case, arm).processes,
        load_output=load_check.load_output(files),
        load_ended=load_check.load_ended(files),
        threads=threads.seen_threads(files, demands),
        load_seen=load_check.load_seen(files),
        elapsed_s=duration.elapsed_s(files),
        settings={path: values for path, values in (observations.UNREAD | around).items() if path not in readings},
        readings=readings | ({} if arm.virtual_time else observations.uptimes(files)),
        writes={
            write.path: write.reads or f"^{re.escape(write.value)}$"
            for write in (*case.tool.writes, *arm.tuning.writes)
        },
        kernel_threads=settings.kernel_threads(files, arm.tuning),
        log=observations.kernel_log(files, ours=arm.time != TimeBase.REAL and not arm.attached),
        suspends=suspend.suspend_lines(files),
        rcu_nocbs=isolation_check.rcu_nocbs(files, arm.tuning.command_line),
        processes=clock.processes(files),
    )
