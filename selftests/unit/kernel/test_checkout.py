# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.kernel.checkout import checkout
from rtgate.kernel.source import open_tree

from .conftest import Git, state


def test_commits_become_trees_and_the_repository_stays(fake_tree: Path, git: Git) -> None:
    (fake_tree / "kernel/sched.c").write_text("int second;\n")
    (fake_tree / "kernel/new.c").write_text("int new;\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=second")
    (fake_tree / "init/main.c").write_text("int not_committed;\n")
    before, status = state(fake_tree), git("status", "--porcelain", "--branch")

    first = checkout(fake_tree, "HEAD~1", "baseline")
    files = state(first.path)
    assert not (first.path / "kernel/new.c").exists()
    second = checkout(fake_tree, "HEAD", "baseline")
    assert second.path == first.path
    changed = {name for name, found in state(second.path).items() if files.get(name) != found}
    assert changed == {"kernel/sched.c", "kernel/new.c"}
    assert checkout(fake_tree, "HEAD", "candidate").path != second.path

    assert (state(fake_tree), git("status", "--porcelain", "--branch")) == (before, status)
    assert git("worktree", "list").count("\n") == 0


def test_identity_is_that_of_a_clean_tree(fake_tree: Path, git: Git) -> None:
    found = checkout(fake_tree, "main", "baseline")
    assert found.owned
    assert found.identity == open_tree(fake_tree).identity


def test_damage_in_the_cache_is_mended(fake_tree: Path, git: Git) -> None:
    place = checkout(fake_tree, "main", "baseline").path
    (place / "init/main.c").write_text("damaged")
    (place / "rtgate-build-x").mkdir()
    checkout(fake_tree, "main", "baseline")
    assert (place / "init/main.c").read_text() == (fake_tree / "init/main.c").read_text()
    assert (place / "rtgate-build-x").is_dir()


@pytest.mark.parametrize("reference", ["nope", "--all", "HEAD:init"])
def test_no_such_commit(fake_tree: Path, git: Git, reference: str) -> None:
    with pytest.raises(ConfigError, match="has no commit"):
        checkout(fake_tree, reference, "baseline")
