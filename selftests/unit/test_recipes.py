# SPDX-License-Identifier: MIT
"""The recipes for contributors hold for the code as it is: each is carried out in a copy of the repository."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from selftests.unit.recipes import Block, apply_change, blocks, carry_out

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "how-to" / "contribute"
RECIPES = {
    "add-a-board": 4,
    "add-a-limit": 2,
    "add-a-way-of-booting": 2,
    "add-a-load": 2,
    "add-a-tool": 2,
    "add-a-check": 2,
    "bring-your-own-tool": 2,
}
COPIED = ("boards", "ci/docs", "docs", "kernel-configs", "lava-jobs", "selftests/unit", "src/rtgate", "target", "tests")
COPIED_FILES = (
    "conftest.py",
    "pyproject.toml",
    "profiles.yaml",
    "placebos.yaml",
    "thresholds.yaml",
    "selftests/conftest.py",
    "selftests/examples.py",
    "selftests/written_records.py",
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what a recipe may read or change."""
    for name in COPIED:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in COPIED_FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def environment(tree: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RTGATE_", "PYTEST_"))}
    return {**kept, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}


# It does what the others do: files, changes of files, a test, a page.
SHORT = ("add-a-tool",)
_LONG = pytest.mark.long("copies the repository and carries out a page; the longest of them is in make test")


@pytest.mark.parametrize("name", [name if name in SHORT else pytest.param(name, marks=_LONG) for name in RECIPES])
def test_a_recipe_can_be_followed(name: str, tree: Path, environment: dict[str, str]) -> None:
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert len(carry_out(page, tree, environment)) == RECIPES[name]


def test_every_recipe_is_tested() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} - {"README"} == set(RECIPES)


def test_a_change_that_does_not_fit_is_refused() -> None:
    assert apply_change("a\nb\nc\n", " b\n+new\n") == "a\nb\nnew\nc\n"
    assert apply_change("a\nb\nc\n", "-b\n+new\n") == "a\nnew\nc\n"
    with pytest.raises(ValueError, match="stands 0 times"):
        apply_change("a\n", " b\n+c\n")
    with pytest.raises(ValueError, match="stands 2 times"):
        apply_change("b\nb\n", " b\n+c\n")


def test_a_page_that_promises_too_much_fails(tmp_path: Path, environment: dict[str, str]) -> None:
    page = "```sh\nrtgate --version\n```\n\n```text\nrtgate 99\n```\n"
    with pytest.raises(AssertionError, match="the page promises"):
        carry_out(page, tmp_path, environment)
    with pytest.raises(AssertionError, match="ended with 0"):
        carry_out(page.replace("```sh", '```sh title="exit code 2"'), tmp_path, environment)


def test_fences_are_read_as_the_site_shows_them() -> None:
    page = '```yaml title="a/b.yaml"\nx: 1\n```\n\ntext\n\n```sh title="exit code 2"\nrtgate check\n```\n'
    assert list(blocks(page)) == [Block("yaml", "a/b.yaml", 0, "x: 1\n"), Block("sh", "", 2, "rtgate check\n")]
