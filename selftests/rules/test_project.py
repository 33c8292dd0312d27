# SPDX-License-Identifier: MIT
"""Rules that hold for every file of the project."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "rtgate"

# These have no comments, or another format has its own place for a licence (package.json), or they are captured.
NO_SPDX_SUFFIXES = {".json", ".jsonl", ".md", ".patch", ".png", ".svg", ".typed"}
NO_SPDX_NAMES = {".gitignore", "LICENSE", "series"}
NO_SPDX_DIRECTORIES = (
    "selftests/data/",
    "selftests/golden/",
    "target/rootfs/files/passwd",
    "target/rootfs/files/group",
)

# Where somebody worked. A test may make paths up below /home/u, and root's home may be named, but nothing in it.
PRIVATE = re.compile(r"(?<![\w.~$}/-])/(?:home/(?!u/)[a-z]\w*|Users/\w+|root/[\w.]+|work/\w+|tmp/x/|opt/\w+/)")
# Where packages come from is the machine's affair: apt, pip and npm have settings for it.
REGISTRY = re.compile(
    r"\b(?:pypi|pythonhosted|npmjs|debian|ghcr|docker)\.(?:org|com|io)/(?:simple|debian|pool|packages)"
    r"|\b(?:registry|files|deb|security|ftp|proxy|mirror|artifacts?|nexus)\.[a-z0-9-]+\.(?:org|com|io|net|dev)\b"
)

MODULE_LINES = 400
CLASS_LINES = 250
FUNCTION_LINES = 60


@cache
def files() -> tuple[str, ...]:
    """Return what git has or would add, by path."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("git is not installed")
    if done.returncode != 0:
        pytest.skip("no git checkout")
    return tuple(sorted(path for path in set(done.stdout.split("\0")) if path and (ROOT / path).is_file()))


def test_make_clean_removes_what_git_ignores() -> None:
    ignored = {line.strip("/") for line in text(".gitignore").splitlines()}
    _, _, recipe = text("Makefile").partition("\nclean:")
    kept = {"*.egg-info", "selftests/fuzz/crashes"}  # the environment's; what was hard to find
    assert ignored - kept - set(recipe.partition("\n\n")[0].split()) == set()


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


def test_every_source_file_names_its_licence() -> None:
    sources = [
        path
        for path in files()
        if Path(path).suffix not in NO_SPDX_SUFFIXES
        and Path(path).name not in NO_SPDX_NAMES
        and not path.startswith(NO_SPDX_DIRECTORIES)
    ]
    assert "src/rtgate/errors.py" in sources
    without = [path for path in sources if "SPDX-License-Identifier: " not in "\n".join(text(path).split("\n")[:3])]
    assert not without


@pytest.mark.parametrize("pattern", [PRIVATE, REGISTRY], ids=["private paths", "registries"])
def test_no_file_tells_where_it_was_written(pattern: re.Pattern[str]) -> None:
    found = [
        f"{path}:{number}: {match.group()}"
        for path in files()
        for number, line in enumerate(text(path).split("\n"), 1)
        if (match := pattern.search(line)) and path != "selftests/rules/test_project.py"
    ]
    assert not found


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("see /home/jane/linux", PRIVATE),
        # `!` stands for `/`, so that this file holds none of what it forbids.
        ("TREE=!work!main", PRIVATE),
        ('"!root!.cache"', PRIVATE),
        ("https:!!registry.npmjs.org!allure", REGISTRY),
        ("deb http:!!deb.debian.org!debian bookworm main", REGISTRY),
        ("https:!!pypi.org!simple", REGISTRY),
    ],
)
def test_the_patterns_find_what_they_are_for(line: str, pattern: re.Pattern[str]) -> None:
    assert pattern.search(line.replace("!", "/"))


@pytest.mark.parametrize(
    "line", ["target/rootfs/NAME.yaml", "HOME=/root LC_ALL=C", "~!work!linux", "x!work!y", "$TMP/x/"]
)
def test_the_patterns_leave_alone(line: str) -> None:
    assert not PRIVATE.search(line.replace("!", "/"))
    assert not REGISTRY.search(line.replace("!", "/"))


IMPORT_ALL = """
import importlib, signal, sys, threading
before = {number: signal.getsignal(number) for number in signal.valid_signals()}
for name in sys.argv[1:]:
    importlib.import_module(name)
    assert threading.active_count() == 1, f"{name} starts a thread"
    now = {number: signal.getsignal(number) for number in signal.valid_signals()}
    assert now == before, f"{name} changes a signal's handler"
"""


def test_importing_does_nothing_else(tmp_path: Path) -> None:
    modules = [
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "__main__.py"  # running it is its purpose
    ]
    assert len(modules) > 40
    places = {name: str(tmp_path / "home") for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
    # matplotlib makes its directories when it is imported; they are not ours to forbid.
    environment = {"PATH": os.environ["PATH"], "MPLCONFIGDIR": str(tmp_path / "matplotlib"), **places}
    environment["PYTHONPATH"] = str(ROOT / "src")  # an environment may be shared with another checkout
    (tmp_path / "home").mkdir()
    (tmp_path / "here").mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT_ALL, *modules],
        cwd=tmp_path / "here",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list((tmp_path / "home").rglob("*"))
    assert not list((tmp_path / "here").rglob("*"))


def _imports(path: Path) -> set[str]:
    """Return the modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_only_commands_know_the_command_line() -> None:
    """What a command does takes values that say what they are: a namespace has every option and none for certain."""
    knows = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py") if "argparse" in _imports(path)}
    assert knows == {"cli"}


def test_nothing_is_too_long() -> None:
    too_long = []
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        name = path.relative_to(ROOT)
        lines = source.count("\n")
        if lines > MODULE_LINES:
            too_long.append(f"{name}: {lines} lines (at most {MODULE_LINES})")
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            limit = CLASS_LINES if isinstance(node, ast.ClassDef) else FUNCTION_LINES
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > limit:
                too_long.append(f"{name}:{node.lineno}: {node.name} has {length} lines (at most {limit})")
    assert not too_long


def _section(docstring: str, head: str) -> list[str]:
    """Return the names that a docstring's section explains."""
    lines = docstring.partition(f"\n{head}:\n")[2].splitlines()
    end = next((number for number, line in enumerate(lines) if line and not line.startswith(" ")), len(lines))
    names = [match[1] for line in lines[:end] if (match := re.match(r" {4}(\*{0,2}\w+(?:, \*{0,2}\w+)*): ", line))]
    return [name.strip("* ") for name in ", ".join(names).split(",") if name.strip()]


def _parts(node: ast.ClassDef | ast.FunctionDef) -> set[str]:
    """Return the parameters of a function, or what a class and its objects have."""
    if isinstance(node, ast.FunctionDef):
        every = node.args
        return {
            one.arg for one in (*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg) if one
        }
    targets = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    own = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)}
    return targets | own | {one.name for one in node.body if isinstance(one, ast.FunctionDef)}


PARTICIPLES = frozenset(
    (
        *("asked", "begun", "broken", "built", "chosen", "found", "given", "held", "kept", "known", "learnt", "lost"),
        *("made", "meant", "one", "said", "seen", "shown", "taken", "told", "written"),
    )
)


def test_values_are_named_by_nouns() -> None:
    """A reader of `found` must look for what was; fields of records keep the names under which they are stored."""
    names = {
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in (ROOT / "src").rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for name, line in _locals(function)
        if name in PARTICIPLES
    }
    assert names == set()


def _locals(function: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno


def test_docstrings_explain_what_is_there() -> None:
    gone = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                head = "Attributes" if isinstance(node, ast.ClassDef) else "Args"
                names = _section(ast.get_docstring(node) or "", head)
                gone += [
                    f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} has no {name}"
                    for name in names
                    if name not in _parts(node)
                ]
    assert not gone
