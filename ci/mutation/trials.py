# SPDX-License-Identifier: MIT
"""Trials of mutants: the tests that run the changed line, in a pytest of their own that loads the changed module."""

from __future__ import annotations

import ast
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import coverage
from changes import ROOT, Mutant

_SLOWNESS = 5  # what a mutant may take, in times of what all tests of its package take without a change
_START_S = 60.0  # to load rtgate and collect the tests on a busy machine

Outcome = Literal["killed", "survived", "timed out", "no test", "error"]
# pytest's exit codes. All others say that the tests did not run: that proves nothing about a mutant.
_OUTCOMES: Mapping[int, Outcome] = {0: "survived", 1: "killed"}


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the tests of a package do without a change.

    Attributes:
        seconds: they take.
        files: of tests, by file and line of the source that they run; the empty name is code that runs at import.
    """

    seconds: float
    files: Mapping[str, Mapping[int, frozenset[str]]]

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Return the files of tests that run the changed line; of code that runs at import, any line of the module."""
        lines = self.files.get(str(mutant.path), {})
        tree = ast.parse(mutant.path.read_text(encoding="utf-8"))
        found = frozenset[str]().union(*(lines.get(line, ()) for line in statement(tree, mutant.line)))
        if found == {""}:
            found = found.union(*lines.values())
        return sorted(found - {""})


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


def measure(tests: Path, directory: Path) -> Baseline | None:
    """Run the tests of a package without a change; None if they fail, with their output on standard error."""
    stored, log, began = directory / "coverage", directory / "log", time.monotonic()
    words = ["--cov=rtgate", "--cov-context=test", "--cov-report=", str(tests)]
    if _pytest(words, log, {"COVERAGE_FILE": str(stored)}, None):
        sys.stderr.write(log.read_text(encoding="utf-8", errors="replace"))
        return None
    data = coverage.CoverageData(str(stored))
    data.read()
    contexts = {file: data.contexts_by_lineno(file) for file in data.measured_files()}
    return Baseline(
        time.monotonic() - began,
        {
            file: {line: frozenset(name.partition("::")[0] for name in names) for line, names in lines.items()}
            for file, lines in contexts.items()
        },
    )


def run(mutant: Mutant, known: Baseline, stem: Path) -> Outcome:
    """Return what became of a mutant; its text and what its tests say are in files that begin with `stem`."""
    tests = known.tests_of(mutant)
    if not tests:
        return "no test"
    text, log = stem.with_suffix(".py"), stem.with_suffix(".log")
    text.write_text(mutant.text, encoding="utf-8")
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = {"RTGATE_MUTANT": f"{mutant.module}={text}", "PYTHONPATH": path}
    try:
        code = _pytest(["-p", "mutated", *tests], log, variables, _START_S + _SLOWNESS * known.seconds)
    except subprocess.TimeoutExpired:
        return "timed out"
    if code not in _OUTCOMES:
        sys.stderr.write(f"pytest ended with {code}:\n{log.read_text(encoding='utf-8', errors='replace')}")
    return _OUTCOMES.get(code, "error")


def _pytest(words: Sequence[str], log: Path, variables: Mapping[str, str], limit_s: float | None) -> int:
    """Run tests until one fails, and return pytest's exit code; nothing that they have started outlives them."""
    options = ("-x", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist")
    with log.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *words],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **variables},
            start_new_session=True,
        )
        try:
            return child.wait(limit_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
