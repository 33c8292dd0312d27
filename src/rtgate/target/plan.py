# SPDX-License-Identifier: MIT
"""Plans: what one measurement does on the target, as one POSIX shell script made from typed data.

The same script is carried out in the initramfs of a virtual-time board and over a live console. It prints nothing
while it measures; its results leave it afterwards, in frames (`rtgate.console.frames`). Called as `plan resend 3 7`
it prints those frames again.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from dataclasses import dataclass

from rtgate.loads import Load

SCRIPT_VERSION = 1
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
        threaded: the tool measures in threads beside its main one, which end with the measurement.
        duration_s: how long the tool is asked to run, in target seconds.
        work_directory: a directory on the target's RAM file system.
    """

    case: str
    argv: tuple[str, ...]
    load: Load
    seed: int
    duration_s: float
    threaded: bool = False
    work_directory: str = "/run/rtgate"

    @property
    def deadline_s(self) -> float:
        """Target seconds after which the tool is stopped and the plan has failed."""
        return 2 * self.duration_s + 20

    @property
    def nonce(self) -> str:
        """The word that marks this plan's frames.

        It is the same for the same plan and seed, so that both arms of a comparison carry the same bytes: 16 other
        bytes in the initramfs already move a histogram.
        """
        text = repr((SCRIPT_VERSION, self.case, self.argv, self.load, self.seed, self.duration_s))
        return "F" + hashlib.sha256(text.encode()).hexdigest()[:9]

    @property
    def phases_us(self) -> tuple[int, int]:
        """Microseconds to wait before the load starts and before the tool starts; both are below 50 ms."""
        digest = hashlib.sha256(f"{self.seed}".encode()).digest()
        return int.from_bytes(digest[:4], "big") % 50_000, int.from_bytes(digest[4:8], "big") % 50_000


def started(log: str) -> bool:
    """Return whether a plan began, going by what the console printed."""
    return _START in log


def measured(log: str) -> bool:
    """Return whether the measuring window is over, going by what the console printed."""
    return _MEASURED in log


def script(plan: Plan) -> str:
    """Return the plan as a script for any POSIX shell with the usual utilities (busybox and toybox among them)."""
    load_phase, tool_phase = plan.phases_us
    middle, late = plan.duration_s * 0.5, plan.duration_s * 0.9
    values = {
        "NONCE": plan.nonce,
        "CASE": plan.case,
        "SEED": plan.seed,
        "WORK": shlex.quote(f"{plan.work_directory}/{plan.nonce}"),
        "LOAD": _load(plan.load),
        "LOAD_PHASE": f"{load_phase / 1e6:.6f}",
        "TOOL": shlex.join(plan.argv),
        "TOOL_PHASE": f"{tool_phase / 1e6:.6f}",
        "MIDDLE": f"{middle:.3f}",
        "LATE": f"{late - middle:.3f}",
        "DEADLINE": f"{plan.deadline_s:.0f}",
        "MAIN_THREADS": 1 if plan.threaded else 0,
        "START": _START,
        "MEASURED": _MEASURED,
    }
    # In one pass: an argument of the tool may look like a name of ours.
    return re.sub("@([A-Z_]+)@", lambda match: str(values[match[1]]), _SCRIPT)


def _load(load: Load) -> str:
    if not load.argv:
        return ""
    command = shlex.join(load.argv)
    body = f"while :; do {command} || exit; done" if load.repeat else f"exec {command}"
    return f"setsid sh -c {shlex.quote(body)} >load.out 2>&1 </dev/null &\nload=$!\necho $load >load.pid"


# `nap` needs fractions of a second: busybox, toybox and GNU sleep all take them.
_SCRIPT = r"""#!/bin/sh
# SPDX-License-Identifier: MIT
# rtgate plan @NONCE@: @CASE@, seed @SEED@
work=@WORK@

send() {
    for number in "$@"; do sed -n "${number}p" "$work/frames"; done
}
if [ "$1" = resend ]; then shift; send "$@"; exit; fi
if [ "$1" = closing ]; then tail -n 1 "$work/frames"; exit; fi

rm -rf "$work"
mkdir -p "$work/r" "$work/parts" && cd "$work/r" || { echo "rtgate: cannot write $work"; exit 1; }
echo "@START@"

note() { [ -r "$2" ] && cat "$2" >"$1" 2>/dev/null; }
look() {
    note "uptime.$1" /proc/uptime
    if [ -n "$tool" ] && [ "$1" != end ]; then cat /proc/$tool/task/[0-9]*/stat >"threads.$1" 2>/dev/null; fi
    if [ -n "$load" ]; then cat /proc/[0-9]*/stat >"processes.$1" 2>/dev/null; fi
}
facts() {
    note "printk.$1" /proc/sys/kernel/printk
    note "clocksource.$1" /sys/devices/system/clocksource/clocksource0/current_clocksource
    note "rt_runtime_us.$1" /proc/sys/kernel/sched_rt_runtime_us
}
level=$(cat /proc/sys/kernel/printk 2>/dev/null)
echo 1 >/proc/sys/kernel/printk 2>/dev/null
facts start
tool= load=
sleep @LOAD_PHASE@
@LOAD@
sleep @TOOL_PHASE@
look start
@TOOL@ >tool.out 2>tool.err </dev/null &
tool=$!
(
    trap 'kill $nap; exit' TERM
    sleep @DEADLINE@ &
    nap=$!
    wait $nap
    echo "after @DEADLINE@ s" >"$work/r/tool.deadline"
    kill -TERM $tool
    sleep 3
    kill -KILL $tool
) >/dev/null 2>&1 &
watch=$!
sleep @MIDDLE@
look middle
sleep @LATE@
look late
# The load ends when nothing is measured any more: the tool then prints in a fraction of the time.
while set -- /proc/$tool/task/[0-9]* && [ -d "$1" ] && [ $# -gt @MAIN_THREADS@ ]; do sleep 0.1; done
look end
if [ -n "$load" ]; then
    # Not `kill -TERM -- -$load`: dash takes -- for a process.
    kill -TERM -$load 2>/dev/null
    sleep 0.1
    kill -KILL -$load 2>/dev/null
    wait $load 2>/dev/null
fi
wait $tool
echo $? >tool.rc
kill $watch 2>/dev/null
facts end
echo "@MEASURED@"
note version /proc/version
note cmdline /proc/cmdline
note boot_id /proc/sys/kernel/random/boot_id
note isolated /sys/devices/system/cpu/isolated
note nohz_full /sys/devices/system/cpu/nohz_full
note online /sys/devices/system/cpu/online
note realtime /sys/kernel/realtime
note rootfs /etc/rtgate-rootfs.json
uname -v >uname.v
uname -r >uname.r
uname -m >uname.m
[ -r /proc/config.gz ] && gzip -dc /proc/config.gz | sha256sum >config.sha256
dmesg >dmesg 2>/dev/null

cd "$work" || exit 1
if ! tar -cf r.tar r || ! gzip -9 <r.tar | base64 -w 512 >payload; then echo "rtgate: cannot write $work"; exit 1; fi
sequence=0
while read -r line || [ -n "$line" ]; do
    sequence=$((sequence + 1))
    echo "@NONCE@ $sequence $line"
done <payload >lines
(cd parts && split -a 4 -l 1 ../lines p && cksum p*) >sums
while read -r crc size name && read -r line <&4; do echo "$line $crc"; done <sums 4<lines >frames
total=$(cksum <frames)
closing="@NONCE@ end $sequence ${total%% *}"
crc=$(echo "$closing" | cksum)
echo "$closing ${crc%% *}" >>frames
rm -rf parts lines sums payload r.tar
cat frames
# Only now, so that no kernel message falls between the frames.
[ -n "$level" ] && echo "$level" >/proc/sys/kernel/printk 2>/dev/null
"""
