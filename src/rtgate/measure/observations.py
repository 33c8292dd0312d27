# SPDX-License-Identifier: MIT
"""What a plan saw on its target, read from the files that it left: facts, settings, faults, the kernel's log.

Evidence that one validity check alone needs is read in that check's module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from rtgate.board.pcie import Function
from rtgate.console import traces
from rtgate.console.faults import STAMP, Fault, scan
from rtgate.errors import ParseError, UnfinishedError
from rtgate.target.outcome import Outcome
from rtgate.validity import links, readings
from rtgate.validity.plan_files import stats, text, uptime

_FACT = re.compile(r"(?P<path>/sys/bus/pci/devices/[0-9a-f:.]{1,20}/[^:]*|[^:]*):(?P<content>.*)")
_BOOT_IMAGE = re.compile(r"(?:^|(?<=\s))BOOT_IMAGE=\S*\s*")
_NFS_DIRECTORY = re.compile(r"(?:^|(?<=\s))(nfsroot=(?:[^\s,:]*:)?)[^\s,]+")
CPU = "/sys/devices/system/cpu"
CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
# Settings that every target has: one that was not read is missing, not unchanged.
UNREAD = dict.fromkeys(("/proc/sys/kernel/printk", "/proc/sys/kernel/sched_rt_runtime_us", CLOCK), ("", ""))


def facts(files: Mapping[str, bytes], name: str) -> dict[str, str]:
    """Return what /proc and /sys said, by path, from lines `PATH:CONTENT`; addresses on PCI have colons themselves."""
    contents: dict[str, list[str]] = {}
    for line in files.get(name, b"").decode("utf-8", errors="replace").splitlines():
        match = _FACT.fullmatch(line)
        if match:
            contents.setdefault(match["path"], []).append(match["content"])
    return {path: "\n".join(lines).strip() for path, lines in contents.items()}


def command_line(facts: Mapping[str, str]) -> str:
    """Return the kernel's arguments, without where a boot loader has taken its files from in this boot.

    GRUB begins with the path of the image (`BOOT_IMAGE=`), and a root file system on the network has its directory in
    `nfsroot=`. LAVA makes both anew for each boot, so equal boots would never be comparable.
    """
    text = facts.get("/proc/cmdline", "")
    return _NFS_DIRECTORY.sub(r"\1*", _BOOT_IMAGE.sub("", text)).strip()


def uname_flavour(version: str) -> str:
    """Return the flavour that `uname -v` proves: `preempt_rt`, else `generic`; empty when it is not known.

    Mainline's option and the patch queue both write PREEMPT_RT; 4.19 and older wrote `PREEMPT RT`.
    `/sys/kernel/realtime` is no proof: it is absent on mainline 6.12 with PREEMPT_RT.
    """
    if not version:
        return ""
    return "preempt_rt" if re.search(r"\bPREEMPT[_ ]RT\b", version) else "generic"


def flavour(facts: Mapping[str, str]) -> str:
    """Return the flavour that ran: Cobalt and Jailhouse show themselves beside what `uname -v` says.

    A root cell of Jailhouse is one with PREEMPT_RT: without it, it has lost its flavour.
    """
    if facts.get("/proc/xenomai/version"):
        return "xenomai"
    linux = uname_flavour(facts.get("/proc/sys/kernel/version", ""))
    return "jailhouse" if linux == "preempt_rt" and facts.get("/sys/devices/jailhouse/enabled") == "1" else linux


def settings(files: Mapping[str, bytes], name: str) -> dict[str, str]:
    """Return the settings."""
    contents = facts(files, name)
    return {**contents, CLOCK: clocksource(contents)} if CLOCK in contents else contents


def clocksource(facts: Mapping[str, str]) -> str:
    """Return the counter of time; `tsc-early` is `tsc` before its calibration (arch/x86/kernel/tsc.c)."""
    name = facts.get(CLOCK, "")
    return "tsc" if name == "tsc-early" else name


def faults(outcome: Outcome, functions: Mapping[str, Function]) -> tuple[Fault, ...]:
    """Return the faults of the console and of the kernel log, those that stand in both once, and those of PCI links."""
    log = scan(outcome.files.get("dmesg", b"").decode("utf-8", errors="replace"))
    log_keys = {_copy_key(fault) for fault in log}
    by_key: dict[tuple[object, ...], Fault] = {}
    for fault in (
        *(console_fault for console_fault in outcome.faults if _copy_key(console_fault) not in log_keys),
        *log,
    ):
        twin = by_key.get(_repeat_key(fault))
        # The last of those that are alike: the first may be an earlier measurement's of this boot.
        if twin is None or _at(fault) >= _at(twin):
            by_key[_repeat_key(fault)] = fault
    # Without the second look nothing is gone; that it is missing makes the measurement invalid.
    state = around(outcome.files) if settings(outcome.files, "facts.end") else {}
    return (*by_key.values(), *links.faults(links.of(state), functions))


def with_boot(faults: Sequence[Fault], boot: Iterable[Fault]) -> tuple[Fault, ...]:
    """Return the faults of a record behind those that its boot's console told and that the record has not."""
    known_keys = {key(fault) for fault in faults for key in (_copy_key, _repeat_key)}
    new = {_repeat_key(fault): fault for fault in boot if not known_keys & {_copy_key(fault), _repeat_key(fault)}}
    return (*new.values(), *faults)


def _repeat_key(fault: Fault) -> tuple[object, ...]:
    """Return what two faults have in common that are the same thing happening again."""
    return (fault.kind, fault.line, traces.place(fault))


def _copy_key(fault: Fault) -> tuple[object, ...]:
    """Return what two copies of one fault have in common: a console may show less of its text than the log."""
    at = traces.said_at(fault)
    return _repeat_key(fault) if at is None else (at, fault.line)


def _at(fault: Fault) -> float:
    """Return when a fault was said, -1 if nobody knows."""
    at = traces.said_at(fault)
    return -1.0 if at is None else at


def around(files: Mapping[str, bytes]) -> dict[str, tuple[str, str]]:
    """Return what was read before and after measuring, by path; empty text for what was not read."""
    before, after = settings(files, "facts.start"), settings(files, "facts.end")
    return {path: (before.get(path, ""), after.get(path, "")) for path in sorted({*before, *after})}


# First line of the kernel log of a soak's chunk: what follows is new since the chunk before, or that one's end is gone.
LOG_GOES_ON, LOG_LOST = "rtgate: new since the chunk before", "rtgate: lines after the chunk before are lost"


def kernel_log(files: Mapping[str, bytes], *, ours: bool) -> str:
    """Return how much of the kernel's log there is (see `record.Evidence`); a boot of ours has its first lines."""
    log = files.get("dmesg", b"")
    if not log.strip():
        return ""
    if log.startswith((LOG_GOES_ON.encode(), LOG_LOST.encode())):
        return "new" if log.startswith(LOG_GOES_ON.encode()) else "late"
    if ours:
        return "whole" if b"Linux version " in log else "late"
    return "late" if _overwritten(files) else "some"


def _overwritten(files: Mapping[str, bytes]) -> bool:
    """Return whether the log begins after the measurement did: what the kernel said in between is gone."""
    first = STAMP.search(files["dmesg"].decode("utf-8", errors="replace"))
    start = uptime(files, "start")
    return first is not None and start is not None and float(first[1]) > start


def at_work(files: Mapping[str, bytes], error: ParseError) -> bool:
    """Return whether a tool that was stopped before it had done its work was still doing it.

    It was if it used CPU time in its last second; where nobody looked, if its output says that it had got on.
    """
    session = text(files, "tool.pid")
    looks = [stats(files, f"processes.{moment}") for moment in ("late1", "late2")]
    if not session or not all(looks):
        return isinstance(error, UnfinishedError)
    ticks = [sum(int(value) for _, stat in look if stat[3] == session for value in stat[11:15]) for look in looks]
    return ticks[1] > ticks[0]


def uptimes(files: Mapping[str, bytes]) -> dict[str, tuple[str, str]]:
    """Return what /proc/uptime said before and after measuring, as a reading; nothing where nobody measured."""
    before, after = text(files, "uptime.start"), text(files, "uptime.end")
    return {readings.UPTIME: (before, after)} if before or after else {}


def list_values(facts: Mapping[str, str], start: str, end: str = "") -> str:
    """Return `NAME VALUE, ...` of the files between two parts of a path."""
    names = {
        path.removeprefix(start).removesuffix(end): value
        for path, value in facts.items()
        if path.startswith(start) and path.endswith(end)
    }
    return ", ".join(f"{name} {value}" for name, value in sorted(names.items()))


def by_cpu(facts: Mapping[str, str], pattern: str) -> str:
    """Return the different values of a file that each CPU has."""
    values = [value for path, value in facts.items() if re.fullmatch(rf"{CPU}/cpu\d+{pattern}", path)]
    return ", ".join(dict.fromkeys(values))


def disabled_idle_states(facts: Mapping[str, str]) -> str:
    """Return the idle states that CPUs may not enter as `NAME on CPU N, N; ...`."""
    states: dict[str, list[int]] = {}
    for path, value in facts.items():
        match = re.fullmatch(rf"({CPU}/cpu(\d{{1,5}})/cpuidle/state\d+)/disable", path)
        if match and value != "0":
            states.setdefault(facts.get(f"{match[1]}/name") or match[1], []).append(int(match[2]))
    return "; ".join(f"{name} on CPU {', '.join(map(str, sorted(on)))}" for name, on in sorted(states.items()))


def tools(facts: Mapping[str, str]) -> str:
    """Return packages and our own programs as `name version, ...`, from the root filesystem's own list."""
    try:
        manifest = json.loads(facts.get("/etc/rtgate-rootfs.json", "") or "{}")
        versions = {**manifest.get("packages", {}), **manifest.get("programs", {})}
        return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    except (ValueError, AttributeError, TypeError, RecursionError):
        return ""
