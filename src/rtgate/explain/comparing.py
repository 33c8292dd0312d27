# SPDX-License-Identifier: MIT
"""Two kernels of a comparison, run again with tracing: explaining a case, and seeing which of their differences ran."""

from __future__ import annotations

import functools
import operator
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rtgate.errors import ConfigError, ParseError, TargetError
from rtgate.explain.explanation import Exercise, Explanation, KernelTrace, explain, find_exercise
from rtgate.explain.instructions import changes_run
from rtgate.explain.replay import Ran, Replay, StoppedBootError, Tell, explain_boot, trace_functions
from rtgate.kernel.alignment import ChangedCode, changed_code, with_lines
from rtgate.kernel.differing import Differences, differing
from rtgate.kernel.source_lines import source_lines
from rtgate.kernel.vmlinux import Vmlinux
from rtgate.measure.case import Arm, Case
from rtgate.records.record import Record

_PATIENCE_S = 60.0  # three boots of 2 s take 25 s of one core
_LINES = 100  # changed functions whose source lines are looked up: 14 s of one core in a vmlinux of 340 MB


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

    @property
    def seconds(self) -> float:
        """What the boot took this machine, without tracing; 0 if it was not made yet."""
        return self.record.seconds.get("total", 0.0) if self.record else 0.0

    def replay(self, case: Case, kernel: Vmlinux, tell: Tell) -> Replay:
        """Return the boot to run again."""
        return Replay(case=case, arm=self.arm, seed=self.seed, kernel=kernel, expected=self.record, tell=tell)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A case that was measured on both kernels."""

    case: Case
    candidate: Side
    baseline: Side


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedComparison:
    """An explanation with what it rests on; `differences` and `exercise` are None without a baseline."""

    explanation: Explanation
    differences: Differences | None
    exercise: Exercise | None


def compare(
    case: Case, candidate: Side, baseline: Side | None, stop: threading.Event, tell: Tell, *, view: str = ""
) -> ExplainedComparison:
    """Run both sides again with tracing and explain the difference; `view` is what of it, see `explain`.

    Raises:
        ConfigError: a kernel has no `vmlinux`, or the case cannot be explained.
        InfrastructureError: this machine cannot trace.
        ParseError: a boot did not repeat itself, or its trace does not agree with its histogram.
    """
    sides = {"candidate": candidate, **({"baseline": baseline} if baseline else {})}
    kernels = {name: open_vmlinux(name, side.directory) for name, side in sides.items()}
    differences = _differences(kernels, sides, tell) if baseline else None
    names = differences.functions if differences else frozenset[str]()
    if differences:
        kernels["baseline"] = kernels["baseline"].with_names(differences.renames)

    with boot_pool(stop) as pool:
        futures = {
            name: pool.submit(explain_boot, side.replay(case, kernels[name], tell), names)
            for name, side in sides.items()
        }
        by_side: dict[str, KernelTrace] = {name: future.result() for name, future in futures.items()}
    return ExplainedComparison(
        explanation=explain(by_side["candidate"], by_side.get("baseline"), names if differences else None, view),
        differences=differences,
        exercise=find_exercise(names, _most([side.executed for side in by_side.values()]), differences.data)
        if differences
        else None,
    )


ExerciseOutcome = Exercise | ConfigError | ParseError | StoppedBootError | TargetError
"""What ran in a boot, or why nobody can say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedKernels:
    """What differs between two kernels.

    Attributes:
        candidate: its ELF file.
        code: which instructions of functions that the candidate has.
    """

    candidate: Vmlinux
    differences: Differences
    code: Sequence[ChangedCode]


def exercise(pairs: Sequence[Pair], stop: threading.Event, tell: Tell) -> tuple[ComparedKernels, list[ExerciseOutcome]]:
    """Run the candidate's boots again, each once, and see which functions that differ from the baseline ran in them.

    The baseline runs again only if it has functions that the candidate has not. A function that both have, and that
    only the baseline came to (because of data, or of timing), counts as one that did not run: it is left to boards.

    Args:
        pairs: cases of the same two kernels.
        stop: set, if this is left early.
        tell: gets what is done.

    Returns:
        What differs, and for each pair what ran, or why nobody can say.

    Raises:
        ConfigError: a kernel has no `vmlinux`.
        InfrastructureError: this machine cannot trace.
    """
    sides = {"candidate": pairs[0].candidate, "baseline": pairs[0].baseline}
    kernels = {name: open_vmlinux(name, side.directory) for name, side in sides.items()}
    longest = sorted(range(len(pairs)), key=lambda number: -pairs[number].candidate.seconds)
    with boot_pool(stop) as pool:
        # The longest boots come first, and the kernels are compared meanwhile: less of this machine lies idle.
        boots = {
            number: [
                pool.submit(
                    trace_functions, pairs[number].candidate.replay(pairs[number].case, kernels["candidate"], tell)
                )
            ]
            for number in longest
        }
        differences = _differences(kernels, sides, tell)
        kernels["baseline"] = kernels["baseline"].with_names(differences.renames)
        functions = changed_code(kernels["baseline"], kernels["candidate"], differences.functions)
        code = _with_lines(functions, sides["candidate"], tell)
        for number in longest if differences.removed else ():
            again = pairs[number].baseline.replay(pairs[number].case, kernels["baseline"], tell)
            boots[number].append(pool.submit(trace_functions, again))
        compared = ComparedKernels(candidate=kernels["candidate"], differences=differences, code=code)
        return compared, [_wait_for_exercise(compared, boots[number]) for number in range(len(pairs))]


def exercise_candidate(
    kernels: ComparedKernels, boots: Sequence[tuple[Side, Case]], stop: threading.Event
) -> list[ExerciseOutcome]:
    """Boot the candidate in other cases, and return for each of these which changed instructions ran.

    On a busy machine those whose boot would begin after a minute are left out.

    Raises:
        InfrastructureError: this machine cannot trace.
    """
    end = time.monotonic() + _PATIENCE_S

    def trace(side: Side, case: Case) -> Ran:
        if time.monotonic() > end:
            raise StoppedBootError(f"not tried, as the boots before it took {_PATIENCE_S:.0f} s")
        return trace_functions(side.replay(case, kernels.candidate, lambda _: None))

    with boot_pool(stop) as pool:
        futures = [pool.submit(trace, side, case) for side, case in boots]
        return [_wait_for_exercise(kernels, [future]) for future in futures]


def _with_lines(code: Sequence[ChangedCode], candidate: Side, tell: Tell) -> Sequence[ChangedCode]:
    """Return the same with source lines where they are known; damaged debug information costs no more than these."""
    places = {address for function in code for address in function.places if len(code) <= _LINES}
    try:
        return with_lines(code, source_lines(vmlinux(candidate.directory), places))
    except ConfigError as error:
        tell(str(error))
        return code


def _wait_for_exercise(kernels: ComparedKernels, boots: Sequence[Future[Ran]]) -> ExerciseOutcome:
    """Wait for a case's boots and return what ran, in either kernel.

    An error of one of them leaves this case unknown, and no other.
    """
    try:
        runs = [boot.result() for boot in boots]
        changes = changes_run(kernels.code, runs[0])
        functions = _most([boot.functions for boot in runs])
        idle_functions = {change.function for change in changes if not change.times}
        functions = {name: count for name, count in functions.items() if name not in idle_functions}
        differences = kernels.differences
        return replace(find_exercise(differences.functions, functions, differences.data), changes=changes)
    except (ConfigError, ParseError, StoppedBootError, TargetError) as error:
        return error


@contextmanager
def boot_pool(stop: threading.Event) -> Iterator[ThreadPoolExecutor]:
    """Return what carries out boots, one on each core of this machine; `stop` is set if an error leaves the block."""
    pool = ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0)))
    try:
        yield pool
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _differences(kernels: Mapping[str, Vmlinux], sides: Mapping[str, Side], tell: Tell) -> Differences:
    tell("comparing the kernels function by function")
    configs = (_config(sides["baseline"].directory), _config(sides["candidate"].directory))
    return differing(kernels["baseline"], kernels["candidate"], configs)


def _most(counts: Sequence[Mapping[str, int]]) -> Mapping[str, int]:
    """Return what either kernel executed: a function that was removed ran on the baseline, if at all."""
    return functools.reduce(operator.or_, map(Counter, counts), Counter())


def vmlinux(directory: Path) -> Path:
    """Return the ELF file of a build directory. Raises ConfigError: there is none."""
    path = directory / "vmlinux"
    if not path.is_file():
        raise ConfigError(
            f"{path}: no such file; functions have names in the kernel's ELF file only: copy it beside the image"
        )
    return path


def open_vmlinux(arm: str, directory: Path) -> Vmlinux:
    """Return the ELF file of an arm's build directory, which may be a copy that nobody knows: errors name the arm.

    Raises ConfigError: there is none, or it is damaged.
    """
    try:
        return Vmlinux(vmlinux(directory))
    except ConfigError as error:
        path = directory / "vmlinux"
        raise ConfigError(str(error).replace(str(path), f"{arm} ({directory.name}/{path.name})")) from error


def _config(directory: Path) -> Path | None:
    path = directory / "config"
    return path if path.is_file() else None
