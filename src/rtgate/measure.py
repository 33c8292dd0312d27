# SPDX-License-Identifier: MIT
"""Measuring: carry out a case's plan on a boot, and make the record of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Protocol

from rtgate import loads
from rtgate.boards import Board
from rtgate.console.faults import scan
from rtgate.environment import Environment
from rtgate.errors import ParseError
from rtgate.measurement import Measurement
from rtgate.profiles import Profile
from rtgate.record import Evidence, FaultSeen, KernelIdentity, LoadSeen, Record, Thread
from rtgate.target.outcome import Outcome, State
from rtgate.target.plan import Plan
from rtgate.tools import Output, Setting, Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Suite, tool and load: what one test item measures."""

    suite: str
    tool: Tool
    load: str

    @property
    def name(self) -> str:
        """Return `suite/tool:load`."""
        return f"{self.suite}/{self.tool.name}:{self.load}"


class Target(Protocol):
    """Something that carries out a plan: a virtual board, or a live console."""

    def run(self, plan: Plan) -> Outcome:
        """Carry out the plan on one boot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One kernel of a comparison on one board, ready to be measured.

    Attributes:
        name: `baseline` or `candidate`.
        time: `virtual`, `host` or `real`.
        target: what carries out the plans.
        rootfs: the root filesystem's SHA-256, empty when it is not ours.
    """

    name: str
    board: Board
    kernel: KernelIdentity
    profile: Profile
    time: str
    target: Target
    rootfs: str = ""


def setting(arm: Arm) -> Setting:
    """Return what a tool's options take from the arm's board and profile."""
    return Setting(cpus=arm.board.cpus, duration_s=arm.profile.duration_s, virtual_time=arm.time == "virtual")


def plan(case: Case, arm: Arm, seed: int) -> Plan:
    """Return the plan of a case for one boot."""
    return Plan(
        case=case.name,
        argv=case.tool.argv(setting(arm)),
        load=loads.load(case.load, arm.board),
        seed=seed,
        duration_s=arm.profile.duration_s,
        threaded=case.tool.expected(setting(arm)).threads > 0,
        work_directory=arm.board.work_directory,
    )


def measure(case: Case, arm: Arm, seed: int) -> tuple[Record, Outcome]:
    """Carry out a case on one boot and return its record, with the outcome that holds the raw output.

    A kernel that breaks and a lab that fails are records too: judging says whose turn it is.

    Raises:
        InfrastructureError: this machine cannot carry out plans at all.
    """
    made = plan(case, arm, seed)
    outcome = arm.target.run(made)
    state, message = outcome.state, outcome.message
    measurements: tuple[Measurement, ...] = ()
    if state is State.MEASURED:
        try:
            measurements = case.tool.parse(_output(outcome, setting(arm)))
        except ParseError as error:
            state, message = State.UNREADABLE, str(error)
    return _record(case, arm, made, _Result(outcome, state, message, measurements)), outcome


@dataclass(frozen=True, slots=True)
class _Result:
    """An outcome and what was read from it."""

    outcome: Outcome
    state: State
    message: str
    measurements: tuple[Measurement, ...]


def _output(outcome: Outcome, made: Setting) -> Output:
    code = outcome.files.get("tool.rc", b"").decode("ascii", errors="replace").strip()
    if not re.fullmatch(r"[0-9]{1,3}", code):
        raise ParseError(f"the tool's exit code is {code!r}: the plan did not see it end")
    return Output(files=outcome.files, exit_code=int(code), setting=made)


def _record(case: Case, arm: Arm, made: Plan, result: _Result) -> Record:
    outcome = result.outcome
    return Record(
        case=case.name,
        board=arm.board.name,
        arm=arm.name,
        profile=arm.profile.name,
        seed=made.seed if arm.time == "virtual" else None,
        boot_id=_text(outcome.files, "boot_id"),
        state=result.state.value,
        message=result.message,
        argv=made.argv,
        kernel=arm.kernel,
        environment=_environment(arm, outcome),
        evidence=_evidence(case, arm, outcome.files),
        measurements=result.measurements,
        faults=_faults(outcome),
        line={"received": outcome.line.received, "damaged": outcome.line.damaged, "repeated": outcome.line.repeated},
        seconds=outcome.seconds,
        machine=outcome.machine,
    )


def _faults(outcome: Outcome) -> tuple[FaultSeen, ...]:
    """Return the faults of the console and of the kernel log, those that stand in both once."""
    seen: dict[str, FaultSeen] = {}
    log = outcome.files.get("dmesg", b"").decode("utf-8", errors="replace")
    for fault in (*outcome.faults, *scan(log)):
        seen.setdefault(fault.line, FaultSeen(kind=fault.kind.value, line=fault.line, text=fault.text))
    return tuple(seen.values())


def _text(files: Mapping[str, bytes], name: str) -> str:
    return files.get(name, b"").decode("utf-8", errors="replace").strip()


def _environment(arm: Arm, outcome: Outcome) -> Environment:
    files, board = outcome.files, arm.board
    qemu = board.qemu if arm.time != "real" else None
    version = _text(files, "uname.v")
    return Environment(
        board=board.name,
        soc=board.soc,
        arch=board.arch,
        time=arm.time,
        cpus=str(board.cpus),
        cpu_model=qemu.cpu if qemu else "",
        memory_mib=str(board.memory_mib),
        instruction_ns=str(qemu.instruction_ns) if qemu and arm.time == "virtual" else "",
        emulator=outcome.machine.get("qemu", ""),
        machine=qemu.machine if qemu else "",
        rootfs=arm.rootfs,
        tools=_tools(files),
        flavour=flavour(version),
        kernel_release=_text(files, "uname.r"),
        kernel_version=version,
        config_sha256=_text(files, "config.sha256").split(" ")[0],
        command_line=_text(files, "cmdline"),
        clocksource=_text(files, "clocksource.start"),
        rt_runtime_us=_text(files, "rt_runtime_us.start"),
        isolated=_text(files, "isolated"),
        nohz_full=_text(files, "nohz_full"),
        online=_text(files, "online"),
    )


def flavour(uname_version: str) -> str:
    """Return the flavour that `uname -v` proves: `preempt_rt`, else `generic`; empty when it is not known.

    Mainline's option and the patch queue both write PREEMPT_RT; 4.19 and older wrote `PREEMPT RT`.
    `/sys/kernel/realtime` is no proof: it is absent on mainline 6.12 with PREEMPT_RT.
    """
    if not uname_version:
        return ""
    return "preempt_rt" if re.search(r"\bPREEMPT[_ ]RT\b", uname_version) else "generic"


def _tools(files: Mapping[str, bytes]) -> str:
    """Return the packages on the target as `name version, ...`, from the root filesystem's own list."""
    try:
        listed = json.loads(files.get("rootfs", b"") or b"{}")
        return ", ".join(f"{name} {version}" for name, version in sorted(listed.get("packages", {}).items()))
    except (ValueError, AttributeError, TypeError, RecursionError):
        return ""


def _evidence(case: Case, arm: Arm, files: Mapping[str, bytes]) -> Evidence:
    moments = ("start", "middle", "late", "end")
    expected = case.tool.expected(setting(arm))
    return Evidence(
        asked=asdict(expected),
        load=case.load,
        threads=tuple(thread for moment in moments for thread in _threads(files, moment)),
        load_seen=tuple(_load_seen(files, moment) for moment in moments if f"processes.{moment}" in files),
        elapsed_s=_elapsed(files),
        printk=_text(files, "printk.start").split("\t")[0],
        changed=tuple(
            f"{name} was {before!r} and became {after!r}"
            for name in ("printk", "clocksource", "rt_runtime_us")
            for before, after in [(_setting(files, f"{name}.start"), _setting(files, f"{name}.end"))]
            if before != after
        ),
    )


def _setting(files: Mapping[str, bytes], name: str) -> str:
    """Return a setting; `tsc-early` is the same counter as `tsc`, before its calibration (arch/x86/kernel/tsc.c)."""
    text = _text(files, name)
    return "tsc" if text == "tsc-early" else text


_STAT = re.compile(r"\d+ \((?P<name>.*)\) (?P<fields>\S(?: -?[0-9]{1,20}){38,})\s*")


def _stats(files: Mapping[str, bytes], name: str) -> list[tuple[str, list[str]]]:
    """Return name and fields 3, 4, ... of each `/proc/PID/stat` line (proc(5)); names may hold spaces and brackets."""
    found = []
    for line in files.get(name, b"").decode("utf-8", errors="replace").splitlines():
        match = _STAT.fullmatch(line)
        if match:
            found.append((match["name"], match["fields"].split()))
    return found


def _threads(files: Mapping[str, bytes], moment: str) -> list[Thread]:
    return [
        Thread(moment=moment, name=name, processor=int(fields[36]), priority=int(fields[37]), policy=int(fields[38]))
        for name, fields in _stats(files, f"threads.{moment}")
    ]


def _load_seen(files: Mapping[str, bytes], moment: str) -> LoadSeen:
    session = _load_session(files)
    ours = [fields for _, fields in _stats(files, f"processes.{moment}") if session and fields[3] == session]
    alive = [fields for fields in ours if fields[0] not in {"Z", "X"}]
    # utime, stime, and those of children that were waited for (fields 14 to 17 of proc(5))
    return LoadSeen(
        moment=moment, processes=len(alive), ticks=sum(int(value) for fields in ours for value in fields[11:15])
    )


def _load_session(files: Mapping[str, bytes]) -> str:
    """Return the session id of the load, which is the process id that the plan wrote down."""
    return _text(files, "load.pid")


def _elapsed(files: Mapping[str, bytes]) -> float | None:
    try:
        start, end = (float(_text(files, f"uptime.{moment}").split()[0]) for moment in ("start", "end"))
    except (IndexError, ValueError):
        return None
    return round(end - start, 2)
