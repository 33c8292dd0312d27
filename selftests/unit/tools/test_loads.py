# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from rtgate.board import boards
from rtgate.errors import ConfigError
from rtgate.tools import loads


@pytest.fixture
def board() -> boards.Board:
    return replace(boards.board("virt-arm64"), cpus=4, memory_mib=4096)


def test_idle_runs_nothing(board: boards.Board) -> None:
    assert loads.load("idle", board) == loads.Load(name="idle", processes=0)


def test_hackbench_grows_with_the_cpus_and_is_started_again(board: boards.Board) -> None:
    load = loads.load("hackbench", board)
    assert load.argv[:3] == ("hackbench", "--groups", "4")
    assert load.repeat


def test_stress_ng_takes_a_sixteenth_of_the_memory(board: boards.Board) -> None:
    load = loads.load("stress-ng", board)
    assert load.argv[load.argv.index("--cpu") + 1] == "4"
    assert load.argv[load.argv.index("--vm-bytes") + 1] == "256M"
    small = loads.load("stress-ng", replace(board, memory_mib=32))
    assert small.argv[small.argv.index("--vm-bytes") + 1] == "4M"
    assert not load.repeat


def test_disk_loads_write_where_the_board_says_and_to_a_ram_disk_otherwise(board: boards.Board) -> None:
    (_, _, command), named = loads.load("disk", board).argv, replace(board, scratch="/var/my tmp")
    assert "mount -t ext2 /dev/ram0" in command
    assert loads.load("disk", board).needs
    assert "cd '/var/my tmp/rtgate-load' &&" in loads.load("disk", named).argv[-1]
    assert not loads.load("fio", named).needs


def test_system_calls_have_a_worker_of_each_kind(board: boards.Board) -> None:
    load = loads.load("syscalls", board)
    kinds = [word for word in load.argv if word.startswith("--") and word not in {"--quiet", "--temp-path"}]
    assert kinds == ["--pipe", "--futex", "--fork", "--fault", "--sigq", "--timer"]
    assert load.processes == 7  # one starts them


def test_a_combination_has_the_processes_and_needs_of_its_parts(board: boards.Board) -> None:
    whole = loads.load("combination", board)
    parts = [loads.load(name, board) for name in ("hackbench", "stress-ng", "disk")]
    assert whole.processes == sum(part.processes for part in parts)
    assert whole.needs == parts[2].needs
    assert all(part.argv[0] in whole.argv[-1] for part in parts[:2])


def test_fio_comes_from_the_larger_image(board: boards.Board) -> None:
    assert {name for name in loads.SHIPPED if loads.load(name, board).image == "full"} == {"fio"}


@pytest.mark.parametrize("name", loads.SHIPPED)
def test_every_load_is_called_what_it_is_asked_by(board: boards.Board, name: str) -> None:
    assert loads.load(name, board).name == name


def test_an_unknown_load_lists_the_loads(board: boards.Board) -> None:
    with pytest.raises(ConfigError, match=r"unknown load 'dd' \(allowed: idle, hackbench, stress, stress-ng, disk, "):
        loads.load("dd", board)


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("stress-ng: error: [70] no memory\n", "stress-ng: error: [70] no memory"),
        ("stress-ng: fail:  [71] cpu: verification failed\n", "stress-ng: fail:  [71] cpu: verification failed"),
        ("stress-ng: fail:  [57] pipe instance 0 corrupted bogo-ops counter, 9 vs 10\n", "stress-ng: fail:  [57] pipe"),
        (
            "stress: FAIL: [70] (415) <-- worker 71 returned error 1\nstress: FAIL: [70] (451) failed run completed\n",
            "stress: FAIL: [70] (415) <-- worker 71 returned error 1",
        ),
        ("fio: pid=70, err=28/file:filesetup.c:240, error=No space left\n", "fio: pid=70, err=28/file"),
        ("Running in process mode\nfork() (error: Cannot allocate memory)\n", "fork() (error: Cannot allocate memory)"),
        ("sh: 1: stress-ng: not found\n", "sh: 1: stress-ng: not found"),
        ("dd: error writing 'bigfile': No space left on device\n", "dd: error writing 'bigfile'"),
        ("mkdir: cannot create directory '/proc/x': No such file or directory\n", "mkdir: cannot create"),
    ],
)
def test_an_error_that_a_load_reports_is_found(output: str, line: str) -> None:
    assert loads.complaint(output).startswith(line)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "Running in process mode with 1 groups using 10 file descriptors each (== 10 tasks)\nTime: 0.123\n",
        # What is printed when the plan ends the load.
        "Signal 15 caught, longjmp'ing out!\nlongjmp'ed out, reaping children\nSENDER: write (error: Broken pipe)\n",
        "stress: FAIL: [70] (415) <-- worker 71 got signal 15\nstress: FAIL: [70] (451) failed run completed in 3s\n",
        "fio: terminating on signal 15\n",
        "stress-ng: info:  [70] dispatching hogs: 1 cpu\n",
        "stress-ng: fail:  [57] switch instance 0 corrupted bogo-ops counter, 9704 vs 0\n",
        "stress-ng: fail:  [57] switch instance 0 hash error in bogo-ops counter and run flag, 3921627776 vs 0\n",
        "stress-ng: fail:  [57] metrics-check: stressor metrics corrupted, data is compromised\n",
    ],
)
def test_how_a_load_is_ended_is_no_error_of_its_own(output: str) -> None:
    assert loads.complaint(output) == ""


_WORKS = "exec sleep 0.3"
_BROKEN = "echo 'SENDER: write (error: Broken pipe)' >&2; exec sleep 0.3"


@pytest.fixture
def started(board: boards.Board, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a load with these programs in its path; its output is in `load.out`."""
    running: list[subprocess.Popen[bytes]] = []

    def start(programs: dict[str, str], scratch: str = "", name: str = "dd-hackbench") -> subprocess.Popen[bytes]:
        path = tmp_path / "bin"
        path.mkdir()
        for program in ("sh", "sleep", "mkdir", "cat", "grep"):
            (path / program).symlink_to(shutil.which(program) or program)
        for program, does in {"killall": "exit 1", **programs}.items():
            (path / program).write_text(f"#!/bin/sh\n{does}\n", encoding="ascii")
            (path / program).chmod(0o755)
        load = loads.load(name, replace(board, scratch=scratch or str(tmp_path)))
        with (tmp_path / "load.out").open("wb") as out:
            child = subprocess.Popen(
                load.argv,
                env={"PATH": str(path)},
                cwd=tmp_path,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        running.append(child)
        return child

    yield start
    for child in running:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _alive(session: int) -> int:
    """Return how many processes of a session there are."""
    alive = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # of one that has ended meanwhile
            fields = path.read_text().rpartition(") ")[2].split()
            alive += fields[3] == str(session) and fields[0] != "Z"
    return alive


@pytest.mark.parametrize(
    ("programs", "scratch", "says"),
    [
        ({"dd": _WORKS, "hackbench": _WORKS}, "/proc/no-such-disk", "mkdir: cannot create directory"),
        ({"dd": _WORKS}, "", "hackbench: not found"),
        ({"hackbench": _WORKS}, "", "dd: not found"),
        ({"dd": "echo 'dd: no space left' >&2; exit 1", "hackbench": _WORKS}, "", "dd: no space left"),
        (
            {"dd": _WORKS, "hackbench": "echo 'fork() (error: Cannot allocate memory)' >&2; exit 1"},
            "",
            "fork() (error: Cannot allocate memory)",
        ),
        (  # Its exit code is 0 whatever became of the work.
            {"dd": _WORKS, "hackbench": "echo 'SENDER: write (error: No buffer space available)' >&2"},
            "",
            "SENDER: write (error: No buffer space available)",
        ),
    ],
)
def test_dd_hackbench_ends_as_a_whole_when_a_part_cannot_work(
    started: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, programs: dict[str, str], scratch: str, says: str
) -> None:
    child = started(programs, scratch)
    assert child.wait(timeout=20) == -signal.SIGKILL
    assert says in loads.complaint((tmp_path / "load.out").read_text())


@pytest.mark.parametrize("part", ["--cpu-load", "--io"])
def test_the_game_ends_as_a_whole_when_a_part_ends(started: Callable[..., subprocess.Popen[bytes]], part: str) -> None:
    ends = f'case "$*" in *{part}*) sleep 0.3; exit 1;; esac; exec sleep 60'
    child = started({"stress-ng": ends}, name="game")
    deadline = time.monotonic() + 20
    while _alive(child.pid) < 4:  # two shells and what they started
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert child.wait(timeout=20) == -signal.SIGKILL
    while _alive(child.pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_dd_hackbench_that_works_has_more_processes_than_its_shells_and_nothing_to_say(
    started: Callable[..., subprocess.Popen[bytes]], board: boards.Board, tmp_path: Path
) -> None:
    child = started({"dd": "echo '1024+0 records in' >&2; exec sleep 0.3", "hackbench": _BROKEN})
    least = loads.load("dd-hackbench", board).processes
    end = time.monotonic() + 20
    while _alive(child.pid) < least:
        assert time.monotonic() < end
        time.sleep(0.02)
    time.sleep(1)
    assert child.poll() is None
    assert (tmp_path / "load.out").read_text() == ""


def test_dd_hackbench_names_the_programs_that_it_needs(board: boards.Board) -> None:
    named = replace(board, scratch="/var/tmp")
    assert [need.reason for need in loads.load("dd-hackbench", named).needs] == [
        f"the target has no {name}" for name in ("dd", "hackbench", "killall")
    ]
    assert "count=1024" in loads.load("dd-hackbench", named).argv[-1]
    assert "count=48" in loads.load("dd-hackbench", board).argv[-1]  # 64 MiB of RAM disk
