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
    assert loads.load("idle", board) == loads.Load(name="idle")


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


@pytest.mark.parametrize("name", loads.NAMES)
def test_every_load_is_called_what_it_is_asked_by(board: boards.Board, name: str) -> None:
    assert loads.load(name, board).name == name


def test_an_unknown_load_lists_the_loads(board: boards.Board) -> None:
    with pytest.raises(ConfigError, match=r"unknown load 'dd' \(allowed: idle, hackbench, stress-ng\)"):
        loads.load("dd", board)
