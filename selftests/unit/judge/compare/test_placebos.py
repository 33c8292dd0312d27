# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.judge.compare.phases import Placebo
from rtgate.judge.compare.placebos import Placebos, load_placebos
from rtgate.records.environment import Environment

BOARDS = ("virt-arm64", "virt-x86_64")
WITH = ("QEMU emulator version 7.2.22", "6.12.117")
CASE = ("virt-arm64", "preempt_rt", "latency/cyclictest:idle")
GOOD = """\
virt-arm64:
  preempt_rt:
    latency/cyclictest:idle:
      - command: cyclictest -D 10
        source: 2 kernels
        qemu: "7.2"
        linux: "6.12"
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
    assert placebos.of(*CASE, "cyclictest -D 10", *WITH).figures == {
        "latency p50": Placebo(move=0.001, spike=1.2, kernels=2, boots=12)
    }
    assert placebos.of(*CASE, "cyclictest -D 60", *WITH).figures == {}
    assert Placebos().of(*CASE, "cyclictest -D 10", *WITH).figures == {}


def test_another_qemu_or_another_series_is_strange(tmp_path: Path) -> None:
    learnt = load_placebos([written(tmp_path, GOOD)], BOARDS).of(*CASE, "cyclictest -D 10", *WITH)
    qemu, linux = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)", "6.12.117-rt14"
    assert learnt.mismatch(Environment(emulator=qemu, kernel_release=linux)) == ""
    assert learnt.mismatch(Environment(emulator="QEMU emulator version 8.2.0", kernel_release=linux)) == (
        "QEMU 8.2, harmless changes were measured on 7.2"
    )
    assert (
        learnt.mismatch(Environment(emulator=qemu, kernel_release="6.1.0"))
        == "Linux 6.1, harmless changes were measured on 6.12"
    )
    assert "QEMU of an unknown version" in learnt.mismatch(Environment(kernel_release=linux))


def test_shifts_of_what_is_zero_have_no_share(tmp_path: Path) -> None:
    text = GOOD.replace("spike: 1.2}", "spike: 1.2, move_by: 3, spike_at: 7}")
    (found,) = load_placebos([written(tmp_path, text)], BOARDS).of(*CASE, "cyclictest -D 10", *WITH).figures.values()
    assert (found.move_by, found.spike_at) == (3, 7)


def test_a_case_is_learnt_once_for_each_series_and_qemu(tmp_path: Path) -> None:
    entry = GOOD.partition("idle:\n")[2]
    newer = entry.replace('"6.12"', '"6.18"').replace("move: 0.001", "move: 0.002")
    placebos = load_placebos([written(tmp_path, GOOD + newer)], BOARDS)

    def move(emulator: str, release: str) -> float:
        return placebos.of(*CASE, "cyclictest -D 10", emulator, release).figures["latency p50"].move

    assert move(*WITH) == 0.001
    assert move(WITH[0], "6.18.2") == 0.002
    assert move(WITH[0], "6.6.0") == 0.001  # and says that it is of another one
    other = placebos.of(*CASE, "cyclictest -D 10", WITH[0], "6.6.0")
    assert other.differs(WITH[0], "6.6.0") == "Linux 6.6, harmless changes were measured on 6.12"


def test_what_the_site_has_learnt_comes_first_and_hides_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    own = GOOD.replace("move: 0.001", "move: 0.003") + GOOD.partition("idle:\n")[2].replace('"6.12"', '"6.18"')
    files = [written(tmp_path / "site", own.replace("0.001", "0.004")), written(tmp_path, GOOD)]
    placebos = load_placebos(files, BOARDS)
    found = [
        placebos.of(*CASE, "cyclictest -D 10", WITH[0], release).figures["latency p50"].move
        for release in ("6.12.1", "6.18.1")
    ]
    assert found == [0.003, 0.004]
    other = load_placebos([written(tmp_path / "site", own.replace('"7.2"', '"9.0"')), files[1]], BOARDS)
    assert other.of(*CASE, "cyclictest -D 10", *WITH).figures["latency p50"].move == 0.001


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("virt-arm64", "virt-arm65", "1:1", "unknown board"),
        ("preempt_rt", "preempt-rt", "2:3", "unknown flavour"),
        ("move: 0.001", "move: -1", "11:31", "out of range"),
        ("spike: 1.2", "spike: 0.9", "11:45", "out of range"),
        ("spike: 1.2", "spikes: 1.2", "11:38", "unknown key"),
        ('linux: "6.12"', 'linux: "six"', "7:16", "is not a version"),
        ("spike: 1.2", "spike: 1.2, move_by: -1", "11:59", "out of range"),
        ("kernels: 2", "kernels: -1", "8:18", "out of range"),
        ("        boots: 12\n", "", "4:9", "missing key"),
    ],
)
def test_mistakes_have_a_place(tmp_path: Path, old: str, new: str, place: str, message: str) -> None:
    path = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message) as caught:
        load_placebos([path], BOARDS)
    assert f"{path}:{place}" in str(caught.value)
