# SPDX-License-Identifier: MIT
"""A kernel's image gets Jailhouse; its tree is a stand-in (selftests/data/fake-jailhouse), and so is the kernel's."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from selftests.unit.kernel.conftest import DATA, Describe, cache, describe, fake_tree, state, toolchain

from rtgate import site
from rtgate.errors import BuildError, ConfigError
from rtgate.kernel import jailhouse
from rtgate.kernel.artefacts import KernelBuild
from rtgate.kernel.build import Listener, Options, build
from rtgate.kernel.configuration import BuildDescription, load_description
from rtgate.kernel.source import open_tree
from rtgate.kernel.work import prepare

__all__ = ["cache", "describe", "fake_tree", "toolchain"]

pytestmark = pytest.mark.usefixtures("toolchain")
FRAGMENT = 'CONFIG_EXPERT=y\nCONFIG_INITRAMFS_SOURCE="jailhouse.list"\n'
CELLS = "cells: {root: virt-arm64-root, inmate: virt-arm64-inmate}\n"
TARGET = site.shipped_directory() / "target" / "jailhouse"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return Jailhouse's tree, which the environment names."""
    shutil.copytree(DATA / "fake-jailhouse", tmp_path / "jailhouse")
    monkeypatch.setenv(jailhouse.VARIABLE, str(tmp_path / "jailhouse"))
    return tmp_path / "jailhouse"


@pytest.fixture
def root_cell(describe: Describe) -> BuildDescription:
    plain = describe(FRAGMENT)
    plain.path.write_text(plain.path.read_text().replace("flavour: generic", "flavour: jailhouse") + CELLS)
    return load_description(plain.path)


def made(description: BuildDescription, tree: Path, output: Path, options: Options | None = None) -> KernelBuild:
    return build(description, open_tree(tree), output, options)


def test_the_image_holds_the_hypervisor_and_the_trees_stay_as_they_are(
    root_cell: BuildDescription, fake_tree: Path, source: Path, tmp_path: Path
) -> None:
    before, said = (state(fake_tree), state(source)), list[str]()
    kernel = made(root_cell, fake_tree, tmp_path / "out", Options(listener=Listener(notice=said.append)))
    image = kernel.image.read_bytes()
    for text in (b"/* main.c */", b"6.12.7\n", b"/* gic-demo.c */", b"/* jailhouse.c */", b'.name = "root"'):
        assert text in image
    assert (TARGET / "start").read_bytes() in image
    assert b"a cell of another board" not in image
    assert b"#define MEMGUARD" not in image
    assert (state(fake_tree), state(source)) == before
    assert f"building Jailhouse of {source} against Linux 6.12.7" in said


def test_the_list_names_what_the_driver_and_the_board_look_for(
    root_cell: BuildDescription, fake_tree: Path, source: Path, tmp_path: Path
) -> None:
    made(root_cell, fake_tree, tmp_path / "out")
    [path] = (tmp_path / "cache/builds").glob("*/jailhouse.list")
    files = [line.split() for line in path.read_text().splitlines() if line.startswith("file ")]
    assert {(name, mode) for _, name, _, mode, *_ in files} == {
        ("/usr/lib/firmware/jailhouse.bin", "0644"),
        *((f"/usr/lib/jailhouse/{name}", "0644") for name in ("jailhouse.ko", "root.cell", "inmate.cell", "demo.bin")),
        *((f"/usr/sbin/{name}", "0755") for name in ("jailhouse", "jailhouse-start")),
    }
    assert {(path.parent / place).stat().st_mtime for _, _, place, *_ in files} == {0}, "the archive has these times"
    board = (site.shipped_directory() / "boards/virt-arm64-jailhouse.yaml").read_text()
    assert "rdinit=/usr/sbin/jailhouse-start" in board


def test_the_build_says_which_jailhouse_it_has(
    root_cell: BuildDescription, fake_tree: Path, source: Path, tmp_path: Path
) -> None:
    kernel = made(root_cell, fake_tree, tmp_path / "out")
    described = json.loads((kernel.directory / "build.json").read_text())
    assert (described["jailhouse"]["version"], described["jailhouse"]["path"]) == ("v0.12", str(source))
    words = ["rtgate", "build", str(root_cell.path), "--tree", str(fake_tree)]
    assert described["command"] == ["env", f"RTGATE_JAILHOUSE={source}", *words]


@pytest.mark.parametrize("changed", ["driver/main.c", "inmates/demos/arm64/gic-demo.c", "tools/jailhouse.c"])
def test_a_change_of_jailhouse_is_another_input(
    root_cell: BuildDescription, fake_tree: Path, source: Path, changed: str
) -> None:
    first = prepare(root_cell, open_tree(fake_tree), Options())
    (source / changed).write_text("int slower;\n")
    assert prepare(root_cell, open_tree(fake_tree), Options()).inputs != first.inputs


def test_a_change_of_the_hypervisor_is_another_image(
    root_cell: BuildDescription, fake_tree: Path, source: Path, tmp_path: Path
) -> None:
    first = made(root_cell, fake_tree, tmp_path / "a")
    (source / "hypervisor/main.c").write_text("int slower;\n")
    second = made(root_cell, fake_tree, tmp_path / "b")
    assert second.inputs != first.inputs
    assert b"int slower;" in second.image.read_bytes()
    assert b"int slower;" not in first.image.read_bytes()


def test_a_change_of_a_cell_is_another_input(root_cell: BuildDescription, fake_tree: Path, source: Path) -> None:
    other = dataclasses.replace(root_cell, cells={**root_cell.cells, "inmate": "other"})
    tree = open_tree(fake_tree)
    assert prepare(root_cell, tree, Options()).inputs == prepare(root_cell, tree, Options()).inputs
    assert prepare(root_cell, tree, Options()).inputs != prepare(other, tree, Options()).inputs


def test_a_branch_with_memguard_gets_its_interrupts(
    root_cell: BuildDescription, fake_tree: Path, source: Path, tmp_path: Path
) -> None:
    (source / "include/jailhouse/cell-config.h").write_text("struct { int num_irqs; } memguard;\n")
    assert b"#define MEMGUARD\n// SPDX" in made(root_cell, fake_tree, tmp_path / "out").image.read_bytes()


def test_a_jailhouse_that_does_not_fit(
    root_cell: BuildDescription, fake_tree: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fault, reason in (
        ("export", "ioremap_page_range"),
        ("compile", r"driver/main\.c:56.*too few arguments"),
        ("tools", r"Jailhouse in .*jailhouse made no tools/jailhouse"),
    ):
        monkeypatch.setenv("FAKE_FAIL", fault)
        with pytest.raises(BuildError, match=reason) as caught:
            made(root_cell, fake_tree, tmp_path / "out")
        assert caught.value.log is not None
        assert caught.value.log.name == "jailhouse.log"
        assert not (tmp_path / "out").exists()
    monkeypatch.delenv("FAKE_FAIL")
    assert b"/* jailhouse.c */" in made(root_cell, fake_tree, tmp_path / "out").image.read_bytes()


def test_a_configuration_is_checked_without_jailhouse_and_nothing_is_built(
    root_cell: BuildDescription, fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(jailhouse.VARIABLE, raising=False)
    assert prepare(root_cell, open_tree(fake_tree), Options()).hypervisor is None
    with pytest.raises(ConfigError, match="fake has a hypervisor: set RTGATE_JAILHOUSE to the source of a Jailhouse"):
        made(root_cell, fake_tree, tmp_path / "out")
    assert not (tmp_path / "cache/builds").exists()


@pytest.mark.parametrize("lost", ["VERSION", "driver/main.c", "include/jailhouse/cell-config.h", "configs/arm64"])
def test_what_is_no_jailhouse_is_refused(root_cell: BuildDescription, fake_tree: Path, source: Path, lost: str) -> None:
    (source / lost).rename(source / "elsewhere")
    with pytest.raises(
        ConfigError, match=rf"is not the source of Jailhouse for arm64: it has no {lost} \(RTGATE_JAILHOUSE\)"
    ):
        prepare(root_cell, open_tree(fake_tree), Options())


def test_what_changes_while_the_kernel_is_made_is_another_build(
    root_cell: BuildDescription, fake_tree: Path, source: Path, tmp_path: Path
) -> None:
    """The hypervisor was copied after that, and what it was noted before: the next build took it for the old one."""

    def change(_done: int, _total: int | None, _file: str) -> None:
        (source / "hypervisor/main.c").write_text("int later;\n")

    first = made(root_cell, fake_tree, tmp_path / "a", Options(listener=Listener(progress=change)))
    second = made(root_cell, fake_tree, tmp_path / "b")
    assert b"int later;" not in first.image.read_bytes()
    assert b"int later;" in second.image.read_bytes()


def test_jailhouse_s_options_count_although_git_ignores_them(
    root_cell: BuildDescription, fake_tree: Path, source: Path, tmp_path: Path
) -> None:
    (source / ".gitignore").write_text("include/jailhouse/config.h\n")
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "a"],
    ):
        subprocess.run(["git", "-C", str(source), *words], check=True, timeout=60)
    before = prepare(root_cell, open_tree(fake_tree), Options()).inputs
    (source / "include/jailhouse/config.h").write_text("#define CONFIG_TRACE_ERROR 1\n")
    assert prepare(root_cell, open_tree(fake_tree), Options()).inputs != before
    made(root_cell, fake_tree, tmp_path / "out")
    [copy] = (tmp_path / "cache/builds").glob("*.jailhouse")
    assert (copy / "include/jailhouse/config.h").read_text() == "#define CONFIG_TRACE_ERROR 1\n"


def test_files_of_any_bytes_are_taken(
    root_cell: BuildDescription, fake_tree: Path, source: Path, tmp_path: Path
) -> None:
    (source / "configs/arm64/other.c").write_bytes(b"/* f\xfcr */\n")
    (source / "VERSION").write_bytes(b"v0.12\xff\n")
    other = dataclasses.replace(root_cell, cells={**root_cell.cells, "inmate": "other"})
    kernel = made(other, fake_tree, tmp_path / "out")
    assert b"/* f\xfcr */" in kernel.image.read_bytes()


def test_nobody_s_home_is_no_jailhouse(
    root_cell: BuildDescription, fake_tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(jailhouse.VARIABLE, "~nobody-whom-anybody-knows/jailhouse")
    with pytest.raises(ConfigError, match="is not the source of Jailhouse"):
        prepare(root_cell, open_tree(fake_tree), Options())


def test_the_log_has_all_of_it(root_cell: BuildDescription, fake_tree: Path, source: Path, tmp_path: Path) -> None:
    log = (made(root_cell, fake_tree, tmp_path / "out").directory / "build.log").read_text()
    assert log.index("  CC      kernel") < log.rindex("  LD      vmlinux")
    assert log.count("  LD      vmlinux") == 2


def test_a_cell_may_be_jailhouse_s_own(
    root_cell: BuildDescription, fake_tree: Path, source: Path, tmp_path: Path
) -> None:
    other = dataclasses.replace(root_cell, cells={**root_cell.cells, "inmate": "other"})
    assert b"a cell of another board" in made(other, fake_tree, tmp_path / "out").image.read_bytes()
    nobody = dataclasses.replace(root_cell, cells={**root_cell.cells, "inmate": "nobody"})
    with pytest.raises(
        ConfigError, match=r"no cell 'nobody' in .*\(there are: other, virt-arm64-inmate, virt-arm64-root"
    ):
        made(nobody, fake_tree, tmp_path / "out")


def test_code_that_nobody_has_read_gets_no_jailhouse(
    root_cell: BuildDescription, fake_tree: Path, source: Path
) -> None:
    with pytest.raises(ConfigError, match="code that nobody has read gets no Jailhouse"):
        prepare(root_cell, open_tree(fake_tree), Options(trusted=False))


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (
            "flavour: jailhouse",
            "flavour: generic",
            r"fake.yaml:5:8: only builds of flavour jailhouse have cells, for arm64",
        ),
        ("arch: arm64", "arch: x86_64", r"only builds of flavour jailhouse have cells, for arm64"),
        ("root: virt-arm64-root", "root: ../root", r"fake.yaml:5:15: '../root' is not the name of a cell"),
        ("root: virt-arm64-root, ", "", r"fake.yaml:5:8: .*root"),
        ("inmate: virt", "second: virt", r"second"),
    ],
)
def test_cells_that_cannot_be_are_refused(root_cell: BuildDescription, before: str, after: str, reason: str) -> None:
    root_cell.path.write_text(root_cell.path.read_text().replace(before, after))
    with pytest.raises(ConfigError, match=reason):
        load_description(root_cell.path)


STUB = """\
#!/bin/sh
name=${0##*/}
case $name in mount|umount) ;; *) echo "$name $*" >&2 ;; esac
case "$name $*" in "$FAILS"*) exit 1 ;; esac
"""


@pytest.mark.parametrize(
    ("fails", "last"),
    [
        ("nothing", "jailhouse cell start 1"),
        ("insmod /lib/jailhouse.ko", "insmod /lib/jailhouse.ko"),
        ("jailhouse enable", "jailhouse enable /lib/root.cell"),
        ("jailhouse cell", "jailhouse disable"),
    ],
)
def test_a_board_without_its_inmate_has_no_jailhouse(tmp_path: Path, fails: str, last: str) -> None:
    """Else Linux's tools would measure beside nobody, and pass."""
    for name in ("insmod", "jailhouse", "mount", "umount"):
        (tmp_path / name).write_text(STUB)
        (tmp_path / name).chmod(0o755)
    text = (TARGET / "start").read_text()
    for before, after in (
        ("/usr/bin:/usr/sbin", str(tmp_path)),
        ("/usr/lib/jailhouse", "/lib"),
        ("exec /init", "echo on"),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    shell = str(shutil.which("sh"))
    done = subprocess.run(
        [shell, "-c", text], env={"FAILS": fails}, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "on\n")
    assert done.stderr.splitlines()[-1] == last
