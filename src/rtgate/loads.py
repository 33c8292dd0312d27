# SPDX-License-Identifier: MIT
"""Loads: what runs beside a tool, each defined once, with the parameters taken from the board."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rtgate.boards import Board
from rtgate.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load.

    Attributes:
        argv: the command; empty for no load.
        repeat: start the command again whenever it ends (programs that do a fixed amount of work).
    """

    name: str
    argv: tuple[str, ...] = ()
    repeat: bool = False


def _idle(_: Board) -> Load:
    return Load(name="idle")


def _hackbench(board: Board) -> Load:
    # One group of 2 x 5 tasks per CPU. The default of 10 groups (400 tasks) takes minutes to start on an emulated
    # CPU; the load on the scheduler and the IPC paths is the same kind with fewer tasks.
    return Load(
        name="hackbench",
        argv=("hackbench", "--groups", str(board.cpus), "--fds", "5", "--loops", "100", "--datasize", "100"),
        repeat=True,
    )


def _stress_ng(board: Board) -> Load:
    # The mix of the vendor's reference runs (facts on loads: -c CPUs --io 2 --vm 1); the memory is 1/16 of the RAM,
    # as 256 MiB were of the 4 GiB there.
    memory = max(4, board.memory_mib // 16)
    return Load(
        name="stress-ng",
        argv=(
            *("stress-ng", "--quiet", "--cpu", str(board.cpus), "--io", "2", "--vm", "1"),
            *("--vm-bytes", f"{memory}M", "--temp-path", "/tmp"),  # noqa: S108 - on the target, a RAM file system
        ),
    )


_LOADS: dict[str, Callable[[Board], Load]] = {"idle": _idle, "hackbench": _hackbench, "stress-ng": _stress_ng}
NAMES = tuple(_LOADS)


def load(name: str, board: Board) -> Load:
    """Return the load of this name for a board.

    Raises:
        ConfigError: there is none.
    """
    if name not in _LOADS:
        raise ConfigError(f"unknown load {name!r} (allowed: {', '.join(NAMES)})")
    return _LOADS[name](board)
