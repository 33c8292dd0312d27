# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rtgate.errors import BuildError, ConfigError
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

    with checkout(fake_tree, "HEAD~1", "baseline") as first:
        files = state(first.path)
        assert not (first.path / "kernel/new.c").exists()
    with checkout(fake_tree, "HEAD", "baseline") as second:
        assert second.path == first.path
    changed = {name for name, found in state(second.path).items() if files.get(name) != found}
    assert changed == {"kernel/sched.c", "kernel/new.c"}
    with checkout(fake_tree, "HEAD", "candidate") as third:
        assert third.path != second.path

    assert (state(fake_tree), git("status", "--porcelain", "--branch")) == (before, status)
    assert git("worktree", "list").count("\n") == 0


def test_identity_is_that_of_a_clean_tree(fake_tree: Path, git: Git) -> None:
    with checkout(fake_tree, "main", "baseline") as found:
        assert found.owned
        assert found.identity == open_tree(fake_tree).identity


def test_a_sparse_clone_gives_whole_trees(fake_tree: Path, git: Git) -> None:
    whole = state(fake_tree)
    git("sparse-checkout", "set", "init")
    assert state(fake_tree) != whole
    with checkout(fake_tree, "main", "baseline") as tree:
        assert state(tree.path).keys() == whole.keys()


def test_damage_in_the_cache_is_mended(fake_tree: Path, git: Git) -> None:
    with checkout(fake_tree, "main", "baseline") as tree:
        place = tree.path
    (place / "init/main.c").write_text("damaged")
    (place / "rtgate-build-x").mkdir()
    (place.parent / f"{place.name}.index.lock").touch()  # git was killed
    with checkout(fake_tree, "main", "baseline"):
        pass
    assert (place / "init/main.c").read_text() == (fake_tree / "init/main.c").read_text()
    assert (place / "rtgate-build-x").is_dir()


def test_a_checkout_that_was_stopped_leaves_no_file_for_the_next(fake_tree: Path, git: Git) -> None:
    """git writes its index last, so of files that it had written when it was killed it knows nothing."""
    with checkout(fake_tree, "main", "baseline") as tree:
        place = tree.path
    (place / "kernel/of_another_commit.c").write_text("int stray;\n")
    (place / "localversion-stray").write_text("-stray")
    place.with_suffix(".unfinished").touch()
    with checkout(fake_tree, "main", "baseline") as tree:
        assert not (tree.path / "kernel/of_another_commit.c").exists()
        assert not (tree.path / "localversion-stray").exists()
    assert not place.with_suffix(".unfinished").exists()


def test_a_commit_that_no_file_system_takes_is_its_author_s(fake_tree: Path, git: Git) -> None:
    blob = git("hash-object", "-w", "init/main.c")
    git("update-index", "--add", "--cacheinfo", f"100644,{blob},init/{'n' * 300}.c")
    git("commit", "--quiet", "--message=long")
    with pytest.raises(BuildError, match="cannot be checked out"), checkout(fake_tree, "HEAD", "candidate"):
        pass
    with checkout(fake_tree, "HEAD~1", "candidate"):
        pass


@pytest.mark.parametrize("reference", ["nope", "--all", "HEAD:init"])
def test_no_such_commit(fake_tree: Path, git: Git, reference: str) -> None:
    with pytest.raises(ConfigError, match="has no commit"), checkout(fake_tree, reference, "baseline"):
        pass


def test_a_commit_that_is_not_a_kernel_tree_is_named_and_not_its_place_in_the_cache(fake_tree: Path, git: Git) -> None:
    git("rm", "--quiet", "Kconfig")
    git("commit", "--quiet", "--message=no Kconfig")
    commit = git("rev-parse", "HEAD")
    with pytest.raises(ConfigError) as error, checkout(fake_tree, "HEAD", "baseline"):
        pass
    assert str(error.value) == f"commit {commit[:12]} of {fake_tree} is not a kernel tree: it has no Kconfig"


def test_two_commits_at_once_wait_for_each_other_and_say_so(fake_tree: Path, git: Git) -> None:
    """Each builds its own sources: the second commit comes when the first is built."""
    (fake_tree / "kernel/sched.c").write_text("int second;\n")
    git("commit", "--quiet", "--all", "--message=second")
    waits = threading.Event()
    said: list[str] = []

    def notice(text: str) -> None:
        said.append(text)
        waits.set()

    def sources(reference: str) -> str:
        with checkout(fake_tree, reference, "candidate", notice) as tree:
            return (tree.path / "kernel/sched.c").read_text()

    with ThreadPoolExecutor(1) as pool:
        with checkout(fake_tree, "HEAD~1", "candidate") as first:
            before = (first.path / "kernel/sched.c").read_text()
            other = pool.submit(sources, "HEAD")
            waits.wait(5)
            assert (first.path / "kernel/sched.c").read_text() == before
        assert other.result() == "int second;\n"
    assert said == [f"waiting for another rtgate (process {os.getpid()}) that builds the candidate of {fake_tree}"]


def test_a_commit_has_nothing_where_rtgate_builds(fake_tree: Path, git: Git, tmp_path: Path) -> None:
    """A link there would let a build that is confined write wherever it leads."""
    (fake_tree / "rtgate-build-fake-arm64-untrusted").symlink_to(tmp_path)
    git("add", "--all", "--force")
    git("commit", "--quiet", "--message=hostile")
    refused = pytest.raises(BuildError, match="has 'rtgate-build-fake-arm64-untrusted', where rtgate builds")
    with refused, checkout(fake_tree, "HEAD", "candidate"):
        pass


def test_what_attributes_make_of_a_file_does_not_stay_for_the_next_commit(fake_tree: Path, git: Git) -> None:
    """Merge requests share a place; one could have let the next one's sources be converted."""
    (fake_tree / "init/main.c").write_text("/* $Id$ */\n")
    git("commit", "--quiet", "--all", "--message=good")
    (fake_tree / ".gitattributes").write_text("*.c ident\n")
    git("add", "--all", "--force")
    git("commit", "--quiet", "--message=hostile")
    for _ in range(2):
        with checkout(fake_tree, "HEAD", "candidate") as tree:
            assert (tree.path / "init/main.c").read_text() != "/* $Id$ */\n"
        time.sleep(1.1)  # git looks twice at a file that is as young as its index, to the second
    with checkout(fake_tree, "HEAD~1", "candidate") as tree:
        assert (tree.path / "init/main.c").read_text() == "/* $Id$ */\n"


def test_no_hook_of_a_commit_is_run(fake_tree: Path, git: Git, tmp_path: Path) -> None:
    """A clone may be configured to take its hooks from a directory of the tree."""
    hook = fake_tree / ".githooks" / "post-index-change"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hostile\n")
    hook.chmod(0o755)
    git("add", "--all", "--force")
    git("commit", "--quiet", "--message=hooks")
    git("config", "core.hooksPath", ".githooks")
    with checkout(fake_tree, "HEAD", "candidate"):
        pass
    assert not (tmp_path / "hostile").exists()


def test_a_tree_that_is_not_kept_is_new_each_time_and_gone_afterwards(fake_tree: Path, git: Git) -> None:
    """Whatever a build has written into it."""
    for _ in range(2):
        with checkout(fake_tree, "main", "untrusted", keep=False) as tree:
            place = tree.path
            assert not (place / "include" / "hostile.h").exists()
            (place / "include").mkdir(exist_ok=True)
            (place / "include" / "hostile.h").write_text("#error hostile\n")
            (place / "Makefile").write_text("hostile:\n")
        assert not any(place.iterdir())
    with checkout(fake_tree, "main", "untrusted") as tree:
        assert (tree.path / "Makefile").read_text() == (fake_tree / "Makefile").read_text()


@pytest.mark.parametrize("place", ["global", "attributes"])
def test_no_filter_of_the_user_is_run(
    fake_tree: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """A commit's `.gitattributes` may name the filters that a user has, such as git-lfs; or the user's own do."""
    settings = tmp_path / "home" / "git"
    settings.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(settings.parent))
    monkeypatch.setenv("HOME", str(settings))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    command = f"sh -c 'touch {tmp_path}/ran; cat'"
    (settings / "config").write_text(f'[filter "x"]\n\tsmudge = "{command}"\n')
    if place == "attributes":
        git("config", "filter.x.smudge", command)
        (settings / "attributes").write_text("*.c filter=x\n")
    else:
        (fake_tree / ".gitattributes").write_text("*.c filter=x\n")
    git("add", "--all", "--force")
    git("commit", "--quiet", "--allow-empty", "--message=filtered")
    (tmp_path / "ran").unlink(missing_ok=True)
    with checkout(fake_tree, "HEAD", "candidate") as tree:
        assert (tree.path / "init/main.c").is_file()
    assert not (tmp_path / "ran").exists()
