# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.kernel import debian, source
from rtgate.kernel.debian import UnpackedSource
from rtgate.kernel.version import KernelVersion

from .conftest import Git, state


def test_a_directory(fake_tree: Path) -> None:
    before = state(fake_tree)
    tree = source.open_tree(fake_tree)
    assert (tree.version, tree.identity.kind, tree.owned) == (KernelVersion(6, 12, 7), "directory", False)
    assert state(fake_tree) == before


def test_a_git_tree(fake_tree: Path, git: Git) -> None:
    assert source.open_tree(fake_tree).identity.commit == git("rev-parse", "HEAD")


@pytest.mark.parametrize("missing", ["Makefile", "Kbuild", "Kconfig"])
def test_no_kernel_tree(fake_tree: Path, missing: str) -> None:
    (fake_tree / missing).unlink()
    with pytest.raises(ConfigError, match=f"is not a kernel tree: it has no {missing}"):
        source.open_tree(fake_tree)


def test_a_tree_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"/nosuch does not exist"):
        source.open_tree(tmp_path / "nosuch")


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/null", "nowhere"])
def test_a_makefile_that_leads_elsewhere_is_not_read(fake_tree: Path, target: str) -> None:
    (fake_tree / "Makefile").unlink()
    (fake_tree / "Makefile").symlink_to(target)
    with pytest.raises(ConfigError):
        source.open_tree(fake_tree)


def test_makefile_without_a_version(fake_tree: Path) -> None:
    (fake_tree / "Makefile").write_text("all:\n")
    with pytest.raises(ConfigError, match="no VERSION, PATCHLEVEL and SUBLEVEL"):
        source.open_tree(fake_tree)


@pytest.mark.parametrize("sign", [".config", "include/config/auto.conf", "arch/x86/include/generated/x.h"])
def test_trees_built_in_place_are_refused(fake_tree: Path, sign: str) -> None:
    (fake_tree / sign).parent.mkdir(parents=True, exist_ok=True)
    (fake_tree / sign).touch()
    with pytest.raises(ConfigError, match=r"^/src/linux was built in place .* 'make -C /src/linux mrproper'"):
        source.check_buildable(fake_tree, "x86_64", Path("/src/linux"))


def test_paths_that_kbuild_cannot_use_are_refused(tmp_path: Path) -> None:
    for name in ("a b", "a:b"):
        with pytest.raises(ConfigError, match="space or a colon"):
            source.check_buildable(tmp_path / name, "arm64", tmp_path)


@pytest.mark.parametrize(("pinned", "warnings"), [(None, 0), ("6.12.1-1", 1)])
def test_default_tree_says_when_it_is_not_the_pinned_one(
    fake_tree: Path, monkeypatch: pytest.MonkeyPatch, pinned: str | None, warnings: int
) -> None:
    unpacked = UnpackedSource(fake_tree, "linux-source-6.12", "6.12.7-1", pinned)
    monkeypatch.setattr(debian, "unpacked_source", lambda _notice: unpacked)
    tree = source.default_tree()
    assert tree.owned
    assert len(tree.warnings) == warnings
    assert tree.identity.as_json()["pinned"] is (pinned is None)
    assert tree.identity.package_version == "6.12.7-1"
