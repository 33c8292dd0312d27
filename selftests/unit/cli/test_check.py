# SPDX-License-Identifier: MIT
from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from rtgate import site
from rtgate.cli import check

BOARD = """\
description: a board
soc: none
arch: arm64
cpus: 1
memory: 1 GiB
console: {device: ttyS2, baud: 1500000}
build: virt-arm64-generic
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("RTGATE_TREE", "RTGATE_SHARE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for kind in ("boards", "kernel-configs", "target/rootfs"):
        (tmp_path / kind).mkdir(parents=True)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    code = check.run(argparse.Namespace())
    return code, capsys.readouterr().out.splitlines()


def test_every_shipped_file_is_right(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = said(capsys)
    assert code == 0
    assert all(line.endswith(": ok") for line in lines)
    checked = {line.removesuffix(": ok") for line in lines}
    for kind in ("boards", "kernel-configs", "target/rootfs"):
        expected = {
            str(path) for path in (site.shipped() / kind).glob("*.yaml") if not path.name.endswith(".lock.yaml")
        }
        assert expected
        assert expected <= checked
    assert {str(site.shipped() / name) for name in ("profiles.yaml", "thresholds.yaml")} <= checked


def test_a_sites_own_files_are_checked(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "boards" / "mine.yaml").write_text(BOARD)
    (lab / "boards" / "some.lock.yaml").write_text("is no board")
    (lab / "thresholds.yaml").write_text("mine: {}\n")
    code, lines = said(capsys)
    assert code == 0
    assert f"{lab}/boards/mine.yaml: ok" in lines
    assert f"{lab}/thresholds.yaml: ok" in lines
    assert not [line for line in lines if "some.lock" in line]


@pytest.mark.parametrize(
    ("path", "text", "place", "message"),
    [
        ("boards/b.yaml", BOARD.replace("cpus: 1", "cpus: 0"), "4:7", "0 is out of range (allowed: at least 1"),
        ("kernel-configs/k.yaml", "arch: arm\n", "1:1", "missing key 'flavour', 'base', 'fragments'"),
        ("kernel-configs/k.yaml", "archs: arm64\n", "1:1", "unknown key 'archs' (allowed: arch, base, "),
        ("target/rootfs/r.yaml", "format: 1\n", "1:1", "missing key "),
        ("profiles.yaml", "mr: {}\n", "1:5", "missing key 'description', 'duration', 'seeds', 'boots'"),
        ("thresholds.yaml", "no-board: {}\n", "1:1", "unknown board 'no-board' (allowed: "),
        ("thresholds.yaml", "virt-arm64: {rt: {}}\n", "1:14", "unknown flavour 'rt' (allowed: preempt_rt, "),
        ("thresholds.yaml", "", "1:1", "the file is empty"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_the_others_are_still_checked(
    lab: Path, capsys: pytest.CaptureFixture[str], path: str, text: str, place: str, message: str
) -> None:
    (lab / path).write_text(text)
    code, lines = said(capsys)
    assert code == 2
    assert [line for line in lines if line.startswith(f"{lab}/{path}:{place}: {message}")]
    assert f"{site.shipped()}/profiles.yaml: ok" in lines


def test_every_mistake_is_told(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "profiles.yaml").write_text("mr: {}\n")
    (lab / "kernel-configs" / "k.yaml").write_text("arch: arm\n")
    code, lines = said(capsys)
    assert code == 2
    assert len([line for line in lines if not line.endswith(": ok")]) == 2
