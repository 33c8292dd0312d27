# SPDX-License-Identifier: MIT
"""The transport `board`: plans carried out in LAVA's test shell on the board, for labs without docker or a hub.

The job's definition carries the plans. The board prints what each of them found as frames (`rtgate.console.frames`),
three times, because nobody can ask for one again; what is read from the job's log is whole or refused. Which plans they
are stands in the log too, in a unit `b` (`lava.results.frames`), so that the log alone is enough to make the records.

Whoever controls the kernel controls what such a log says: it proves nothing about a kernel that wants to lie.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import secrets
import shlex
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rtgate import __version__
from rtgate.board import boards
from rtgate.board.boards import Board
from rtgate.board.thermal import SENSORS, SURVIVABLE_C
from rtgate.console.faults import FATAL, scan
from rtgate.console.frames import FrameReader
from rtgate.errors import ConfigError
from rtgate.lava.in_job import signals
from rtgate.lava.in_job.cooling import LONGEST_S
from rtgate.lava.in_job.target import refuse_nfs_latencies
from rtgate.lava.job import cases as cases_file
from rtgate.lava.job import environment
from rtgate.lava.results.expected import Expected
from rtgate.lava.results.frames import frames
from rtgate.lava.results.plain_text import plain_line
from rtgate.measure.case import Arm, Case
from rtgate.measure.case_plan import plan
from rtgate.measure.case_record import make_record
from rtgate.measure.profiles import profile
from rtgate.records import planned
from rtgate.records import record as records_file
from rtgate.records.record import Place
from rtgate.target.outcome import Outcome, State, printable_tail, read_outcome
from rtgate.target.plan import Plan, has_measured, has_started, script
from rtgate.target.session import PROGRAMS
from rtgate.tools.shell_script import fill

COPIES = 3
_PAYLOAD = 600  # a board's line may be slow and noisy: short frames
_FRAME = re.compile(r"(F[0-9a-f]{9}) (?:[0-9]|end ).*")
_BEGINS = "rtgate: case"
_CANNOT = "rtgate: the target"
_REMEDY = "fetch with the version that submitted the job"
_ENDED = "rtgate: every case was carried out"


def steps(expectation: Expected, number: int) -> tuple[str, ...]:
    """Return the lines for LAVA's test shell that measure everything in boot `number` of a job, counted from 1.

    LAVA runs them with `sh -e`: none may fail, or it would take the whole test for broken.
    """
    arm = expectation.arm(number)
    plans = [plan(case, arm, number) for case in expectation.cases]
    directory = shlex.quote(f"{expectation.board.work_directory}/on-board")
    files = {f"{index}.sh": script(case_plan).encode() for index, case_plan in enumerate(plans, 1)}
    files["context"] = "".join(f"{line}\n" for line in _context(expectation, number, plans)).encode()
    files["go.sh"] = _go(expectation.board, plans).encode()
    archive = base64.encodebytes(_archive(files)).decode().strip()
    # What stands in a heredoc is not printed by `set -x`, which LAVA has switched on.
    return (
        f"mkdir -p {directory} && cd {directory} || true",
        f"base64 -d <<'RTGATE_PLANS' | gzip -dc | tar -xf - || true\n{archive}\nRTGATE_PLANS",
        "sh ./go.sh || true",
    )


def _context(expectation: Expected, number: int, plans: Sequence[Plan]) -> Iterable[str]:
    arm = expectation.arm(number)
    fields = {
        "version": __version__,
        "board": expectation.board.name,
        "profile": expectation.profile.name,
        "tuning": expectation.tuning,
        "boot": number,
        "arm": arm.name,
        "kernel": asdict(arm.kernel),
        "cases": [
            {"case": cases_file.as_json(case), "nonce": plan.nonce}
            for case, plan in zip(expectation.cases, plans, strict=True)
        ],
    }
    return frames(secrets.token_hex(6), "b", json.dumps(fields).encode(), _PAYLOAD)


def _archive(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(stream.getvalue(), mtime=0)


# A kernel message may fall between copies, never inside of all three of one frame. What was measured is `unknown` to
# LAVA: nothing on the board could judge it.
_SCRIPT = r"""#!/bin/sh
# SPDX-License-Identifier: MIT
copies() {
    level=$(cat /proc/sys/kernel/printk 2>/dev/null)
    [ -w /proc/sys/kernel/printk ] && echo 1 >/proc/sys/kernel/printk
    copy=1
    while [ $copy -lt @COPIES@ ]; do
        sleep 1
        cat "$1"
        copy=$((copy + 1))
    done
    [ -n "$level" ] && [ -w /proc/sys/kernel/printk ] && echo "$level" >/proc/sys/kernel/printk
}
carry_out() {
    echo "@BEGINS@ $1 $2"
    sh "./$1.sh"
    result=fail
    if [ -s "@WORK@/$2/frames" ]; then
        copies "@WORK@/$2/frames"
        result=unknown
    fi
    rm -rf "@WORK@/$2"
    command -v lava-test-case >/dev/null 2>&1 && lava-test-case "$3" --result $result
}
hot() {
    for sensor in @SENSORS@; do
        [ -r "$sensor" ] && read -r degrees <"$sensor" || continue
        [ "$degrees" -gt @HOT@ ] && [ "$degrees" -lt @SURVIVABLE@ ] && return 0
    done 2>/dev/null
    return 1
}
cat context
copies context
for program in @PROGRAMS@; do
    command -v $program >/dev/null || lacking="$lacking $program"
done
if [ -n "$lacking" ]; then
    echo "@CANNOT@ lacks$lacking"
    exit
fi
waited=0
while hot; do
    if [ $waited -ge @LONGEST@ ]; then
        echo "@CANNOT@ is still too hot"
        exit
    fi
    sleep 10
    waited=$((waited + 10))
done
@CASES@
echo "@ENDED@"
"""


def _go(board: Board, plans: Sequence[Plan]) -> str:
    calls = [
        f"carry_out {index} {plan.nonce} {shlex.quote(signals.case_id(plan.case.replace('/', '.').replace(':', '.')))}"
        for index, plan in enumerate(plans, 1)
    ]
    values = {
        "COPIES": str(COPIES),
        "BEGINS": _BEGINS,
        "ENDED": _ENDED,
        "CANNOT": _CANNOT,
        "SENSORS": SENSORS,
        "HOT": str(1000 * (SURVIVABLE_C[1] if board.cool_to is None else board.cool_to)),
        "SURVIVABLE": str(1000 * SURVIVABLE_C[1]),
        "LONGEST": f"{LONGEST_S:.0f}",
        "PROGRAMS": PROGRAMS,
        "WORK": board.work_directory,
        "CASES": "\n".join(calls),
    }
    return fill(_SCRIPT, values)


@dataclass(frozen=True, slots=True)
class Context:
    """What one boot carried out, as its log says.

    Attributes:
        cases: with the nonce of each one's frames.
    """

    expected: Expected
    number: int
    arm: Arm
    cases: tuple[tuple[Case, str], ...]
    version: str


def context(data: bytes) -> Context:
    """Return what a unit `b` says. Raises ValueError: it cannot be read, or this rtgate does not know its names."""
    try:
        fields = json.loads(data)
        entries = [(cases_file.from_json(entry["case"]), str(entry["nonce"])) for entry in fields["cases"]]
        kernel = environment.identity(fields["kernel"], "the job's log", _REMEDY)
        names = [str(fields[name]) for name in ("board", "profile", "tuning", "arm")]
        if not all(re.fullmatch(r"[A-Za-z0-9][\w.-]{0,99}", name) for name in names):
            raise KeyError("a name")  # noqa: TRY301 - it is one of the many ways in which a name is missing
        number = environment.boot(str(fields["boot"]))
        expectation = Expected(
            board=boards.board(names[0]),
            profile=profile(names[1], names[0]),
            tuning=names[2],
            cases=tuple(case for case, _ in entries),
            boots=(names[3],) * number,
            kernels={names[3]: kernel},
        )
        return Context(expectation, number, expectation.arm(number), tuple(entries), str(fields["version"]))
    except (KeyError, TypeError, AttributeError, RecursionError, ConfigError) as error:
        raise ValueError(f"what the board carried out cannot be read: {error}") from error


def write(boot: Context, lines: Sequence[str], records: Path, *, hung: bool = False) -> tuple[tuple[Path, str], ...]:
    """Write the records of one boot from its part of a job's log.

    Args:
        boot: what was carried out.
        lines: all that the log has from the boot's context on, up to the next boot's.
        records: the directory that they go to.
        hung: LAVA's time was over while the test ran.

    Returns:
        The directory of each record, and a sentence about results that arrived damaged.

    Raises:
        ConfigError: this rtgate, or its board file, makes other plans than the one that wrote the job.
        InfrastructureError: the records cannot be written.
    """
    log = _Log(boot, lines, hung=hung)
    entries = []
    for case, nonce in boot.cases:
        case_plan = plan(case, boot.arm, boot.number)
        if case_plan.nonce != nonce:
            raise ConfigError(
                f"the job's plans for {boot.expected.board.name} are not those of this rtgate and its site: fetch "
                f"with the version that submitted it ({plain_line(boot.version)}, this is {__version__})"
            )
        place = Place(records=records, board=boot.expected.board.name, arm=boot.arm.name, case=case.name)
        planned.add(place, [], 1)
        outcome = refuse_nfs_latencies(case_plan, log.outcome(nonce), boot.expected.profile)
        record = make_record(case, boot.arm, case_plan, outcome)
        path = records_file.write(record, outcome.files, outcome.console, records)
        problem = outcome.message if outcome.state is State.UNREADABLE else ""
        entries.append((_rename_to_boot(path, boot.number), problem))
    return tuple(entries)


def _rename_to_boot(directory: Path, number: int) -> Path:
    """Rename a record to the number of its boot, where that is free."""
    destination = directory.parent / f"{number:03d}"
    return directory if destination.exists() else directory.rename(destination)


class _Log:
    """The part of a job's log in which one boot carried out its plans."""

    def __init__(self, boot: Context, lines: Sequence[str], *, hung: bool) -> None:
        self._nonces = [nonce for _, nonce in boot.cases]
        self._machine = {"console": "lava-test-shell", "boot": str(boot.number)}
        self._readers = {nonce: FrameReader(nonce) for nonce in self._nonces}
        self._parts: dict[str, list[str]] = {nonce: [] for nonce in self._nonces}
        self._died = ""
        self._last = ""
        self._hung = hung
        self._take(lines)
        for reader in self._readers.values():
            reader.finish()

    def _take(self, lines: Iterable[str]) -> None:
        before: set[str] = set()
        for line in lines:
            match = _FRAME.search(line)
            if match and match[1] in self._readers:
                # Copies of a frame that arrived whole are one.
                if match[0] not in before:
                    before.add(match[0])
                    self._readers[match[1]].feed(f"{line[match.start() :]}\n".encode("latin-1", errors="replace"))
                continue
            words = line.partition(f"{_BEGINS} ")[2].split(" ")
            if len(words) == 2 and words[1] in self._parts:
                self._last = words[1]
            elif self._last:
                self._parts[self._last].append(line)
            if line.startswith(_CANNOT) and not self._last:
                self._died = plain_line(line.removeprefix("rtgate: "))[:200]

    def outcome(self, nonce: str) -> Outcome:
        """Return what came of the plan of a nonce."""
        text = "\n".join(self._parts[nonce])
        reader = self._readers[nonce]
        faults = scan(text)
        outcome = read_outcome(reader)
        line = replace(outcome.line, repeated=0)  # each frame is sent three times in any case
        if not reader.complete:
            state, message = self._failure(nonce, text, outcome.message)
            outcome = Outcome(state=state, message=message)
        return replace(outcome, console=text.encode(), faults=faults, machine=self._machine, line=line)

    def _failure(self, nonce: str, text: str, unreadable: str) -> tuple[State, str]:
        """Return why the results of a plan are not complete; `unreadable` says what their frames lack."""
        if self._died or not self._parts[nonce]:
            return State.LAB, f"not measured: {self._died or 'the log has nothing of this case'}"
        fatal = [fault for fault in scan(text) if fault.kind in FATAL]
        if fatal:
            self._died = "the kernel died in an earlier case of this boot"
            return State.FAULT, f"the kernel died during the measurement: {fatal[0].line}"
        if nonce == self._last and self._hung and not has_measured(text) and has_started(text):
            self._died = "the target hung in an earlier case of this boot"
            return State.HANG, f"the target hung during the measurement; last lines:\n{printable_tail(text.encode())}"
        if nonce == self._last and not has_measured(text):
            self._died = "the log ends in an earlier case of this boot"
            return State.UNREADABLE, "the job's log ends during the measurement"
        return State.UNREADABLE, unreadable
