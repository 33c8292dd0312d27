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


LAB_BOARD = (
    BOARD.replace("cpus: 1", "cpus: 2")
    + "cpu_classes: {big: 0-1}\nlava:\n  device_type: mine\n  boot: uboot-ramdisk\n  dtbs: {mainline: a/b.dtb}\n"
)
TYPE = "lava-jobs/device-types/mine.jinja2"


@pytest.mark.parametrize(
    ("changes", "path", "place", "message"),
    [
        (("device_type: mine", "device_type: yours"), "boards/b.yaml", "10:16", "unknown device type 'yours' (allowed"),
        (("big: 0-1", "big: 0-2"), "boards/b.yaml", "8:20", "CPU 2 is beyond the board's CPUs (allowed: 0 to 1)"),
        (("a/b.dtb", "a/b.dts"), "boards/b.yaml", "12:20", "'a/b.dts' is not a device tree"),
        (("a/b.dtb", "../b.dtb"), "boards/b.yaml", "12:20", "'../b.dtb' is not a device tree"),
        (("a/b.dtb", "a/b.dtb"), "boards/b.yaml", "12:9", "{builds} builds no device tree"),
        (("dtbs: {m", 'prompt: "(#"\n  dtbs: {m'), "boards/b.yaml", "12:11", "'(#' is no regular expression"),
        (("{% block a %}{% endblock %}", "{% block a %}"), TYPE, "2:1", "block is not closed (endblock is missing)"),
        (("base-uboot", "base-rtgate-none"), TYPE, "1:1", "unknown base 'base-rtgate-none.jinja2' (allowed: "),
    ],
)
def test_what_a_lab_board_refers_to_is_there(
    lab: Path, capsys: pytest.CaptureFixture[str], changes: tuple[str, str], path: str, place: str, message: str
) -> None:
    (lab / "lava-jobs" / "device-types").mkdir(parents=True)
    (lab / TYPE).write_text("{% extends 'base-uboot.jinja2' %}\n{% block a %}{% endblock %}\n".replace(*changes))
    (lab / "boards" / "b.yaml").write_text(LAB_BOARD.replace(*changes))
    if "builds" not in message:
        board = (lab / "boards" / "b.yaml").read_text().replace("build: virt-arm64-generic\n", "description_: x\n")
        (lab / "boards" / "b.yaml").write_text(board.replace("description_: x", "rootfs: core"))
    code, lines = said(capsys)
    assert code == 2
    builds = site.shipped() / "kernel-configs" / "virt-arm64-generic.yaml"
    assert [line for line in lines if line.startswith(f"{lab}/{path}:{place}: {message.format(builds=builds)}")]


def test_errors_are_last_with_their_count(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "boards" / "mine.yaml").write_text("a: 1\n")
    (lab / "kernel-configs" / "k.yaml").write_text("arch: arm\n")
    code, lines = said(capsys)
    assert code == 2
    assert not [line for line in lines[-3:] if line.endswith(": ok")]
    assert lines[-1] == "2 errors in 2 files"


def test_every_mistake_is_told(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "profiles.yaml").write_text("mr: {}\n")
    (lab / "kernel-configs" / "k.yaml").write_text("arch: arm\n")
    code, lines = said(capsys)
    assert code == 2
    assert len([line for line in lines if not line.endswith(": ok")]) == 3  # the count, too
