# SPDX-License-Identifier: MIT
from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "ci" / "mutation" / "mutants.py"
SOURCE = """\
def first(
    a: int | None, b: int = 0
) -> int | None:
    if (
        a == b
    ):
        return a
    return b

@cache
def second(): return 1
"""


@pytest.fixture(scope="module")
def changes() -> Iterator[ModuleType]:
    yield from _module("changes")


@pytest.fixture(scope="module")
def trials(changes: ModuleType) -> Iterator[ModuleType]:
    yield from _module("trials")


def _module(name: str) -> Iterator[ModuleType]:
    """Yield a module of the program, as those import each other."""
    sys.path.insert(0, str(PROGRAM.parent))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(PROGRAM.parent))
        del sys.modules[name]


def test_a_seed_picks_the_same_mutants(changes: ModuleType) -> None:
    pick = changes.mutants(["rtgate.judge.verdict"], 5, seed=1)
    assert len(pick) == 5
    assert pick == changes.mutants(["rtgate.judge.verdict"], 5, seed=1)
    assert pick != changes.mutants(["rtgate.judge.verdict"], 5, seed=2)
    for mutant in pick:
        changed = [line for line in mutant.diff.splitlines()[2:] if line.startswith("-")]
        assert len(changed) == 1


def test_types_are_no_code(changes: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rtgate").mkdir()
    (tmp_path / "rtgate" / "one.py").write_text("def one(a: int | None, b: int | str) -> int | None: return a + b\n")
    monkeypatch.setattr(changes, "SOURCE", tmp_path)
    assert {mutant.text.count("+") for mutant in changes.mutants(["rtgate.one"], 9, seed=1)} == {0}


@pytest.mark.parametrize(
    ("line", "statement"),
    [(2, {1, 2, 3}), (5, {4, 5, 6}), (7, {7}), (8, {8}), (10, {10}), (11, {11})],
)
def test_the_lines_of_a_statement(trials: ModuleType, line: int, statement: set[int]) -> None:
    assert trials.statement(ast.parse(SOURCE), line) == statement


def test_tests_of_the_line_are_run(trials: ModuleType) -> None:
    path = str(ROOT / "src" / "rtgate" / "judge" / "verdict.py")
    line = 1 + Path(path).read_text().splitlines().index("    if not all_verdicts:")
    known = trials.Baseline(3.0, {path: {line: {"b.py", "a.py"}, line + 1: set(), line + 2: {""}}})
    run = [known.tests_of(trials.Mutant("rtgate.judge.verdict", at, "")) for at in (line, line + 1)]
    assert run == [["a.py", "b.py"], []]


def test_code_that_runs_at_import_is_everybody_s(trials: ModuleType) -> None:
    path = str(ROOT / "src" / "rtgate" / "judge" / "verdict.py")
    line = 1 + Path(path).read_text().splitlines().index("class Kind(Enum):")
    known = trials.Baseline(2.0, {path: {line: {""}, 999: {"b.py"}}})
    assert known.tests_of(trials.Mutant("rtgate.judge.verdict", line, "")) == ["b.py"]


@pytest.mark.parametrize(
    ("text", "tests", "outcome"),
    [
        ("import nothing_of_this_name", "selftests/unit/records/test_seal.py", "killed"),
        ("", "selftests/unit/records/test_nothing.py", "error"),
    ],
)
def test_only_tests_that_ran_kill(trials: ModuleType, tmp_path: Path, text: str, tests: str, outcome: str) -> None:
    mutant = trials.Mutant("rtgate.units", 1, text)
    known = trials.Baseline(60.0, {str(mutant.path): {1: {tests}}})
    assert trials.run(mutant, known, tmp_path / "0") == outcome


@pytest.mark.parametrize("name", ["rtgate.judge.nothing", "rtgate", "json", "rtgate.nothing"])
def test_what_has_no_tests_is_refused(name: str) -> None:
    done = subprocess.run([sys.executable, PROGRAM, name], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{name} is not a module of a package that has unit tests" in done.stderr


@pytest.mark.long("three mutants, each with the start of pytest; the other tests have the parts")
def test_mutants_are_killed_and_counted() -> None:
    words = ("rtgate.records.seal", "--mutants", "3", "--seed", "1")
    done = subprocess.run([sys.executable, PROGRAM, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *_, total, seed = done.stdout.splitlines()
    assert (total.split()[:2], seed) == (["all", "3"], "seed 1")
    assert int(total.split()[2]) >= 1
