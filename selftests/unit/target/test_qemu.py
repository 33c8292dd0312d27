# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rtgate import boards, site
from rtgate.boards import Board
from rtgate.errors import InfrastructureError
from rtgate.target import qemu, turns
from rtgate.target.qemu import Machine

VIRTUAL = [name for name in site.names("boards") if boards.board(name).virtual]


@pytest.fixture(autouse=True)
def _library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "library", lambda: Path("/cache/turns.so"))


def machine(board: Board, *, seed: int | None = None, virtual: bool = False, monitor: Path | None = None) -> list[str]:
    return Machine(
        board=board,
        image=Path("/build/Image"),
        initrd=Path("/image.cpio"),
        serial="file:/console",
        seed=seed,
        virtual_time=virtual,
        monitor=monitor,
    ).argv()


def option(argv: Sequence[str], name: str) -> str:
    assert argv.count(name) == 1
    return argv[list(argv).index(name) + 1]


@pytest.mark.parametrize("name", VIRTUAL)
@pytest.mark.parametrize("virtual", [True, False])
def test_what_the_board_says_is_what_runs(name: str, virtual: bool) -> None:
    board = boards.board(name)
    assert board.qemu is not None
    argv = machine(board, virtual=virtual)
    assert board.qemu.binary in argv
    assert option(argv, "-machine") == board.qemu.machine
    assert option(argv, "-cpu") == board.qemu.cpu
    assert option(argv, "-smp") == str(board.cpus)
    assert option(argv, "-m") == f"{board.memory_mib}M"
    assert option(argv, "-kernel") == "/build/Image"
    assert option(argv, "-initrd") == "/image.cpio"
    assert option(argv, "-serial") == "file:/console"
    assert option(argv, "-append").split()[0] == f"console={board.console.device},{board.console.baud}"
    assert option(argv, "-append").endswith(board.command_line)
    # Nothing that could be different on another machine.
    for fixed in ("-nodefaults", "-no-user-config", "-no-reboot"):
        assert fixed in argv
    assert option(argv, "-accel") == "tcg"
    assert option(argv, "-display") == "none"


@pytest.mark.parametrize("name", VIRTUAL)
def test_virtual_time_counts_instructions(name: str) -> None:
    board = boards.board(name)
    assert board.qemu is not None
    argv = machine(board, virtual=True, seed=7)
    counting = option(argv, "-icount")
    assert counting.startswith(f"shift={board.qemu.shift},sleep=off")
    assert counting.endswith(",rr=record,rrfile=/dev/null") == (board.cpus == 1)
    assert option(argv, "-rtc") == "base=2024-01-01,clock=vm"
    assert option(argv, "-seed") == "7"
    assert (argv[:2] == ["env", "LD_PRELOAD=/cache/turns.so"]) == (board.cpus > 1)
    assert ("debug-threads=on" in argv) == (board.cpus > 1)


@pytest.mark.parametrize("name", VIRTUAL)
def test_host_time_does_not_count(name: str) -> None:
    argv = machine(boards.board(name))
    for absent in ("-icount", "-rtc", "-seed", "env"):
        assert absent not in argv


def test_only_the_seed_tells_two_boots_apart() -> None:
    board = boards.board("virt-arm64")
    one, other = machine(board, virtual=True, seed=1), machine(board, virtual=True, seed=22)
    assert one == machine(board, virtual=True, seed=1)
    assert [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]] == [("1", "22")]


def test_the_monitor_is_there_when_it_is_asked_for() -> None:
    board = boards.board("virt-arm64")
    assert "-qmp" not in machine(board)
    assert option(machine(board, monitor=Path("/run/qmp")), "-qmp") == "unix:/run/qmp,server=on,wait=off"


def test_the_boards_own_arguments_are_kept() -> None:
    board = boards.board("virt-arm64")
    assert board.qemu is not None
    own = replace(board, qemu=replace(board.qemu, arguments=("-device", "a b,c=d")), command_line="")
    assert option(machine(own), "-device") == "a b,c=d"
    assert option(machine(own), "-append") == f"console={board.console.device},{board.console.baud}"


def test_a_missing_qemu_names_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    qemu.version.cache_clear()
    with pytest.raises(
        InfrastructureError, match="qemu-system-aarch64 is not installed: on Debian, apt install qemu-sys"
    ):
        qemu.version("qemu-system-aarch64")


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/nowhere\n"])
def test_a_qemu_that_does_not_start_is_the_labs_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    (tmp_path / "qemu-broken").write_text(text)
    (tmp_path / "qemu-broken").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match="qemu-broken does not start: "):
        qemu.version("qemu-broken")
