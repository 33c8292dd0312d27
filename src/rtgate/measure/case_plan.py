# SPDX-License-Identifier: MIT
"""The plan of a case on an arm, and why one cannot run there."""

from __future__ import annotations

from rtgate.board import isolation, pcie
from rtgate.board.tuning import cpus
from rtgate.measure import flavour_need, storage_use
from rtgate.measure.case import Arm, Case, device_names, devices_of, functions_of, load_of, setting, tools_of
from rtgate.measure.drivers import Undriven, undriven
from rtgate.records.record import OTHER_BUILD
from rtgate.target.outcome import Outcome, State
from rtgate.target.plan import Plan
from rtgate.tools.needs import NEVER, Need, unmet_needs
from rtgate.validity import registry
from rtgate.validity.check import PlanInputs


def plan(case: Case, arm: Arm, seed: int) -> Plan:
    """Return the plan of a case for one boot."""
    case_setting, load = setting(case, arm), load_of(case, arm)
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
            *_no_instrument(case, arm),
            *(Need(test=NEVER, reason=lack.reason(arm.kernel.name)) for lack in [_undriven(case, arm)] if lack),
            *_isolation_problems(arm),
            *flavour_need.needs(case.tool, arm.kernel.known_flavour),
            *case.tool.required(),
            *load.needs,
            *_confinement_problems(case, arm),
            *_beyond(case, arm),
            *storage_use.needs(tools_of(case, arm.profile), case_setting, arm.board.name),
        ),
        writes=(*case.tool.writes, *arm.tuning.writes),
        priorities=arm.tuning.priorities,
        command_line=arm.tuning.command_line,
        image="full" if "full" in {case.tool.image, load.image} else "core",
        work_directory=arm.board.work_directory,
        devices=devices_of(case, arm) if arm.board.qemu else (),
        storage=storage_use.use(tools_of(case, arm.profile), case_setting),
        cleanup="" if arm.virtual_time else case.tool.undo(case_setting),  # such a boot ends with the plan
        watched=registry.files(PlanInputs(time=arm.time, tuning=arm.tuning, functions=functions_of(case, arm))),
    )


def _absent(case: Case, arm: Arm) -> tuple[Need, ...]:
    """Return what no target has: the devices that a case measures, and that the board's file does not list."""
    there = {**functions_of(case, arm), **dict.fromkeys(devices_of(case, arm))}
    names = [
        name
        for name in dict.fromkeys(device_names(case, arm))
        if name not in there and not (name == pcie.ALL and there)
    ]
    return tuple(
        Need(
            test=NEVER,
            reason=f"{arm.board.name} lists no PCI Express function" + ("" if name == pcie.ALL else f" named {name}"),
        )
        for name in names
    )


def _no_instrument(case: Case, arm: Arm) -> tuple[Need, ...]:
    """Return what no target has: an instrument outside of the board, which a case measures with, and no file names."""
    if not case.tool.instrumented or arm.board.instrument is not None:
        return ()
    return (Need(test=NEVER, reason=f"{arm.board.name}.yaml names no instrument (instrument:)"),)


def _undriven(case: Case, arm: Arm) -> Undriven | None:
    return undriven(arm.board, arm.configuration, devices_of(case, arm), case.tool.driver)


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


def beforehand(case: Case, boot_plan: Plan, arm: Arm, number: int) -> Outcome | None:
    """Return the outcome of a plan of which the board's file says that it cannot run; None if it may. Nothing boots."""
    reasons = unmet_needs(boot_plan.needs, arm.board.cpus)
    if not reasons:
        return None
    lack = _undriven(case, arm)
    other = {OTHER_BUILD: lack.build} if lack is not None and lack.build else {}
    machine = {"boot": str(number), "ran": "nothing", **other}
    return Outcome(state=State.SKIPPED, message="; ".join(reasons), machine=machine)
