# SPDX-License-Identifier: MIT
"""What the fault bench injects, and what must come of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from selftests.faults import lines, targets
from selftests.faults.lines import Line
from selftests.faults.targets import Blow, Target

from rtgate.console.transport import Transport
from rtgate.judge.verdict import Status

# A line of this length holds the whole session several times over.
_SESSION = 20_000


class Truth(Enum):
    """How it is, whatever arrives: which verdicts are right, and which are wrong."""

    GOOD = "the kernel keeps its limit"
    SLOW = "the kernel breaks its limit"
    DEAD = "the kernel died"
    SICK = "the kernel reported a fault and went on"
    NONE = "nothing was measured, and the kernel is not to blame"


_PLAIN = Target()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of fault.

    Attributes:
        line: makes the line hostile.
        truths: what is true; each is tried.
        seeds: how many times, each with other damage.
        status: the verdict that must come of Truth.NONE.
        says: what the worst verdict must say, as a regular expression.
    """

    name: str
    line: Callable[[Transport, random.Random], Transport] = lambda inner, _: inner
    target: Target = _PLAIN
    truths: tuple[Truth, ...] = (Truth.GOOD, Truth.SLOW)
    seeds: int = 1
    status: Status = Status.ERROR
    says: str = ""


def _line(
    inward: Callable[[random.Random], lines.Change] | None = None,
    outward: Callable[[random.Random], lines.Change] | None = None,
) -> Callable[[Transport, random.Random], Transport]:
    def made(inner: Transport, source: random.Random) -> Transport:
        return Line(inner, inward(source) if inward else None, outward(source) if outward else None)

    return made


def _everything(inner: Transport, source: random.Random) -> Transport:
    inward = lines.combine(
        lines.ends("\r\n"),
        lines.bursts(source, 0.0005, inside=True),
        lines.drops(source, 3000),
        lines.flips(source, 3000),
        lines.gaps(source, 8000),
        lines.doubles(source, 0.02),
    )
    return Line(inner, inward, lines.combine(lines.drops(source, 3000), lines.flips(source, 3000)))


_NONE = (Truth.NONE,)
_DEAD = (Truth.DEAD,)
_SICK = (Truth.SICK,)
_PANIC = targets.captured_fault("panic", "Kernel panic")
_OOPS = targets.captured_fault("oops", "Unable to handle kernel")
_WARNING = """\
[   13.000000] ------------[ cut here ]------------
[   13.000010] WARNING: kernel/sched/core.c:1234 at set_task_cpu+0x1a0/0x1c0, CPU#0: cyclictest/87
[   13.000020] Modules linked in:
[   13.000030] ---[ end trace 0000000000000000 ]---
"""
_STALL = "[   13.000000] rcu: INFO: rcu_preempt self-detected stall on CPU\n"
_ATOMIC = "[   13.000000] BUG: scheduling while atomic: cyclictest/87/0x00000002\n"
_PREEMPTIBLE = "[   13.000000] BUG: using smp_processor_id() in preemptible [00000000] code: cyclictest/87\n"


def _tool(body: str) -> Target:
    return Target(tool=body)


ON_THE_LINE = (
    Fault(name="nothing"),
    Fault(name="one byte at a time", line=lambda inner, _: lines.OneByte(inner)),
    Fault(
        name="kernel messages between lines",
        line=_line(lambda source: lines.bursts(source, 0.3, inside=False)),
        seeds=3,
    ),
    Fault(
        name="kernel messages inside frames",
        line=_line(lambda source: lines.bursts(source, 0.001, inside=True)),
        seeds=3,
    ),
    Fault(name="bytes dropped, to us", line=_line(lambda source: lines.drops(source, 1000)), seeds=4),
    Fault(name="bytes dropped, from us", line=_line(None, lambda source: lines.drops(source, 500)), seeds=4),
    Fault(name="bits flipped, to us", line=_line(lambda source: lines.flips(source, 1000)), seeds=4),
    Fault(name="bits flipped, from us", line=_line(None, lambda source: lines.flips(source, 500)), seeds=4),
    Fault(name="noise, to us", line=_line(lambda source: lines.inserts(source, 1000)), seeds=3),
    Fault(name="noise, from us", line=_line(None, lambda source: lines.inserts(source, 1000)), seeds=3),
    Fault(name="gaps, to us", line=_line(lambda source: lines.gaps(source, 3000)), seeds=3),
    Fault(name="gaps, from us", line=_line(None, lambda source: lines.gaps(source, 3000)), seeds=3),
    Fault(name="chunks twice, to us", line=_line(lambda source: lines.doubles(source, 0.2)), seeds=3),
    Fault(name="chunks twice, from us", line=_line(None, lambda source: lines.doubles(source, 0.1)), seeds=3),
    Fault(
        name="stops for a second, to us", line=_line(lambda source: lines.stops(source, 1.0, _SESSION // 4)), seeds=4
    ),
    Fault(
        name="stops for a second, from us",
        line=_line(None, lambda source: lines.stops(source, 1.0, _SESSION // 4)),
        seeds=3,
    ),
    Fault(name="LF only", line=_line(lambda _: lines.ends("\n"))),
    Fault(name="CR only", line=_line(lambda _: lines.ends("\r"))),
    Fault(name="CR CR LF", line=_line(lambda _: lines.ends("\r\r\n"))),
    Fault(name="LF CR", line=_line(lambda _: lines.ends("\n\r"))),
    Fault(name="CR LF, from us", line=_line(None, lambda _: lines.ends("\r\n"))),
    Fault(name="CR, from us", line=_line(None, lambda _: lines.ends("\r"))),
    Fault(name="first end marks damaged", line=_line(lambda _: lines.first("MRK", 6))),
    Fault(name="closing frames damaged", line=_line(lambda _: lines.first(" end ", 3))),
    Fault(name="first frames damaged", line=_line(lambda _: lines.first(" 1 ", 4))),
    Fault(name="everything at once", line=_everything, seeds=6),
)
ON_THE_TARGET = (
    *(Fault(name=f"shell: {name}", target=Target(shell=name)) for name in ("bash", "busybox", "android", "odd prompt")),
    Fault(
        name="started board with another prompt",
        target=Target(shell="bash", boots=True),
    ),
    Fault(
        name="android's shell, bits flipped",
        target=Target(shell="android"),
        line=_line(lambda source: lines.flips(source, 1500)),
        seeds=2,
    ),
    Fault(
        name="bash, bytes dropped both ways",
        target=Target(shell="bash"),
        line=_line(lambda source: lines.drops(source, 1500), lambda source: lines.drops(source, 1500)),
        seeds=2,
    ),
    Fault(name="a tool that prints binary", target=_tool("head -c 20000 /dev/urandom; " + targets.GOOD)),
    Fault(
        name="programs missing",
        target=Target(shell="bare busybox"),
        truths=_NONE,
        status=Status.MISS,
        says="lacks cksum",
    ),
    Fault(
        name="kernel log not readable",
        target=Target(log_code=1),
        truths=_NONE,
        status=Status.MISS,
        says="kernel log cannot be read",
    ),
    Fault(name="login prompt", target=Target(shell="login"), truths=_NONE, status=Status.MISS, says="asks for a login"),
    Fault(
        name="login prompt after a boot",
        target=Target(shell="login", boots=True),
        truths=_NONE,
        status=Status.MISS,
        says="asks for a login",
    ),
    Fault(
        name="boot loader's prompt",
        target=Target(shell="boot loader"),
        truths=_NONE,
        status=Status.MISS,
        says="no shell",
    ),
    Fault(
        name="disk full before the plan",
        target=Target(disk_kib=8),
        truths=_NONE,
        status=Status.MISS,
        says="the target cannot (?:write|make)",
    ),
    Fault(
        name="disk full in the plan",
        target=Target(disk_kib=128, tool="head -c 1000000 /dev/zero >big; " + targets.GOOD),
        truths=_NONE,
        status=Status.MISS,
        says="full or not writable",
    ),
    Fault(
        name="disk full after the plan",
        target=Target(disk_kib=160, tool="head -c 60000 /dev/urandom >big; " + targets.GOOD),
        truths=_NONE,
        status=Status.MISS,
        says="full or not writable",
    ),
    Fault(name="tool missing", target=Target(shell="android", tool=""), truths=_NONE, says="exit code 127"),
    Fault(name="tool crashes", target=_tool("kill -SEGV $$"), truths=_NONE, says="exit code 139"),
    Fault(
        name="tool crashes after good results",
        target=_tool('cat "$result" >cyclictest.json; sleep "$lasts"; kill -SEGV $$'),
        truths=_NONE,
        says="exit code 139",
    ),
    Fault(name="tool prints nothing", target=_tool('exec sleep "$lasts"'), truths=_NONE, says="wrote no JSON"),
    Fault(
        name="tool prints garbage",
        target=_tool('head -c 3000 /dev/urandom >cyclictest.json; exec sleep "$lasts"'),
        truths=_NONE,
        says="JSON is damaged",
    ),
    Fault(
        name="tool ends with 0 after failing",
        target=_tool("echo 'FATAL: timerthread0: failed to set priority' >&2; exit 0"),
        truths=_NONE,
        says="wrote no JSON",
    ),
    Fault(
        name="tool breaks off in its results",
        target=_tool('head -c 900 "$result" >cyclictest.json; exec sleep "$lasts"'),
        truths=_NONE,
        says="JSON is damaged",
    ),
    Fault(
        name="tool ends too soon",
        target=_tool('cat "$result" >cyclictest.json'),
        truths=_NONE,
        says="invalid measurement",
    ),
)
IN_MID_MEASUREMENT = (
    Fault(name="panic", target=Target(blow=Blow(says=_PANIC)), truths=_DEAD, says="Kernel panic - not syncing"),
    Fault(
        name="panic, then a boot",
        target=Target(blow=Blow(says=_PANIC, then="boots")),
        truths=_DEAD,
        says="Kernel panic",
    ),
    Fault(
        name="panic on a bad line",
        target=Target(blow=Blow(says=_PANIC)),
        line=_line(lambda source: lines.flips(source, 300)),
        truths=_DEAD,
        seeds=3,
    ),
    Fault(
        name="boot without a word",
        target=Target(blow=Blow(then="boots")),
        truths=_DEAD,
        says="started again by itself: Booting Linux",
    ),
    Fault(
        name="silent boot", target=Target(blow=Blow(then="boots", loudly=False)), truths=_DEAD, says="another boot_id"
    ),
    Fault(
        name="boot on a bad line",
        target=Target(blow=Blow(then="boots")),
        line=_line(lambda source: lines.flips(source, 300), lambda source: lines.flips(source, 800)),
        truths=_DEAD,
        seeds=3,
    ),
    Fault(
        name="told to reboot",
        target=Target(blow=Blow(says="[   13.0] reboot: Restarting system\n", then="boots")),
        truths=_NONE,
        status=Status.MISS,
        says="a program had the target stopped",
    ),
    Fault(
        name="oops, and it goes on",
        target=Target(blow=Blow(says=_OOPS, then="goes on")),
        truths=_DEAD,
        says="Unable to handle kernel",
    ),
    Fault(name="hang", target=Target(blow=Blow(then="silent")), truths=_DEAD, says="hung"),
    Fault(
        name="a plan that does not end",
        target=Target(tool="exec sleep 60"),
        truths=_DEAD,
        says="the target hung during the measurement: .*; after Ctrl-C it answers",
    ),
    Fault(name="machine stops", target=Target(boots=True, blow=Blow(then="ends")), truths=_DEAD, says="without a word"),
    Fault(
        name="console closes", target=Target(blow=Blow(then="breaks")), truths=_NONE, status=Status.MISS, says="closed"
    ),
    Fault(
        name="warning on the console",
        target=Target(blow=Blow(says=_WARNING, then="goes on")),
        truths=_SICK,
        says="warning: WARNING: kernel/sched",
    ),
    Fault(name="warning in the log", target=Target(log=_WARNING), truths=_SICK, says="warning: WARNING: kernel/sched"),
    Fault(
        name="scheduling while atomic",
        target=Target(blow=Blow(says=_ATOMIC, then="goes on")),
        truths=_SICK,
        says="atomic-sleep: BUG: scheduling",
    ),
    Fault(
        name="BUG that does not kill",
        target=Target(blow=Blow(says=_PREEMPTIBLE, then="goes on")),
        truths=_SICK,
        says="bug: BUG: using smp",
    ),
    Fault(
        name="stall on a bad line",
        target=Target(log=_STALL),
        line=_line(lambda source: lines.drops(source, 1500)),
        truths=_SICK,
        seeds=2,
        says="rcu-stall",
    ),
)
FAULTS = (*ON_THE_LINE, *ON_THE_TARGET, *IN_MID_MEASUREMENT)
