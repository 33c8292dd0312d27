# SPDX-License-Identifier: MIT
"""What the transport `board` asks in the shell of a board, where Python asks it elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from rtgate.board import boards, thermal
from rtgate.lava.in_job import on_board
from rtgate.lava.results.expected import Expected
from rtgate.measure.case import Case
from rtgate.measure.profiles import Lengths, Profile
from rtgate.records.record import KernelIdentity
from rtgate.tools.cyclictest import Cyclictest

LIMIT_C = 55
SHELLS = [shell for shell in (("sh",), ("busybox", "sh")) if shutil.which(shell[0])]


def script(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what the board carries out, with a limit of its temperature."""
    files: dict[str, bytes] = {}

    def keep(archive: dict[str, bytes]) -> bytes:
        files.update(archive)
        return b""

    monkeypatch.setattr(on_board, "_archive", keep)
    kernel = KernelIdentity(
        name="mine", flavour="preempt_rt", release="", image_sha256="a" * 64, source="a tree", provenance="rtgate"
    )
    expected = Expected(
        board=replace(boards.board("virt-arm64"), cool_to=LIMIT_C),
        profile=Profile(name="smoke", description="", lengths=Lengths(duration_s=1, seeds=(1,), boots=1)),
        tuning="default",
        cases=(Case(suite="latency", tool=Cyclictest(), load="idle"),),
        boots=("candidate",),
        kernels={"candidate": kernel},
    )
    on_board.steps(expected, 1)
    return files["go.sh"].decode()


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_a_board_is_as_hot_for_its_shell_as_for_cooling(
    shell: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_board, "SENSORS", f"{tmp_path}/zone*/temp")
    function = re.search(r"^hot\(\) \{$.*?^\}$", script(monkeypatch), re.MULTILINE | re.DOTALL)
    assert function
    sensors = [tmp_path / f"zone{number}" / "temp" for number in (1, 2)]
    for sensor in sensors:
        sensor.parent.mkdir()
    for texts in (
        ("45000\n", "61250\n"),
        ("45000\n", "55000\n"),
        ("45000\n", "55001\n"),
        ("255000\n", "45000\n"),  # a broken sensor
        ("200000\n", "45000\n"),
        ("199999\n", "45000\n"),
        ("-255000\n", "61250\n"),
        ("-5000\n", "45000\n"),
        ("61250 1 2\n", "45000\n"),
        ("nonsense\n", ""),
    ):
        for sensor, text in zip(sensors, texts, strict=True):
            sensor.write_text(text)
        hottest = thermal.hottest("".join(texts))
        status = subprocess.run([*shell, "-c", f"{function[0]}\nhot"], check=False, timeout=10).returncode
        assert (status == 0) == (hottest is not None and hottest > LIMIT_C), texts
