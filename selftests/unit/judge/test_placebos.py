# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.judge.phases import Placebo
from rtgate.judge.placebos import Placebos, load_placebos

BOARDS = ("virt-arm64", "virt-x86_64")
CASE = ("virt-arm64", "preempt_rt", "latency/cyclictest:idle")
GOOD = """\
virt-arm64:
  preempt_rt:
    latency/cyclictest:idle:
      command: cyclictest -D 10
      source: 2 kernels
      kernels: 2
      boots: 12
      figures:
        latency p50: {move: 0.001, spike: 1.2}
"""


def written(directory: Path, text: str) -> Path:
    path = directory / "placebos.yaml"
    path.write_text(text)
    return path


def test_what_was_learnt_is_for_one_command(tmp_path: Path) -> None:
    placebos = load_placebos([written(tmp_path, GOOD)], BOARDS)
    assert placebos.of(*CASE, "cyclictest -D 10") == {
        "latency p50": Placebo(move=0.001, spike=1.2, kernels=2, boots=12)
    }
    assert placebos.of(*CASE, "cyclictest -D 60") == {}
    assert Placebos().of(*CASE, "cyclictest -D 10") == {}


def test_the_site_hides_a_board_whole(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    site = written(tmp_path / "site", "virt-arm64: {}\n")
    assert load_placebos([site, written(tmp_path, GOOD)], BOARDS).cases == {}


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("virt-arm64", "virt-arm65", "1:1", "unknown board"),
        ("preempt_rt", "preempt-rt", "2:3", "unknown flavour"),
        ("move: 0.001", "move: -1", "9:29", "out of range"),
        ("spike: 1.2", "spike: 0.9", "9:43", "out of range"),
        ("spike: 1.2", "spikes: 1.2", "9:36", "unknown key"),
        ("kernels: 2", "kernels: 0", "6:16", "out of range"),
        ("      boots: 12\n", "", "4:7", "missing key"),
    ],
)
def test_mistakes_have_a_place(tmp_path: Path, old: str, new: str, place: str, message: str) -> None:
    path = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message) as caught:
        load_placebos([path], BOARDS)
    assert f"{path}:{place}" in str(caught.value)
