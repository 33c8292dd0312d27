# SPDX-License-Identifier: MIT
"""What `rtgate lab-check` says of a real lab, and a health check that a real board passes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from selftests.lab.lab import Lab

from rtgate.cli.main import main

pytestmark = pytest.mark.long("each case starts and stops services of the lab")


@pytest.fixture
def known(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    for name, value in lab.environment.items():
        monkeypatch.setenv(name, value)
    return lab


def test_the_lab_supports_every_way(known: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab-check", "--board", "lab-virt-arm64", "--probe"]) == 0
    said = capsys.readouterr().out
    assert f"{known.url}: LAVA 2023.01, {known.user}\n" in said
    assert "    docker: yes\n    board: yes\n" in said


def test_an_image_that_is_not_there_is_found_out(known: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert known.url
    assert main(["lab-check", "--board", "lab-virt-arm64", "--probe", "--image", "rtgate:not-there"]) == 0
    said = capsys.readouterr().out
    assert "    docker: no\n" in said
    assert "docker or the image is missing on the worker" in said


def test_a_board_passes_its_health_check(
    known: Lab, files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    kernel, ramdisk = (files[f"lab-virt-arm64 {kind}"] for kind in ("kernel", "ramdisk"))
    known.inside("cp", str(ramdisk), f"{ramdisk}.cpio.gz")
    urls = ["--kernel", f"file://{kernel}", "--ramdisk", f"file://{ramdisk}.cpio.gz"]
    argv = ["lab-check", "--health-check", "lab-virt-arm64", *urls]
    assert main(argv) == 0
    number = known.submit(yaml.safe_load(capsys.readouterr().out))
    job = known.wait(number, 400)
    results = known.results(number)
    assert job["health"] == "Complete", known.log(number)[-20:]
    for boot in (1, 2):
        for name in ("power", "line", "clock"):
            found = [one for key, one in results.items() if key.endswith(f"rtgate-{boot}-candidate/board.{name}")]
            assert [one["result"] for one in found] == ["pass"], (boot, name, found)
