# SPDX-License-Identifier: MIT
from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from rtgate import site
from rtgate.cli import where
from rtgate.errors import ConfigError


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("RTGATE_TREE", "RTGATE_SHARE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path / "lab"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab" / "boards").mkdir(parents=True)
    return tmp_path / "lab"


def said(name: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert where.run(argparse.Namespace(name=name)) == 0
    return capsys.readouterr().out.splitlines()


def test_a_shipped_name(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = [f"boards: {site.shipped_directory()}/boards/virt-arm64.yaml (shipped, wins)"]
    assert said("virt-arm64", capsys) == expected


def test_a_sites_name_hides_a_shipped_one(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "boards" / "virt-arm64.yaml").write_text("")
    assert said("virt-arm64", capsys) == [
        f"boards: {lab}/boards/virt-arm64.yaml (site, wins)",
        f"boards: {site.shipped_directory()}/boards/virt-arm64.yaml (shipped, hidden)",
    ]


def test_the_kernel_repository_stands_between(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "linux" / ".rtgate" / "boards" / "virt-arm64.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text("")
    (lab / "boards" / "virt-arm64.yaml").write_text("")
    monkeypatch.setenv("RTGATE_TREE", str(tmp_path / "linux"))
    assert [line.rpartition(" (")[2] for line in said("virt-arm64", capsys)] == [
        "site, wins)",
        "kernel repository, hidden)",
        "shipped, hidden)",
    ]


def test_a_name_may_be_a_board_and_a_build(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "kernel-configs").mkdir()
    for kind in ("boards", "kernel-configs"):
        (lab / kind / "rk.yaml").write_text("")
    assert said("rk", capsys) == [
        f"boards: {lab}/boards/rk.yaml (site, wins)",
        f"kernel-configs: {lab}/kernel-configs/rk.yaml (site, wins)",
    ]


def test_a_file_at_the_top(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "profiles.yaml").write_text("")
    assert said("profiles.yaml", capsys) == [
        f"file: {lab}/profiles.yaml (site, wins)",
        f"file: {site.shipped_directory()}/profiles.yaml (shipped, hidden)",
    ]


def test_an_image(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said("core", capsys) == [
        f"target/rootfs: {site.shipped_directory()}/target/rootfs/core.yaml (shipped, wins)"
    ]


def test_an_unknown_name_says_where_it_was_looked_for(lab: Path) -> None:
    expected = rf"no board, build, image or file is called 'nothing' \(searched: {lab} \(site\), .* \(shipped\)\)"
    with pytest.raises(ConfigError, match=expected):
        where.run(argparse.Namespace(name="nothing"))


def test_a_tool_and_a_load_of_the_site(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("tools", "loads"):
        (lab / kind).mkdir()
        (lab / kind / "mine.py").write_text("not even Python")
    assert said("mine", capsys) == [f"tools: {lab}/tools/mine.py", f"loads: {lab}/loads/mine.py"]
