# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

import pytest

from rtgate import boards, loads
from rtgate.errors import ConfigError


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


def test_a_combination_has_the_processes_and_needs_of_its_parts(board: boards.Board) -> None:
    whole = loads.load("combination", board)
    parts = [loads.load(name, board) for name in ("hackbench", "stress-ng", "disk")]
    assert whole.processes == sum(part.processes for part in parts)
    assert whole.needs == parts[2].needs
    assert all(part.argv[0] in whole.argv[-1] for part in parts[:2])


def test_fio_comes_from_the_larger_image(board: boards.Board) -> None:
    assert {name for name in loads.NAMES if loads.load(name, board).image == "full"} == {"fio"}


@pytest.mark.parametrize("name", loads.NAMES)
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
        (
            "stress: FAIL: [70] (415) <-- worker 71 returned error 1\nstress: FAIL: [70] (451) failed run completed\n",
            "stress: FAIL: [70] (415) <-- worker 71 returned error 1",
        ),
        ("fio: pid=70, err=28/file:filesetup.c:240, error=No space left\n", "fio: pid=70, err=28/file"),
        ("Running in process mode\nfork() (error: Cannot allocate memory)\n", "fork() (error: Cannot allocate memory)"),
        ("sh: 1: stress-ng: not found\n", "sh: 1: stress-ng: not found"),
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
    ],
)
def test_how_a_load_is_ended_is_no_error_of_its_own(output: str) -> None:
    assert loads.complaint(output) == ""
