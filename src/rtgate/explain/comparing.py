# SPDX-License-Identifier: MIT
"""Explaining a case on both kernels of a comparison: run both again, at once, and put them beside each other."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rtgate.errors import ConfigError
from rtgate.explain.explanation import Arm as Explained
from rtgate.explain.explanation import Exercise, Explanation, exercised, explain
from rtgate.explain.replay import Replay, Tell, replayed
from rtgate.kernel.differing import Differences, differing
from rtgate.kernel.vmlinux import Vmlinux
from rtgate.measure import Arm, Case
from rtgate.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One kernel of a comparison.

    Attributes:
        directory: its build directory, with `vmlinux` and, if known, `config`.
        seed: the boot to run again.
        record: what it must reproduce; None if there is none yet.
    """

    arm: Arm
    directory: Path
    seed: int
    record: Record | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """An explanation with what it rests on; `differences` and `exercise` are None without a baseline."""

    explanation: Explanation
    differences: Differences | None
    exercise: Exercise | None


def compare(case: Case, candidate: Side, baseline: Side | None, stop: threading.Event, tell: Tell) -> Compared:
    """Run both sides again with tracing and explain the difference.

    Raises:
        ConfigError: a kernel has no `vmlinux`, or the case cannot be explained.
        InfrastructureError: this machine cannot trace.
        ParseError: a boot did not repeat itself, or its trace does not agree with its histogram.
    """
    sides = {"candidate": candidate, **({"baseline": baseline} if baseline else {})}
    kernels = {name: Vmlinux(vmlinux(side.directory)) for name, side in sides.items()}
    found: Differences | None = None
    if baseline is not None:
        tell("comparing the kernels function by function")
        configs = (_config(baseline.directory), _config(candidate.directory))
        found = differing(kernels["baseline"], kernels["candidate"], configs)
    names = found.functions if found else frozenset[str]()
    pool = ThreadPoolExecutor(max_workers=len(sides))
    try:
        running = {
            name: pool.submit(
                replayed,
                Replay(case=case, arm=side.arm, seed=side.seed, kernel=kernels[name], expected=side.record, tell=tell),
                names,
            )
            for name, side in sides.items()
        }
        done = {name: future.result() for name, future in running.items()}
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return Compared(
        explanation=explain(done["candidate"], done.get("baseline"), names if found else None),
        differences=found,
        exercise=exercised(names, _most(done), found.data) if found else None,
    )


def _most(done: Mapping[str, Explained]) -> dict[str, int]:
    """Return what either kernel executed: a function that was removed ran on the baseline, if at all."""
    most: dict[str, int] = {}
    for side in done.values():
        for name, count in side.executed.items():
            most[name] = max(count, most.get(name, 0))
    return most


def vmlinux(directory: Path) -> Path:
    """Return the ELF file of a build directory. Raises ConfigError: there is none."""
    path = directory / "vmlinux"
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; functions have names in the kernel's ELF file only")
    return path


def _config(directory: Path) -> Path | None:
    path = directory / "config"
    return path if path.is_file() else None
