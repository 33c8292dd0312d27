# SPDX-License-Identifier: MIT
"""Learning what a comparison on virtual time may let through: harmless kernels are built, booted, and compared.

Everything is kept below a directory of the board's build and of the source, so that a run which was stopped goes on
where it was, and a further board or case takes no further build.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from rtgate import files, site
from rtgate.board import boards
from rtgate.board.boards import Board
from rtgate.errors import BuildError, ConfigError
from rtgate.judge.compare.placebos import PlaceboModel, Placebos, load_placebos
from rtgate.judge.compare.usable import is_flawed
from rtgate.judge.learn.harmless import (
    FEWEST_BOOTS,
    FEWEST_PLACEBOS,
    Boots,
    Lesson,
    model_of,
    placebos_text,
    with_model,
)
from rtgate.kernel import artefacts
from rtgate.kernel.build import Listener, Options, build
from rtgate.kernel.configuration import BuildDescription
from rtgate.kernel.harmless import UNPATCHED, KernelChange
from rtgate.kernel.source import Tree
from rtgate.kernel.source_copy import SourceCopy
from rtgate.kernel.toolchain import compiler_of
from rtgate.measure.case import Case
from rtgate.measure.profiles import profile
from rtgate.measure.raw_output import verify
from rtgate.records import record as records_file
from rtgate.records.record import Record
from rtgate.report.progress import estimate
from rtgate.tools.registry import is_compared
from rtgate.units import plural
from rtgate.validity import registry
from rtgate.workflow import suites
from rtgate.workflow.harmless_boots import Boot, ChangedKernels

_HEAD = """\
# SPDX-License-Identifier: MIT
#
# How much harmless kernels (placebos) move what is compared on virtual-time boards: board, flavour, case. Written by
# `rtgate placebos learn`. `move` is the largest shift of a placebo over its baseline's median, `spike` the largest boot
# over its kernel's median. The first entry of a case that fits a run's QEMU and Linux is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be learnt.

    Attributes:
        board: a virtual-time board; those that the profile measures beside it are learnt, too.
        build: how kernels are made.
        tree: the source of the kernel line.
        changes: harmless ones, by name.
        output: the placebos.yaml that gets what was learnt; what else it says stays.
        cases: only these, by name; empty for all of the profile.
        seeds: of each kernel and case; empty for those of the profile.
        jobs: compilers, or boots, at the same time.
        say: is told what happens.
    """

    board: Board
    build: BuildDescription
    tree: Tree
    changes: Mapping[str, KernelChange]
    output: Path
    work: Path
    profile: str = "compare"
    cases: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    jobs: int = 2
    say: Callable[[str], None] = field(default=lambda _: None)


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What became of one case of a board.

    Attributes:
        sentence: what it taught, or why it taught nothing.
        has_model: whether placebos.yaml got what it taught.
    """

    sentence: str
    has_model: bool


def work_directory(build: str, tree: Tree) -> Path:
    """Return where kernels and boots of a build and of a source are kept."""
    return site.cache() / "placebos" / f"{build}-{tree.version}-{tree.identity.fingerprint[:12]}"


def check(request: Request) -> None:
    """Find mistakes now, not after a night.

    Raises:
        ConfigError: the request cannot be met.
        InfrastructureError: the output cannot be written.
    """
    if not request.board.virtual:
        raise ConfigError(
            f"{request.board.name} is not a virtual-time board: boards on a clock learn their noise from the history "
            "(rtgate qualify, rtgate plan)"
        )
    if request.build.arch != request.board.arch:
        raise ConfigError(
            f"{request.build.path} is for {request.build.arch}, {request.board.name} is {request.board.arch}: name "
            f"another build with --build (default: {request.board.build})"
        )
    if len(request.changes) < FEWEST_PLACEBOS:
        raise ConfigError(f"{len(request.changes)} harmless changes teach nothing: name at least {FEWEST_PLACEBOS}")
    if request.seeds and len(request.seeds) < FEWEST_BOOTS:
        raise ConfigError(
            f"{len(request.seeds)} of {FEWEST_BOOTS} seeds at least: fewer boots of a kernel teach nothing"
        )
    if request.output.exists() and not request.output.is_file():
        raise ConfigError(f"{request.output} is not a regular file: name the placebos.yaml to write with -o FILE")
    _read_existing(request.output)
    with _output_lock(request):  # a file is made beside the output, which shows that it can be written
        pass


def learn(request: Request) -> tuple[CaseResult, ...]:
    """Build and boot what is missing, write what it teaches, and return what became of each case.

    Raises:
        BuildError: the kernel without a change cannot be built.
        ConfigError: as `check`; or no case is left.
        InfrastructureError: this machine cannot build or boot, or the output cannot be written.
        Interrupted: what was built and measured stays.
    """
    check(request)
    files.require_free_space(request.work, needed_mib=4096)
    cases = _cases(request)
    with files.waiting_lock(request.work / "lock", f"learns in {request.work}", request.say):
        names, compiler = _build(request)
        kernels = ChangedKernels(
            kernels=request.work / "kernels",
            records=request.work / "records",
            changes=request.changes,
            profile=lambda _: request.profile,
        )
        boots = list(_boots(request, cases, (UNPATCHED, *names)))
        _measure(request, kernels, boots)
        return _write(request, kernels, boots, compiler)


def _cases(request: Request) -> tuple[tuple[str, Case], ...]:
    """Return what the profile measures, by board. Raises ConfigError."""
    own_profile = profile(request.profile)
    every = tuple(
        (board, case)
        for board in (request.board.name, *own_profile.further_boards(request.board.name))
        for case in suites.cases((), request.profile, "default", board=board)
        if is_compared(case.name)
    )
    unknown_cases = set(request.cases) - {case.name for _, case in every}
    if unknown_cases:
        names = ", ".join(sorted({case.name for _, case in every}))
        raise ConfigError(
            f"--case {', '.join(sorted(unknown_cases))}: no such case of {request.profile} (there are: {names})"
        )
    cases = tuple((board, case) for board, case in every if not request.cases or case.name in request.cases)
    if not cases:
        raise ConfigError(f"{request.profile} compares no case on {request.board.name}: name another --profile")
    for board, case in cases:
        count = len(_seeds(request, case))
        if count < FEWEST_BOOTS:
            raise ConfigError(
                f"{board} {case.name}: {request.profile} has {plural(count, 'seed')}, and fewer than {FEWEST_BOOTS} "
                f"boots of a kernel teach nothing: name them with --seeds 1-{FEWEST_BOOTS}, or another --profile"
            )
    return cases


def _seeds(request: Request, case: Case) -> tuple[int, ...]:
    """Return the seeds with which each kernel boots in a case."""
    return request.seeds or profile(request.profile).of(case.tool.name, case.suite, case.load).seeds


def _build(request: Request) -> tuple[tuple[str, ...], str]:
    """Build what is missing; return the changes that can be booted, and the compiler."""
    copy = SourceCopy(request.work / "linux", request.tree, request.say)
    options = Options(jobs=request.jobs, listener=Listener(notice=request.say))
    builds = [name for name, change in request.changes.items() if change.is_built]
    start = time.monotonic()
    unpatched_build = build(request.build, copy.with_change(None), request.work / "kernels" / UNPATCHED, options)
    failures = set()
    for number, name in enumerate(builds, start=1):
        change = request.changes[name]
        rest = estimate(time.monotonic() - start, number, len(builds) + 1)
        request.say(f"kernel {number + 1} of {len(builds) + 1}: {name}{f', {rest}' if rest else ''}")
        try:
            tree = copy.with_change(change)
            build(change.description(request.build), tree, request.work / "kernels" / name, options)
        except BuildError as error:
            # Another kernel line may lack an option, or have another interface: the others teach as much.
            failures.add(name)
            request.say(f"{name} is left out: {str(error).splitlines()[0]}")
    names = tuple(name for name in request.changes if name not in failures)
    if len(names) < FEWEST_PLACEBOS:
        raise ConfigError(
            f"only {len(names)} harmless changes can be built from {request.tree.path}, and {FEWEST_PLACEBOS} are the "
            "fewest that teach: look at the messages above"
        )
    return names, compiler_of(artefacts.load(unpatched_build.directory).toolchain or "")


def _boots(request: Request, cases: Sequence[tuple[str, Case]], names: Sequence[str]) -> Iterator[Boot]:
    for board, case in cases:
        for name in names:
            for seed in _seeds(request, case):
                yield Boot(kernel=name, board=board, case=case, seed=seed)


def _measure(request: Request, kernels: ChangedKernels, boots: Sequence[Boot]) -> None:
    missing_boots = [boot for boot in boots if kernels.find_record(boot) is None]
    request.say(f"{len(boots)} boots, of which {len(boots) - len(missing_boots)} were measured before")
    counts: dict[tuple[str, str, str], int] = {}
    for boot in missing_boots:
        counts[boot.place] = counts.get(boot.place, 0) + 1
    start = time.monotonic()
    for number, boot in enumerate(kernels.measure(missing_boots, request.jobs), start=1):
        counts[boot.place] -= 1
        if not counts[boot.place]:
            ahead = estimate(time.monotonic() - start, number, len(missing_boots))
            request.say(f"boot {number} of {len(missing_boots)}{f', {ahead}' if ahead else ''}: {' '.join(boot.place)}")
    count = sum(kernels.find_record(boot) is None for boot in missing_boots)
    if count:
        request.say(f"this machine lost {plural(count, 'boot')}: the same command boots again what is missing")


def _write(request: Request, kernels: ChangedKernels, boots: Sequence[Boot], compiler: str) -> tuple[CaseResult, ...]:
    models, results = [], []
    for place in dict.fromkeys((boot.board, boot.case.name) for boot in boots):
        mine = [boot for boot in boots if (boot.board, boot.case.name) == place]
        lesson = _lesson(kernels, mine)
        enough = len(lesson.unpatched.records) >= FEWEST_BOOTS
        model = model_of([lesson], _note(lesson), compiler) if enough else None
        name = " ".join(place)
        if model is None:
            results.append(CaseResult(f"{name}: nothing to learn from: {_exclusion_reason(lesson)}", has_model=False))
            continue
        models.append(((place[0], lesson.unpatched.records[0].kernel.flavour, place[1]), model))
        sentence = f"{name}: {len(lesson.placebos)} harmless kernels, {lesson.distinct} of them with data of their own"
        results.append(CaseResult(sentence, has_model=True))
    if models:
        _add_models(request, models)
    return tuple(results)


def _add_models(request: Request, models: Sequence[tuple[tuple[str, str, str], PlaceboModel]]) -> None:
    """Add models to the output. Raises InfrastructureError: it cannot be written."""
    # Read under the lock, and not before: another run may have added those of its own build meanwhile.
    with _output_lock(request), files.writing(request.output):
        placebos = _read_existing(request.output)
        for key, model in models:
            placebos = with_model(placebos, key, model)
        files.write_text(request.output, placebos_text(placebos, _HEAD))


def _output_lock(request: Request) -> AbstractContextManager[None]:
    """Return what keeps other runs from the output; its directory is made. Raises InfrastructureError: it cannot be."""
    output = request.output
    return files.waiting_lock(output.with_name(f".{output.name}.lock"), f"adds to {output}", request.say)


def _lesson(kernels: ChangedKernels, boots: Sequence[Boot]) -> Lesson:
    records: dict[str, list[Record]] = {}
    for boot in boots:
        record = verify(records_file.read(kernels.path(boot).parent))
        if not is_flawed(record, registry.not_applicable(boards.board(record.board))):
            records.setdefault(boot.kernel, []).append(record)
    by_kernel = {name: Boots(name, tuple(kernel_records)) for name, kernel_records in records.items()}
    base_boots = by_kernel.pop(UNPATCHED, Boots(UNPATCHED, ()))
    return Lesson(base_boots, {name: group for name, group in by_kernel.items() if len(group.records) >= FEWEST_BOOTS})


def _exclusion_reason(lesson: Lesson) -> str:
    if not lesson.unpatched.records:
        return "no boot of the kernel without a change has a valid measurement: the tool failed, or lacks what it needs"
    if len(lesson.unpatched.records) < FEWEST_BOOTS:
        return (
            f"only {plural(len(lesson.unpatched.records), 'valid boot')} of the kernel without a change, and "
            f"{FEWEST_BOOTS} are the fewest that teach"
        )
    return (
        f"{len(lesson.placebos)} harmless kernels have {FEWEST_BOOTS} measured boots or more, and {FEWEST_PLACEBOS} "
        "are the fewest that teach, each figure being in every boot"
    )


def _note(lesson: Lesson) -> str:
    environment = lesson.unpatched.records[0].environment
    return f"Linux {environment.kernel_release}, {environment.emulator.replace('emulator version ', '')}"


def _read_existing(path: Path) -> Placebos:
    """Return what a file says already. Raises ConfigError: it is wrong."""
    return load_placebos([path] if path.is_file() else [], site.names("boards"))
