# SPDX-License-Identifier: MIT
"""A kernel with Dovetail gets the Cobalt core in a copy; Xenomai's tree is a stand-in (selftests/data/fake-xenomai)."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.kernel import publish, xenomai
from rtgate.kernel.configuration import BuildDescription
from rtgate.kernel.source import open_tree
from rtgate.kernel.work import Options, UnsupportedTreeError, prepare

from .conftest import DATA, Describe, make_series, state

DOVETAIL = ("include/linux/dovetail.h", "arch/arm64/include/asm/dovetail.h")
ADD_DOVETAIL = "".join(f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+/* Dovetail */\n" for name in DOVETAIL)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return Xenomai's tree, which the environment names."""
    shutil.copytree(DATA / "fake-xenomai", tmp_path / "xenomai")
    monkeypatch.setenv(xenomai.VARIABLE, str(tmp_path / "xenomai"))
    return tmp_path / "xenomai"


@pytest.fixture
def linux(fake_tree: Path) -> Path:
    """Return a kernel tree without Dovetail."""
    (fake_tree / "README").write_text("Linux kernel\n")
    set_version(fake_tree, "6", "6")
    return fake_tree


@pytest.fixture
def dovetail(linux: Path) -> Path:
    for name in DOVETAIL:
        (linux / name).parent.mkdir(parents=True)
        (linux / name).touch()
    return linux


@pytest.fixture
def cobalt(describe: Describe) -> BuildDescription:
    return dataclasses.replace(describe(), flavour="xenomai")


def set_version(tree: Path, major: str, minor: str) -> None:
    text = (tree / "Makefile").read_text()
    text = re.sub("^VERSION = .*", f"VERSION = {major}", text, flags=re.MULTILINE)
    (tree / "Makefile").write_text(re.sub("^PATCHLEVEL = .*", f"PATCHLEVEL = {minor}", text, flags=re.MULTILINE))


def test_a_copy_gets_the_core_and_the_trees_stay_as_they_are(
    cobalt: BuildDescription, dovetail: Path, source: Path
) -> None:
    before = state(dovetail), state(source)
    work = prepare(cobalt, open_tree(dovetail), Options())
    assert (work.tree.path / "kernel/xenomai/init.c").read_text().endswith("int cobalt;\n")
    assert not (work.tree.path / "kernel/xenomai/init.c").is_symlink()
    assert "config XENOMAI" in (work.tree.path / "init/Kconfig").read_text()
    assert (state(dovetail), state(source)) == before


def test_a_change_of_xenomai_is_another_input(cobalt: BuildDescription, dovetail: Path, source: Path) -> None:
    """Links into Xenomai's tree looked the same whatever was behind them."""
    first = prepare(cobalt, open_tree(dovetail), Options())
    assert prepare(cobalt, open_tree(dovetail), Options()).inputs == first.inputs
    (source / "kernel/cobalt/init.c").write_text("int cobalt = 2;\n")
    second = prepare(cobalt, open_tree(dovetail), Options())
    assert second.inputs != first.inputs
    assert (second.tree.path / "kernel/xenomai/init.c").read_text() == "int cobalt = 2;\n"


def test_who_tidies_meanwhile_leaves_the_script_its_scratch(
    cobalt: BuildDescription, dovetail: Path, source: Path
) -> None:
    """A root filesystem with Xenomai, made beside a kernel, removed it: "cannot prepare", once in twenty runs."""
    script = source / "scripts/prepare-kernel.sh"
    tidy = "from pathlib import Path; from rtgate.files import tidy; tidy(Path({!r}), {!r})"
    calls = [tidy.format(tempfile.gettempdir(), prefix) for prefix in ("rtgate-xenomai-", "rtgate-cobalt-")]
    lines = [f"{shlex.quote(sys.executable)} -c {shlex.quote(call)}\n" for call in calls]
    script.write_text("".join(lines) + script.read_text())
    assert (prepare(cobalt, open_tree(dovetail), Options()).tree.path / "kernel/xenomai/init.c").is_file()


def test_the_build_says_which_xenomai_it_is_of(
    cobalt: BuildDescription, dovetail: Path, source: Path, toolchain: None
) -> None:
    work = prepare(cobalt, open_tree(dovetail), Options())
    release = work.job.build_directory / "include/config/kernel.release"
    release.parent.mkdir(parents=True)
    release.write_text("6.6.7\n")
    made = publish.BuildResult(work.inputs, 1.0, 1, 0, 1)
    described = json.loads(json.dumps(publish._description(work, made, {"config": {"sha256": ""}})))
    assert (described["xenomai"]["version"], described["xenomai"]["path"]) == ("3.3.1", str(source))
    words = ["rtgate", "build", str(cobalt.path), "--tree", str(dovetail)]
    assert described["command"] == ["env", f"RTGATE_XENOMAI={source}", *words]


def test_dovetail_may_come_by_patches(cobalt: BuildDescription, linux: Path, source: Path, tmp_path: Path) -> None:
    options = Options(patches=make_series(tmp_path / "dovetail", one=ADD_DOVETAIL))
    assert (prepare(cobalt, open_tree(linux), options).tree.path / "kernel/xenomai/init.c").is_file()


def test_without_dovetail_a_tree_is_not_for_this_build(cobalt: BuildDescription, linux: Path) -> None:
    """No Xenomai is asked for: `--check-config --all` shows the row of any kernel."""
    with pytest.raises(UnsupportedTreeError, match=r"has no Dovetail \(include/linux/dovetail\.h\)"):
        prepare(cobalt, open_tree(linux), Options())


def test_patches_without_dovetail(cobalt: BuildDescription, linux: Path, source: Path, tmp_path: Path) -> None:
    options = Options(patches=make_series(tmp_path / "p", one="--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n"))
    with pytest.raises(ConfigError, match=r"Linux 6\.6\.7 in .* has no Dovetail"):
        prepare(cobalt, open_tree(linux), options)


def test_a_tree_that_was_prepared_already_needs_no_xenomai(cobalt: BuildDescription, dovetail: Path) -> None:
    (dovetail / "kernel/xenomai").mkdir()
    (dovetail / "kernel/xenomai/Makefile").touch()
    assert prepare(cobalt, open_tree(dovetail), Options()).tree.path == dovetail
    for name in DOVETAIL:  # as with the older I-pipe
        (dovetail / name).unlink()
    assert prepare(cobalt, open_tree(dovetail), Options()).tree.path == dovetail


def test_code_that_nobody_has_read_is_not_given_to_xenomais_script(
    cobalt: BuildDescription, dovetail: Path, source: Path
) -> None:
    with pytest.raises(ConfigError, match="code that nobody has read gets no Cobalt core"):
        prepare(cobalt, open_tree(dovetail), Options(trusted=False))


def test_an_architecture_without_cobalt(cobalt: BuildDescription, dovetail: Path, source: Path) -> None:
    with pytest.raises(ConfigError, match=r"Xenomai has no Cobalt for riscv64 \(it has: arm64, x86_64\)"):
        prepare(dataclasses.replace(cobalt, arch="riscv64"), open_tree(dovetail), Options())


def test_patches_that_bring_a_core_of_their_own(
    cobalt: BuildDescription, dovetail: Path, source: Path, tmp_path: Path
) -> None:
    core = "--- /dev/null\n+++ b/kernel/xenomai/init.c\n@@ -0,0 +1 @@\n+int vendor;\n"
    with pytest.raises(ConfigError, match="has a Cobalt core by its patches"):
        prepare(cobalt, open_tree(dovetail), Options(patches=make_series(tmp_path / "p", one=core)))


def test_dovetail_of_another_architecture_is_said_by_xenomais_script(
    cobalt: BuildDescription, dovetail: Path, source: Path
) -> None:
    (dovetail / "arch/arm64/include/asm/dovetail.h").unlink()
    with pytest.raises(ConfigError, match=r"Xenomai 3\.3\.1 cannot prepare .* has no IRQ pipeline support for arm64"):
        prepare(cobalt, open_tree(dovetail), Options())


@pytest.mark.parametrize(("major", "minor"), [("5", "9"), ("6", "13")])
def test_a_pair_that_does_not_fit_is_said_before_anything_compiles(
    cobalt: BuildDescription, dovetail: Path, source: Path, major: str, minor: str
) -> None:
    set_version(dovetail, major, minor)
    with pytest.raises(ConfigError, match=rf"Xenomai 3\.3\.1 in .* is for Linux 5\.10 to 6\.12, .* {major}\.{minor}\."):
        prepare(cobalt, open_tree(dovetail), Options())


def test_nobody_named_xenomai(cobalt: BuildDescription, dovetail: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(xenomai.VARIABLE, raising=False)
    with pytest.raises(ConfigError, match="RTGATE_XENOMAI is not set: name the directory of Xenomai's source"):
        prepare(cobalt, open_tree(dovetail), Options())


@pytest.mark.parametrize("version", ["2.6.5", "3.9", "", "x" * 100])
def test_a_release_that_nobody_knows(source: Path, version: str) -> None:
    (source / "config/version-code").write_text(version)
    with pytest.raises(ConfigError, match=r"rtgate knows 3\.2, 3\.3"):
        xenomai.named_tree()


def test_what_is_not_xenomais_source(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not the source of Xenomai 3: it has no scripts/prepare-kernel\.sh"):
        xenomai.open_xenomai(tmp_path)


def test_nothing_is_left_of_a_preparation(
    cobalt: BuildDescription, dovetail: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    prepare(cobalt, open_tree(dovetail), Options())
    (dovetail / "README").write_text("another\n")
    os.utime(dovetail / "README", (0, 0))
    with pytest.raises(ConfigError, match="is not a valid Linux kernel tree"):
        prepare(cobalt, open_tree(dovetail), Options())
    assert list(scratch.iterdir()) == []
