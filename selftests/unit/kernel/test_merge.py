# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rtgate.errors import BuildError, ConfigError, InfrastructureError
from rtgate.kernel.merge import (
    ConflictError,
    changed_files,
    commit_of,
    export,
    merged_by_forge,
    prepare_merge,
    series,
)


class Repository:
    """A repository with a branch `main` and whatever else a test makes."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "a")
        self.git("config", "user.email", "a@example.org")
        self.commit("first", **{"Makefile": "VERSION = 6\n", "kernel/time.c": "one\n"})

    def git(self, *words: str) -> str:
        return subprocess.run(
            ["git", "-C", self.place, *words], check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self, subject: str, **files: str) -> str:
        for name, text in files.items():
            path = self.place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", subject)
        return self.git("rev-parse", "HEAD")

    def branch(self, name: str) -> None:
        self.git("checkout", "--quiet", "-b", name, "main")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_what_forks_from_the_tip_is_the_merge_itself(repository: Repository) -> None:
    base = repository.git("rev-parse", "main")
    repository.branch("mine")
    head = repository.commit("timers: be late", **{"kernel/time.c": "two\n"})
    found = prepare_merge(repository.place, "main", "mine")
    assert (found.base, found.head, found.candidate, found.subject) == (base, head, head, "timers: be late")


def test_an_older_fork_is_merged_without_touching_anything(repository: Repository) -> None:
    repository.branch("mine")
    repository.commit("mine", **{"kernel/time.c": "two\n"})
    repository.git("checkout", "--quiet", "main")
    repository.commit("theirs", Makefile="VERSION = 7\n")
    before = (repository.git("status", "--porcelain"), repository.git("for-each-ref"))
    found = prepare_merge(repository.place, "main", "mine")
    assert repository.git("show", f"{found.candidate}:kernel/time.c") == "two"
    assert repository.git("show", f"{found.candidate}:Makefile") == "VERSION = 7"
    assert (repository.git("status", "--porcelain"), repository.git("for-each-ref")) == before
    assert (repository.place / "kernel/time.c").read_text() == "one\n"


def test_the_same_commits_make_the_same_merge_anywhere(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.branch("mine")
    repository.commit("mine", **{"kernel/time.c": "two\n"})
    repository.git("checkout", "--quiet", "main")
    repository.commit("theirs", Makefile="VERSION = 7\n")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", repository.place, clone], check=True)
    monkeypatch.setenv("GIT_AUTHOR_NAME", "somebody else")
    assert prepare_merge(clone, "origin/main", "origin/mine") == prepare_merge(repository.place, "main", "mine")


def test_a_conflict_is_the_author_s_and_names_the_files(repository: Repository) -> None:
    odd = "kernel/a\nb.c"
    repository.branch("mine")
    repository.commit("mine", **{"kernel/time.c": "two\n", odd: "1\n"})
    repository.git("checkout", "--quiet", "main")
    repository.commit("theirs", **{"kernel/time.c": "three\n", odd: "2\n"})
    with pytest.raises(ConflictError, match=r"conflicts in kernel/a\nb\.c, kernel/time\.c: rebase it") as raised:
        prepare_merge(repository.place, "main", "mine")
    assert isinstance(raised.value, BuildError)
    assert raised.value.exit_code == 1


@pytest.mark.parametrize("head", ["main", "main~1"])
def test_there_must_be_something_to_review(repository: Repository, head: str) -> None:
    repository.commit("second", Makefile="VERSION = 7\n")
    with pytest.raises(ConfigError, match="there is nothing to review"):
        prepare_merge(repository.place, "main", head)


def test_an_older_git_is_the_machine_s_to_replace(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.branch("mine")
    repository.commit("mine", **{"kernel/time.c": "two\n"})
    repository.git("checkout", "--quiet", "main")
    repository.commit("meanwhile", **{"kernel/other.c": "three\n"})
    place = tmp_path / "bin"
    place.mkdir()
    old = 'case " $* " in *" merge-tree "*) echo "usage: git merge-tree <base-tree>" >&2; exit 129;; esac'
    (place / "git").write_text(f'#!/bin/sh\n{old}\nexec {shutil.which("git")} "$@"\n')
    (place / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(InfrastructureError, match=r"2\.38"):
        prepare_merge(repository.place, "main", "mine")


@pytest.mark.parametrize("name", ["nothing", "--help", "main:Makefile", ""])
def test_a_commit_that_is_not_there_is_said(repository: Repository, name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"has no commit .*; check the spelling, or fetch its branch: git .* fetch"
    ) as it:
        commit_of(repository.place, name, "give the job GIT_DEPTH: 0")
    assert "shallow" not in str(it.value)
    assert "GIT_DEPTH" not in str(it.value)


@pytest.mark.parametrize(("name", "target"), [(".rtgate/thresholds.yaml", "/etc/passwd"), (".rtgate", "ci")])
def test_a_link_in_a_directory_is_not_passed_over(
    repository: Repository, tmp_path: Path, name: str, target: str
) -> None:
    """Without the file that it stands for the shipped limits would be judged by, and nobody would notice."""
    (repository.place / name).parent.mkdir(exist_ok=True)
    (repository.place / name).symlink_to(target)
    commit = repository.commit("link")
    with pytest.raises(ConfigError, match=f"{commit[:12]}:{name} is "):
        export(repository.place, commit, ".rtgate", tmp_path / "exported")


def test_a_directory_of_a_commit_is_written_elsewhere(repository: Repository, tmp_path: Path) -> None:
    text = {".rtgate/policy.yaml": "screen: []\n", ".rtgate/tests/latency/test_a.py": "ä\n"}
    commit = repository.commit("policy", **text)
    repository.commit("another", **{".rtgate/policy.yaml": "no longer\n"})
    place = tmp_path / "exported"
    export(repository.place, commit, ".rtgate", place)
    found = {str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()}
    assert found == text
    export(repository.place, commit, ".other", tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_a_directory_of_a_commit_is_written_byte_by_byte(repository: Repository, tmp_path: Path) -> None:
    """A patch of a file with DOS line ends, or in Latin-1, applies to nothing else."""
    patch = b"-na\xefve\r\n+naive\r\n"
    (repository.place / ".rtgate").mkdir()
    (repository.place / ".rtgate/a.patch").write_bytes(patch)
    export(repository.place, repository.commit("policy"), ".rtgate", tmp_path / "exported")
    assert (tmp_path / "exported/.rtgate/a.patch").read_bytes() == patch


def test_files_that_a_merge_request_changes_are_found_by_their_directory(repository: Repository) -> None:
    repository.branch("mine")
    repository.commit("mine", **{".rtgate/a\nb": "x", ".rtgate/policy.yaml": "x", "kernel/time.c": "two\n"})
    commits = prepare_merge(repository.place, "main", "mine")
    assert changed_files(repository.place, commits, ".rtgate") == [".rtgate/a\nb", ".rtgate/policy.yaml"]


def test_of_a_merge_that_the_forge_made_the_proposed_commits_are_known(repository: Repository) -> None:
    repository.branch("mine")
    proposed = [repository.commit(f"mine {number}", **{"kernel/time.c": f"{number}\n"}) for number in range(3)]
    repository.git("checkout", "--quiet", "main")
    base = repository.commit("theirs", Makefile="VERSION = 7\n")
    repository.git("merge", "--quiet", "--no-ff", "-m", "Merge branch mine", "mine")
    merge = repository.git("rev-parse", "HEAD")
    found = merged_by_forge(repository.place, base, merge)
    assert (found.candidate, found.head, found.subject) == (merge, proposed[-1], "mine 2")
    assert series(repository.place, found) == tuple(proposed)


def test_after_a_rebase_by_the_forge_the_last_commit_is_the_candidate(repository: Repository) -> None:
    base = repository.git("rev-parse", "main")
    repository.branch("mine")
    head = repository.commit("mine", **{"kernel/time.c": "two\n"})
    found = merged_by_forge(repository.place, base, head)
    assert (found.candidate, found.head) == (head, head)
    with pytest.raises(ConfigError, match="nothing to review"):
        merged_by_forge(repository.place, head, base)


@pytest.mark.parametrize("linked", [False, True])
def test_attributes_that_are_checked_out_do_not_merge(repository: Repository, tmp_path: Path, linked: bool) -> None:
    """A merge request would merge here that conflicts wherever the forge merges it."""
    repository.branch("mine")
    repository.commit("mine", **{"kernel/time.c": "two\n", ".gitattributes": "*.c merge=union\n"})
    repository.git("checkout", "--quiet", "main")
    repository.commit("theirs", **{"kernel/time.c": "three\n"})
    tree = tmp_path / "linked" if linked else repository.place
    if linked:
        repository.git("worktree", "add", "--quiet", str(tree), "mine")
    else:
        repository.git("checkout", "--quiet", "mine")
    with pytest.raises(ConflictError, match=r"conflicts in kernel/time\.c"):
        prepare_merge(tree, "main", "mine")


@pytest.mark.parametrize("name", ["nothing", "."])
def test_what_is_not_a_clone_is_not_called_shallow(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a git clone: name one of the kernel with --tree DIR"):
        commit_of(tmp_path / name, "main")


def test_a_shallow_clone_is_said_with_what_deepens_it(repository: Repository, tmp_path: Path) -> None:
    repository.branch("mine")
    repository.commit("mine", **{"kernel/time.c": "two\n"})
    repository.git("checkout", "--quiet", "main")
    repository.commit("theirs", Makefile="VERSION = 7\n")
    clone = tmp_path / "clone"
    url = f"file://{repository.place}"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", "--no-single-branch", url, clone], check=True)
    with pytest.raises(ConfigError, match=r"no commit '1+'; it is a shallow clone: run 'git -C .* fetch --unshallow'"):
        commit_of(clone, "1" * 40)
    with pytest.raises(ConfigError, match=r"it is a shallow clone: give the job GIT_DEPTH: 0$"):
        commit_of(clone, "1" * 40, "give the job GIT_DEPTH: 0")
    with pytest.raises(ConfigError, match=r"is a shallow clone, .* run 'git -C .*clone fetch --unshallow'"):
        prepare_merge(clone, "origin/main", "origin/mine")
    subprocess.run(["git", "-C", clone, "fetch", "--quiet", "--unshallow"], check=True)
    assert prepare_merge(clone, "origin/main", "origin/mine").subject == "mine"
