# SPDX-License-Identifier: MIT
from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

import pytest
from selftests.conftest import GOLDEN
from selftests.unit.cli.conftest import _forget_qemu, _undrawn, impatient

from rtgate import site
from rtgate.cli import check
from rtgate.errors import InfrastructureError
from rtgate.measure.case import Case
from rtgate.workflow import suites

__all__ = ["_forget_qemu", "_undrawn", "impatient"]

BOARD = """\
description: a board
soc: none
arch: arm64
cpus: 1
memory: 1 GiB
console: {device: ttyS2, baud: 1500000}
build: virt-arm64-generic
"""


WAIVER = """\
- board: virt-arm64
  case: latency/cyclictest:idle
  largest: 1 virtual us
  owner: somebody
  reason: it is late
  link: https://example.org/1
  expires: 2027-03-31
"""
POLICY = """\
boards:
  - board: rk3568-evb1
    build: virt-arm64-preempt_rt
    suites: [latency]
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
            str(path)
            for path in (site.shipped_directory() / kind).glob("*.yaml")
            if not path.name.endswith(".lock.yaml")
        }
        assert expected
        assert expected <= checked
    assert {str(site.shipped_directory() / name) for name in ("profiles.yaml", "thresholds.yaml")} <= checked


def test_a_sites_own_files_are_checked(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "boards" / "mine.yaml").write_text(BOARD)
    (lab / "boards" / "some.lock.yaml").write_text("is not a board")
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
        ("waivers.yaml", WAIVER.replace("idle", "idle+fast"), "2:9", "virt-arm64 has no tuning 'fast' (allowed: defau"),
        ("waivers.yaml", WAIVER.replace("virt-arm64", "virt-arm46"), "1:10", "unknown value 'virt-arm46' (allowed: "),
        (
            "policy.yaml",
            POLICY.replace("latency", "latancy"),
            "4:14",
            "unknown value 'latancy' (allowed: irq, latency, ",
        ),
        ("policy.yaml", POLICY.replace("rk3568-evb1", "rk3568"), "2:12", "unknown value 'rk3568' (allowed: "),
    ],
)
def test_a_mistake_is_told_with_its_place_and_the_others_are_still_checked(
    lab: Path, capsys: pytest.CaptureFixture[str], path: str, text: str, place: str, message: str
) -> None:
    (lab / path).write_text(text)
    code, lines = said(capsys)
    assert code == 2
    assert [line for line in lines if line.startswith(f"{lab}/{path}:{place}: {message}")]
    assert f"{site.shipped_directory()}/profiles.yaml: ok" in lines


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
        (("dtbs: {m", 'prompt: "(#"\n  dtbs: {m'), "boards/b.yaml", "12:11", "'(#' is not a regular expression"),
        (("{% block a %}{% endblock %}", "{% block a %}"), TYPE, "2:1", "Unexpected end of template."),
        (("base-uboot", "base-rtgate-none"), TYPE, "1:13", "unknown base 'base-rtgate-none.jinja2' (allowed: "),
        (("{% block a", "{{ a | default('x' }}{% block a"), TYPE, "2:1", "unexpected '}}', expected ')'"),
        (("{% block a", "{% frob %}{% block a"), TYPE, "2:1", "Encountered unknown tag 'frob'."),
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
    builds = site.shipped_directory() / "kernel-configs" / "virt-arm64-generic.yaml"
    assert [line for line in lines if line.startswith(f"{lab}/{path}:{place}: {message.format(builds=builds)}")]


def test_a_device_type_may_use_what_jinja_has(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "lava-jobs" / "device-types").mkdir(parents=True)
    text = "{% set a %}b{% endset %}{% raw %}{% if %}{% endraw %}{% include 'base-none.jinja2' ignore missing %}\n"
    (lab / TYPE).write_text("{% extends 'base-uboot.jinja2' %}\n" + text)
    (lab / "boards" / "b.yaml").write_text(LAB_BOARD)
    _, lines = said(capsys)
    assert f"{lab}/{TYPE}: ok" in lines


@pytest.mark.parametrize(("tree", "code"), [("rk3588-evb1-v10", 0), ("rk3588s-evb1-v10", 2)])
def test_a_board_and_its_build_agree_about_the_device_tree(
    lab: Path, capsys: pytest.CaptureFixture[str], tree: str, code: int
) -> None:
    board = LAB_BOARD.replace("virt-arm64-generic", "rk3588-generic").replace("a/b.dtb", f"rockchip/{tree}.dtb")
    (lab / "lava-jobs" / "device-types").mkdir(parents=True)
    (lab / TYPE).write_text("{% extends 'base-uboot.jinja2' %}\n")
    (lab / "boards" / "b.yaml").write_text(board)
    found, lines = said(capsys)
    assert found == code
    build = site.shipped_directory() / "kernel-configs" / "rk3588-generic.yaml"
    message = f"{lab}/boards/b.yaml:12:9: {build} is for rockchip/rk3588-evb1-v10: add rockchip/{tree} to its "
    assert any(line.startswith(message) for line in lines) == (code == 2)


def test_a_board_may_name_a_vendor_s_build(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whose device trees are those of the vendor's kernel, and not of mainline's."""
    board = (site.shipped_directory() / "boards" / "rk3588-evb1.yaml").read_text()
    (lab / "boards" / "mine.yaml").write_text(board.replace("rk3588-preempt_rt", "rk3588-vendor-preempt_rt"))
    _, lines = said(capsys)
    assert f"{lab}/boards/mine.yaml: ok" in lines


def test_errors_are_last_with_their_count(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "boards" / "mine.yaml").write_text("a: 1\n")
    (lab / "kernel-configs" / "k.yaml").write_text("arch: arm\n")
    code, lines = said(capsys)
    assert code == 2
    assert not [line for line in lines[-3:] if line.endswith(": ok")]
    assert lines[-1] == "2 errors in 2 files"


PLACES = (
    *("thresholds.yaml", "profiles.yaml", "placebos.yaml", "waivers.yaml", "policy.yaml", "boards/virt-arm64.yaml"),
    *("kernel-configs/b.yaml", "kernel-configs/fragments/b.config", "kernel-configs/patches/b/series"),
    *("target/rootfs/b.yaml", "lava-jobs/b.yaml", "lava-jobs/device-types/b.jinja2", "lava-jobs/health-checks/b.yaml"),
    *("tools/b.py", "loads/b.py"),
)


@pytest.mark.parametrize(("wrong", "code"), [(False, 3), (True, 2)])
def test_a_busy_machine_hides_no_mistake(
    lab: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, wrong: bool, code: int
) -> None:
    def too_busy(*_: object) -> tuple[Case, ...]:
        raise InfrastructureError("too busy")

    monkeypatch.setattr(suites, "cases", too_busy)
    (lab / "policy.yaml").write_text(
        "screen: [{board: virt-arm64, select: signaltest}, {board: virt-arm64-smp2, build: virt-arm64-generic}]\n"
    )
    if wrong:
        (lab / "boards" / "bad.yaml").write_text("oh no\n")
    found, lines = said(capsys)
    assert found == code
    assert f"{lab}/policy.yaml: not checked: too busy" in lines
    assert (lines[-1] == "1 error in 1 file") is wrong


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["a pipe", "an endless device", "a link to nowhere"])
def test_what_is_no_file_is_told_in_every_place(lab: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    for place in PLACES:
        (lab / place).parent.mkdir(parents=True, exist_ok=True)
        if kind == "a pipe":
            os.mkfifo(lab / place)
        else:
            (lab / place).symlink_to("/dev/zero" if kind == "an endless device" else "nowhere")
    code, lines = said(capsys)
    assert code == 2
    # A series is found by its file; where that leads nowhere, whoever names its directory is told.
    wanted = [place for place in PLACES if kind != "a link to nowhere" or not place.endswith("series")]
    wrong = [line for line in lines if not line.endswith(": ok")]
    untold = [place for place in wanted if not any(line.startswith(str((lab / place).parent)) for line in wrong)]
    assert untold == []
    assert [line for line in lines if line.endswith(": ok") and line.startswith(f"{lab}/")] == []


def test_every_mistake_is_told(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "profiles.yaml").write_text("mr: {}\n")
    (lab / "kernel-configs" / "k.yaml").write_text("arch: arm\n")
    code, lines = said(capsys)
    assert code == 2
    assert len([line for line in lines if not line.endswith(": ok")]) == 3  # the count, too


def _replaced(lab: Path, shipped: str, old: str, new: str) -> str:
    """Copy a shipped file to the site, with one text of it replaced, and return its path there."""
    text = (site.shipped_directory() / shipped).read_text()
    assert text.count(old) >= 1, (shipped, old)
    path = Path(shipped)
    (lab / path).parent.mkdir(parents=True, exist_ok=True)
    (lab / path).write_text(text.replace(old, new, 1))
    if path.parts[0] == "target":  # recipes name their C files
        for source in (site.shipped_directory() / "target").iterdir():
            if source.is_dir() and not (lab / "target" / source.name).exists():
                (lab / "target" / source.name).symlink_to(source)
    return str(path)


# A shipped file, what is replaced in it, by what, and what is said at which place. The numbers of lines are those of
# the shipped files, so the test finds them by the text itself.
_DANGLING = [
    ("lava-jobs/uboot-ramdisk.yaml", '"{{ kernel }}"', '"{{ kernal }}"', "unknown placeholder 'kernal' (allowed: "),
    ("lava-jobs/uboot-ramdisk.yaml", '"{{ kernel }}"', '"{{ kernel.url }}"', "'{{ kernel.url }}' is not a placeholder"),
    ("lava-jobs/uboot-ramdisk.yaml", '"{{ kernel }}"', '"{{ kernel }"', "'{{ kernel }' is not a placeholder"),
    ("lava-jobs/uboot-ramdisk.yaml", '"{{ kernel }}"', '"{% include x %}"', "'{% include x %}' is not a placeholder"),
    ("lava-jobs/uboot-nfs.yaml", '"{{ dtb }}"', '"http://lab/a.dtb"', "no action uses the file 'dtb': write {{ dtb }}"),
    (
        "lava-jobs/uboot-nfs.yaml",
        "bootloader-commands: {minutes: 3}",
        "bootloader-commands: {minuts: 3}",
        "unknown key",
    ),
    (
        "lava-jobs/uboot-nfs.yaml",
        "root: nfs",
        "root: nfs\ntimeouts: {actions: {power-off: {minutes: 1, seconds: 30}}}",
        "a timeout has one",
    ),
    (
        "lava-jobs/device-types/rk3568-evb1.jinja2",
        "base-rtgate-rockchip",
        "base-u-boot",
        "unknown base 'base-u-boot.jinja2'",
    ),
    (
        "lava-jobs/device-types/rk3568-evb1.jinja2",
        "rockchip.jinja2'",
        "rockchip'",
        "'base-rtgate-rockchip' is not the name of",
    ),
    (
        "lava-jobs/device-types/rk3568-evb1.jinja2",
        "{% set console_device",
        "{% include 'base-rtgate-power.jinja2' %}\n{% set console_device",
        "unknown base 'base-rtgate-power.jinja2'",
    ),
    (
        "lava-jobs/device-types/rk3568-evb1.jinja2",
        "default('ttyS2') %}",
        "default('ttyS2')\n",
        "expected token 'end of statement block', got '{'",
    ),
    (
        "profiles.yaml",
        "suites: [latency]",
        "suites: [latancy]",
        "unknown value 'latancy' (allowed: irq, latency, nvme, ",
    ),
    ("profiles.yaml", "only: [cyclictest]", "only: [cyclictets]", "unknown tool 'cyclictets' (allowed: "),
    (
        "profiles.yaml",
        "only: [cyclictest]",
        "only: [signaltest]",
        "signaltest is in no suite of this profile: remove it",
    ),
    (
        "profiles.yaml",
        "only: [cyclictest]",
        "only: [latency/cyclictest]",
        "'latency/cyclictest' names a suite, and `only`",
    ),
    (
        "profiles.yaml",
        "{beside: virt-arm64, only: [signaltest], suites: [signal]",
        "{beside: virt-arm64, only: [signaltest], suites: [signl]",
        "unknown value 'signl' (allowed: irq, latency, nvme, ",
    ),
    (
        "profiles.yaml",
        "{beside: virt-arm64, only: [signaltest], suites: [signal]",
        "{beside: virt-arm64, only: [signaltest], suites: [latency]",
        "signaltest is in no suite of this profile: remove it",
    ),
    (
        "profiles.yaml",
        "{beside: virt-arm64, only: [signaltest], suites: [signal]",
        "{beside: virt-arm64, only: [signal/signaltest], suites: [signal]",
        "'signal/signaltest' names a suite, and `only`",
    ),
    ("profiles.yaml", "cyclictest:hackbench:", "cyclictest:oslat:", "unknown load 'oslat' (allowed: "),
    ("profiles.yaml", "cyclictest:hackbench:", "cyclictest:hackbanch:", "unknown load 'hackbanch' (allowed: "),
    (
        "profiles.yaml",
        "nvme/cyclictest: {duration: 5 s",
        "signal/cyclictest: {duration: 5 s",
        "cyclictest is not in the suite",
    ),
    ("profiles.yaml", "[latency/cyclictest:idle,", "[latency/cyclictest:idel,", "unknown load 'idel' (allowed: "),
    ("profiles.yaml", "[latency/cyclictest:idle,", "[latency/cyclictets:idle,", "unknown tool 'cyclictets' (allowed: "),
    (
        "profiles.yaml",
        "[latency/cyclictest:idle,",
        "[latency/cyclictest:idle+rt,",
        "'latency/cyclictest:idle+rt' names a tuning",
    ),
    ("profiles.yaml", "clock: monotonic", "clok: monotonic", "cyclictest has no option 'clok' (allowed: "),
    ("profiles.yaml", "stress-ng: {cpu: 4", "stress-gn: {cpu: 4", "unknown load 'stress-gn' (allowed: "),
    ("profiles.yaml", "vm-bytes: 4M", "vm-byte: 4M", "the load stress-ng has no option 'vm-byte' (allowed: "),
    (
        "boards/virt-arm64-smp2.yaml",
        "    cpus: 1\n",
        "    cpus: 2\n",
        "CPU 2 is beyond the board's CPUs (allowed: 0 to 1)",
    ),
    ("boards/virt-arm64-smp2.yaml", "isolcpus=1 ", "isolcpus=managed_irq,1-2 ", "CPU 2 is beyond the board's CPUs"),
    (
        "boards/virt-arm64.yaml",
        "build: virt-arm64-preempt_rt",
        "build: virt-arm64-rt",
        "unknown build 'virt-arm64-rt' (allo",
    ),
    (
        "boards/virt-arm64.yaml",
        "build: virt-arm64-",
        "build: virt-x86_64-",
        "the build 'virt-x86_64-preempt_rt' is for x86_64: ",
    ),
    (
        "boards/virt-arm64.yaml",
        "qemu-system-aarch64",
        "qemu-system-arm",
        "'qemu-system-arm' does not run arm64 kernels",
    ),
    (
        "boards/rk3568-evb1.yaml",
        "boot: uboot-ramdisk",
        "boot: uboot-ramdsk",
        "unknown way of booting 'uboot-ramdsk' (allowed: ",
    ),
    (
        "boards/rk3568-evb1.yaml",
        "device_type: rk3568-evb1",
        "device_type: rk3568",
        "unknown device type 'rk3568' (allowed: ",
    ),
    ("boards/rk3568-evb1.yaml", "boot: uboot-ramdisk", "boot: fastboot", "booting by fastboot takes no device tree ("),
    (
        "boards/rk3568-evb1.yaml",
        "arch: arm64\n",
        "arch: arm64\nrootfs: cor\n",
        "unknown image 'cor' (allowed: core, full, xenomai)",
    ),
    (
        "kernel-configs/virt-arm64-generic.yaml",
        "tinyconfig",
        "tiniconfig",
        "'tiniconfig' is not a configuration target",
    ),
    ("kernel-configs/virt-arm64-generic.yaml", "- userspace", "- userspac", "no fragment 'userspac' (allowed: "),
    (
        "kernel-configs/virt-arm64-generic.yaml",
        "arch: arm64",
        "arch: arm64\npatches: patches/none",
        "no such file: a patch",
    ),
    ("kernel-configs/patches/demo-slow-wakeup/series", "0001-", "0002-", "no such patch: '0002-"),
    ("kernel-configs/fragments/loads.config", "CONFIG_", "CONFG_", "not understood: 'CONFG_"),
    ("kernel-configs/sources.lock.yaml", 'sha256: "585', 'sha256: "x85', "is not a sha256 (expected: "),
    ("target/rootfs/full.yaml", "extends: core", "extends: cor", "unknown image 'cor' (allowed: core, full, xenomai)"),
    ("thresholds.yaml", "virt-arm64:", "virt-arm46:", "unknown board 'virt-arm46' (allowed: "),
    ("thresholds.yaml", "preempt_rt:", "preempt-rt:", "unknown flavour 'preempt-rt' (allowed: "),
    ("thresholds.yaml", "latency/cyclictest:idle:", "latency/cyclictets:idle:", "unknown tool 'cyclictets' (allowed: "),
    (
        "thresholds.yaml",
        "latency/cyclictest:idle:",
        "latency/cyclictest:idle+fast:",
        "virt-arm64 has no tuning 'fast' (allowed: d",
    ),
    ("thresholds.yaml", "idle+pcie-ep:", "idle+pcie-epp:", "rk3568-evb1 has no tuning 'pcie-epp' (allowed: default, "),
    (
        "thresholds.yaml",
        "measurement: latency.max",
        "measurement: latency.maximum",
        "cyclictest reports no 'latency.maximum'",
    ),
    (
        "thresholds.yaml",
        "kind: max,",
        "class: big, kind: max,",
        "virt-arm64 has no CPU class 'big' (allowed: its `cpu_classes`",
    ),
    (
        "thresholds.yaml",
        "limit: 123 virtual us",
        "limit: 123 virtual us, source: s}\n      - {measurement: latency.bound, kind: max, limit: 123 virtual us",
        "no limit of latency.bound can be judged: virt-riscv64 is not a virtual board of arm64 or x86_64",
    ),
    ("placebos.yaml", "virt-arm64:", "virt-arm46:", "unknown board 'virt-arm46' (allowed: "),
    ("placebos.yaml", "preempt_rt:", "preempt-rt:", "unknown flavour 'preempt-rt' (allowed: "),
    (
        "placebos.yaml",
        "latency/cyclictest:hackbench:",
        "latency/cyclictest:hackbanch:",
        "unknown load 'hackbanch' (allowed: ",
    ),
    (
        "placebos.yaml",
        "cyclictest:hackbench:",
        "cyclictest:hackbench+fast:",
        "virt-arm64 has no tuning 'fast' (allowed: default)",
    ),
    (
        "placebos.yaml",
        "latency mean:",
        "latency men:",
        "latency/cyclictest:hackbench has no figure 'latency men' (allowed: ",
    ),
]


@pytest.mark.parametrize("dangling", _DANGLING, ids=lambda one: f"{one[0]}-{one[2][:30]}")
def test_every_name_in_a_shipped_file_leads_somewhere(
    lab: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, dangling: tuple[str, str, str, str]
) -> None:
    *change, message = dangling
    path = _replaced(lab, *change)
    every = check.files()
    monkeypatch.setattr(
        check, "files", lambda: [one for one in every if one[0].is_relative_to(lab)]
    )  # the others are right
    code, lines = said(capsys)
    assert code == 2
    place = re.compile(rf"{re.escape(f'{lab}/{path}')}:([0-9]+):[0-9]+: (.*)")
    errors = [match for line in lines if (match := place.fullmatch(line))]
    assert [match for match in errors if message in match[2]], lines[-5:]
    assert re.fullmatch(r"[0-9]+ errors? in [0-9]+ files?", lines[-1])
    assert not [line for line in lines[-1 - len(errors) :] if line.endswith(": ok")]


def test_a_limit_of_sections_is_refused_where_the_tuning_masks_interrupts_by_priority(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (site.shipped_directory() / "boards" / "virt-arm64.yaml").read_text()
    tuning = "{description: by priority, command_line: irqchip.gicv3_pseudo_nmi=1}"
    (lab / "boards" / "mine.yaml").write_text(f"{text}tunings:\n  nmi: {tuning}\n")
    limit = "{measurement: irqsoff, kind: max, limit: 9 virtual us, source: s}"
    cases = "".join(f"    latency/cyclictest:idle{tuned}: [{limit}]\n" for tuned in ("", "+nmi"))
    (lab / "thresholds.yaml").write_text(f"mine:\n  preempt_rt:\n{cases}")
    code, lines = said(capsys)
    assert code == 2
    (error,) = (line for line in lines if "no limit of irqsoff can be judged" in line)
    assert error.startswith(f"{lab}/thresholds.yaml:4:")
    assert "tuning nmi of mine masks interrupts by priority" in error


def test_the_place_of_a_dangling_name_is_its_own(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _replaced(lab, "lava-jobs/uboot-ramdisk.yaml", '"{{ dtb }}"', '"{{ dbt }}"')
    number, line = next(one for one in enumerate((lab / path).read_text().split("\n"), 1) if "dbt" in one[1])
    column = line.index('"') + 1
    assert said(capsys)[1][-2].startswith(f"{lab}/{path}:{number}:{column}: unknown placeholder 'dbt'")


HEALTH = """\
job_name: health
device_type: {device_type}
actions:
- test:
    definitions:
    - repository:
        run: {{steps: ['rtgate board-health --board {board}']}}
"""


@pytest.mark.parametrize(
    ("name", "device_type", "board", "message"),
    [
        ("rk3568-evb1", "rk3568-evb1", "rk3568-evb1", ""),
        ("rk3568-evb1", "rk3568", "rk3568-evb1", "2:14: unknown device type 'rk3568' (allowed: "),
        (
            "mine",
            "rk3568-evb1",
            "rk3568-evb1",
            "2:14: LAVA takes this file for the health check of mine: name it rk3568",
        ),
        ("rk3568-evb1", "rk3568-evb1", "rk3568", "7:23: unknown board 'rk3568' (allowed: "),
    ],
)
def test_a_health_check_is_of_a_device_type_and_of_boards_that_are_there(
    lab: Path, capsys: pytest.CaptureFixture[str], name: str, device_type: str, board: str, message: str
) -> None:
    path = lab / "lava-jobs" / "health-checks" / f"{name}.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(HEALTH.format(device_type=device_type, board=board))
    code, lines = said(capsys)
    assert code == (2 if message else 0)
    assert lines[-2].startswith(f"{path}:{message}") if message else f"{path}: ok" in lines


@pytest.mark.parametrize("board", ["rk3588-evb1", "lab-virt-arm64"])
def test_the_health_checks_that_rtgate_prints_are_right(
    lab: Path, capsys: pytest.CaptureFixture[str], board: str
) -> None:
    path = lab / "lava-jobs" / "health-checks" / f"{board}.yaml"
    path.parent.mkdir(parents=True)
    path.write_text((GOLDEN / "lava" / "health-checks" / path.name).read_text())
    assert said(capsys)[0] == 0


def test_a_kernel_repository_has_the_configuration_that_its_builds_start_from(
    lab: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = lab / "linux" / "arch" / "arm64" / "configs"
    builds = lab / "linux" / ".rtgate" / "kernel-configs"
    for directory in (configs, builds):
        directory.mkdir(parents=True)
    (configs / "board_defconfig").write_text("CONFIG_SMP=y\n")
    (builds / "good.yaml").write_text("arch: arm64\nflavour: generic\nbase: board_defconfig\nfragments: [loads]\n")
    (builds / "bad.yaml").write_text("arch: arm64\nflavour: generic\nbase: boart_defconfig\nfragments: [loads]\n")
    (configs / "rt.config").write_text("CONFIG_PREEMPT_RT=y\n")
    good = (builds / "good.yaml").read_text()
    (builds / "frag.yaml").write_text(f"{good}kernel_fragments: [rt.config]\n")
    (builds / "lost.yaml").write_text(f"{good}kernel_fragments: [rt.config, soc.config]\n")
    (builds / "more.yaml").write_text("extends: good\nkernel_fragments: [soc.config]\n")
    monkeypatch.chdir(lab / "linux")
    code, lines = said(capsys)
    assert code == 2
    assert {f"{builds}/good.yaml: ok", f"{builds}/frag.yaml: ok"} <= set(lines)
    assert f"{builds}/more.yaml:2:20: this kernel has no 'soc.config' (allowed: rt.config)" in lines
    bad, lost = (next(line for line in lines if line.startswith(f"{builds}/{name}.yaml:")) for name in ("bad", "lost"))
    assert bad.startswith(f"{builds}/bad.yaml:3:7: this kernel has no 'boart_defconfig' (allowed: tinyconfig, ")
    assert lost == f"{builds}/lost.yaml:5:31: this kernel has no 'soc.config' (allowed: rt.config)"


def test_comments_of_a_device_type_refer_to_nothing(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = lab / "lava-jobs" / "device-types" / "mine.jinja2"
    path.parent.mkdir(parents=True)
    path.write_text("{# {% extends 'base-none.jinja2' %}\n{% block a %} #}\n{% extends 'base-uboot.jinja2' %}\n")
    assert said(capsys)[0] == 0


def test_the_limits_are_checked_although_a_board_is_wrong(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "boards" / "virt-arm64.yaml").write_text("qemu: {}\n")
    _replaced(lab, "thresholds.yaml", "rk3568-evb1:", "rk3568-evb:")
    _, lines = said(capsys)
    assert [line for line in lines if "unknown board 'rk3568-evb' (allowed: " in line]


def test_tools_and_loads_of_the_site_are_imported(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("tools", "loads"):
        (lab / kind).mkdir()
    (lab / "loads" / "good.py").write_text("def load(board): ...\n")
    (lab / "loads" / "bad.py").write_text("import no_such\n")
    (lab / "tools" / "bad.py").write_text("\n")
    code, lines = said(capsys)
    assert (code, lines[-1]) == (2, "2 errors in 2 files")
    assert f"{lab}/loads/good.py: ok" in lines
    assert lines[-3].startswith(f"{lab}/tools/bad.py:1:1: the file defines 0 tools (none): ")
    assert lines[-2].startswith(f"{lab}/loads/bad.py:1:1: the file cannot be imported (ModuleNotFoundError: ")


def test_a_load_of_the_site_that_ends_the_program_is_a_mistake(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "loads").mkdir()
    (lab / "loads" / "bad.py").write_text("import sys\nsys.exit(0)\n")
    code, lines = said(capsys)
    assert (code, lines[-1]) == (2, "1 error in 1 file")
    assert lines[-2].startswith(f"{lab}/loads/bad.py:2:1: the file cannot be imported (SystemExit: 0): correct it")


def test_two_tools_of_one_name_are_one_mistake(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "tools").mkdir()
    (lab / "tools" / "cyclictest.py").write_text("\n")
    code, lines = said(capsys)
    assert code == 2
    assert f"{lab}/tools/cyclictest.py:1:1: rtgate has 'cyclictest' among its own tools: rename yours" in lines
