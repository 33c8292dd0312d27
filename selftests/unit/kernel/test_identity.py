# SPDX-License-Identifier: MIT
from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.kernel import identity
from rtgate.kernel.patches import synchronise
from rtgate.kernel.source import open_tree

from .conftest import Git


def test_a_directory_changes_with_any_file(fake_tree: Path) -> None:
    before = identity.fingerprint(fake_tree)
    assert identity.fingerprint(fake_tree) == before
    main = fake_tree / "init/main.c"
    times = main.stat()
    main.write_text(main.read_text().replace("0", "1"))
    os.utime(main, ns=(times.st_atime_ns, times.st_mtime_ns + 1))
    changed = identity.fingerprint(fake_tree)
    (fake_tree / "new.c").write_text("")
    assert len({before, changed, identity.fingerprint(fake_tree)}) == 3


def test_a_build_beside_this_one_changes_nothing(fake_tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity.fingerprint(fake_tree)
    for name in (".tmp.config.aBcDeFgHiJ", ".merge_tmp.config.vzi6BSuyvN", "sedQ3xYz1"):
        (fake_tree / name).write_text("x")
    assert identity.fingerprint(fake_tree) == before
    listed = os.scandir

    def scandir(path: str) -> contextlib.nullcontext[list[os.DirEntry[str]]]:
        """List what is there, and remove a file before anybody looks at it."""
        entries = list(listed(path))
        (fake_tree / "gone.c").unlink(missing_ok=True)
        return contextlib.nullcontext(entries)

    (fake_tree / "gone.c").write_text("")
    monkeypatch.setattr(os, "scandir", scandir)
    assert identity.fingerprint(fake_tree) == before


def test_build_directories_are_no_source(fake_tree: Path) -> None:
    before = identity.fingerprint(fake_tree)
    (fake_tree / "rtgate-build-x").mkdir()
    (fake_tree / "rtgate-build-x/vmlinux").write_text("x")
    assert identity.fingerprint(fake_tree) == before


def test_git_tree(fake_tree: Path, git: Git) -> None:
    clean = identity.of_git(fake_tree, "6.12.7")
    assert (clean.kind, clean.dirty, clean.commit) == ("git", False, git("rev-parse", "HEAD"))
    assert clean.subject == git("log", "-1", "--format=%s")
    git("tag", "-a", "v6.12", "-m", "v6.12")
    assert identity.of_git(fake_tree, "6.12.7").describe == "v6.12"


def test_git_tree_with_changes(fake_tree: Path, git: Git) -> None:
    found = [identity.of_git(fake_tree, "6.12.7")]
    (fake_tree / "init/main.c").write_text("int changed;\n")
    found.append(identity.of_git(fake_tree, "6.12.7"))
    git("add", "--all")  # the index is not a part of the state
    assert identity.of_git(fake_tree, "6.12.7") == found[1]
    (fake_tree / "new.c").write_text("int new;\n")
    found.append(identity.of_git(fake_tree, "6.12.7"))
    assert [one.dirty for one in found] == [False, True, True]
    assert len({one.fingerprint for one in found}) == 3


@pytest.mark.parametrize("bit", ["--assume-unchanged", "--skip-worktree"])
def test_what_git_was_told_not_to_look_at_counts(bit: str, fake_tree: Path, git: Git) -> None:
    git("update-index", bit, "init/main.c")
    before = open_tree(fake_tree)
    assert open_tree(fake_tree) == before
    (fake_tree / "init/main.c").write_text("int changed;\n")
    assert git("diff", "HEAD") == ""
    after = open_tree(fake_tree).identity
    assert after.fingerprint != before.identity.fingerprint
    assert after.dirty
    with pytest.raises(ConfigError, match="was changed while it was built"):
        before.refuse_edits()


def test_what_a_sparse_clone_does_not_show_does_not_count(fake_tree: Path, git: Git) -> None:
    before = open_tree(fake_tree)
    git("update-index", "--skip-worktree", "init/main.c")
    (fake_tree / "init/main.c").unlink()
    assert open_tree(fake_tree) == before


@pytest.mark.parametrize("submodule", [False, True])
def test_files_of_a_repository_in_the_tree_count(fake_tree: Path, git: Git, tmp_path: Path, *, submodule: bool) -> None:
    """A vendor's driver that was cloned into the tree: git says nothing of what is in it."""
    driver = fake_tree / "drivers" / "wifi"
    driver.mkdir(parents=True)
    (driver / "w.c").write_text("int one;\n")
    own = [
        "git",
        "-C",
        str(driver),
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.org",
        "-c",
        "commit.gpgsign=false",
    ]
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message=one"]):
        subprocess.run([*own, *words], check=True, capture_output=True)
    if submodule:
        commit = subprocess.run([*own, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
        git("update-index", "--add", "--cacheinfo", f"160000,{commit},drivers/wifi")
        git("commit", "--quiet", "--message=submodule")
    fingerprints = set()
    for text in ("int two;\n", "int three;;\n"):
        (driver / "w.c").write_text(text)
        fingerprints.add(open_tree(fake_tree).identity.fingerprint)
    assert len(fingerprints) == 2
    synchronise(fake_tree, tmp_path / "copy")
    assert (tmp_path / "copy/drivers/wifi/w.c").read_text() == "int three;;\n"
    assert not (tmp_path / "copy/drivers/wifi/.git").exists()


def test_ignored_files_do_not_count(fake_tree: Path, git: Git) -> None:
    (fake_tree / ".gitignore").write_text("*.o\n")
    before = identity.of_git(fake_tree, "6.12.7")
    (fake_tree / "main.o").write_text("")
    assert identity.of_git(fake_tree, "6.12.7") == before
    assert "main.o" not in identity.git_files(fake_tree)
    assert ".gitignore" in identity.git_files(fake_tree)


def test_json_has_only_what_is_known(fake_tree: Path) -> None:
    assert set(identity.of_directory(fake_tree, "6.12.7").as_json()) == {"kind", "version", "path", "fingerprint"}
