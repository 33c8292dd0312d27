# SPDX-License-Identifier: MIT
from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.kernel import patches
from rtgate.kernel.source import open_tree

from .conftest import DATA, Git, make_series, state

CHANGE = """\
--- a/init/main.c
+++ b/init/main.c
@@ -1,5 +1,5 @@
 /* SPDX-License-Identifier: MIT */
 int start(void)
 {
-\treturn 0;
+\treturn 7;
 }
"""
ADD = "--- /dev/null\n+++ b/init/extra.c\n@@ -0,0 +1 @@\n+int extra;\n"
MISFIT = CHANGE.replace("return 0", "return 5").replace("return 7", "return 9")
NO_FILE = CHANGE.replace("main.c", "nowhere.c")


def test_the_tree_stays_as_it_is(fake_tree: Path, tmp_path: Path) -> None:
    before = state(fake_tree)
    series = patches.load_series(make_series(tmp_path / "p", one=CHANGE, two=ADD))
    copy = patches.patched_tree(open_tree(fake_tree), series)
    assert state(fake_tree) == before
    assert copy.path != fake_tree
    assert copy.owned
    assert "return 7" in (copy.path / "init/main.c").read_text()
    assert (copy.path / "init/extra.c").read_text() == "int extra;\n"
    assert copy.identity.fingerprint != open_tree(fake_tree).identity.fingerprint


def test_only_changed_files_are_written_again(fake_tree: Path, tmp_path: Path) -> None:
    series = patches.load_series(make_series(tmp_path / "p", one=CHANGE))
    copy = patches.patched_tree(open_tree(fake_tree), series).path
    (copy / "rtgate-build-x").mkdir()
    first = state(copy)
    assert state(patches.patched_tree(open_tree(fake_tree), series).path) == first

    sched = fake_tree / "kernel/sched.c"
    sched.write_text("int older;\n")
    os.utime(sched, (0, 0))  # put back to an old version: make must still see a change
    (fake_tree / "new.c").write_text("")
    (fake_tree / "Kbuild").unlink()
    (fake_tree / "Kbuild").touch()
    patches.patched_tree(open_tree(fake_tree), series)
    second = state(copy)
    changed = {name for name in second if second[name] != first.get(name)}
    assert changed == {"kernel/sched.c", "new.c", "Kbuild", "init/main.c"}
    assert second["kernel/sched.c"][0] > first["kernel/sched.c"][0]
    assert (copy / "rtgate-build-x").is_dir()


def test_a_changed_series_replaces_the_former(fake_tree: Path, tmp_path: Path) -> None:
    directory = make_series(tmp_path / "p", one=CHANGE, two=ADD)
    tree = open_tree(fake_tree)
    copy = patches.patched_tree(tree, patches.load_series(directory)).path
    (directory / "series").write_text("one.patch\n")
    (directory / "one.patch").write_text(CHANGE.replace("return 7", "return 8"))
    assert patches.patched_tree(tree, patches.load_series(directory)).path == copy
    assert "return 8" in (copy / "init/main.c").read_text()
    assert not (copy / "init/extra.c").exists()


def test_git_trees_are_copied_with_their_changes(fake_tree: Path, git: Git, tmp_path: Path) -> None:
    (fake_tree / ".gitignore").write_text("*.o\n")
    (fake_tree / "ignored.o").write_text("")
    (fake_tree / "kernel/sched.c").write_text("int not_committed;\n")
    series = patches.load_series(make_series(tmp_path / "p", one=CHANGE))
    copy = patches.patched_tree(open_tree(fake_tree), series).path
    assert (copy / "kernel/sched.c").read_text() == "int not_committed;\n"
    assert not (copy / "ignored.o").exists()
    assert not (copy / ".git").exists()
    (fake_tree / "kernel/sched.c").unlink()
    patches.patched_tree(open_tree(fake_tree), series)
    assert not (copy / "kernel/sched.c").exists()
    assert git("worktree", "list").count("\n") == 0


@pytest.mark.parametrize(
    ("patch", "complaint"),
    [
        (MISFIT, "two.patch: does not apply to Linux 6.12.7: init/main.c: hunk 1 at line 1 does not match"),
        (NO_FILE, "two.patch: does not apply to Linux 6.12.7: init/nowhere.c: the tree has no such file"),
        (CHANGE, "two.patch: does not apply to Linux 6.12.7: init/main.c: the tree has this change already"),
    ],
)
def test_a_patch_that_does_not_apply(fake_tree: Path, tmp_path: Path, patch: str, complaint: str) -> None:
    before = state(fake_tree)
    directory = make_series(tmp_path / "p", one=CHANGE, two=patch)
    with pytest.raises(ConfigError) as caught:
        patches.patched_tree(open_tree(fake_tree), patches.load_series(directory))
    assert complaint in str(caught.value)
    assert state(fake_tree) == before

    shutil.rmtree(directory)  # once it is mended, the half-patched copy must not show
    make_series(directory, one=CHANGE, two=ADD)
    copy = patches.patched_tree(open_tree(fake_tree), patches.load_series(directory)).path
    assert "return 7" in (copy / "init/main.c").read_text()


@pytest.mark.parametrize(
    ("series", "complaint"),
    [
        ("", "the series is empty"),
        ("# nothing\n", "the series is empty"),
        ("# x\n one.patch\nnope.patch # gone\n", "series:3:1: no such patch: 'nope.patch' (there are: one.patch)"),
        ("one.patch\none.patch\n", "series:2:1: the patch 'one.patch' stands twice"),
    ],
)
def test_mistakes_in_a_series(tmp_path: Path, series: str, complaint: str) -> None:
    directory = make_series(tmp_path / "p", one=CHANGE)
    (directory / "series").write_text(series)
    with pytest.raises(ConfigError) as caught:
        patches.load_series(directory)
    assert complaint in str(caught.value)


def test_no_series(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it has no file 'series'"):
        patches.load_series(tmp_path)


def test_order_matters(tmp_path: Path) -> None:
    directory = make_series(tmp_path / "p", one=CHANGE, two=ADD)
    before = patches.load_series(directory).sha256
    (directory / "series").write_text("two.patch\none.patch\n")
    assert patches.load_series(directory).sha256 != before


SHIPPED = [*(DATA / "bad-kernels").iterdir(), *(DATA.parents[1] / "kernel-configs/patches").iterdir()]


@pytest.mark.parametrize("directory", SHIPPED, ids=lambda path: path.name)
def test_shipped_series_are_complete(directory: Path) -> None:
    series = patches.load_series(directory)
    assert {patch.path.name for patch in series.patches} == {path.name for path in directory.glob("*.patch")}
    for patch in series.patches:
        assert patch.path.read_text().startswith("SPDX-License-Identifier: GPL-2.0-only\n")


def test_code_of_ours_becomes_part_of_the_kernel(fake_tree: Path, tmp_path: Path) -> None:
    code = tmp_path / "rtgate_thing.c"
    code.write_text("int thing;\n")
    (fake_tree / "init/Makefile").write_text("obj-y := main.o\n")
    (fake_tree / "init/Kconfig").write_text("config EXPERT\n\tbool\n")
    plain = patches.load_series(make_series(tmp_path / "p", one=CHANGE))
    series = dataclasses.replace(plain, code=(code,))
    assert series.sha256 != plain.sha256
    copy = patches.patched_tree(open_tree(fake_tree), series)
    assert "return 7" in (copy.path / "init/main.c").read_text()
    assert (copy.path / "init/rtgate_thing.c").read_text() == "int thing;\n"
    assert (copy.path / "init/Makefile").read_text() == "obj-y := main.o\n\nobj-y += rtgate_thing.o\n"
    assert (copy.path / "init/Kconfig").read_text().endswith("\nconfig RTGATE_THING\n\tdef_bool y\n")

    code.write_text("int other;\n")
    again = patches.patched_tree(open_tree(fake_tree), series)
    assert (again.path / "init/rtgate_thing.c").read_text() == "int other;\n"
    assert (again.path / "init/Makefile").read_text().count("rtgate_thing") == 1
    assert again.identity.fingerprint != copy.identity.fingerprint
    # A series of the same directory without the code has nothing of it.
    bare = patches.patched_tree(open_tree(fake_tree), plain)
    assert bare.path == copy.path
    assert not (bare.path / "init/rtgate_thing.c").exists()
    assert "RTGATE" not in (bare.path / "init/Kconfig").read_text()


def test_what_a_build_beside_this_one_keeps_for_a_moment_is_not_copied(fake_tree: Path, tmp_path: Path) -> None:
    (fake_tree / ".merge_tmp.config.vzi6BSuyvN").write_text("x")
    patches.synchronise(fake_tree, tmp_path / "copy")
    assert (tmp_path / "copy" / "Makefile").is_file()
    assert not list((tmp_path / "copy").glob(".merge*"))


def test_a_tree_that_is_edited_while_it_is_copied_gives_no_copy(fake_tree: Path, git: Git, tmp_path: Path) -> None:
    """The copy would be of another state than its name says, and be taken again when the edit is undone."""
    series = patches.load_series(make_series(tmp_path / "p", one=ADD))
    tree = open_tree(fake_tree)
    (fake_tree / "kernel/sched.c").write_text("int saved_meanwhile;\n")
    with pytest.raises(ConfigError, match="was changed while it was built: build again"):
        patches.patched_tree(tree, series)
    git("checkout", "--", "kernel/sched.c")
    assert (patches.patched_tree(tree, series).path / "kernel/sched.c").read_text() != "int saved_meanwhile;\n"
