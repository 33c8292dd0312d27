# SPDX-License-Identifier: MIT
"""Small changes of a module, by cosmic-ray."""

from __future__ import annotations

import ast
import difflib
import itertools
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cosmic_ray.ast
import cosmic_ray.mutating
import cosmic_ray.plugins

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
# `==` into `is` and the like: the same for small numbers and enums.
_SILLY = ("_Is", "_IsNot")
# The only nodes that operators of these names change; to ask each operator about each node takes a minute.
_NODES = {"ReplaceBinaryOperator": "operator", "ReplaceComparisonOperator": "comparison"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module.

    Attributes:
        module: dotted.
        line: of the change, from 1.
        text: of the whole module, changed.
    """

    module: str
    line: int
    text: str

    @property
    def path(self) -> Path:
        """The module's file."""
        return path_of(self.module)

    @property
    def diff(self) -> str:
        """The change as `diff -u` has it."""
        name = str(self.path.relative_to(ROOT))
        texts = (self.path.read_text(encoding="utf-8").splitlines(), self.text.splitlines())
        return "\n".join(difflib.unified_diff(*texts, f"a/{name}", f"b/{name}", lineterm="", n=2))


def path_of(module: str) -> Path:
    """Return the file of a module."""
    return SOURCE.joinpath(*module.split(".")).with_suffix(".py")


def tests_of(module: str) -> Path:
    """Return the directory of the tests of a module's package."""
    return ROOT / "selftests" / "unit" / module.split(".")[1]


def modules_of(name: str) -> list[str]:
    """Return the modules of a package, or the one module. Raises ValueError."""
    path = SOURCE.joinpath(*name.split("."))
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.py") if file.name != "__init__.py")
    else:
        files = [path_of(name)]
    if not name.startswith("rtgate.") or not all(file.exists() for file in files) or not tests_of(name).is_dir():
        raise ValueError(f"{name} is not a module of a package that has unit tests; rtgate.judge is one")
    return [".".join(file.with_suffix("").relative_to(SOURCE).parts) for file in files]


def mutants(modules: Iterable[str], number: int, seed: int) -> list[Mutant]:
    """Return that many mutants, by chance: first a place, then what to do to it."""
    operators = {
        name: cosmic_ray.plugins.get_operator(name)() for name in cosmic_ray.plugins.operator_names() if _serves(name)
    }
    sites: dict[tuple[str, Any], list[tuple[str, int]]] = defaultdict(list)
    for module in modules:
        nodes = list(cosmic_ray.ast.ast_nodes(cosmic_ray.ast.get_ast_from_path(path_of(module))))
        for name, operator in operators.items():
            kind = next((kind for part, kind in _NODES.items() if part in name), "")
            places = [place for node in nodes if kind in ("", node.type) for place in operator.mutation_positions(node)]
            for occurrence, place in enumerate(places):
                sites[module, place].append((name, occurrence))
    chance = random.Random(seed)  # noqa: S311 # no secret
    order = sorted(sites)
    chance.shuffle(order)
    tried = ((module, place[0][0], *chance.choice(sites[module, place])) for module, place in order)
    made = (_mutate(module, line, operators[name], occurrence) for module, line, name, occurrence in tried)
    chosen = itertools.islice(filter(None, made), number)
    return sorted(chosen, key=lambda one: (one.module, one.line))


def _serves(operator: str) -> bool:
    return not cosmic_ray.plugins.get_operator(operator).arguments() and not operator.endswith(_SILLY)


def _mutate(module: str, line: int, operator: object, occurrence: int) -> Mutant | None:
    """Return a mutant, or nothing where the change is to a type or breaks the syntax."""
    source = path_of(module).read_text(encoding="utf-8")
    text = cosmic_ray.mutating.mutate_code(source, operator, occurrence)
    try:
        if text is None or _without_types(text) == _without_types(source):
            return None
    except SyntaxError:
        return None
    return Mutant(module, line, text)


def _without_types(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.ClassDef):
            node.decorator_list = []  # whether a dataclass is frozen is for the type checker
    return ast.dump(tree)
