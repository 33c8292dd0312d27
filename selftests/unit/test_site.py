# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
from pathlib import Path

import pytest

from rtgate import site
from rtgate.errors import ConfigError


@pytest.fixture(autouse=True)
def _nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RTGATE_SITE", "RTGATE_TREE", "RTGATE_SHARE", "RTGATE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def write(directory: Path, *names: str) -> Path:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("")
    return directory


@pytest.fixture
def share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a small directory of shipped files."""
    monkeypatch.setenv("RTGATE_SHARE", str(tmp_path / "share"))
    names = ("boards/one.yaml", "boards/two.yaml", "profiles.yaml", "kernel-configs/sources.lock.yaml")
    return write(tmp_path / "share", *names)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path / "lab"))
    return write(tmp_path / "lab", "boards/two.yaml", "boards/three.yaml", "profiles.yaml")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RTGATE_TREE", str(tmp_path / "linux"))
    return write(tmp_path / "linux" / ".rtgate", "boards/two.yaml", "boards/four.yaml", "thresholds.yaml")


def test_what_a_site_cannot_read_hides_the_shipped_one_all_the_same(share: Path, lab: Path) -> None:
    """A lab's limits that are a link to nowhere must be told, and not silently be those of rtgate."""
    for name in ("boards/one.yaml", "profiles.yaml"):
        (lab / name).unlink(missing_ok=True)
        (lab / name).symlink_to("nowhere")
    os.mkfifo(lab / "thresholds.yaml")
    assert site.find("boards", "one.yaml") == lab / "boards" / "one.yaml"
    assert site.files("profiles.yaml") == (lab / "profiles.yaml", share / "profiles.yaml")
    assert site.files("thresholds.yaml") == (lab / "thresholds.yaml",)


def test_the_clone_is_what_is_shipped() -> None:
    assert (site.shipped_directory() / "pyproject.toml").is_file()
    assert [layer.origin for layer in site.layers()] == ["shipped"]
    assert "virt-arm64" in site.names("boards")


def test_the_site_wins_then_the_kernel_repository_then_what_is_shipped(share: Path, lab: Path, tree: Path) -> None:
    assert [(layer.origin, layer.directory) for layer in site.layers()] == [
        ("site", lab),
        ("kernel repository", tree),
        ("shipped", share),
    ]
    assert site.find("boards", "two.yaml") == lab / "boards" / "two.yaml"
    assert [layer.origin for layer, _ in site.matches("boards", "two.yaml")] == ["site", "kernel repository", "shipped"]
    assert site.find("boards", "one.yaml") == share / "boards" / "one.yaml"
    assert site.find("boards", "three.yaml") == lab / "boards" / "three.yaml"
    assert site.find("boards", "four.yaml") == tree / "boards" / "four.yaml"
    assert site.names("boards") == ("four", "one", "three", "two")
    assert site.files("profiles.yaml") == (lab / "profiles.yaml", share / "profiles.yaml")
    assert site.files("thresholds.yaml") == (tree / "thresholds.yaml",)


def test_lock_files_are_no_names(share: Path) -> None:
    assert site.names("kernel-configs") == ()


def test_an_unknown_name_lists_what_exists_and_where_it_was_looked_for(share: Path, lab: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        site.find("boards", "five.yaml")
    assert str(caught.value) == (
        f"unknown name 'five' in boards (allowed: one, three, two; searched: {lab / 'boards'}, {share / 'boards'})"
    )
    with pytest.raises(ConfigError, match=r"unknown name 'x' in target/rootfs \(allowed: none; "):
        site.find("target/rootfs", "x.yaml")


def test_a_kernel_repository_is_found_from_below_it(
    share: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "linux" / ".rtgate", "boards/mine.yaml")
    write(tmp_path / "linux", "kernel/sched/core.c")
    monkeypatch.chdir(tmp_path / "linux" / "kernel" / "sched")
    assert site.find("boards", "mine.yaml") == tmp_path / "linux" / ".rtgate" / "boards" / "mine.yaml"


def test_a_named_tree_is_not_looked_for_elsewhere(share: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "linux" / ".rtgate", "boards/mine.yaml")
    monkeypatch.chdir(tmp_path / "linux")
    monkeypatch.setenv("RTGATE_TREE", str(tmp_path / "other"))
    assert [layer.origin for layer in site.layers()] == ["shipped"]


def test_a_site_that_does_not_exist_is_a_mistake(share: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=r"the site directory .*/nowhere does not exist \(--site or RTGATE_SITE\)"):
        site.layers()


def test_an_installed_package_has_its_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "__file__", str(tmp_path / "lib" / "rtgate" / "site.py"))
    with pytest.raises(ConfigError, match=f"{tmp_path} has no boards/: install rtgate again, from its wheel"):
        site.shipped_directory()
    write(tmp_path, "boards/clone.yaml")
    assert site.names("boards") == ("clone",)
    write(tmp_path / "lib" / "rtgate" / "share", "boards/wheel.yaml")
    assert site.names("boards") == ("wheel",)


def test_a_wrong_directory_of_shipped_files_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTGATE_SHARE", str(tmp_path))
    with pytest.raises(ConfigError, match=f"{tmp_path} has no boards/: set RTGATE_SHARE to a clone"):
        site.shipped_directory()


def test_the_cache_lies_outside_the_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert site.cache() == tmp_path / ".cache" / "rtgate"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert site.cache() == tmp_path / "xdg" / "rtgate"
    monkeypatch.setenv("RTGATE_CACHE", str(tmp_path / "own"))
    assert site.cache() == tmp_path / "own"
