# SPDX-License-Identifier: MIT
from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import pytest
from selftests.unit.kernel.conftest import Describe, cache, describe, fake_tree, toolchain

from rtgate import site
from rtgate.cli import build
from rtgate.errors import ConfigError

__all__ = ["cache", "describe", "fake_tree", "toolchain"]
pytestmark = pytest.mark.usefixtures("toolchain")


def run(*arguments: str | Path) -> int:
    parser = argparse.ArgumentParser()
    build.add_options(parser)
    return build.run(parser.parse_args([*map(str, arguments)]))


def test_build(
    describe: Describe, fake_tree: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    path = describe().path
    monkeypatch.setattr(site, "find", lambda _kind, name: path.parent / name)
    assert run("fake", "--tree", fake_tree, "--jobs", "1") == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{tmp_path}/build/fake: Linux 6.12.7 generic for arm64")
    assert "configuring fake for Linux 6.12.7" in err
    assert run("fake", "--tree", fake_tree, "--quiet", "-o", "build/other") == 0
    assert capsys.readouterr().err == ""


def test_clang_has_a_directory_of_its_own_and_says_how_it_was_built(
    describe: Describe, fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = describe().path
    assert run(path, "--tree", fake_tree, "--toolchain", "clang", "--quiet") == 0
    made = json.loads((tmp_path / "build" / "fake-clang" / "build.json").read_text())
    assert made["toolchain"].startswith("Fakian clang version 14.0.6, ")
    assert made["command"][-2:] == ["--toolchain", "clang"]
    assert run(path, "--tree", fake_tree, "--quiet") == 0
    assert "--toolchain" not in json.loads((tmp_path / "build" / "fake" / "build.json").read_text())["command"]


def test_check_config(describe: Describe, fake_tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = describe("CONFIG_EXPERT=y\n").path
    assert run(path, "--tree", fake_tree, "--check-config") == 0
    assert "Linux 6.12.7 takes all 1 options of fake" in capsys.readouterr().out
    describe("CONFIG_EXPERT=y\nCONFIG_NOPE=y\n")
    assert run(path, "--tree", fake_tree, "--check-config") == 1
    assert "CONFIG_NOPE: asked y, found n" in capsys.readouterr().out


def test_check_config_of_all(
    describe: Describe, fake_tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = describe("CONFIG_EXPERT=y\n").path
    monkeypatch.setattr(site, "names", lambda _kind: ("fake",))
    monkeypatch.setattr(site, "find", lambda _kind, name: path.parent / name)
    assert run("--check-config", "--all", "--tree", fake_tree) == 0
    assert "Linux 6.12.7: 1 of 1 builds get all their options" in capsys.readouterr().out
    describe("CONFIG_EXPERT=y\nCONFIG_NOPE=y\n")
    assert run("--check-config", "--all", "--tree", fake_tree) == 1
    assert "CONFIG_NOPE: asked y, found n" in capsys.readouterr().out


def test_several_are_built_and_one_that_fails_stops_no_other(
    describe: Describe, fake_tree: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    directory = describe().path.parent
    text = (directory / "fake.yaml").read_text()
    (directory / "second.yaml").write_text(text)
    (directory / "lost.yaml").write_text(text.replace("[only]", "[only, lost]"))
    (directory / "fragments" / "lost.config").write_text("CONFIG_NOPE=y\n")
    monkeypatch.setattr(site, "find", lambda _kind, name: directory / name)
    assert run("fake", "second", "fake", "--tree", fake_tree) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()] == ["build", "fake", "second", "2"]
    assert "2 of 2 kernels built, 0 failed, 0 not for this tree" in out
    assert (tmp_path / "build" / "second" / "Image").is_file()
    assert run("fake", "lost", "second", "--tree", fake_tree) == 1
    out = capsys.readouterr().out
    assert "2 of 3 kernels built, 1 failed" in out
    assert "\nlost:\n  " in out
    assert "CONFIG_NOPE" in out
    with pytest.raises(ConfigError, match="-o is for one build"):
        run("fake", "second", "--tree", fake_tree, "-o", "out")
    assert run("fake", "second", "--tree", fake_tree, "--check-config") == 0
    assert "2 of 2 builds get all their options" in capsys.readouterr().out


def test_two_builds_of_one_name_do_not_replace_each_other(
    describe: Describe, fake_tree: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    ours = describe().path
    theirs = tmp_path / "theirs" / "fake.yaml"
    shutil.copytree(ours.parent, theirs.parent)
    with pytest.raises(ConfigError, match=f"{ours} and {theirs} would go into one directory: build each alone"):
        run(ours, theirs, "--tree", fake_tree)
    assert not (tmp_path / "build").exists()
    assert run(ours, ours.parent / ".." / ours.parent.name / ours.name, "--tree", fake_tree) == 0
    assert "1 of 1 kernels built" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--all"], "--all is for --check-config"),
        (["--all", "--check-config", "virt-arm64-generic"], "--all is for --check-config"),
        (["--all", "--check-config", "-o", "out"], "--all is for --check-config"),
        (["--check-config"], "which build"),
    ],
)
def test_what_is_built_must_be_said(words: list[str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        run(*words)


def test_unknown_build() -> None:
    with pytest.raises(ConfigError, match=r"unknown name 'nope'.*virt-arm64-preempt_rt"):
        run("nope")


@pytest.mark.parametrize("jobs", ["0", "-1", "x"])
def test_jobs_are_checked(jobs: str) -> None:
    with pytest.raises(SystemExit):
        run("virt-arm64-preempt_rt", "--jobs", jobs)


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("--help")
    assert "--check-config" in capsys.readouterr().out
