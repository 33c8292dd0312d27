# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
from pathlib import Path

import pytest
from selftests.unit.report.conftest import Boot, make

from rtgate import site
from rtgate.board import boards
from rtgate.board.serial_console import Console, Login
from rtgate.board.tuning import DEFAULT
from rtgate.errors import ConfigError
from rtgate.validity import registry
from rtgate.validity.registry import checks

GOOD = """\
description: an evaluation board
soc: RK3568
arch: arm64
cpus: 4
memory: 2 GiB
console: {device: ttyS2, baud: 1500000}
build: virt-arm64-generic
not_applicable: {threads: no RT threads}
command_line: quiet
"""
VIRTUAL = "qemu: {binary: qemu-system-aarch64, machine: virt, cpu: cortex-a57, shift: 3, arguments: [-a, b c]}\n"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of boards of a site."""
    (tmp_path / "boards").mkdir()
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path))
    monkeypatch.delenv("RTGATE_TREE", raising=False)
    monkeypatch.delenv("RTGATE_SHARE", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "boards"


def test_a_board_is_read(directory: Path) -> None:
    (directory / "rk.yaml").write_text(GOOD)
    board = boards.board("rk")
    assert (board.name, board.soc, board.arch, board.cpus, board.memory_mib) == ("rk", "RK3568", "arm64", 4, 2048)
    assert board.console == Console(device="ttyS2", baud=1500000, prompt="# ")
    assert (board.command_line, board.rootfs, board.work_directory) == ("quiet", "core", "/run/rtgate")
    assert (board.scratch, board.cpu_classes, board.tunings) == ("", {}, {"default": DEFAULT})
    assert registry.not_applicable(board) == {"threads": "no RT threads"}
    assert not board.virtual
    assert board.qemu is None


def test_a_board_may_have_to_cool_down(directory: Path) -> None:
    (directory / "rk.yaml").write_text(GOOD)
    assert boards.board("rk").cool_to is None
    (directory / "rk.yaml").write_text(GOOD + "cool_to: 55\n")
    assert boards.board("rk").cool_to == 55


def test_a_board_may_have_a_temperature_limit(directory: Path) -> None:
    (directory / "rk.yaml").write_text(GOOD)
    assert boards.board("rk").temperature_limit is None
    (directory / "rk.yaml").write_text(GOOD + "cool_to: 55\ntemperature_limit: 85\n")
    assert boards.board("rk").temperature_limit == 85
    for text, message in (
        ("temperature_limit: hot\n", "rk.yaml:10:20: expected a whole number, found text"),
        ("temperature_limit: 85000\n", "rk.yaml:10:20: 85000 is out of range (allowed: at least 1 and at most 150)"),
        ("temperature_limit: 55\ncool_to: 55\n", "rk.yaml:10:20: 55 is not above cool_to: the board would begin to"),
    ):
        (directory / "rk.yaml").write_text(GOOD + text)
        with pytest.raises(ConfigError) as caught:
            boards.board("rk")
        assert message in str(caught.value)


def test_a_board_may_pin_its_firmware(directory: Path) -> None:
    (directory / "rk.yaml").write_text(GOOD)
    assert boards.board("rk").firmware == {}
    pins = "firmware:\n  BL31: 'fwver: v1\\.02'\n  L3 partition: cfg-cc33\n"
    (directory / "rk.yaml").write_text(GOOD + pins)
    assert boards.board("rk").firmware == {"BL31": r"fwver: v1\.02", "L3 partition": "cfg-cc33"}
    for before, after, message in (
        (r"'fwver: v1\.02'", "'(v1'", "rk.yaml:11:9: '(v1' is not a regular expression: missing )"),
        ("cfg-cc33", "''", "rk.yaml:12:17: expected text, found an empty one"),
        ("cfg-cc33", "3", "rk.yaml:12:17: expected text, found a whole number"),
        (pins, "firmware: [v1]", "rk.yaml:10:11: expected a mapping, found a list"),
    ):
        assert before in pins
        (directory / "rk.yaml").write_text(GOOD + pins.replace(before, after))
        with pytest.raises(ConfigError) as caught:
            boards.board("rk")
        assert message in str(caught.value)


def test_a_board_may_say_how_long_its_silence_is_no_hang(directory: Path) -> None:
    (directory / "rk.yaml").write_text(GOOD)
    assert boards.board("rk").console.silence_s is None
    (directory / "rk.yaml").write_text(GOOD.replace("baud: 1500000", "baud: 1500000, silence: 20 s"))
    assert boards.board("rk").console.silence_s == 20
    (directory / "rk.yaml").write_text(GOOD.replace("baud: 1500000", "baud: 1500000, silence: 1 s"))
    with pytest.raises(ConfigError, match=r"6:50: '1 s' is too short or too long \(allowed: 5 s to 10 min\)"):
        boards.board("rk")


def test_a_virtual_board_is_read(directory: Path) -> None:
    (directory / "v.yaml").write_text(GOOD + VIRTUAL)
    board = boards.board("v")
    assert board.virtual
    assert board.qemu is not None
    assert (board.qemu.instruction_ns, board.qemu.arguments) == (8, ("-a", "b c"))


DEVICES = """\
  iommu: {machine: iommu=smmuv3, arguments: [-device, intel-iommu]}
  devices:
    edu: [-device, "edu,addr=0x9"]
pcie: {edu: {id: 1234:11e8}}
"""


def test_devices_of_a_virtual_board_are_read(directory: Path) -> None:
    text = GOOD + VIRTUAL.replace("{", "\n  ").replace(", ", "\n  ", 4).replace("}", "") + DEVICES
    (directory / "v.yaml").write_text(text)
    board = boards.board("v")
    assert board.qemu is not None
    assert board.qemu.devices == {"edu": ("-device", "edu,addr=0x9")}
    assert board.qemu.with_devices(["edu"]) == ("-device", "intel-iommu", "-device", "edu,addr=0x9")
    assert board.qemu.machine_with(["edu"]) == "virt,iommu=smmuv3"
    assert (board.qemu.with_devices([]), board.qemu.machine_with([])) == ((), "virt")
    assert board.pcie["edu"].locator == "1234:11e8"
    for before, after, message in (
        ("edu: [", "all: [", ":18:5: 'all' is not a name of a device"),
        ('[-device, "edu,addr=0x9"]', "[]", ":18:10: edu has no arguments"),
        ('[-device, "edu,addr=0x9"]', "edu", ":18:10: expected a list, found text"),
        ("pcie: {edu:", "pcie: {net:", ":19:8: unknown device 'net' (allowed: those of `qemu: devices`, edu)"),
        ("machine: iommu", "machin: iommu", ":16:11: unknown key 'machin' (allowed: arguments, machine)"),
    ):
        assert before in text
        (directory / "v.yaml").write_text(text.replace(before, after))
        with pytest.raises(ConfigError) as caught:
            boards.board("v")
        assert message in str(caught.value)


def test_the_sites_board_hides_the_shipped_one(directory: Path) -> None:
    assert boards.board("virt-arm64").soc == "none"
    (directory / "virt-arm64.yaml").write_text(GOOD)
    assert boards.board("virt-arm64").soc == "RK3568"


TUNINGS = """\
scratch: /mnt/data
cpu_classes: {little: 0-1, big: '2,3'}
tunings:
  fast:
    description: as fast as it goes
    command_line: isolcpus=2-3 nohz_full=2-3
    cpus: 2-3
    irq_affinity: 0-1
    cpu_governor: performance
    memory_governor: performance
    rt_runtime_us: -1
    priorities: {irq/: 90, ksoftirqd: 1}
  plain:
    description: another one
"""


def test_a_board_s_tunings_disks_and_kinds_of_cpus_are_read(directory: Path) -> None:
    (directory / "rk.yaml").write_text(GOOD + TUNINGS)
    board = boards.board("rk")
    assert board.scratch == "/mnt/data"
    assert board.cpu_classes == {"little": (0, 1), "big": (2, 3)}
    assert set(board.tunings) == {"default", "fast", "plain"}
    assert board.tuning("default") == DEFAULT
    fast = board.tuning("fast")
    assert (fast.name, fast.description, fast.cpus) == ("fast", "as fast as it goes", "2-3")
    assert fast.command_line == "isolcpus=2-3 nohz_full=2-3"
    assert fast.priorities == (("irq/", 90), ("ksoftirqd", 1))
    written = {write.path: write.value for write in fast.writes}
    assert written == {
        "/proc/irq/default_smp_affinity": "3",
        "/proc/irq/*/smp_affinity_list": "0-1",
        "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor": "performance",
        "/sys/class/devfreq/*/governor": "performance",
        "/proc/sys/kernel/sched_rt_runtime_us": "-1",
    }
    plain = board.tuning("plain")
    assert (plain.writes, plain.cpus, plain.command_line, plain.priorities) == ((), "", "", ())
    with pytest.raises(ConfigError, match=r"rk has no tuning 'slow' \(allowed: default, fast, plain\)"):
        board.tuning("slow")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("cpus: 2-3", "cpus: two", "'two' is not a list of CPUs (allowed: 0, 0-3, 0,2-3)"),
        ("irq_affinity: 0-1", "irq_affinity: 0-", "'0-' is not a list of CPUs"),
        ("little: 0-1", "little: all", "'all' is not a list of CPUs"),
        ("rt_runtime_us: -1", "rt_runtime_us: -2", "-2 is out of range (allowed: at least -1 and at most 1000000)"),
        ("irq/: 90", "irq/: 100", "100 is out of range (allowed: at least 1 and at most 99)"),
        ("cpu_governor", "cpu_govenor", "unknown key 'cpu_govenor' (allowed: "),
        ("    description: another one", "    cpus: '0'", "missing key 'description'"),
    ],
)
def test_mistakes_in_tunings_are_told(directory: Path, before: str, after: str, message: str) -> None:
    assert before in TUNINGS
    (directory / "rk.yaml").write_text(GOOD + TUNINGS.replace(before, after, 1))
    with pytest.raises(ConfigError) as caught:
        boards.board("rk")
    assert message in str(caught.value)


@pytest.mark.parametrize("name", [check.name for check in checks(make(Boot()), {})])
def test_every_check_has_a_name_that_boards_may_use(directory: Path, name: str) -> None:
    (directory / "rk.yaml").write_text(GOOD.replace("{threads:", f"{{{name}:"))
    assert registry.not_applicable(boards.board("rk")) == {name: "no RT threads"}


@pytest.mark.parametrize("name", site.names("boards"))
def test_every_shipped_board_is_right(name: str) -> None:
    board = boards.board(name)
    assert board.description
    assert "default" in board.tunings
    assert set(registry.not_applicable(board)) == set(board.not_applicable)


def test_an_unknown_board_lists_the_boards(directory: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown name 'none' in boards \(allowed: .*virt-arm64, "):
        boards.board("none")


BUILDS = ", ".join(site.names("kernel-configs"))
IMAGES = ", ".join(site.names("target/rootfs"))
CHECKS = ", ".join(sorted(check.name for check in registry.CHECKS))


@pytest.mark.parametrize(
    ("before", "after", "place", "message"),
    [
        ("soc: RK3568\n", "", "1:1", "missing key 'soc'"),
        ("soc: RK3568", "soc: 3568", "2:6", "expected text, found a whole number"),
        ("soc: RK3568", "soc: ", "2:5", "expected text, found nothing"),
        ("soc: RK3568", "sco: RK3568", "2:1", "unknown key 'sco' (allowed: arch, build, "),
        ("arch: arm64", "arch: arm", "3:7", "unknown value 'arm' (allowed: arm64, riscv64, x86_64)"),
        ("cpus: 4", "cpus: four", "4:7", "expected a whole number, found text"),
        ("cpus: 4", "cpus: 0", "4:7", "0 is out of range (allowed: at least 1 and at most 256)"),
        ("2 GiB", "2GB", "5:9", "'2GB' is not a size (allowed: a number and MiB or GiB, for example 512 MiB)"),
        ("2 GiB", f"{'9' * 5000} GiB", "5:9", "'99"),
        ("2 GiB", "0 GiB", "5:9", "'0 GiB' is not a size"),
        ("2 GiB", "2", "5:9", "expected text, found a whole number"),
        ("device: ttyS2", "device: /dev/ttyS2", "6:19", "'/dev/ttyS2' is not a console's device (allowed: as "),
        ("device: ttyS2", "device: ttyS2 init=/bin/sh", "6:19", "'ttyS2 init=/bin/sh' is not a console's device"),
        ("baud: 1500000", "baud: 9", "6:32", "9 is out of range (allowed: at least 1200)"),
        (
            "baud: 1500000",
            "rate: 9",
            "6:26",
            "unknown key 'rate' (allowed: baud, device, login, password, prompt, silence)",
        ),
        (", baud: 1500000", "", "6:10", "missing key 'baud'"),
        ("generic", "genetic", "7:8", f"unknown build 'virt-arm64-genetic' (allowed: {BUILDS})"),
        ("threads: no", "treads: no", "8:18", f"unknown key 'treads' (allowed: {CHECKS})"),
        ("no RT threads", "''", "8:27", "expected text, found an empty one"),
        ("quiet\n", "quiet\ncpus: 8\n", "10:1", "duplicate key 'cpus' (first at line 4)"),
        ("quiet\n", "quiet\nrootfs: cor\n", "10:9", f"unknown image 'cor' (allowed: {IMAGES})"),
        (
            "quiet\n",
            f"quiet\n{VIRTUAL.replace('shift: 3', 'shift: 11')}",
            "10:76",
            "11 is out of range (allowed: at lea",
        ),
        (
            "quiet\n",
            f"quiet\n{VIRTUAL.replace('cpu: ', 'cpus: ')}",
            "10:52",
            "unknown key 'cpus' (allowed: arguments, ",
        ),
        ("quiet\n", f"quiet\n{VIRTUAL.replace('b c', '1')}", "10:95", "expected text, found a whole number"),
        ("quiet\n", "quiet\nqemu: yes\n", "10:7", "expected a mapping, found true or false"),
    ],
)
def test_mistakes_are_told_with_their_place(directory: Path, before: str, after: str, place: str, message: str) -> None:
    assert before in GOOD
    path = directory / "rk.yaml"
    path.write_text(GOOD.replace(before, after, 1))
    with pytest.raises(ConfigError) as caught:
        registry.not_applicable(boards.board("rk"))
    assert str(caught.value).startswith(f"{path}:{place}: {message}")


LAVA = """\
lava:
  device_type: rk3568-evb1
  boot: uboot-ramdisk
  consoles: {bsp: ttyFIQ0, mainline: ttyS2}
  dtbs: {mainline: rockchip/rk3568-evb1-v10.dtb}
  prompt: "# "
  unconfirmed:
    - {what: memory, reason: nobody knows}
"""


def test_how_a_lab_boots_a_board_is_read(directory: Path) -> None:
    (directory / "rk.yaml").write_text(GOOD + LAVA)
    lava = boards.board("rk").lava
    assert lava is not None
    assert (lava.device_type, lava.boot, lava.prompt) == ("rk3568-evb1", "uboot-ramdisk", "# ")
    assert (lava.consoles["bsp"], dict(lava.dtbs)) == ("ttyFIQ0", {"mainline": "rockchip/rk3568-evb1-v10.dtb"})
    assert lava.unconfirmed == (boards.Unconfirmed(what="memory", reason="nobody knows"),)


@pytest.mark.parametrize(
    ("keys", "login"),
    [
        ("login: root", Login(user="root")),
        ('login: root, password: "0000"', Login(user="root", password="0000")),
    ],
)
def test_who_logs_in_is_read(directory: Path, keys: str, login: Login) -> None:
    (directory / "rk.yaml").write_text(GOOD.replace("baud: 1500000", f"baud: 1500000, {keys}"))
    assert boards.board("rk").console.login == login


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("password: x", "a password without `login`: whose is it?"),
        ('login: "ro ot"', "nobody can type this on a console"),
        ('login: root, password: "a\\nb"', "nobody can type this on a console"),
    ],
)
def test_a_login_that_cannot_be_typed_is_told(directory: Path, keys: str, message: str) -> None:
    (directory / "rk.yaml").write_text(GOOD.replace("baud: 1500000", f"baud: 1500000, {keys}"))
    with pytest.raises(ConfigError, match=message):
        boards.board("rk")


def test_a_board_without_lava_or_build_has_none(directory: Path) -> None:
    (directory / "rk.yaml").write_text(GOOD.replace("build: virt-arm64-generic\n", ""))
    assert (boards.board("rk").lava, boards.board("rk").build) == (None, "")


def test_a_prompt_is_no_regular_expression_by_accident(directory: Path) -> None:
    text = GOOD.replace("baud: 1500000", 'baud: 1500000, prompt: "[$] (x) "') + LAVA.replace('  prompt: "# "\n', "")
    (directory / "rk.yaml").write_text(text)
    lava = boards.board("rk").lava
    assert lava is not None
    assert re.fullmatch(lava.prompt, "[$] (x) ")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("boot: uboot-ramdisk", "boot: pigeon", "unknown way of booting 'pigeon' (allowed: fastboot, grub-ramdisk, "),
        ("bsp: ttyFIQ0", "vendor: ttyFIQ0", "unknown key 'vendor' (allowed: bsp, mainline)"),
        ("bsp: ttyFIQ0", "bsp: 'ttyFIQ0; reset'", "'ttyFIQ0; reset' is not a console's device"),
        ("mainline: ttyS2", "mainline: /dev/ttyS2", "'/dev/ttyS2' is not a console's device (allowed: as the kernel"),
        ("rockchip/rk3568-evb1-v10.dtb", "../x.dtb", "'../x.dtb' is not a device tree (allowed: a path below "),
        ("rockchip/rk3568-evb1-v10.dtb", f"{'x' * 97}.dtb", "x.dtb' is not a device tree"),
        ("device_type: rk3568-evb1", "device_type: ../etc", "'../etc' is not a name of a device type"),
        ('prompt: "# "', "prompt: '('", "'(' is not a regular expression: "),
        ("what: memory, ", "", "missing key 'what'"),
        ("  boot: uboot-ramdisk\n", "", "missing key 'boot'"),
    ],
)
def test_mistakes_in_how_a_lab_boots_are_told(directory: Path, before: str, after: str, message: str) -> None:
    assert before in LAVA
    (directory / "rk.yaml").write_text(GOOD + LAVA.replace(before, after, 1))
    with pytest.raises(ConfigError) as caught:
        boards.board("rk")
    assert message in str(caught.value)


@pytest.mark.parametrize("name", [name for name in site.names("boards") if boards.board(name).lava])
def test_each_lab_board_has_its_device_type(name: str) -> None:
    lava = boards.board(name).lava
    assert lava is not None
    assert (site.shipped_directory() / "lava-jobs" / "device-types" / f"{lava.device_type}.jinja2").is_file()
