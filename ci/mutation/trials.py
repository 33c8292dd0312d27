# SPDX-License-Identifier: MIT
"""Mutants and the tests of their package, each mutant in a process of its own; no file is written.

A mutant of a function's body is put into a copy of a process that has already loaded the package and collected its
tests, which takes it hundredths of a second. What that one does not kill gets a second trial in a process that loads
the changed text from the start, as do mutants of what runs when modules are loaded.
"""

from __future__ import annotations

import ast
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import os
import resource
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Literal

import coverage
import pytest
from changes import SOURCE, Mutant

_SLOWNESS = 5  # what a mutant may take of the processor, in times of what its tests take without a change
_START_S = 20  # of the processor, to load rtgate and collect the tests
_WAIT = 20  # of the clock, in times of the same: the machine may be busy, and tests of consoles wait
_UNFIT = 70  # the exit code of a trial that needs a process that loads the changed text from the start

Outcome = Literal["killed", "survived", "timed out", "no test"]
Lines = dict[str, dict[int, set[str]]]


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the tests of a package do without a change.

    Attributes:
        seconds: of the processor, by test.
        tests: by file and line; the empty name is code that runs while modules are loaded.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    tests: Lines = field(default_factory=dict)

    def of_mutant(self, mutant: Mutant) -> list[str]:
        """Return the tests to run, those that run the changed line first; none if no test does."""
        lines = self.tests.get(str(mutant.path), {})
        direct = self._at(mutant)
        if direct == {""}:
            direct = set[str]().union(*lines.values())
        direct -= {""}
        files = {test.partition("::")[0] for test in direct}
        others = [test for test in self.seconds if test.partition("::")[0] in files and test not in direct]
        return [*sorted(direct, key=lambda test: self.seconds[test]), *others]

    def at_load(self, mutant: Mutant) -> bool:
        """Return whether the changed line also runs while modules are loaded, tests' own included."""
        return "" in self._at(mutant)

    def _at(self, mutant: Mutant) -> set[str]:
        lines = self.tests.get(str(mutant.path), {})
        tree = ast.parse(mutant.path.read_text(encoding="utf-8"))
        return set[str]().union(*(lines.get(line, set()) for line in statement(tree, mutant.line)))


def statement(tree: ast.AST, line: int) -> set[int]:
    """Return the lines of the statement that a line belongs to; of a compound one those before its body."""
    best = range(line, line + 1)
    size = sys.maxsize
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.end_lineno is not None:
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
            if first <= line <= node.end_lineno and node.end_lineno - first < size:
                size = node.end_lineno - first
                body = getattr(node, "body", None)
                best = range(first, max(first + 1, body[0].lineno) if body else node.end_lineno + 1)
    return {line, *best}


# A work is what a process of a mutant does; it returns the exit code.
Work = Callable[[Mutant, Sequence[str]], int]


@dataclass(frozen=True, slots=True)
class _Process:
    """A mutant that runs.

    Attributes:
        number: of the process, which leads a group of its own.
        handle: a descriptor that is readable when it has ended.
        limit: when it is late, by the monotonic clock.
    """

    mutant: Mutant
    number: int
    handle: int
    limit: float

    def end(self) -> Outcome | None:
        """Wait for its end, with a kill where it is late or left something running; None for one that was unfit."""
        ended = bool(select.select([self.handle], [], [], 0)[0])
        # The group: also what its tests left running. Nobody else can have the number before we wait for it.
        os.killpg(self.number, signal.SIGKILL)
        _, status = os.waitpid(self.number, 0)
        os.close(self.handle)
        if not ended or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)):
            return "timed out"
        if os.waitstatus_to_exitcode(status) == _UNFIT:
            return None
        return "killed" if status else "survived"


def child(log: Path, work: Callable[[], int]) -> int:
    """Return the number of a process that does the work, whose exit code is the work's answer."""
    number = os.fork()
    if number:
        return number
    code = 1  # what a broken module does before pytest has the say
    try:
        os.setsid()
        with log.open("wb") as output:
            for descriptor in (1, 2):
                os.dup2(output.fileno(), descriptor)
        code = work()
    finally:
        os._exit(code)


def outcomes(
    chosen: Iterable[Mutant], known: Baseline, log: Path, jobs: int, work: Work
) -> Iterator[tuple[Mutant, Outcome | None]]:
    """Yield what became of each mutant; None for those that the work is unfit for."""
    waiting = deque(chosen)
    running: list[_Process] = []
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.popleft()
            if tests := known.of_mutant(mutant):
                running.append(_start(mutant, known, tests, log, work))
            else:
                yield mutant, "no test"
        ready, _, _ = select.select([one.handle for one in running], [], [], 1.0)
        for one in [one for one in running if one.handle in ready or time.monotonic() > one.limit]:
            running.remove(one)
            yield one.mutant, one.end()


def _start(mutant: Mutant, known: Baseline, tests: Sequence[str], log: Path, work: Work) -> _Process:
    usual_s = sum(known.seconds[test] for test in tests)

    def limited() -> int:
        limit = int(_START_S + _SLOWNESS * usual_s + sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
        return work(mutant, tests)

    number = child(log, limited)
    return _Process(mutant, number, os.pidfd_open(number), time.monotonic() + _WAIT * (_START_S + usual_s))


def _pytest(*words: object, plugin: object) -> int:
    options = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short", "-s")
    return int(pytest.main([*options, *map(str, words)], plugins=[plugin]))


class Prepared:
    """A pytest plugin: a session that has collected its tests, and runs some of them in copies of its process.

    Attributes:
        work: is called with it once, in place of all tests.
    """

    def __init__(self, work: Callable[[Prepared], None]) -> None:
        self.work = work
        self.items: dict[str, pytest.Item] = {}
        self.failures: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Do the work."""
        self.items = {item.nodeid: item for item in session.items}
        self.work(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what fails."""
        if report.failed:
            self.failures.append(f"{report.nodeid}\n{report.longreprtext}")

    def run(self, tests: Iterable[str]) -> Iterator[str]:
        """Run tests until one fails, and yield each that passed."""
        items = [self.items[test] for test in tests]
        for item, following in itertools.zip_longest(items, items[1:]):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failures:
                return
            yield item.nodeid

    def measure(self) -> Baseline:
        """Run all tests, and return what they do."""
        tracer = coverage.Coverage(data_file=None, source=[str(SOURCE)], messages=False)
        seconds: dict[str, float] = {}
        tracer.start()
        tests = self.run(self.items)
        for test in self.items:
            tracer.switch_context(test)
            began = time.process_time()
            if next(tests, None) is None:
                break
            seconds[test] = time.process_time() - began
        tracer.stop()
        return Baseline(seconds, _lines(tracer))

    def mutate(self, mutant: Mutant, tests: Sequence[str]) -> int:
        """Change the functions of this process, run the tests, and return the exit code."""
        if not _patch(mutant):
            return _UNFIT
        for _ in self.run(tests):
            pass
        return int(bool(self.failures))


def _lines(tracer: coverage.Coverage) -> Lines:
    data = tracer.get_data()
    return {
        file: {line: set(names) for line, names in data.contexts_by_lineno(file).items()}
        for file in data.measured_files()
    }


def prepared(tests: Path, work: Callable[[Prepared, Lines], None]) -> int:
    """Collect a package's tests, do the work with them and the lines that ran so far, and return pytest's exit code."""
    tracer = coverage.Coverage(data_file=None, source=[str(SOURCE)], messages=False)
    tracer.start()

    def begin(session: Prepared) -> None:
        tracer.stop()
        work(session, _lines(tracer))

    return _pytest(tests, plugin=Prepared(begin))


def _patch(mutant: Mutant) -> bool:
    """Give all functions of a module the changed text's code. Return whether that makes it the mutant."""
    before, after = (_functions(text, mutant.path) for text in (mutant.path.read_text(encoding="utf-8"), mutant.text))
    changed = {key for key in before.keys() & after.keys() if before[key] != after[key]}
    if before.keys() != after.keys() or not changed:
        return False
    live = [one for one in gc.get_objects() if isinstance(one, FunctionType)]
    fitting = [one for one in live if one.__code__.co_filename == str(mutant.path) and _key(one.__code__) in changed]
    if not fitting:
        return False
    try:
        for function in fitting:
            function.__code__ = after[_key(function.__code__)]
    except ValueError:  # it closes over other names
        return False
    return True


def _key(code: CodeType) -> tuple[str, int]:
    return (code.co_qualname, code.co_firstlineno)


def _functions(text: str, path: Path) -> dict[tuple[str, int], CodeType]:
    waiting: deque[CodeType] = deque([compile(text, str(path), "exec", dont_inherit=True)])
    found: dict[tuple[str, int], CodeType] = {}
    while waiting:
        code = waiting.popleft()
        inner = [one for one in code.co_consts if isinstance(one, CodeType)]
        found |= {_key(one): one for one in inner}
        waiting += inner
    return found


class _Selection:
    """A pytest plugin that runs these tests, in this order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self.order = {test: number for number, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.order), key=lambda item: self.order[item.nodeid]
        )


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, mutant: Mutant) -> None:
        super().__init__(mutant.module, str(mutant.path))
        self.text = mutant.text

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 # importlib's
        code: CodeType = compile(self.text, self.path, "exec", dont_inherit=True)
        return code


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, fullname: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.mutant.module:
            return None
        return importlib.util.spec_from_file_location(fullname, self.mutant.path, loader=_Loader(self.mutant))


def from_the_start(mutant: Mutant, tests: Sequence[str]) -> int:
    """Load the mutant in place of its module, run the tests, and return the exit code."""
    sys.meta_path.insert(0, _Finder(mutant))
    return _pytest(*sorted({test.partition("::")[0] for test in tests}), plugin=_Selection(tests))
