# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
from pathlib import Path

import pytest

from rtgate.board import boards, tuning
from rtgate.errors import ConfigError
from rtgate.strict_yaml import load

GOOD = """\
isolated:
  description: one CPU for the tool
  command_line: isolcpus=3
  cpus: 2-3
  irq_affinity: 0,4-5
  cpu_governor: performance
  memory_governor: userspace
  idle_states: off
  rt_runtime_us: -1
  priorities: {"irq/": 60}
  build: virt-arm64-isolation
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tunings.yaml"


def test_a_tuning_is_read(path: Path) -> None:
    path.write_text(GOOD)
    found = tuning.read(load(path))["isolated"]
    assert (found.command_line, found.cpus, found.priorities) == ("isolcpus=3", "2-3", (("irq/", 60),))
    assert found.build == "virt-arm64-isolation"
    written = {write.path: (write.value, write.reads) for write in found.writes}
    assert written == {
        "/proc/irq/default_smp_affinity": ("31", "^[0,]*31$"),
        "/proc/irq/*/smp_affinity_list": ("0,4-5", "."),
        "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor": ("performance", ""),
        "/sys/class/devfreq/*/governor": ("userspace", ""),
        "/sys/devices/system/cpu/cpu*/cpuidle/state[1-9]*/disable": ("1", ""),
        "/proc/sys/kernel/sched_rt_runtime_us": ("-1", ""),
    }


@pytest.mark.parametrize(
    ("before", "after", "place", "message"),
    [
        ("2-3", "two", "4:9", "'two' is not a list of CPUs (allowed: 0, 0-3, 0,2-3)"),
        ("0,4-5", "4-", "5:17", "'4-' is not a list of CPUs"),
        ("0,4-5", "5-4", "5:17", "'5-4' is not a list of CPUs"),
        ("0,4-5", "0-99999", "5:17", "'0-99999' is not a list of CPUs"),
        ("0,4-5", "\u0663", "5:17", "'\u0663' is not a list of CPUs"),
        ("-1", "1000001", "9:18", "1000001 is out of range (allowed: at least -1 and at most 1000000)"),
        ("off", "deep", "8:16", "unknown value 'deep' (allowed: off)"),
        ("60", "100", "10:24", "100 is out of range (allowed: at least 1 and at most 99)"),
        ("virt-arm64-isolation", "none-such", "11:10", "unknown build 'none-such' (allowed: "),
        ("cpus:", "cpu:", "4:3", "unknown key 'cpu' (allowed: "),
        ("  description: one CPU for the tool\n", "", "2:3", "missing key 'description'"),
    ],
)
def test_mistakes_are_told_with_their_place(path: Path, before: str, after: str, place: str, message: str) -> None:
    assert before in GOOD
    path.write_text(GOOD.replace(before, after, 1))
    with pytest.raises(ConfigError) as caught:
        tuning.read(load(path))
    assert str(caught.value).startswith(f"{path}:{place}: {message}")


@pytest.mark.parametrize(("text", "found"), [("0", (0,)), ("0,2-3", (0, 2, 3)), ("5-7,1", (5, 6, 7, 1))])
def test_lists_of_cpus_are_the_kernels(text: str, found: tuple[int, ...]) -> None:
    assert tuning.cpus(text) == found


def test_a_board_has_its_tunings_and_the_default() -> None:
    board = boards.board("virt-arm64-smp2")
    assert board.tuning("default") == tuning.DEFAULT
    assert board.tuning("isolated").cpus == "1"
    with pytest.raises(ConfigError, match=r"has no tuning 'fast' \(allowed: default, isolated, isolated-at-boot\)"):
        board.tuning("fast")


@pytest.mark.parametrize(
    ("listed", "mask", "shown"),
    [
        ("31", "80000000", "00000000,80000000"),
        ("32", "1,00000000", "1,00000000"),
        ("0,63-64", "1,80000000,00000001", "00000000,00000001,80000000,00000001"),
    ],
)
def test_masks_are_those_of_machines_with_many_cpus(path: Path, listed: str, mask: str, shown: str) -> None:
    path.write_text(GOOD.replace("irq_affinity: 0,4-5", f"irq_affinity: '{listed}'"))
    written = {write.path: write for write in tuning.read(load(path))["isolated"].writes}
    write = written["/proc/irq/default_smp_affinity"]
    assert write.value == mask
    assert write.reads is not None
    assert re.search(write.reads, shown)
    assert not re.search(write.reads, f"1{shown}")
