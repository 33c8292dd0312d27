# SPDX-License-Identifier: MIT
from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from rtgate.kernel.source import open_tree
from rtgate.kernel.work import Options, prepare

from .conftest import Describe, make_series

pytestmark = pytest.mark.usefixtures("toolchain")
PATCH = "--- /dev/null\n+++ b/init/extra.c\n@@ -0,0 +1 @@\n+int extra;\n"


def test_inputs_change_with_everything_that_matters(describe: Describe, fake_tree: Path, tmp_path: Path) -> None:
    tree = open_tree(fake_tree)
    description = describe()
    works = [
        prepare(description, tree, Options()),
        prepare(describe("CONFIG_EXPERT=y\nCONFIG_NR_CPUS=2\n"), tree, Options()),
        prepare(dataclasses.replace(description, targets=("kernel", "modules")), tree, Options()),
        prepare(description, tree, Options(patches=make_series(tmp_path / "p", one=PATCH))),
    ]
    (fake_tree / "init/main.c").write_text("int changed;\n")
    works.append(prepare(description, open_tree(fake_tree), Options()))
    assert len({work.inputs for work in works}) == len(works)


def test_inputs_do_not_change_with_what_does_not(describe: Describe, fake_tree: Path) -> None:
    one = prepare(describe("CONFIG_EXPERT=y\n# said\nCONFIG_NR_CPUS=2\n"), open_tree(fake_tree), Options())
    two = prepare(describe("CONFIG_NR_CPUS=2\nCONFIG_EXPERT=y\n"), open_tree(fake_tree), Options(jobs=7))
    assert one.inputs == two.inputs
    assert two.job.jobs == 7


@pytest.mark.parametrize(
    ("base", "fragment", "counts"),
    [
        ("tinyconfig", "CONFIG_EXPERT=y\n", False),
        ("tinyconfig", "# CONFIG_DEBUG_INFO_BTF is not set\n", False),
        ("tinyconfig", "CONFIG_DEBUG_INFO_BTF=y\n", True),
        ("defconfig", "CONFIG_EXPERT=y\n", True),
    ],
)
def test_a_tool_that_kbuild_may_find_is_an_input(
    describe: Describe,
    fake_tree: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    base: str,
    fragment: str,
    *,
    counts: bool,
) -> None:
    pahole = tmp_path / "bin" / "pahole"
    pahole.parent.mkdir()
    monkeypatch.setenv("PATH", f"{pahole.parent}{os.pathsep}{os.environ['PATH']}")
    inputs = set()
    for version in ("v1.24", "v1.30"):
        pahole.write_text(f"#!/bin/sh\necho {version}\n")
        pahole.chmod(0o755)
        work = prepare(describe(fragment, base=base), open_tree(fake_tree), Options())
        assert ("PAHOLE" in work.job.variables) is not counts
        inputs.add(work.inputs)
    assert len(inputs) == 1 + counts


def test_a_users_tree_gets_no_build_directory(describe: Describe, fake_tree: Path, cache: Path) -> None:
    users = open_tree(fake_tree)
    ours = dataclasses.replace(users, owned=True)
    assert prepare(describe(), users, Options()).job.build_directory.is_relative_to(cache)
    assert prepare(describe(), ours, Options()).job.build_directory == fake_tree / "rtgate-build-fake-arm64"


def test_patches_of_the_description_and_of_the_caller(describe: Describe, fake_tree: Path, tmp_path: Path) -> None:
    make_series(tmp_path / "kernel-configs/own", one=PATCH)
    other = make_series(tmp_path / "other", two=PATCH)
    description = describe(more="patches: own\n")
    own = prepare(description, open_tree(fake_tree), Options()).series
    given = prepare(description, open_tree(fake_tree), Options(patches=other)).series
    assert own is not None
    assert given is not None
    assert [own.patches[0].path.name, given.patches[0].path.name] == ["one.patch", "two.patch"]


def test_code_of_ours_stays_with_patches_of_the_caller(describe: Describe, fake_tree: Path, tmp_path: Path) -> None:
    (fake_tree / "init/Makefile").touch()
    (fake_tree / "init/Kconfig").touch()
    series = make_series(tmp_path / "other", two=PATCH)
    description = describe(more="built_in: [rtgate_irq_response]\n")
    for options, names in ((Options(), []), (Options(patches=series), ["two.patch"])):
        work = prepare(description, open_tree(fake_tree), options)
        assert work.series is not None
        assert [patch.path.name for patch in work.series.patches] == names
        assert (work.tree.path / "init/rtgate_irq_response.c").is_file()
        assert work.inputs != prepare(describe(), open_tree(fake_tree), options).inputs
    assert not (fake_tree / "init/rtgate_irq_response.c").exists()
