# SPDX-License-Identifier: MIT
"""The plan's script, carried out by this machine's own shells: each plan takes seconds, most of them to wait."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.frames import encode
from selftests.unit.target.test_plan import OTHER, plan_of

from rtgate.board.tuning import Write
from rtgate.console.frames import FrameReader
from rtgate.errors import ParseError
from rtgate.measure import observations
from rtgate.target import plan as plan_module
from rtgate.target.outcome import unpack
from rtgate.target.plan import Plan, has_measured, has_started, script
from rtgate.tools.loads import Load
from rtgate.tools.needs import Need
from rtgate.tools.registry import TOOLS
from rtgate.tools.threads import ThreadScope
from rtgate.validity.load import load_seen

# They change settings of this machine, one after the other; see `printk`.
pytestmark = pytest.mark.xdist_group("plans")

PRINTK = Path("/proc/sys/kernel/printk")
WATCHED = (
    str(PRINTK),
    "/proc/sys/kernel/sched_rt_runtime_us",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
)
# toybox has no shell in most distributions, but the utilities that a plan calls.
SHELLS = {"sh": ["sh"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"], "toybox": ["sh"]}
_FOUND = {
    name: argv for name, argv in SHELLS.items() if shutil.which(argv[0]) and (name != "toybox" or shutil.which(name))
}


_LONG = pytest.mark.long(
    "each plan in four shells; sh is in make test, and the fault bench has plans in busybox and bash there"
)


def _marks(name: str) -> tuple[pytest.MarkDecorator, ...]:
    return () if name == "sh" else (_LONG,)


@pytest.fixture(params=[pytest.param((name, argv), id=name, marks=_marks(name)) for name, argv in _FOUND.items()])
def shell(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    name, argv = request.param
    if name == "toybox":
        _utilities(tmp_path / "toybox", monkeypatch)
    return list(argv)


def _utilities(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put toybox's utilities before this machine's own."""
    directory.mkdir()
    program = shutil.which("toybox")
    assert program is not None
    names = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    for name in names:
        (directory / name).symlink_to(program)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture(autouse=True)
def printk() -> Iterator[str]:
    """Put back the kernel's console level, which a plan lowers, also when a test was stopped inside a plan.

    This machine has one: tests that run at the same time would take what another one lowered for what was before.
    """
    with Path(tempfile.gettempdir(), f"rtgate-printk-{os.geteuid()}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = PRINTK.read_text()
        yield before
        if PRINTK.read_text() != before:
            PRINTK.write_text(before)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return what puts a program of this name on PATH."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")

    def write(name: str, text: str) -> None:
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    return write


def facts(text: bytes) -> dict[str, list[str]]:
    """Return lines by path."""
    found: dict[str, list[str]] = {}
    for line in text.decode().splitlines():
        path, _, content = line.partition(":")
        found.setdefault(path, []).append(content)
    return found


def session(files: Mapping[str, bytes], moment: str) -> list[str]:
    """Return the names of the threads of the tool's session, of those that the plan saw."""
    leader = files["tool.pid"].strip().decode()
    found = (re.fullmatch(r"\d+ \((.*)\) (.*)", line) for line in files[f"threads.{moment}"].decode().splitlines())
    return sorted(match[1] for match in found if match and match[2].split()[3] == leader)


class Run:
    """One carried-out plan."""

    def __init__(self, plan: Plan, shell: list[str], directory: Path) -> None:
        self.plan = plan
        path = directory / "plan"
        path.write_text(script(plan))
        self._command = [*shell, str(path)]
        self.printed = self._print()
        self.reader = FrameReader(plan.nonce)
        self.reader.feed(self.printed)
        self.reader.finish()

    def _print(self, *words: str) -> bytes:
        command = [*self._command, *words]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
        return done.stdout

    def again(self, *words: str) -> list[bytes]:
        return self._print(*words).splitlines()

    @property
    def frames(self) -> list[bytes]:
        return [line for line in self.printed.splitlines() if line.startswith(self.plan.nonce.encode())]

    def files(self) -> Mapping[str, bytes]:
        assert self.reader.damaged == 0
        return unpack(self.reader)


def processes(word: str) -> list[int]:
    """Return the processes that have this word in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if word.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
    return found


def gone(word: str) -> bool:
    end = time.monotonic() + 5
    while processes(word) and time.monotonic() < end:
        time.sleep(0.02)
    return not processes(word)


# --- what it does


@pytest.mark.parametrize("looked", [True, False])
def test_a_tool_that_is_late_with_its_work_is_looked_at_before_it_is_stopped(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, looked: bool
) -> None:
    monkeypatch.setattr(Plan, "tool_deadline_s", 1)
    tools("stub", "while :; do :; done")
    made = replace(plan_of("stub"), work_s=1 if looked else 0, virtual_time=False, work_directory=str(tmp_path / "w"))
    files = Run(made, shell, tmp_path).files()
    assert files["tool.deadline"] == b"after 1 s\n"
    assert {"processes.late1", "processes.late2"} <= set(files) if looked else "processes.late1" not in files
    if looked:
        assert observations.at_work(files, ParseError("stopped"))


@pytest.mark.parametrize("seen", [ThreadScope.OWN, ThreadScope.SESSION])
def test_the_results_arrive_in_frames(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None], seen: ThreadScope
) -> None:
    tools("stub", 'echo out; echo err >&2; echo "$*" >x.json; sleep 1; exit 3')
    run = Run(replace(plan_of("stub", "-a", "b", directory=tmp_path / "work"), thread_scope=seen), shell, tmp_path)
    files = run.files()
    assert files["tool.rc"] == b"3\n"
    assert files["tool.out"] == b"out\n"
    assert files["tool.err"] == b"err\n"
    assert files["x.json"] == b"-a b\n"
    assert not {"tool.deadline", "skip", "kthreads"} & set(files)
    for moment in ("middle", "late"):
        assert "stub" in session(files, moment)
    assert not {"threads.start", "threads.end"} & set(files)
    assert files["uname.m"].decode().strip() == os.uname().machine
    found = facts(files["facts"])
    assert found["/proc/sys/kernel/osrelease"] == [os.uname().release]
    assert found["/proc/sys/kernel/version"] == [os.uname().version]
    assert found["/proc/version"] == Path("/proc/version").read_text().splitlines()
    assert found["/proc/cmdline"] == Path("/proc/cmdline").read_text().splitlines()
    assert found["/proc/sys/kernel/random/boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().split()
    assert found["/sys/devices/system/cpu/online"] == Path("/sys/devices/system/cpu/online").read_text().splitlines()
    assert float(files["uptime.start"].split()[0]) < float(files["uptime.end"].split()[0])
    assert Path("/proc/self/comm").read_text().strip() in files["processes"].decode().splitlines()
    assert run.printed.startswith(b"rtgate: plan started\nrtgate: measured\n")


def test_frames_are_those_that_the_reader_s_own_encoder_makes(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None]
) -> None:
    tools("stub", "dd if=/dev/urandom of=random bs=1024 count=12 2>/dev/null")
    run = Run(plan_of("stub", directory=tmp_path / "work"), shell, tmp_path)
    assert len(run.frames) > 20
    assert [line.decode() for line in run.frames] == encode(run.reader.payload(), run.plan.nonce)
    assert run.reader.repeated == 0
    assert len(run.files()["random"]) == 12 * 1024


def test_settings_are_read_before_and_after(shell: list[str], tmp_path: Path) -> None:
    files = Run(plan_of("true", directory=tmp_path / "work"), shell, tmp_path).files()
    there = {path: Path(path).read_text().strip() for path in WATCHED if Path(path).exists()}
    for moment in ("start", "end"):
        found = facts(files[f"facts.{moment}"])
        assert list(found) == list(there)
        assert {path: found[path] for path in found if path != str(PRINTK)} == {
            path: [content] for path, content in there.items() if path != str(PRINTK)
        }


def test_a_setting_that_the_tool_changed_reads_differently_afterwards(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None]
) -> None:
    (tmp_path / "set").write_text("one\n")
    tools("stub", f"echo three >{tmp_path}/set")
    plan = replace(plan_of("stub", directory=tmp_path / "work"), writes=(Write(path=f"{tmp_path}/set", value="two"),))
    files = Run(plan, shell, tmp_path).files()
    assert facts(files["facts.start"])[f"{tmp_path}/set"] == ["two"]
    assert facts(files["facts.end"])[f"{tmp_path}/set"] == ["three"]
    assert (tmp_path / "set").read_text() == "one\n"


@pytest.mark.parametrize(
    "contents",
    [
        {b"colons": b"a:b::c\n", b"lines": b"one\ntwo: x\n\nfour", b"blank": b"\n", b"nothing": b""},
        {b"a string of the device tree": b"Board, V1.0\0", b"no UTF-8": b"caf\xe9\n"},
    ],
    ids=["text", "bytes"],
)
def test_facts_are_lines_after_their_path(
    shell: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contents: dict[bytes, bytes]
) -> None:
    expected = b""
    for number, content in enumerate(contents.values()):
        path = tmp_path / f"fact{number}"
        path.write_bytes(content)
        lines = content.removesuffix(b"\n").split(b"\n") if content else []
        expected += b"".join(f"{path}:".encode() + line + b"\n" for line in lines)
    monkeypatch.setattr(plan_module, "_FACTS", (f"{tmp_path}/fact*", f"{tmp_path}/none", f"{tmp_path}/no*ne"))
    found = Run(plan_of("true", directory=tmp_path / "work"), shell, tmp_path).files()["facts"]
    # Some versions of busybox leave the NUL out.
    assert found.replace(b"\0", b"") == expected.replace(b"\0", b"")


# --- when the tool ends


@pytest.mark.parametrize("seen", [ThreadScope.OWN, ThreadScope.SESSION])
def test_a_tool_that_ends_early_was_not_seen(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None], seen: ThreadScope
) -> None:
    tools("stub", "echo done; exit 7")
    files = Run(replace(plan_of("stub", directory=tmp_path / "work"), thread_scope=seen), shell, tmp_path).files()
    assert (files["tool.rc"], files["tool.out"]) == (b"7\n", b"done\n")
    for moment in ("middle", "late"):
        assert session(files, moment) == []
        assert bool(files[f"threads.{moment}"]) == (seen is ThreadScope.SESSION)  # those of others
    elapsed = float(files["uptime.end"].split()[0]) - float(files["uptime.start"].split()[0])
    assert elapsed >= 0.26


THREADED = """
import threading, time
def now():
    return open("/proc/uptime").read().split()[0]
one = threading.Thread(target=time.sleep, args=(2,))
one.start()
one.join()
open("threads-ended", "w").write(now())
time.sleep(2)
open("tool-ended", "w").write(now())
"""


@pytest.mark.long("a tool of four seconds, twice")
@pytest.mark.parametrize(("seen", "until"), [(ThreadScope.OWN, "threads-ended"), (ThreadScope.SESSION, "tool-ended")])
def test_the_load_ends_with_the_measuring_threads(
    tmp_path: Path, tools: Callable[[str, str], None], seen: ThreadScope, until: str
) -> None:
    tools("load", f"while :; do cat /proc/uptime >>{tmp_path}/beats; sleep 0.05; done")
    argv = (sys.executable, "-S", "-c", THREADED)
    load = Load(name="beats", argv=("load",))
    plan = replace(plan_of(*argv, load=load, directory=tmp_path / "work"), thread_scope=seen, duration_s=1.5)
    files = Run(plan, ["sh"], tmp_path).files()
    assert files["tool.rc"] == b"0\n"
    if seen is ThreadScope.OWN:
        assert len(files["threads.middle"].splitlines()) == 2
    assert len(session(files, "middle")) == 2
    last = float((tmp_path / "beats").read_text().splitlines()[-1].split()[0])
    assert float(files[until]) - 0.5 < last < float(files[until]) + 1
    assert last < float(files["uptime.end"].split()[0]) + 0.5


def test_a_session_s_threads_are_those_of_its_children_too(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None]
) -> None:
    tools("stub", "child & child; wait")
    tools("child", "exec sleep 0.8")
    plan = plan_of("stub", directory=tmp_path / "work")
    files = Run(replace(plan, thread_scope=ThreadScope.SESSION), shell, tmp_path).files()
    assert session(files, "middle") == ["sleep", "sleep", "stub"]
    own = Run(replace(plan, thread_scope=ThreadScope.OWN), shell, tmp_path).files()
    assert session(own, "middle") == ["stub"]
    assert len(own["threads.middle"].splitlines()) == 1


# --- what the target must have


def test_a_tool_whose_needs_are_not_met_is_not_run(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None], printk: str
) -> None:
    for name in ("stub", "load"):
        tools(name, f"touch {tmp_path}/{name}-ran; sleep 0.3")
    (tmp_path / "set").write_text("old\n")
    plan = replace(
        plan_of("stub", load=Load(name="load", argv=("load",)), directory=tmp_path / "work"),
        needs=(
            Need(test="[ -e /proc/version ]", reason="no /proc"),
            Need(test=f"[ -e {tmp_path}/none ]", reason='it\'s $NOT `there`: needs "two" CPUs'),
            Need(test="[ -e /proc/version ] && false", reason="-n second"),
        ),
        writes=(Write(path=f"{tmp_path}/set", value="new"),),
    )
    began = time.monotonic()
    run = Run(plan, shell, tmp_path)
    files = run.files()
    assert files["skip"].decode().splitlines() == ['it\'s $NOT `there`: needs "two" CPUs', "-n second"]
    assert not [name for name in files if name.startswith(("tool", "threads", "load", "uptime", "facts."))]
    assert not list(tmp_path.glob("*-ran"))
    assert (tmp_path / "set").read_text() == "old\n"
    assert PRINTK.read_text() == printk
    # What tells the kernel is there all the same.
    assert facts(files["facts"])["/proc/sys/kernel/version"] == [os.uname().version]
    assert "processes" in files
    assert has_measured(run.printed.decode())
    assert run.again("resend", "1") == run.frames[:1]
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(("virtual_time", "reason"), [(False, None), (True, b"no tracer\n")])
def test_a_file_system_that_a_board_s_own_system_did_not_mount_is_mounted(
    tmp_path: Path, tools: Callable[[str, str], None], *, virtual_time: bool, reason: bytes | None
) -> None:
    tools("tool", "echo measured")
    tools("mount", f'[ "$*" = "-t tracefs tracefs /sys/kernel/tracing" ] && echo timerlat >{tmp_path}/tracers')
    need = Need(test=f"grep -qw timerlat {tmp_path}/tracers", reason="no tracer", file_system="tracefs")
    plan = replace(plan_of("tool", directory=tmp_path / "work"), needs=(need,), virtual_time=virtual_time)
    assert Run(plan, ["sh"], tmp_path).files().get("skip") == reason


def test_needs_that_are_met_leave_no_trace(shell: list[str], tmp_path: Path, tools: Callable[[str, str], None]) -> None:
    tools("stub", "echo ran")
    needs = (Need(test="true", reason="no"), Need(test="[ $(nproc) -gt 0 ]", reason="no CPU"))
    run = Run(replace(plan_of("stub", directory=tmp_path / "work"), needs=needs), shell, tmp_path)
    files = run.files()
    assert "skip" not in files
    assert files["tool.out"] == b"ran\n"
    assert run.printed.startswith(b"rtgate: plan started\nrtgate: measured\n")


# --- settings that are written


def _writing(directory: Path, *writes: Write) -> Plan:
    return replace(plan_of("stub", directory=directory / "work"), writes=writes)


@pytest.mark.parametrize("code", [0, 9])
def test_settings_are_written_read_back_and_put_back(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None], code: int
) -> None:
    before = {"set1": "old\n", "set2": "two\nlines: and a colon\n", "other": "mine", "empty": ""}
    for name, text in before.items():
        (tmp_path / name).write_text(text)
    tools("stub", f"cat {tmp_path}/set1 {tmp_path}/set2 {tmp_path}/other {tmp_path}/empty >seen; exit {code}")
    plan = _writing(
        tmp_path,
        Write(path=f"{tmp_path}/set*", value="it's a new $value"),
        Write(path=f"{tmp_path}/other", value="-1"),
        Write(path=f"{tmp_path}/empty", value="filled"),
    )
    files = Run(plan, shell, tmp_path).files()
    new = "it's a new $value"
    assert files["seen"].decode() == f"{new}\n{new}\n-1\nfilled\n"
    assert files["tool.rc"] == f"{code}\n".encode()
    read = {f"{tmp_path}/{name}": [value] for name, value in zip(before, (new, new, "-1", "filled"), strict=True)}
    for moment in ("start", "end"):
        found = facts(files[f"facts.{moment}"])
        assert {path: found[path] for path in read} == read
    assert {name: (tmp_path / name).read_text() for name in before} == before


def test_what_cannot_be_written_is_passed_over(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None]
) -> None:
    (tmp_path / "set").write_text("old\n")
    tools("stub", f"cat {tmp_path}/set >seen")
    plan = _writing(
        tmp_path,
        Write(path=f"{tmp_path}/none", value="1"),
        Write(path=f"{tmp_path}/no-*-match", value="1"),
        Write(path="/proc/version", value="1"),
        Write(path=f"{tmp_path}/set", value="new"),
    )
    files = Run(plan, shell, tmp_path).files()
    assert (files["seen"], files["tool.rc"]) == (b"new\n", b"0\n")
    found = facts(files["facts.end"])
    assert found[f"{tmp_path}/set"] == ["new"]
    assert found["/proc/version"] == Path("/proc/version").read_text().splitlines()
    assert not [path for path in found if path.startswith(f"{tmp_path}/no")]
    assert sorted(path.name for path in tmp_path.glob("no*")) == []
    assert (tmp_path / "set").read_text() == "old\n"


def test_a_setting_that_is_written_twice_is_what_it_was_before_both(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None]
) -> None:
    (tmp_path / "set").write_text("0\n")
    tools("stub", f"cat {tmp_path}/set >seen")
    plan = _writing(tmp_path, Write(path=f"{tmp_path}/set", value="1"), Write(path=f"{tmp_path}/s*", value="2"))
    files = Run(plan, shell, tmp_path).files()
    assert files["seen"] == b"2\n"
    assert (tmp_path / "set").read_text() == "0\n"


def test_settings_are_put_back_after_a_tool_that_was_stopped(
    tmp_path: Path, tools: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Plan, "tool_deadline_s", 1)
    (tmp_path / "set").write_text("old\n")
    tools("stub", "exec sleep 60")
    files = Run(_writing(tmp_path, Write(path=f"{tmp_path}/set", value="new")), ["sh"], tmp_path).files()
    assert files["tool.deadline"] == b"after 1 s\n"
    assert (tmp_path / "set").read_text() == "old\n"


@pytest.mark.parametrize("name", ["hwlatdetect", "rtla-timerlat", "rtla-osnoise"])
def test_the_tracer_of_a_tool_that_was_stopped_does_not_run_on(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What is measured after it on the same boot would be measured under it."""
    monkeypatch.setattr(Plan, "tool_deadline_s", 1)
    own = tmp_path / "tracing" if name == "hwlatdetect" else tmp_path / f"tracing/instances/{name[5:]}_hist"
    other = tmp_path / "tracing/instances/mine"
    for directory in (own, other):
        directory.mkdir(parents=True)
        (directory / "current_tracer").write_text("hwlat\n")
        (directory / "tracing_on").write_text("1\n")
    # As in the kernel, where such a directory is empty for rmdir, and its files are refused while it is read.
    tools("rmdir", '[ "$(cat "$1/tracing_on")" = 0 ] && rm -r "$1"')
    tools("stub", "exec sleep 60")
    cleanup = TOOLS[name].cleanup.replace("/sys/kernel/tracing", str(tmp_path / "tracing"))
    Run(replace(plan_of("stub", directory=tmp_path / "work"), cleanup=cleanup), shell, tmp_path)
    assert (own / "current_tracer").read_text() == "nop\n" if name == "hwlatdetect" else not own.exists()
    assert (other / "current_tracer").read_text() == "hwlat\n"


def test_a_tracer_of_somebody_else_stays(tmp_path: Path) -> None:
    """As on a board where the tool could not run."""
    (tmp_path / "current_tracer").write_text("function\n")
    cleanup = TOOLS["hwlatdetect"].cleanup.replace("/sys/kernel/tracing", str(tmp_path))
    subprocess.run(["sh", "-c", cleanup], check=True)
    assert (tmp_path / "current_tracer").read_text() == "function\n"


def test_a_tracer_that_is_still_read_is_stopped_when_it_is_not(tmp_path: Path) -> None:
    """The kernel refuses another tracer while the dying tool has the trace open: seen here as a place without files."""
    place = tmp_path / "tracing"
    cleanup = TOOLS["hwlatdetect"].cleanup.replace("/sys/kernel/tracing", str(place))
    script = f"cat() {{ echo hwlat; }}; (sleep 0.3; mkdir {place}) & {cleanup}"
    subprocess.run(["sh", "-c", script], stderr=subprocess.DEVNULL, check=True)
    assert (place / "current_tracer").read_text() == "nop\n"


def test_a_setting_that_is_watched_anyway_is_read_once(tmp_path: Path, tools: Callable[[str, str], None]) -> None:
    tools("stub", "true")
    plan = _writing(tmp_path, Write(path=WATCHED[1], value=Path(WATCHED[1]).read_text().strip()))
    files = Run(plan, ["sh"], tmp_path).files()
    assert facts(files["facts.end"])[WATCHED[1]] == Path(WATCHED[1]).read_text().splitlines()


# --- the kernel's threads


def test_threads_get_their_priorities_by_name(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None]
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may set priorities")
    names = [f"rtg-{os.getpid() % 10_000}-{letter}" for letter in "ab"]
    started = []
    try:
        for name in names:
            tools(name, "sleep 60; exit")
            started.append(subprocess.Popen([name], start_new_session=True))
        waited = time.monotonic() + 5
        comms = [Path(f"/proc/{one.pid}/comm") for one in started]
        while [comm.read_text().strip() for comm in comms] != names and time.monotonic() < waited:
            time.sleep(0.02)
        plan = replace(plan_of("true", directory=tmp_path / "work"), priorities=((names[0], 3),))
        files = Run(plan, shell, tmp_path).files()
        # They are put back when nothing is measured any more.
        assert [os.sched_getscheduler(one.pid) for one in started] == [os.SCHED_OTHER, os.SCHED_OTHER]
        seen = [line for line in files["kthreads"].decode().splitlines() if f"({names[0]})" in line]
        assert [line.rpartition(")")[2].split()[37:39] for line in seen] == [["3", "1"]]
    finally:
        for one in started:
            with suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait()


# --- an interrupt


_CATCHABLE = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize(
    "number", [signal.SIGINT, *(pytest.param(one, marks=_LONG) for one in (signal.SIGTERM, signal.SIGHUP))]
)
def test_an_interrupted_plan_leaves_nothing_behind(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None], number: signal.Signals
) -> None:
    governor = tmp_path / "governor"
    governor.write_text("ondemand\n")
    marks = [f"{tmp_path}/{name}-mark" for name in ("tool", "load")]
    directory = tmp_path / "disk"
    for name, mark in zip(("tool", "load"), marks, strict=True):
        tools(name, f"mkdir -p {directory}; sh -c 'while :; do sleep 0.1; done' {mark} & wait")
    load = Load(name="endless", argv=("load",), directory=str(directory))
    plan = replace(
        plan_of("tool", load=load, directory=tmp_path / "work"),
        duration_s=20.0,
        writes=(Write(path=str(governor), value="performance"),),
        cleanup=f"echo nop >{tmp_path}/tracer",
    )
    path = tmp_path / "plan.sh"
    path.write_text(script(plan))
    # A shell cannot catch what was ignored when it was started, as SIGINT is below nohup.
    argv = [sys.executable, "-c", _CATCHABLE, *shell, str(path)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, start_new_session=True) as running:
        try:
            until = time.monotonic() + 20
            while not all(processes(mark) for mark in marks) and time.monotonic() < until:
                time.sleep(0.05)
            assert governor.read_text() == "performance\n"
            os.killpg(running.pid, number)  # as a terminal sends it: to the plan and what it waits for
            assert running.wait(timeout=20) == 130
        finally:
            running.kill()
    assert all(gone(mark) for mark in marks)
    assert not directory.exists()
    assert governor.read_text() == "ondemand\n"
    assert (tmp_path / "tracer").read_text() == "nop\n"


# --- the load


def test_the_load_runs_beside_the_tool_and_is_gone_afterwards(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None]
) -> None:
    word = f"{tmp_path}/load-mark"
    # A child of the load's, in the background, which does not want to end.
    tools("load", f"sh -c \"trap '' TERM; while :; do sleep 0.1; done\" {word} & echo started; wait")
    load = Load(name="stubborn", argv=("load", word))
    files = Run(plan_of("sleep", "0.4", load=load, directory=tmp_path / "work"), shell, tmp_path).files()
    pid = files["load.pid"].strip()
    assert files["load.out"] == b"started\n"
    groups = [line.rpartition(b")")[2].split()[2] for line in files["processes.middle"].splitlines()]
    assert groups.count(pid) >= 2
    assert gone(word)


def test_what_a_load_wrote_on_a_disk_is_removed(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None]
) -> None:
    directory = tmp_path / "my disk"
    tools("load", f"mkdir '{directory}'; cd '{directory}'; echo x >written; exec sleep 1000")
    load = Load(name="writer", argv=("load",), directory=str(directory))
    plan = plan_of("sh", "-c", f"ls '{directory}'", load=load, directory=tmp_path / "work")
    assert Run(replace(plan, virtual_time=False), shell, tmp_path).files()["tool.out"] == b"written\n"
    assert not directory.exists()


def test_a_load_of_fixed_work_is_started_again(tmp_path: Path, tools: Callable[[str, str], None]) -> None:
    word = f"{tmp_path}/load-mark"
    tools("load", "echo once; sleep 0.05")
    load = Load(name="short", argv=("load", word), repeat=True)
    files = Run(plan_of("sleep", "0.5", load=load, directory=tmp_path / "work"), ["sh"], tmp_path).files()
    assert files["load.out"].count(b"once") >= 3
    assert gone(word)


def test_a_load_that_begins_late_has_begun_when_the_tool_does(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None]
) -> None:
    """As on a board with too much to do; seen on an emulated one: no process left at the start of the measurement."""
    tools("load", "while :; do sleep 0.1; done")
    tools("setsid", f'case $* in *load*) sleep 0.4 ;; esac; exec {shutil.which("setsid")} "$@"')
    plan = plan_of("sleep", "0.3", load=Load(name="late", argv=("load",)), directory=tmp_path / "work")
    files = Run(replace(plan, virtual_time=False), shell, tmp_path).files()
    assert [look.processes > 0 for look in load_seen(files)] == [True] * 4


def test_a_load_that_fails_is_not_started_again(tmp_path: Path, tools: Callable[[str, str], None]) -> None:
    tools("load", "echo broken; exit 1")
    load = Load(name="broken", argv=("load",), repeat=True)
    files = Run(plan_of("sleep", "0.3", load=load, directory=tmp_path / "work"), ["sh"], tmp_path).files()
    assert files["load.out"] == b"broken\n"


@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize("waits", [False, True])
def test_the_exit_code_of_a_load_that_ended_by_itself_is_kept_where_it_is_waited_for(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None], waits: bool, repeat: bool
) -> None:
    tools("load", "echo broken; exit 7")
    plan = plan_of("sleep", "0.3", load=Load(name="broken", argv=("load",), repeat=repeat), directory=tmp_path / "work")
    files = Run(replace(plan, virtual_time=not waits), shell, tmp_path).files()
    assert files["load.out"] == b"broken\n"
    assert files.get("load.ended") == (b"7\n" if waits else None)


def test_a_load_that_runs_until_it_is_ended_has_no_exit_code(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None]
) -> None:
    tools("load", "while :; do sleep 0.1; done")
    plan = plan_of("sleep", "0.3", load=Load(name="endless", argv=("load",)), directory=tmp_path / "work")
    assert "load.ended" not in Run(replace(plan, virtual_time=False), shell, tmp_path).files()


def test_a_load_that_measures_says_what_before_it_ends(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None]
) -> None:
    """It gets longer than other loads, and its exit code is kept."""
    tools("load", "trap 'sleep 0.5; echo measured >load.json; exit 7' TERM; while :; do sleep 0.05; done")
    load = Load(name="fio-read", argv=("load",), measures=True)
    began = time.monotonic()
    files = Run(plan_of("sleep", "0.4", load=load, directory=tmp_path / "work"), shell, tmp_path).files()
    assert time.monotonic() - began < 8
    assert (files["load.json"], files["load.rc"]) == (b"measured\n", b"7\n")


def test_a_load_that_measures_and_ended_early_has_its_exit_code(
    shell: list[str], tmp_path: Path, tools: Callable[[str, str], None]
) -> None:
    tools("load", "exit 3")
    load = Load(name="fio-read", argv=("load",), measures=True)
    files = Run(plan_of("sleep", "0.4", load=load, directory=tmp_path / "work"), shell, tmp_path).files()
    assert files["load.rc"] == b"3\n"


@pytest.mark.long("a disk that is not there is waited for, 10 s; test_storage has it without the plan")
def test_without_its_storage_nothing_is_measured(shell: list[str], tmp_path: Path) -> None:
    """This machine has no such disk: the plan comes to its end at once, and the tool never ran."""
    plan = replace(plan_of("sleep", "9", directory=tmp_path / "work"), storage=OTHER["storage"])  # type: ignore[arg-type]
    files = Run(plan, shell, tmp_path).files()
    assert files["lost"].startswith(b"the kernel shows no NVMe disk with the serial number no such disk (there are:")
    assert "tool.out" not in files
    assert files["facts"]


def test_without_a_load_none_is_recorded(tmp_path: Path) -> None:
    files = Run(plan_of("sleep", "0.3", directory=tmp_path / "work"), ["sh"], tmp_path).files()
    assert not [name for name in files if name.startswith(("load", "processes."))]


def test_nothing_is_left_running(shell: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = 7_654_321  # a word that nothing else on this machine has
    monkeypatch.setattr(Plan, "tool_deadline_s", deadline)
    Run(plan_of("true", directory=tmp_path / "work"), shell, tmp_path)
    try:
        assert gone(f"sleep\0{deadline}")
    finally:
        for pid in processes(f"sleep\0{deadline}"):
            os.kill(pid, signal.SIGKILL)


# --- the kernel's console


def test_the_kernel_prints_nothing_while_it_measures_and_may_print_again_afterwards(
    shell: list[str], tmp_path: Path, printk: str
) -> None:
    files = Run(plan_of("sh", "-c", f"cat {PRINTK} >level", directory=tmp_path / "work"), shell, tmp_path).files()
    if os.access(PRINTK, os.W_OK):
        assert files["level"].split()[0] == b"1"
    assert PRINTK.read_text() == printk


def test_a_directory_that_cannot_be_written_is_said(tmp_path: Path, shell: list[str]) -> None:
    (tmp_path / "file").write_text("")
    run = Run(plan_of("true", directory=tmp_path / "file"), shell, tmp_path)
    assert f"rtgate: cannot write {shlex.quote(str(tmp_path))}/file/{run.plan.nonce}" in run.printed.decode()
    assert not has_started(run.printed.decode())
    assert run.frames == []
