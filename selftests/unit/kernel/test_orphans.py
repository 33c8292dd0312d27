# SPDX-License-Identifier: MIT
from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from rtgate.errors import InfrastructureError
from rtgate.files import waiting_lock
from rtgate.kernel import orphans, patches
from rtgate.kernel.checkout import checkout
from rtgate.kernel.orphans import note_origins
from rtgate.kernel.source import open_tree

from .conftest import Git, make_series
from .test_patches import CHANGE


@pytest.fixture(autouse=True)
def unused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every tree be one that nobody has used for long."""
    monkeypatch.setattr(orphans, "UNUSED_S", -1)


def _patched(tree: Path, directory: Path, notices: list[str] | None = None) -> Path:
    series = patches.load_series(make_series(directory, one=CHANGE))
    notice = notices.append if notices is not None else lambda _: None
    return patches.patched_tree(open_tree(tree), series, notice).path


def test_a_copy_goes_with_its_patches(fake_tree: Path, tmp_path: Path) -> None:
    gone, kept = _patched(fake_tree, tmp_path / "gone"), _patched(fake_tree, tmp_path / "kept")
    shutil.rmtree(tmp_path / "gone")
    notices: list[str] = []
    _patched(fake_tree, tmp_path / "third", notices)
    assert not gone.exists()
    assert not gone.with_suffix(".json").exists()
    assert kept.is_dir()
    assert notices[0] == f"removing {gone} from the cache: {tmp_path / 'gone'} is gone"


def test_patches_that_come_back_are_applied_again(fake_tree: Path, tmp_path: Path) -> None:
    copy = _patched(fake_tree, tmp_path / "p")
    shutil.rmtree(tmp_path / "p")
    _patched(fake_tree, tmp_path / "other")
    assert _patched(fake_tree, tmp_path / "p") == copy
    assert "return 7" in (copy / "init/main.c").read_text()


@pytest.mark.parametrize("lock", [".lock", ".build.lock"])
def test_a_copy_in_use_stays(fake_tree: Path, tmp_path: Path, lock: str) -> None:
    copy = _patched(fake_tree, tmp_path / "gone")
    shutil.rmtree(tmp_path / "gone")
    with waiting_lock(copy.with_suffix(lock), "builds"):
        _patched(fake_tree, tmp_path / "second")
    assert copy.is_dir()
    _patched(fake_tree, tmp_path / "third")
    assert not copy.exists()


def test_a_commit_goes_with_its_repository(fake_tree: Path, git: Git, tmp_path: Path) -> None:
    shutil.copytree(fake_tree, tmp_path / "clone", symlinks=True)
    with checkout(tmp_path / "clone", "HEAD", "baseline") as tree:
        gone = tree.path
    shutil.rmtree(tmp_path / "clone")
    with checkout(fake_tree, "HEAD", "baseline") as tree:
        kept = tree.path
    assert kept.is_dir()
    assert not gone.exists()
    assert not gone.with_suffix(".index").exists()
    assert git("status", "--porcelain") == ""


def test_what_was_used_just_now_stays(fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is gone here may be there for somebody else who has the same cache."""
    monkeypatch.setattr(orphans, "UNUSED_S", 3600)
    copy = _patched(fake_tree, tmp_path / "gone")
    shutil.rmtree(tmp_path / "gone")
    _patched(fake_tree, tmp_path / "second")
    assert copy.is_dir()


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_what_was_removed_in_part_is_not_taken_for_a_whole_tree(
    fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    copy = _patched(fake_tree, tmp_path / "gone")
    shutil.rmtree(tmp_path / "gone")
    remove = shutil.rmtree

    def stop(path: Path, *_: object) -> None:
        (path / "Makefile").unlink()
        raise error

    monkeypatch.setattr(shutil, "rmtree", stop)
    with suppress(KeyboardInterrupt):
        _patched(fake_tree, tmp_path / "second")
    monkeypatch.setattr(shutil, "rmtree", remove)
    assert not copy.with_suffix(".json").exists()
    _patched(fake_tree, tmp_path / "third")
    assert not copy.exists()


@pytest.mark.parametrize("text", ["[", "5", '"abc"', '["abc"]'])
def test_a_damaged_note_removes_nothing(tmp_path: Path, text: str) -> None:
    cache, tree = tmp_path / "trees", tmp_path / "trees" / "a"
    tree.mkdir(parents=True)
    tree.with_suffix(".origins").write_text(text)
    note_origins(cache / "b", tmp_path)
    assert tree.is_dir()


def test_a_note_that_cannot_be_written_is_the_lab_s(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="cannot be written"):
        note_origins(tmp_path / "nowhere" / "a", tmp_path)
