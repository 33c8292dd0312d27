# SPDX-License-Identifier: MIT
"""A target that does what a test wrote down, with results captured from a real boot."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtgate.board import boards
from rtgate.board.boot import ArmName, TimeBase
from rtgate.measure.case import Arm
from rtgate.measure.profiles import profile
from rtgate.records.record import KernelIdentity
from rtgate.target.outcome import Outcome, State
from rtgate.target.plan import Plan

CAPTURE = Path(__file__).with_name("data") / "plan" / "virt-arm64-hackbench"
ROOTFS = "b" * 64
CPU = "/sys/devices/system/cpu"
CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
PRINTK = "/proc/sys/kernel/printk"
RUNTIME = "/proc/sys/kernel/sched_rt_runtime_us"
VERSION = "/proc/sys/kernel/version"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
PACKAGES = "/etc/rtgate-rootfs.json"

# The plan of the capture copied each fact to a file of its own. By path, which file it was.
_WATCHED = {PRINTK: "printk", RUNTIME: "rt_runtime_us", CLOCK: "clocksource"}
_ASKED = {
    "/proc/version": "version",
    "/proc/cmdline": "cmdline",
    "/proc/sys/kernel/osrelease": "uname.r",
    VERSION: "uname.v",
    BOOT_ID: "boot_id",
    f"{CPU}/online": "online",
    f"{CPU}/isolated": "isolated",
    PACKAGES: "rootfs",
}

Act = Callable[[Plan], Outcome]


def _facts(name: str) -> dict[str, bytes]:
    """Return the facts of one file of the capture, by path."""
    _, dot, moment = name.partition(".")
    paths = {path: f"{file}.{moment}" for path, file in _WATCHED.items()} if dot else _ASKED
    return {path: (CAPTURE / file).read_bytes() for path, file in paths.items()}


def grep_output(facts: Mapping[str, bytes]) -> bytes:
    """Return what `grep -Hs ''` prints of files with this content; it ends the last line of each."""
    return b"".join(
        b"%b:%b\n" % (path.encode(), line)
        for path, content in facts.items()
        for line in (content.removesuffix(b"\n").split(b"\n") if content else ())
    )


def facts(name: str, changes: Mapping[str, bytes | None] | None = None) -> bytes:
    """Return the file `facts`, `facts.start` or `facts.end` of a real boot, with the content of some paths changed."""
    found: dict[str, bytes | None] = {**_facts(name), **(changes or {})}
    return grep_output({path: content for path, content in found.items() if content is not None})


def files(**changes: bytes | None) -> dict[str, bytes]:
    """Return what the plan of a real boot collected; `a_b=data` changes the file `a.b`, None removes it."""
    single = {*_ASKED.values(), *(f"{file}.{when}" for file in _WATCHED.values() for when in ("start", "end"))}
    found = {path.name: path.read_bytes() for path in CAPTURE.iterdir() if path.name not in single}
    found |= {name: facts(name) for name in ("facts", "facts.start", "facts.end")}
    found["tool.pid"] = b"66\n"
    found["processes"] = b"".join(_comm(line) for line in found["processes.end"].splitlines())
    for word, data in changes.items():
        name = word if "." in word else word.replace("_", ".")
        found.pop(name, None)
        if data is not None:
            found[name] = data
    return found


def _comm(stat: bytes) -> bytes:
    return stat[stat.index(b"(") + 1 : stat.rindex(b")")] + b"\n"


def measured_outcome(**changes: bytes | None) -> Outcome:
    """Return the outcome of a real boot, with some files changed."""
    return Outcome(
        state=State.MEASURED,
        files=files(**changes),
        console=b"booting\r\nrtgate: plan started\r\n",
        seconds={"boot": 0.5, "total": 1.5},
        machine={"qemu": "QEMU emulator version 7.2.22", "rootfs": ROOTFS},
    )


def skipped_outcome(reasons: str = "needs two CPUs\n") -> Outcome:
    """Return the outcome of a boot whose plan did not run the tool: only facts were collected."""
    left = ("facts", "processes", "uname.m", "config.sha256", "dmesg")
    whole = measured_outcome(skip=reasons.encode())
    kept = {name: whole.files[name] for name in (*left, "skip")}
    return Outcome(state=whole.state, files=kept, console=whole.console, seconds=whole.seconds, machine=whole.machine)


def slow() -> Outcome:
    """Return the outcome of a boot in which one wake-up took 99 virtual us."""
    text = files()["cyclictest.json"]
    return measured_outcome(
        cyclictest_json=text.replace(b'"45360": 1', b'"99000": 1').replace(b'"max": 45360', b'"max": 99000')
    )


def _with_threads(files: Mapping[str, bytes], plan: Plan) -> Mapping[str, bytes]:
    """Return the files with the one thread of a captured cyclictest on each CPU that the plan measures on."""
    number = next((int(word.partition("=")[2]) for word in plan.argv if word.startswith("--threads=")), 1)
    try:
        document = json.loads(files.get("cyclictest.json", b""))
        thread = document["thread"]["0"]
    except (ValueError, LookupError, TypeError):
        return files
    if plan.argv[0] != "cyclictest" or len(document["thread"]) != 1 or number == 1:
        return files
    document["thread"] = {str(cpu): {**thread, "cpu": cpu} for cpu in range(number)}
    return {**files, "cyclictest.json": json.dumps(document, indent=2).encode()}


@dataclass
class FakeTarget:
    """Does for each seed what is written down for it, otherwise what is written down for None."""

    script: Mapping[int | None, Outcome | BaseException | Act] = field(
        default_factory=lambda: {None: measured_outcome()}
    )
    plans: list[Plan] = field(default_factory=list)

    def run(self, plan: Plan) -> Outcome:
        self.plans.append(plan)
        act = self.script.get(plan.seed, self.script.get(None, measured_outcome()))
        if isinstance(act, BaseException):
            raise act
        outcome = act if isinstance(act, Outcome) else act(plan)
        outcome = replace(outcome, files=_with_threads(outcome.files, plan))
        # A virtual-time board notes which plan it ran: nothing else may be compared.
        booted = {"image_sha256": "a" * 64, "qemu_sha256": "9" * 64}
        return replace(outcome, machine={"plan": "faked", **booted, **outcome.machine})


def arm(target: FakeTarget, name: str = "candidate", time: str = "virtual", board: str = "virt-arm64") -> Arm:
    """Return an arm of a board of the project whose boots are faked."""
    return Arm(
        name=ArmName(name),
        board=boards.board(board),
        kernel=KernelIdentity(
            name=f"kernel-{name}",
            flavour="preempt_rt",
            release="6.12.117",
            image_sha256="a" * 64,
            source="a tree",
            provenance="rtgate",
        ),
        profile=profile("smoke"),
        time=TimeBase(time),
        target=target,
    )


def arms(*made: Arm) -> Callable[..., tuple[Arm, ...]]:
    """Return what replaces `rtgate.workflow.arms.make_arms`."""
    return lambda *_: made
