# SPDX-License-Identifier: MIT
"""Soaks on the target: a script that carries out one plan many times, without a console.

Each time is a chunk: the ordinary plan under a nonce of its own, whose frames wait on the target until the host has
them. The script runs in a session of its own, so a console that closes does not end it. Between two chunks it pauses
until the host has fetched what waits, or until nobody has asked for a while: fetching is output and interrupts, which
a measurement would see.

Files in the work directory: `NONCE.soak.sh`, this script; `NONCE.plan`, the plan; and in `NONCE.soak/`: `status` (one
line, replaced whole), `runner` and `pid` (process ids of the script and of the chunk's plan), `NNNNN.frames` (chunks
that wait), `seen` (the last line of the kernel log that a chunk has already), `host` (somebody asked), `stop`,
`reserve` (room to say why, when the disk is full).
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from enum import Enum

from rtgate.console.frames import cksum
from rtgate.target.plan import PUT_BACK, Plan, script
from rtgate.target.session import BOOT_ID

# First line of the kernel log of a chunk: what follows is new since the last chunk; or its end is no more to be found.
LOG_GOES_ON, LOG_LOST = "rtgate: new since the chunk before", "rtgate: lines after the chunk before are lost"
# Beside the directory of a plan's own results; a word that an unquoted path may hold.
_NONCE = re.compile(r"S[0-9a-f]{8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """One plan, carried out as chunks `first` to `last`.

    Attributes:
        nonce: names the soak on the target; `S` and eight hexadecimal digits, never used twice.
        first: number of the first chunk.
        last: number of the last one, at most 99 999.
        pause_s: target seconds that the script waits after a chunk for somebody who fetches it.
    """

    nonce: str
    plan: Plan
    first: int
    last: int
    pause_s: int = 20

    def __post_init__(self) -> None:
        if _NONCE.fullmatch(self.nonce) is None or not 1 <= self.first <= self.last <= 99_999:
            raise ValueError(f"no soak is called {self.nonce!r} with chunks {self.first} to {self.last}")

    @property
    def path(self) -> str:
        """Where the script is on the target, as a word of the shell."""
        return shlex.quote(f"{self.plan.work_directory}/{self.nonce}.soak.sh")

    @property
    def plan_path(self) -> str:
        """Where the plan is on the target, as a word of the shell."""
        return shlex.quote(f"{self.plan.work_directory}/{self.nonce}.plan")

    def chunk_nonce(self, number: int) -> str:
        """Return the word that marks a chunk's frames."""
        return f"{self.nonce}{number:05d}"

    @property
    def chunk(self) -> Plan:
        """The plan as a chunk carries it out: of the kernel's log it takes what is new."""
        return replace(self.plan, kernel_log=f"sh {self.path} log")

    @property
    def plan_script(self) -> str:
        """The script of a chunk, with the plan's nonce where the chunk's belongs."""
        directory = shlex.quote(f"{self.plan.work_directory}/{self.nonce}.soak")
        return f"echo $$ >{directory}/pid\n{script(self.chunk)}"

    @property
    def script(self) -> str:
        """The script of the soak."""
        values = {
            "NONCE": self.nonce,
            "PLAN_NONCE": self.chunk.nonce,
            "CASE": self.plan.case,
            "DIRECTORY": shlex.quote(self.plan.work_directory),
            "FIRST": self.first,
            "LAST": self.last,
            "PAUSE": 2 * self.pause_s,
            "BOOT_ID": BOOT_ID,
            "PUT_BACK": PUT_BACK,
            "LOG_GOES_ON": LOG_GOES_ON,
            "LOG_LOST": LOG_LOST,
        }
        return re.sub("@([A-Z_]+)@", lambda match: str(values[match[1]]), _SCRIPT)


class Phase(Enum):
    """What the script on the target is doing."""

    MEASURING = "measuring"
    PAUSING = "pausing"
    ENDED = "ended"
    LOST = "lost"  # it was ended by something else, and could not say why


COMPLETE, STOPPED, SKIPPED = "complete", "stopped", "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What the script on the target said of itself.

    Attributes:
        number: the chunk under way, or the last one.
        age_s: target seconds since this phase began.
        took_s: target seconds that the latest finished chunk took; 0 before the first.
        waiting: the lowest number of the chunks that wait to be fetched; 0 without one.
        why: why it ended: `complete`, `stopped`, `skipped`, or a sentence.
    """

    phase: Phase
    number: int
    age_s: int
    took_s: int
    waiting: int
    boot_id: str
    why: str


_STATUS = r" (\w+) (\d{1,5}) (\d{1,9}) (\d{1,9}) (\d{5}) ([0-9a-f-]*|-) ?([^\r\n]*) (\d{1,10})\r*$"


def status(nonce: str, said: bytes) -> Status | None:
    """Return the status in what a console printed; None when there is none that arrived whole."""
    text = said.decode("latin-1")
    for found in re.finditer(rf"{nonce}{_STATUS}", text, re.MULTILINE):
        line = found[0].rstrip("\r").rpartition(" ")[0]
        if found[8] != str(cksum(f"{line}\n".encode("latin-1"))):
            continue
        phases = [phase for phase in Phase if phase.value == found[1]]
        if phases:
            number, age, took, waiting = (int(found[group]) for group in (2, 3, 4, 5))
            return Status(
                phase=phases[0],
                number=number,
                age_s=age,
                took_s=took,
                waiting=waiting,
                boot_id=found[6].strip("-"),
                why=found[7],
            )
    return None


# Nothing here but what a plan needs as well. `[ -e ]` of a pattern that matches nothing is false.
_SCRIPT = r"""#!/bin/sh
# SPDX-License-Identifier: MIT
# rtgate soak @NONCE@: @CASE@, chunks @FIRST@ to @LAST@
directory=@DIRECTORY@
soak=$directory/@NONCE@.soak
plan=$directory/@NONCE@.plan

frames() { printf '%s/%05d.frames' "$soak" "$1"; }
clock() {
    read -r now rest </proc/uptime
    now=${now%%.*}
}
# say PHASE CHUNK SINCE TOOK WHY
say() { printf '%s\n' "$*" >"$soak/status.new" && mv "$soak/status.new" "$soak/status"; } 2>/dev/null
asked() { : >"$soak/host"; } 2>/dev/null
# fields PID: the parent and the time of birth of a process, which tells it from a later one with its number.
fields() {
    read -r line <"/proc/$1/stat" || return 1
    # shellcheck disable=SC2086 # a line of words
    set -- ${line##*) }
    [ "$1" != Z ] || return 1
    parent=$2 birth=${20}
} 2>/dev/null
alive() { read -r runner since <"$1/runner" && fields "$runner" && [ "$birth" = "$since" ]; } 2>/dev/null
waiting() {
    set -- "$soak"/*.frames
    [ -e "$1" ] || return 1
    lowest=${1##*/}
    lowest=${lowest%.frames}
}
finish() {
    clock
    rm -f "$soak/reserve" "$soak/chunk.sh" "$soak/log" "$soak/out"
    say ended "$number" "$now" "$took" "$*"
}
room() {
    cat "$soak/reserve" >"$soak/probe" 2>/dev/null
    code=$?
    rm -f "$soak/probe"
    return $code
}
whole() {
    count=$(grep -c '' "$1") || return 1
    case $(tail -n 1 "$1") in "$name end $((count - 1)) "*) ;; *) return 1 ;; esac
} 2>/dev/null
chunk() {
    clock
    began=$now
    name=@NONCE@$(printf '%05d' "$number")
    work=$directory/$name
    say measuring "$number" "$began" "$took" || return 1
    sed "s/@PLAN_NONCE@/$name/g" "$plan" >"$soak/chunk.sh"
    sh "$soak/chunk.sh" 2>&1 | grep -a '^rtgate: cannot' | sed 's/[^ -~]/?/g' >"$soak/out"
    clock
    took=$((now - began))
    why=
    if [ -e "$soak/stop" ]; then
        why=stopped
    elif ! whole "$work/frames"; then
        why=$(tail -n 1 "$soak/out")
        room || why="the target's disk is full (${why:-no results})"
        why="${why:-chunk $number left no results}"
    else
        [ ! -s "$work/r/skip" ] || why=skipped
        mv "$work/frames" "$(frames "$number")"
        [ ! -e "$soak/no-log" ] || why="the target's kernel log could not be read: a fault would not be seen"
    fi
    rm -rf "$work" "$soak/chunk.sh" "$soak/out"
    [ -n "$why" ] || room || why="the target's disk is full"
    [ -z "$why" ]
}
pause() {
    clock
    say pausing "$number" "$now" "$took" || return 1
    left=@PAUSE@
    while [ "$left" -gt 0 ] && waiting && [ ! -e "$soak/stop" ]; do
        sleep 0.5
        left=$((left - 1))
        [ ! -e "$soak/host" ] || left=@PAUSE@
        rm -f "$soak/host"
    done
}
run() {
    number=@FIRST@ took=0
    fields $$
    echo "$$ $birth" >"$soak/runner"
    while :; do
        why="the target's disk is full"
        chunk || break
        why=complete
        [ "$number" -lt @LAST@ ] || break
        why="the target's disk is full"
        pause || break
        why=stopped
        [ ! -e "$soak/stop" ] || break
        number=$((number + 1))
    done
    finish "$why"
}
start() {
    for other in "$directory"/*.soak; do
        if [ "$other" != "$soak" ] && alive "$other"; then
            echo "rtgate: another soak runs on this target: $other"
            exit 3
        fi
    done
    mkdir "$soak" 2>/dev/null || [ -d "$soak" ] || exit 1
    [ ! -e "$soak/status" ] || exit 0
    rm -f "$plan".[0-9]* "$0".[0-9]*
    cat "$plan" "$0" "$plan" "$0" >"$soak/reserve" || exit 1
    cat /proc/sys/kernel/printk >"$soak/printk"
    clock
    say measuring @FIRST@ "$now" 0 || exit 1
    setsid sh "$0" run </dev/null >/dev/null 2>&1 &
    i=0
    until [ -s "$soak/runner" ] || [ "$i" -ge 50 ]; do
        sleep 0.1
        i=$((i + 1))
    done
    [ -s "$soak/runner" ]
}
# The tool and what the plan sleeps in are ended, so that the plan comes to its own end, where it puts settings back.
hurry() {
    i=0
    while [ "$i" -lt 60 ] && alive "$soak"; do
        read -r phase number rest <"$soak/status"
        work=$directory/@NONCE@$(printf '%05d' "$number")/r
        if [ -e "$work/uptime.start" ] && [ ! -e "$work/tool.rc" ] && read -r pid <"$soak/pid"; then
            for other in /proc/[0-9]*; do
                fields "${other#/proc/}" && [ "$parent" = "$pid" ] && kill "${other#/proc/}"
            done
        fi
        sleep 0.5
        i=$((i + 1))
    done 2>/dev/null
}
@PUT_BACK@
# Settings are put back and the load is ended by the plan; here for one that was killed.
restore() {
    for work in "$directory"/@NONCE@[0-9]*; do
        count=0
        for path in "$work"/path.*; do [ ! -e "$path" ] || count=$((count + 1)); done
        put_back
    done
    for load in "$directory"/@NONCE@*/r/load.pid; do
        read -r load <"$load" && kill -KILL "-$load"
    done
    read -r level <"$soak/printk" && read -r now </proc/sys/kernel/printk
    [ -z "$level" ] || [ "$level" = "$now" ] || echo "$level" >/proc/sys/kernel/printk
} 2>/dev/null
tell() {
    read -r phase number began took why <"$soak/status" || exit 1
    if [ "$phase" != ended ] && ! alive "$soak"; then
        # It may have ended since.
        read -r phase number began took why <"$soak/status"
        [ "$phase" = ended ] || phase=lost
    fi
    clock
    lowest=00000
    waiting
    boot=-
    read -r boot <@BOOT_ID@
    line="@NONCE@ $phase $number $((now - began)) $took $lowest $boot $why"
    crc=$(printf '%s\n' "$line" | cksum)
    printf '%s\n' "$line ${crc%% *}"
    asked
} 2>/dev/null
log() {
    dmesg >"$soak/log" || : >"$soak/no-log"
    last=
    # A line that begins with the time at which it was said is said once.
    if [ -s "$soak/seen" ]; then last=$(grep -anFx -f "$soak/seen" "$soak/log"); fi
    last=${last%%:*}
    if [ -n "$last" ]; then
        echo "@LOG_GOES_ON@"
        sed "1,${last}d" "$soak/log"
    else
        if [ -s "$soak/seen" ] && [ -s "$soak/log" ]; then echo "@LOG_LOST@"; fi
        cat "$soak/log"
    fi
    tail -n 1 "$soak/log" | grep -a '^[<0-9>]*\[ *[0-9][0-9]*\.[0-9]*\]' >"$soak/seen"
    rm -f "$soak/log"
}
# fetch CHUNK [closing | resend NUMBER...]
fetch() {
    asked
    file=$(frames "$1")
    case $2 in
    '') cat "$file" ;;
    closing) tail -n 1 "$file" ;;
    resend)
        shift 2
        for line in "$@"; do sed -n "${line}p" "$file"; done
        ;;
    esac
}

case $1 in
start) start ;;
run) run ;;
status) tell ;;
log) log ;;
fetch)
    shift
    fetch "$@"
    ;;
confirm)
    asked
    rm -f "$(frames "$2")"
    ;;
stop)
    : >"$soak/stop"
    setsid sh "$0" hurry </dev/null >/dev/null 2>&1 &
    ;;
hurry) hurry ;;
clean)
    i=0
    while alive "$soak" && [ "$i" -lt 20 ]; do
        sleep 0.1
        i=$((i + 1))
    done
    ! alive "$soak" || exit 1
    restore
    rm -rf "$directory/@NONCE@"*
    ;;
*) exit 2 ;;
esac
"""
