# SPDX-License-Identifier: MIT
"""Measuring: carry out a case's plan on a boot, and make the record of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Protocol

from rtgate.board import firmware, isolation, pcie
from rtgate.board.boards import Board
from rtgate.board.boot import ArmName, TimeBase
from rtgate.board.tuning import DEFAULT, Tuning, cpus
from rtgate.console.faults import FATAL, OF_TIME
from rtgate.errors import ParseError
from rtgate.kernel import build_id
from rtgate.measure import flavour_need, instrument_need, observations, storage_use
from rtgate.measure.drivers import Undriven, undriven
from rtgate.measure.profiles import Profile
from rtgate.measure.raw_output import Reading
from rtgate.records.environment import Environment
from rtgate.records.evidence import Evidence
from rtgate.records.expectation import Expectation
from rtgate.records.record import OTHER_BUILD, KernelIdentity, Record
from rtgate.target import host
from rtgate.target.outcome import Outcome, State
from rtgate.target.plan import Plan
from rtgate.tools import Expected, Setting, Tool, companions, loads
from rtgate.tools.case_name import CaseName
from rtgate.tools.loads import Load
from rtgate.tools.measurement import Measurement
from rtgate.tools.needs import NEVER, Need, unmet_needs
from rtgate.validity import clock, duration, links, registry, settings, suspend, threads
from rtgate.validity import isolation as isolation_check
from rtgate.validity import load as load_check
from rtgate.validity.check import PlanInputs
from rtgate.validity.plan_files import text


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Suite, tool and load: what one test item measures."""

    suite: str
    tool: Tool
    load: str
    tuning: str = DEFAULT.name

    @property
    def name(self) -> str:
        """Return `suite/tool:load`, with `+tuning` where the board was tuned."""
        return str(CaseName(suite=self.suite, tool=self.tool.name, load=self.load, tuning=self.tuning))

    @property
    def companion(self) -> Tool | None:
        """The load as a tool, if it is one that measures beside the other."""
        return companions.companion(self.load)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tool, and its companion if it has one."""
        return (self.tool,) if self.companion is None else (self.tool, self.companion)


class Target(Protocol):
    """Something that carries out a plan: a virtual board, or a live console."""

    def run(self, plan: Plan) -> Outcome:
        """Carry out the plan on one boot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One kernel of a comparison on one board, ready to be measured.

    Attributes:
        target: what carries out the plans.
        configuration: what the kernel was built with, value by symbol; empty if nobody knows.
        attached: whether the board was running before anybody measured, so that its log may have lost its beginning.
    """

    name: ArmName
    board: Board
    kernel: KernelIdentity
    profile: Profile
    time: TimeBase
    target: Target
    tuning: Tuning = DEFAULT
    configuration: Mapping[str, str] = field(default_factory=dict)
    attached: bool = False

    @property
    def virtual_time(self) -> bool:
        """Whether time is that of a counted-instruction machine."""
        return self.time == TimeBase.VIRTUAL


def setting(case: Case, arm: Arm) -> Setting:
    """Return what a case's options take from the arm's board and profile."""
    cpu_list = arm.tuning.cpus
    return Setting(
        cpus=len(cpus(cpu_list)) if cpu_list else arm.board.cpus,
        cpu_list=cpu_list,
        board_cpus=arm.board.cpus,
        memory_mib=arm.board.memory_mib,
        duration_s=arm.profile.of(case.tool.name, case.suite, case.load).duration_s,
        virtual_time=arm.virtual_time,
        pcie=_functions(case, arm),
        storage=arm.board.nvme,
        directory=arm.board.work_directory,
        instrument=arm.board.instrument,
    )


def reading(case: Case, arm: Arm) -> Reading:
    """Return how a case's raw output is read."""
    return Reading(tool=case.tool, load=case.load, setting=setting(case, arm), cpu_classes=arm.board.cpu_classes)


def _load(case: Case, arm: Arm) -> Load:
    """Return what runs beside the tool. Raises ConfigError for an unknown load."""
    if case.companion is not None:
        return companions.as_load(case.companion, setting(case, arm))
    return loads.load(case.load, arm.board, arm.profile.loads.get(case.load))


def _devices(case: Case, arm: Arm) -> tuple[str, ...]:
    """Return the names of the devices that a case measures: on a virtual board those that its boot gets.

    All of them are those that the board's file lists as functions.
    """
    names = set(_asked_devices(case, arm))
    names |= set(arm.board.pcie) if pcie.ALL in names else set()
    return tuple(name for name in (arm.board.qemu.devices if arm.board.qemu else arm.board.pcie) if name in names)


def _asked_devices(case: Case, arm: Arm) -> tuple[str, ...]:
    return (*case.tool.devices, *(case.companion or _load(case, arm)).devices)


def _functions(case: Case, arm: Arm) -> Mapping[str, pcie.Function]:
    """Return the functions that are expected in a case: of a virtual board, those of the devices in its boot."""
    there = _devices(case, arm) if arm.board.qemu else (pcie.ALL,)
    return pcie.select_functions(arm.board.pcie, there)


def plan(case: Case, arm: Arm, seed: int) -> Plan:
    """Return the plan of a case for one boot."""
    case_setting, load = setting(case, arm), _load(case, arm)
    demands = case.tool.expected(case_setting)
    return Plan(
        case=case.name,
        argv=case.tool.argv(case_setting),
        load=load,
        virtual_time=arm.virtual_time,
        seed=seed,
        duration_s=demands.duration_s,
        work_s=demands.work_s,
        thread_scope=demands.seen,
        needs=(
            *_absent(case, arm),
            *instrument_need.needs(case.tool, arm.board),
            *(Need(test=NEVER, reason=lack.reason(arm.kernel.name)) for lack in [_undriven(case, arm)] if lack),
            *_isolation_problems(arm),
            *flavour_need.needs(case.tool, arm.kernel.known_flavour),
            *case.tool.required(),
            *load.needs,
            *_confinement_problems(case, arm),
            *_beyond(case, arm),
            *storage_use.needs(case.tools, case_setting, arm.board.name),
        ),
        writes=(*case.tool.writes, *arm.tuning.writes),
        priorities=arm.tuning.priorities,
        command_line=arm.tuning.command_line,
        image="full" if "full" in {case.tool.image, load.image} else "core",
        work_directory=arm.board.work_directory,
        devices=_devices(case, arm) if arm.board.qemu else (),
        storage=storage_use.use(case.tools, case_setting),
        watched=registry.files(PlanInputs(time=arm.time, tuning=arm.tuning, functions=_functions(case, arm))),
    )


def _absent(case: Case, arm: Arm) -> tuple[Need, ...]:
    """Return what no target has: the devices that a case measures, and that the board's file does not list."""
    device_names = dict.fromkeys(_asked_devices(case, arm))
    there = {**_functions(case, arm), **dict.fromkeys(_devices(case, arm))}
    names = [name for name in device_names if name not in there and not (name == pcie.ALL and there)]
    return tuple(
        Need(
            test=NEVER,
            reason=f"{arm.board.name} lists no PCI Express function" + ("" if name == pcie.ALL else f" named {name}"),
        )
        for name in names
    )


def _undriven(case: Case, arm: Arm) -> Undriven | None:
    return undriven(arm.board, arm.configuration, _devices(case, arm), case.tool.driver)


def _isolation_problems(arm: Arm) -> tuple[Need, ...]:
    """Return what is known of a kernel before it boots: without an option it passes over an argument of the tuning."""
    missing_options = isolation.lacking(arm.tuning.command_line, arm.configuration) if arm.configuration else []
    # One that has lost its flavour as well is not passed over: it boots, and fails for that.
    if not missing_options or (arm.kernel.flavour == "preempt_rt" and arm.configuration.get("PREEMPT_RT") != "y"):
        return ()
    pronoun = "it" if len(missing_options) == 1 else "them"
    there = f"; the build {arm.tuning.build} has {pronoun}" if arm.tuning.build else ""
    return (Need(test=NEVER, reason=f"{arm.kernel.name} was built without {', and '.join(missing_options)}{there}"),)


def _confinement_problems(case: Case, arm: Arm) -> tuple[Need, ...]:
    """Return what no target has: a way to keep a tool on the tuning's CPUs that does not do so by itself."""
    own = case.tool.expected(setting(case, arm)).cpus
    if not arm.tuning.cpus or (set(own) <= set(cpus(arm.tuning.cpus)) if own else case.tool.confined):
        return ()
    reason = f"{case.tool.name} is not kept on CPUs {arm.tuning.cpus}, which the tuning {arm.tuning.name} asks for"
    return (Need(test=NEVER, reason=reason),)


def _beyond(case: Case, arm: Arm) -> tuple[Need, ...]:
    """Return what no target has: CPUs that a profile's options name, and the board's file does not."""
    there = arm.board.cpus
    missing_cpus = [str(cpu) for cpu in case.tool.expected(setting(case, arm)).cpus if cpu >= there]
    count = "one CPU" if there == 1 else f"{there} CPUs"
    reason = f"{case.tool.name} should measure on CPU {', '.join(missing_cpus)}, and {arm.board.name} has {count}"
    return (Need(test=NEVER, reason=reason),) if missing_cpus else ()


def measure(case: Case, arm: Arm, seed: int) -> tuple[Record, Outcome]:
    """Carry out a case on one boot and return its record, with the outcome that holds the raw output.

    A kernel that breaks and a lab that fails are records too: judging says whose turn it is.

    Raises:
        InfrastructureError: this machine cannot carry out plans at all.
    """
    boot_plan = plan(case, arm, seed)
    outcome = beforehand(case, boot_plan, arm, seed) or arm.target.run(boot_plan)
    return make_record(case, arm, boot_plan, outcome), outcome


def beforehand(case: Case, boot_plan: Plan, arm: Arm, number: int) -> Outcome | None:
    """Return the outcome of a plan of which the board's file says that it cannot run; None if it may. Nothing boots."""
    reasons = unmet_needs(boot_plan.needs, arm.board.cpus)
    if not reasons:
        return None
    lack = _undriven(case, arm)
    other = {OTHER_BUILD: lack.build} if lack is not None and lack.build else {}
    machine = {"boot": str(number), "ran": "nothing", **other}
    return Outcome(state=State.SKIPPED, message="; ".join(reasons), machine=machine)


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
        faults=observations.faults(outcome, _functions(case, arm)),
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
    both = companions.with_companion(demands, case.companion, setting(case, arm)) if case.companion else demands
    of_tool = {attribute.name: getattr(both, attribute.name) for attribute in fields(both)}
    return Expectation(
        **{**of_tool, "cpus": demands.cpus or (cpus(arm.tuning.cpus) if arm.tuning.cpus else ())},
        options=arm.profile.asks(case.tool.name, case.suite, case.load),
        command_line=arm.tuning.command_line,
        priorities=dict(arm.tuning.priorities),
        irq_affinity=arm.tuning.irq_affinity,
        counters=links.counter_owners(_functions(case, arm)),
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
        load_processes=_load(case, arm).processes,
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
