# SPDX-License-Identifier: MIT
"""A fake kernel tree, fake build tools and a cache of its own for each test."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rtgate.kernel.configuration import BuildDescription, load_description

DATA = Path(__file__).resolve().parents[2] / "data"

Describe = Callable[..., BuildDescription]
Git = Callable[..., str]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RTGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FAKE_FAIL", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def toolchain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{DATA / 'fake-toolchain'}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def fake_tree(tmp_path: Path) -> Path:
    tree = tmp_path / "linux"
    shutil.copytree(DATA / "fake-kernel", tree)
    return tree


@pytest.fixture
def describe(tmp_path: Path) -> Describe:
    """Write and load a build description; `fragment` is the text of its only fragment."""

    def write(fragment: str = "CONFIG_EXPERT=y\n", more: str = "", base: str = "tinyconfig") -> BuildDescription:
        configs = tmp_path / "kernel-configs"
        (configs / "fragments").mkdir(parents=True, exist_ok=True)
        (configs / "fragments" / "only.config").write_text(fragment)
        path = configs / "fake.yaml"
        path.write_text(f"arch: arm64\nflavour: generic\nbase: {base}\nfragments: [only]\n{more}")
        return load_description(path)

    return write


@pytest.fixture
def git(fake_tree: Path) -> Git:
    """Make the fake tree a git repository with one commit; the value runs git in it."""

    def run(*arguments: str) -> str:
        identity = ["-c", "user.name=tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(fake_tree), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    run("init", "--quiet", "--initial-branch=main")
    run("add", "--all")
    run("commit", "--quiet", "--message=first")
    return run


def make_series(directory: Path, **patches: str) -> Path:
    """Write a patch series; keyword names become file names."""
    directory.mkdir(parents=True)
    (directory / "series").write_text("".join(f"{name}.patch\n" for name in patches))
    for name, text in patches.items():
        (directory / f"{name}.patch").write_text(text)
    return directory


def state(tree: Path) -> dict[str, tuple[int, bytes]]:
    """Return times and contents of all files, to prove that nothing was touched."""
    return {
        str(path.relative_to(tree)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(tree.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(tree).parts
    }
