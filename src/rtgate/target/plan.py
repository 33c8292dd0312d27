# SPDX-License-Identifier: MIT
"""Plans: what one measurement does on the target, as one POSIX shell script made from typed data.

The same script is carried out in the initramfs of a virtual-time board and over a live console. It prints nothing
while it measures; its results leave it afterwards, in frames (`rtgate.console.frames`). Called as `plan resend 3 7`
it prints those frames again.

Files that a plan leaves: `facts.start`, `facts.end` and `facts` (lines `PATH:CONTENT` of what /proc and /sys say),
`uptime.MOMENT` and, while there is a load, `processes.MOMENT` (lines of `/proc/PID/stat` of all processes) at `start`,
`middle`, `late` and `end`, `threads.middle` and `threads.late` (such lines of the tool's threads or of all),
`processes` (names of all), `processes.late1` and `.late2` (of a tool with a fixed amount of work that was stopped; not
on virtual time), `tool.out`, `tool.err`, `tool.rc`, `tool.pid`, `tool.deadline`, `skip` (why the tool was not run),
`load.out`, `load.pid`, `load.rc` (of a load that measures), `load.ended` (of one that ended by itself), `dmesg`,
`kthreads`, `uname.m`, `config.sha256`, `notes` (of the kernel; not on virtual time), and what the tool wrote itself;
with storage those of `rtgate.target.storage`.
"""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass

from rtgate.board.tuning import Write
from rtgate.console.frames import PAYLOAD
from rtgate.target import storage
from rtgate.tools.loads import Load
from rtgate.tools.needs import Need
from rtgate.tools.shell_script import fill
from rtgate.tools.threads import ThreadScope

# Printed before and after the measuring window: they tell a dead boot from a dead plan, and where host time goes.
_START = "rtgate: plan started"
_MEASURED = "rtgate: measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One measurement on one boot.

    Attributes:
        case: `suite/tool:load`.
        argv: the tool's command; it runs in the results directory.
        load: what runs beside it.
        seed: names the phase: it delays the tool and the load by a fraction of a second each.
        duration_s: how long the tool is asked to run, in target seconds.
        work_s: how long a fixed amount of work may take, in target seconds; 0 for a tool that runs for a time.
        thread_scope: where its measuring threads are found; with `OWN`, the load ends when they have.
        needs: what the target must have.
        writes: settings to apply, read back, and put back.
        image: the root filesystem image that has the tool.
        priorities: SCHED_FIFO priority by the start of the names of the kernel's threads.
        command_line: kernel arguments that this plan's boot needs beside the board's.
        work_directory: a directory on the target's RAM file system.
        kernel_log: the command that prints the kernel's log.
        storage: what is done with the board's storage; None for nothing.
        devices: those of a virtual board that this plan's boot needs.
        virtual_time: where another byte in the script moves what is measured. On any other time the tool waits until
            the load has begun, and more is written down: the exit code of a load that ends by itself, whether a tool
            that is late with its work still does some, the highest frequencies, and the kernel's notes.
        watched: further files below /proc and /sys that are read before and after measuring; patterns of the shell.
        cleanup: commands that undo what a killed tool leaves in the kernel.
    """

    case: str
    argv: tuple[str, ...]
    load: Load
    seed: int
    duration_s: float
    thread_scope: ThreadScope = ThreadScope.SESSION
    needs: tuple[Need, ...] = ()
    writes: tuple[Write, ...] = ()
    image: str = "core"
    command_line: str = ""
    priorities: tuple[tuple[str, int], ...] = ()
    work_directory: str = "/run/rtgate"
    kernel_log: str = "dmesg"
    devices: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()
    storage: storage.Use | None = None
    virtual_time: bool = True
    work_s: float = 0
    cleanup: str = ""

    @property
    def tool_deadline_s(self) -> float:
        """Target seconds after which the tool is stopped and the plan has failed."""
        return max(2 * self.duration_s + 20, self.work_s)

    @property
    def deadline_s(self) -> float:
        """Target seconds after which the whole plan has failed."""
        return self.tool_deadline_s + (self.storage.preparation_s if self.storage else 0)

    @property
    def nonce(self) -> str:
        """The word that marks this plan's frames.

        It is the same for the same plan and seed, so that both arms of a comparison carry the same bytes: 16 other
        bytes in the initramfs already move a histogram.
        """
        return "F" + hashlib.sha256(_fill(self, "").encode()).hexdigest()[:9]

    @property
    def phases_us(self) -> tuple[int, int]:
        """Microseconds to wait before the load starts and before the tool starts; both are below 50 ms."""
        digest = hashlib.sha256(f"{self.seed}".encode()).digest()
        return int.from_bytes(digest[:4], "big") % 50_000, int.from_bytes(digest[4:8], "big") % 50_000


def has_started(log: str) -> bool:
    """Return whether a plan began, going by what the console printed."""
    return _START in log


def has_measured(log: str) -> bool:
    """Return whether the measuring window is over, going by what the console printed."""
    return _MEASURED in log


def script(plan: Plan) -> str:
    """Return the plan as a script for any POSIX shell with the usual utilities (busybox and toybox among them)."""
    return _fill(plan, plan.nonce)


def _fill(plan: Plan, nonce: str) -> str:
    load_phase, tool_phase = plan.phases_us
    middle, late = plan.duration_s * 0.5, plan.duration_s * 0.9
    values = {
        "NONCE": nonce,
        "CASE": plan.case,
        "SEED": plan.seed,
        "IMAGE": plan.image,
        "PAYLOAD": PAYLOAD,
        "ARGUMENTS": plan.command_line.replace("\n", " ") or "the board's",
        "DEVICES": f", devices: {' '.join(plan.devices)}" if plan.devices else "",
        "WORK": shlex.quote(f"{plan.work_directory}/{nonce}"),
        "NEEDS": "\n".join(
            f"{need.test if plan.virtual_time else need.mounting_test} || echo {shlex.quote(need.reason)} >>skip"
            for need in plan.needs
        ),
        "WATCHED": " ".join(dict.fromkeys((*_WATCHED, *(write.path for write in plan.writes), *plan.watched))),
        "FACTS": " ".join((*_FACTS, *(() if plan.virtual_time else _MORE_FACTS))),
        "WRITES": "\n".join(f"put {shlex.quote(write.value)} {write.path}" for write in plan.writes),
        "PRIORITIES": "\n".join(f"prioritise {value} {shlex.quote(start)}" for start, value in plan.priorities),
        "KTHREADS": "cat /proc/[0-9]*/stat >kthreads 2>/dev/null" if plan.priorities else "",
        "LOAD": _load(plan),
        "STOP": _STOP_WHEN_WRITTEN if plan.load.measures else _STOP,
        "LOAD_PHASE": f"{load_phase / 1e6:.6f}",
        "TOOL": shlex.join(plan.argv),
        "TOOL_PHASE": f"{tool_phase / 1e6:.6f}",
        "MIDDLE": f"{middle:.3f}",
        "LATE": f"{late - middle:.3f}",
        "DEADLINE": f"{plan.tool_deadline_s:.0f}",
        "NOTES": "" if plan.virtual_time else _NOTES,
        "STILL": _STILL if plan.work_s and not plan.virtual_time else "",
        "THREADS": "/proc/$tool/task/[0-9]*/stat"
        if plan.thread_scope is ThreadScope.OWN
        else "/proc/[0-9]*/task/[0-9]*/stat",
        "END": _THREADS_END if plan.thread_scope is ThreadScope.OWN else _TOOL_END,
        "KERNEL_LOG": plan.kernel_log,
        "PUT_BACK": PUT_BACK,
        "PREPARE": f"{storage.prepare(plan.storage)}[ -s skip ] || prepare_storage\n" if plan.storage else "",
        "REFUSED": "|| [ -s refused ] || [ -s lost ] " if plan.storage else "",
        "RELEASE": "[ -s skip ] || release_storage\n" if plan.storage else "",
        "LEAVE": _leave(plan),
        "START": _START,
        "MEASURED": _MEASURED,
    }
    return fill(_SCRIPT, values)


def _load(plan: Plan) -> str:
    load = plan.load
    if not load.argv:
        return ""
    command = shlex.join(load.argv)
    if not plan.virtual_time and not load.measures:
        again = "[ $code = 0 ] || break" if load.repeat else "break"
        body = f"while :; do {command}; code=$?; {again}; done; echo $code >load.ended"
    else:
        body = f"while :; do {command} || exit; done" if load.repeat else f"exec {command}"
    start = f"setsid sh -c {shlex.quote(body)} >load.out 2>&1 </dev/null &\nload=$!\necho $load >load.pid"
    return start if plan.virtual_time else f"{start}{_BEGUN}"


def _leave(plan: Plan) -> str:
    directory = plan.load.directory
    commands = (
        *([plan.cleanup] if plan.cleanup else ()),
        *(["leave_storage"] if plan.storage else ()),
        *([f"rm -rf {shlex.quote(directory)}"] if directory else ()),
    )
    return "".join(f"{command}\n    " for command in commands)


# Read before and after measuring, and compared: what a measurement must not see change.
_WATCHED = (
    "/proc/sys/kernel/printk",
    "/proc/sys/kernel/sched_rt_runtime_us",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
)
# Read once, after measuring: what an expert asks for. A path that does not exist on a target is passed over.
_FACTS = (
    *("/proc/version", "/proc/cmdline", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/version"),
    *("/proc/sys/kernel/random/boot_id", "/sys/kernel/realtime", "/proc/xenomai/version"),
    "/sys/devices/jailhouse/enabled",
    *(f"/sys/devices/system/cpu/{name}" for name in ("online", "isolated", "nohz_full", "vulnerabilities/*")),
    *(f"/sys/devices/system/cpu/cpu*/cpufreq/scaling_{name}" for name in ("governor", "cur_freq", "min_freq")),
    *(f"/sys/devices/system/cpu/cpu*/cpuidle/state*/{name}" for name in ("name", "disable")),
    *("/sys/class/devfreq/*/governor", "/proc/irq/*/smp_affinity_list", "/sys/class/thermal/thermal_zone*/temp"),
    *("/sys/firmware/devicetree/base/model", "/etc/rtgate-rootfs.json"),
)
# On a board that has too much to do, setsid may not have made its session, by which a load's processes are known, when
# the tool begins.
_BEGUN = """
    for try in 1 2 3 4 5 6 7 8 9 10; do
        read -r stat </proc/$load/stat || break
        set -- ${stat##*) }
        [ "$4" != "$load" ] || break
        sleep 0.1
    done 2>/dev/null"""
# Off virtual time, where each word of the script moves what is measured.
_MORE_FACTS = ("/sys/devices/system/cpu/cpu*/cpufreq/scaling_max_freq",)
# The load ends when nothing is measured any more: a tool that still prints does so in a fraction of the time.
_THREADS_END = 'while set -- /proc/$tool/task/[0-9]* && [ -d "$1" ] && [ $# -gt 1 ]; do sleep 0.1; done'
_TOOL_END = "wait $tool\ncode=$?"
_STOP = """# Not `kill -TERM -- -$load`: dash takes -- for a process.
        kill -TERM -$load 2>/dev/null
        sleep 0.1
        kill -KILL -$load 2>/dev/null
        wait $load 2>/dev/null"""
# A load that measures gets ten seconds to say what it measured.
_STOP_WHEN_WRITTEN = """kill -TERM -$load 2>/dev/null
        rest=100
        while [ $rest -gt 0 ] && grep -qv ') Z ' "/proc/$load/stat" 2>/dev/null; do
            sleep 0.1
            rest=$((rest - 1))
        done
        kill -KILL -$load 2>/dev/null
        wait $load 2>/dev/null
        echo $? >load.rc"""

# The kernel's notes, with its build id. Not on virtual time, as `_MORE_FACTS`.
_NOTES = "\ncat /sys/kernel/notes >notes 2>/dev/null"

# Two looks at a tool that is late with its work: one that uses no CPU time between them stands still.
_STILL = """
        cat /proc/[0-9]*/stat >"$work/r/processes.late1" 2>/dev/null
        sleep 1
        cat /proc/[0-9]*/stat >"$work/r/processes.late2" 2>/dev/null"""

# Settings are put back in the reverse order. `count` files were written.
PUT_BACK = r"""# schedule PID POLICY PRIORITY; toybox has the two numbers the other way round.
schedule() {
    case $(chrt --help 2>&1) in
    *[Tt]oybox*) chrt "$2" -p "$1" "$3" ;;
    *) chrt "$2" -p "$3" "$1" ;;
    esac >/dev/null 2>&1
}
put_back() {
    for file in "$work"/thread.*; do
        [ -e "$file" ] || continue
        read -r priority policy <"$file"
        case $policy in 0) policy=-o ;; 2) policy=-r ;; *) policy=-f ;; esac
        schedule "${file##*.}" $policy "$priority"
        rm "$file"
    done
    while [ "$count" -gt 0 ]; do
        cat "$work/value.$count" >"$(cat "$work/path.$count")"
        count=$((count - 1))
    done 2>/dev/null
}"""
# `sleep` needs fractions of a second: busybox, toybox and GNU sleep all take them. Programs are started sparingly:
# each costs a virtual board some 2 ms.
_SCRIPT = r"""#!/bin/sh
# SPDX-License-Identifier: MIT
# rtgate plan @NONCE@: @CASE@, seed @SEED@, image @IMAGE@, kernel arguments: @ARGUMENTS@@DEVICES@
work=@WORK@

send() {
    for number in "$@"; do sed -n "${number}p" "$work/frames"; done
}
if [ "$1" = resend ]; then shift; send "$@"; exit; fi
if [ "$1" = closing ]; then tail -n 1 "$work/frames"; exit; fi

rm -rf "$work"
mkdir -p "$work/r" "$work/parts" && cd "$work/r" || { echo "rtgate: cannot write $work"; exit 1; }
echo "@START@"

tool= load= watch= level= code= count=0
look() {
    cat /proc/uptime >"uptime.$1" 2>/dev/null
    [ -z "$tool" ] || [ "$1" = end ] || cat @THREADS@ >"threads.$1" 2>/dev/null
    [ -z "$load" ] || cat /proc/[0-9]*/stat >"processes.$1" 2>/dev/null
}
facts() { grep -aHs '' @WATCHED@ >"facts.$1"; }
# put VALUE FILE...
put() {
    value=$1
    shift
    for file in "$@"; do
        [ -w "$file" ] || continue
        count=$((count + 1))
        echo "$file" >"$work/path.$count"
        cat "$file" >"$work/value.$count"
        echo "$value" >"$file"
    done 2>/dev/null
}
# prioritise PRIORITY START
prioritise() {
    for comm in /proc/[0-9]*/comm; do
        read -r name <"$comm"
        pid=${comm#/proc/}
        pid=${pid%/comm}
        case $name in "$2"*) ;; *) continue ;; esac
        sed 's/.*) //' "/proc/$pid/stat" | cut -d ' ' -f 38,39 >"$work/thread.$pid"
        schedule "$pid" -f "$1"
    done 2>/dev/null
}
@PUT_BACK@
# Leave the target as it was.
finish() {
    trap '' INT TERM HUP
    [ -z "$watch" ] || kill "$watch"
    [ -z "$tool" ] || kill -KILL "-$tool"
    [ -z "$load" ] || kill -KILL "-$load"
    @LEAVE@put_back
    # Only now, so that no kernel message falls between the frames.
    [ -n "$level" ] && [ -w /proc/sys/kernel/printk ] && echo "$level" >/proc/sys/kernel/printk
} 2>/dev/null
trap 'finish; exit 130' INT TERM HUP
measure() {
    level=$(cat /proc/sys/kernel/printk)
    [ -w /proc/sys/kernel/printk ] && echo 1 >/proc/sys/kernel/printk
    @WRITES@
    @PRIORITIES@
    facts start
    sleep @LOAD_PHASE@
    @LOAD@
    sleep @TOOL_PHASE@
    look start
    setsid @TOOL@ >tool.out 2>tool.err </dev/null &
    tool=$!
    (
        trap 'kill $nap; exit' TERM
        sleep @DEADLINE@ &
        nap=$!
        wait $nap
        echo "after @DEADLINE@ s" >"$work/r/tool.deadline"@STILL@
        kill -TERM -$tool
        sleep 3
        kill -KILL -$tool
    ) >/dev/null 2>&1 &
    watch=$!
    sleep @MIDDLE@
    look middle
    sleep @LATE@
    look late
    @END@
    look end
    if [ -n "$load" ]; then
        @STOP@
    fi
    if [ -z "$code" ]; then wait $tool; code=$?; fi
    echo $code >tool.rc
    echo $tool >tool.pid
    kill $watch 2>/dev/null
    tool= load= watch=
    facts end
}
@NEEDS@
@PREPARE@[ -s skip ] @REFUSED@|| measure
@RELEASE@echo "@MEASURED@"
grep -aHs '' @FACTS@ >facts
cat /proc/[0-9]*/comm >processes 2>/dev/null
@KTHREADS@
uname -m >uname.m@NOTES@
[ -r /proc/config.gz ] && gzip -dc /proc/config.gz | sha256sum >config.sha256
@KERNEL_LOG@ >dmesg 2>/dev/null

cd "$work" || exit 1
if ! tar -cf r.tar r || ! gzip -9 <r.tar | base64 -w @PAYLOAD@ >payload; then
    echo "rtgate: cannot write $work"
    finish
    exit 1
fi
sed '=' payload | sed 'N;s/\n/ /;s/^/@NONCE@ /' >lines
(cd parts && split -a 4 -l 1 ../lines p && cksum p*) | cut -d ' ' -f 1 >sums
paste -d ' ' lines sums >frames
total=$(cksum <frames)
closing="@NONCE@ end $(grep -c '' lines) ${total%% *}"
crc=$(echo "$closing" | cksum)
echo "$closing ${crc%% *}" >>frames
rm -rf parts lines sums payload r.tar
cat frames
finish
"""
