# SPDX-License-Identifier: MIT
"""The plan's script, carried out by this machine's own shells."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from rtgate.console.frames import FrameReader
from rtgate.loads import Load
from rtgate.target.outcome import unpack
from rtgate.target.plan import Plan, measured, script, started

IDLE = Load(name="idle")
PRINTK = Path("/proc/sys/kernel/printk")
SHELLS = {"sh": ["sh"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}


@pytest.fixture(params=[pytest.param(argv, id=name) for name, argv in SHELLS.items() if shutil.which(argv[0])])
def shell(request: pytest.FixtureRequest) -> list[str]:
    return list(request.param)


@pytest.fixture(autouse=True)
def printk() -> Iterator[str]:
    """Put back the kernel's console level, which a plan lowers, also when a test was stopped inside a plan."""
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


def plan_of(*argv: str, load: Load = IDLE, seed: int = 1, directory: Path = Path("/run/rtgate")) -> Plan:
    return Plan(
        case="latency/stub:idle", argv=argv, load=load, seed=seed, duration_s=0.3, work_directory=str(directory)
    )  # fmt: skip


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


# --- the text


def test_the_same_plan_is_the_same_text() -> None:
    assert script(plan_of("a", "b")) == script(plan_of("a", "b"))


def test_the_nonce_names_the_plan_and_its_seed() -> None:
    plan = plan_of("stub", "-x")
    assert plan.nonce == plan_of("stub", "-x").nonce
    others = [
        replace(plan, seed=2),
        replace(plan, argv=("stub", "-y")),
        replace(plan, case="latency/stub:hackbench"),
        replace(plan, load=Load(name="hackbench", argv=("hackbench",))),
        replace(plan, duration_s=0.4),
    ]
    assert len({plan.nonce, *(other.nonce for other in others)}) == len(others) + 1


def test_seeds_spread_the_phases_below_50_ms() -> None:
    phases = [plan_of("stub", seed=seed).phases_us for seed in range(1, 200)]
    assert len(set(phases)) == len(phases)
    assert all(0 <= phase < 50_000 for pair in phases for phase in pair)
    assert phases[0] == plan_of("other", "tool", seed=1).phases_us


def test_no_placeholder_is_left() -> None:
    assert not re.search(
        "@[A-Z_]+@", script(plan_of("stub", load=Load(name="hackbench", argv=("hackbench",), repeat=True)))
    )


def test_a_console_tells_how_far_a_plan_came() -> None:
    assert not started("Run /init as init process")
    assert started("Run /init as init process\nrtgate: plan started\n")
    assert not measured("rtgate: plan started\n")
    assert measured("rtgate: plan started\nrtgate: measured\n")


def test_the_tools_deadline_is_longer_than_its_duration() -> None:
    assert replace(plan_of("stub"), duration_s=60).deadline_s == 140


def test_the_script_is_sound() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    text = script(plan_of("stub", load=Load(name="hackbench", argv=("hackbench",), repeat=True)))
    done = subprocess.run(["shellcheck", "-s", "sh", "-S", "error", "-"], input=text, text=True, check=False)
    assert done.returncode == 0


# --- what it does


def test_the_results_arrive_in_frames(shell: list[str], tmp_path: Path, tools: Callable[[str, str], None]) -> None:
    tools("stub", 'echo out; echo err >&2; echo "$*" >x.json; sleep 1; exit 3')
    run = Run(plan_of("stub", "-a", "b", directory=tmp_path / "work"), shell, tmp_path)
    files = run.files()
    assert files["tool.rc"] == b"3\n"
    assert files["tool.out"] == b"out\n"
    assert files["tool.err"] == b"err\n"
    assert files["x.json"] == b"-a b\n"
    assert "tool.deadline" not in files
    assert b"(stub)" in files["threads.middle"]
    assert files["uname.r"].decode().strip() == os.uname().release
    assert files["uname.m"].decode().strip() == os.uname().machine
    assert files["version"] == Path("/proc/version").read_bytes()
    assert files["cmdline"] == Path("/proc/cmdline").read_bytes()
    assert float(files["uptime.start"].split()[0]) < float(files["uptime.end"].split()[0])
    assert run.printed.startswith(b"rtgate: plan started\nrtgate: measured\n")


def test_frames_can_be_asked_for_again(shell: list[str], tmp_path: Path, tools: Callable[[str, str], None]) -> None:
    tools("stub", "dd if=/dev/urandom of=random bs=1024 count=4")
    run = Run(plan_of("stub", directory=tmp_path / "work"), shell, tmp_path)
    assert len(run.frames) > 3
    assert run.again("resend", "1", "2") == run.frames[:2]
    assert run.again("resend", "3") == [run.frames[2]]
    assert run.again("resend", "99999") == []
    assert run.again("resend") == []
    assert run.again("closing") == [run.frames[-1]]
    partial = FrameReader(run.plan.nonce)
    partial.feed(b"\n".join([*run.frames[1:2], *run.frames[3:], b""]))
    missing = partial.missing
    assert missing == (1, 3)
    partial.feed(b"\n".join([*run.again("resend", *map(str, missing)), b""]))
    assert partial.payload() == run.reader.payload()


def test_a_plan_can_be_carried_out_again(tmp_path: Path, tools: Callable[[str, str], None]) -> None:
    tools("stub", f"cat {tmp_path}/number >number; ls >list")
    plan = plan_of("stub", directory=tmp_path / "work")
    for number in ("one\n", "two\n"):
        (tmp_path / "number").write_text(number)
        files = Run(plan, ["sh"], tmp_path).files()
        assert files["number"] == number.encode()
        assert b"tool.rc" not in files["list"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("exit 0", b"0"), ("exit 255", b"255"), ("kill -SEGV $$", b"139"), ("kill -KILL $$", b"137")],
)
def test_how_the_tool_ended_is_recorded(
    tmp_path: Path, tools: Callable[[str, str], None], text: str, code: bytes
) -> None:
    tools("stub", text)
    assert Run(plan_of("stub", directory=tmp_path / "work"), ["sh"], tmp_path).files()["tool.rc"].strip() == code


def test_a_tool_that_does_not_exist_is_recorded(tmp_path: Path, shell: list[str]) -> None:
    files = Run(plan_of("no-such-tool", directory=tmp_path / "work"), shell, tmp_path).files()
    assert files["tool.rc"] == b"127\n"
    assert b"no-such-tool" in files["tool.err"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("exec sleep 60", b"143"), ("trap '' TERM; while :; do sleep 0.1; done", b"137")],
    ids=["ends", "ignores it"],
)
def test_a_tool_that_does_not_end_is_stopped(
    tmp_path: Path, tools: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, text: str, code: bytes
) -> None:
    monkeypatch.setattr(Plan, "deadline_s", 1)
    tools("stub", text)
    files = Run(plan_of("stub", directory=tmp_path / "work"), ["sh"], tmp_path).files()
    assert files["tool.rc"].strip() == code
    assert files["tool.deadline"] == b"after 1 s\n"


ODD = (
    "",
    "a b",
    "it's",
    '"',
    "$HOME",
    "`id`",
    "*",
    "\\",
    "a\nb",
    "@LOAD@",
    "@MIDDLE@",
    "-n",
    "\u00b5",
    "~",
    "#x",
    ";",
    "!",
)


def test_odd_arguments_arrive_as_they_are(shell: list[str], tmp_path: Path, tools: Callable[[str, str], None]) -> None:
    tools("stub", 'for one; do printf "%s\\0" "$one"; done >arguments')
    tools("load", f'for one; do printf "%s\\0" "$one"; done >"{tmp_path}/load"; exec sleep 60')
    load = Load(name="odd", argv=("load", *ODD))
    directory = tmp_path / "it's a $directory"
    files = Run(plan_of("stub", *ODD, load=load, directory=directory), shell, tmp_path).files()
    expected = "".join(f"{word}\0" for word in ODD).encode()
    assert files["arguments"] == expected
    assert (tmp_path / "load").read_bytes() == expected


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


def test_a_load_of_fixed_work_is_started_again(tmp_path: Path, tools: Callable[[str, str], None]) -> None:
    word = f"{tmp_path}/load-mark"
    tools("load", "echo once; sleep 0.05")
    load = Load(name="short", argv=("load", word), repeat=True)
    files = Run(plan_of("sleep", "0.5", load=load, directory=tmp_path / "work"), ["sh"], tmp_path).files()
    assert files["load.out"].count(b"once") >= 3
    assert gone(word)


def test_a_load_that_fails_is_not_started_again(tmp_path: Path, tools: Callable[[str, str], None]) -> None:
    tools("load", "echo broken; exit 1")
    load = Load(name="broken", argv=("load",), repeat=True)
    files = Run(plan_of("sleep", "0.3", load=load, directory=tmp_path / "work"), ["sh"], tmp_path).files()
    assert files["load.out"] == b"broken\n"


def test_without_a_load_none_is_recorded(tmp_path: Path) -> None:
    files = Run(plan_of("sleep", "0.3", directory=tmp_path / "work"), ["sh"], tmp_path).files()
    assert not [name for name in files if name.startswith(("load", "processes"))]


def test_nothing_is_left_running(shell: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = 7_654_321  # a word that nothing else on this machine has
    monkeypatch.setattr(Plan, "deadline_s", deadline)
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
    assert not started(run.printed.decode())
    assert run.frames == []
