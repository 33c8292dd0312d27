# SPDX-License-Identifier: MIT
"""pcie-bar and pcie-edu as they are built for images, on PCI functions that are directories."""

from __future__ import annotations

import json
import mmap
import os
import platform
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selftests.fake_pci import IO, MEMORY, PREFETCHABLE, Function, Sysfs

from rtgate.board.pcie import Function as Expected
from rtgate.rootfs import programs as own_programs
from rtgate.rootfs.recipe import find
from rtgate.tools import Output, Setting
from rtgate.tools.pcie_bar import DEVICE, PcieBar

ARCH = "arm64" if platform.machine() in {"aarch64", "arm64"} else "x86_64"
SIZE = 1 << 20
ENDPOINT, EDU = "0000:00:0a.0", "0000:00:09.0"
QUICK = ("--seconds=0.01", "--length=64K")
MAN = Path(__file__).resolve().parents[2] / "target" / "pcie"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with our programs for this machine."""
    directory = tmp_path_factory.mktemp("programs")
    for recipe in find("full"):
        for name, sources in recipe.programs[ARCH].items():
            if Path(name).name.startswith("pcie-"):
                program = directory / Path(name).name
                program.write_bytes(own_programs.build(sources, ARCH))
                program.chmod(0o755)
    return directory


@pytest.fixture
def sysfs() -> Iterator[Sysfs]:
    # Not below pytest's directory, which nobody else may enter: one test is somebody else.
    with tempfile.TemporaryDirectory(prefix="rtgate-") as name:
        Path(name).chmod(0o755)
        yield Sysfs(Path(name))


@pytest.fixture
def endpoint(sysfs: Sysfs) -> Function:
    """Return a function as ivshmem-plain is: registers, and memory in a prefetchable BAR."""
    return sysfs.add(ENDPOINT, "1af4:1110", {0: (256, MEMORY), 2: (SIZE, PREFETCHABLE), 4: (64, IO)})


class Bar:
    """Starts pcie-bar."""

    def __init__(self, programs: Path, sysfs: Sysfs) -> None:
        self.program = str(programs / "pcie-bar")
        self.sysfs = sysfs

    def argv(self, *options: str) -> list[str]:
        return [self.program, f"--sysfs={self.sysfs.path}", *options]

    def __call__(self, *options: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.argv(*options), capture_output=True, text=True, timeout=60, check=False, **more)

    def started(self, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(self.argv(*options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def bar(programs: Path, sysfs: Sysfs) -> Bar:
    return Bar(programs, sysfs)


def _wait(condition: Any) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.mark.usefixtures("endpoint")
@pytest.mark.parametrize("cpus", [1, 2])
def test_what_the_tool_asks_for_is_what_it_understands(bar: Bar, cpus: int) -> None:
    if cpus > len(os.sched_getaffinity(0)):
        pytest.skip("this machine has one CPU")
    tool = PcieBar(shortest_s=0.01)
    facts = {DEVICE: Expected(name=DEVICE, address=ENDPOINT, generation=3, width=16, mps=4096)}
    setting = Setting(cpus=cpus, duration_s=0.1, virtual_time=True, pcie=facts)
    program, *options = tool.argv(setting)
    assert program == "pcie-bar"
    done = bar(*options)
    assert (done.returncode, done.stderr) == (0, "")
    found = tool.parse(Output(files={"tool.out": done.stdout.encode()}, exit_code=0, setting=setting))
    rates = {name for name in tool.reports if name.endswith(".rate" if cpus == 1 else (".rate", ".rate.threads"))}
    assert {one.name for one in found} == {"bytes.wrong", *rates}
    assert all(one.quantity and one.quantity.value > 0 for one in found if one.name != "bytes.wrong")


def test_it_enables_a_function_that_nobody_has_and_disables_it_again(bar: Bar, endpoint: Function) -> None:
    child = bar.started("--seconds=0.5", "--operations=load64", "1af4:1110")
    _wait(lambda: endpoint.file("enable").read_text() == "1\n" or child.poll() is not None)
    assert child.communicate(timeout=20)[1] == ""
    assert child.returncode == 0
    assert endpoint.file("enable").read_text() == "0\n"
    child = bar.started("--seconds=30", "1af4:1110")
    _wait(lambda: endpoint.file("enable").read_text() == "1\n" or child.poll() is not None)
    child.terminate()
    assert child.communicate(timeout=20) == ("", "pcie-bar: stopped by signal 15\n")
    assert child.returncode == 130
    assert endpoint.file("enable").read_text() == "0\n"
    endpoint.file("enable").write_text("1\n")
    assert bar(*QUICK, "1af4:1110").returncode == 0
    assert endpoint.file("enable").read_text() == "1\n"  # somebody else's


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ((), 2, "which device?"),
        ((ENDPOINT, EDU), 2, "one device at a time"),
        (("somewhere",), 2, '"somewhere" is neither an address'),
        (("--bar=6", ENDPOINT), 2, "--bar 6: expected a number from 0 to 5"),
        (("--bar=-1", ENDPOINT), 2, "--bar -1: expected a number"),
        (("--offset=3", ENDPOINT), 2, "--offset 3: expected a multiple of 64"),
        (("--length=9999999999G", ENDPOINT), 2, "expected a number"),
        (("--seconds=0", ENDPOINT), 2, "--seconds 0: expected a number above 0"),
        (("--seconds=nan", ENDPOINT), 2, "--seconds nan: expected a number above 0"),
        (("--threads=0", ENDPOINT), 2, "--threads 0: expected a number from 1"),
        (("--cpus=0", "--threads=2", ENDPOINT), 2, "2 threads need as many CPUs, and there are 1"),
        (("--operations=load16", ENDPOINT), 2, 'there is no operation "load16"'),
        (("--read-only", "--operations=store32", ENDPOINT), 2, "contradict each other"),
        (("0000:00:1f.0",), 3, "there is no PCI device 0000:00:1f.0"),
        (("8086:1234",), 3, "no PCI device is 8086:1234"),
        (("--bar=1", ENDPOINT), 4, f"{ENDPOINT} has no BAR 1"),
        (("--bar=4", ENDPOINT), 4, f"BAR 4 of {ENDPOINT} is I/O ports, not memory"),
        (("--bar=0", "--write-combining", ENDPOINT), 4, "is not prefetchable"),
        (("--write-combining", ENDPOINT), 4, "resource2_wc): No such file or directory"),
        (("--length=2M", ENDPOINT), 5, f"BAR 2 of {ENDPOINT} has {SIZE} bytes: {2 * SIZE} at offset 0 do not fit"),
        (("--offset=1M", ENDPOINT), 5, "do not fit"),
        (("--bar=0", "--length=64", "--threads=2", ENDPOINT), 5, "too few for 2 threads"),
    ],
)
@pytest.mark.usefixtures("endpoint")
def test_bad_input_ends_with_one_sentence_and_a_code_of_its_own(
    bar: Bar, options: tuple[str, ...], code: int, message: str
) -> None:
    done = bar("--seconds=0.01", *options)
    assert (done.returncode, done.stderr.count("\n")) == (code, 1)
    assert message in done.stderr
    assert done.stderr.startswith("pcie-bar: ")


def test_ids_that_two_functions_have_are_not_enough(bar: Bar, sysfs: Sysfs, endpoint: Function) -> None:
    sysfs.add("0000:00:0b.0", "1af4:1110", {2: (SIZE, PREFETCHABLE)})
    done = bar(*QUICK, "1af4:1110")
    assert done.returncode == 2
    assert re.search(r"0000:00:0[ab]\.0 and 0000:00:0[ab]\.0 both are 1af4:1110", done.stderr)
    assert bar(*QUICK, endpoint.path.name).returncode == 0
    assert bar(*QUICK, "00:0a.0").returncode == 0  # domain 0000


def test_a_function_of_a_driver_is_left_alone_unless_forced(bar: Bar, endpoint: Function) -> None:
    endpoint.drive("nvme")
    done = bar(*QUICK, ENDPOINT)
    assert (done.returncode, done.stderr.count("\n")) == (7, 1)
    assert f"the driver nvme has {ENDPOINT}" in done.stderr
    assert bar(*QUICK, "--read-only", ENDPOINT).returncode == 0
    assert endpoint.file("resource2").read_bytes() == bytes(SIZE)
    assert bar(*QUICK, "--force", ENDPOINT).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="who is not root already needs no other user")
def test_without_permission_it_says_so(bar: Bar, endpoint: Function, tmp_path: Path) -> None:
    place = endpoint.path.parents[3] / "pcie-bar"
    place.write_bytes(Path(bar.program).read_bytes())
    place.chmod(0o755)
    bar.program = str(place)
    endpoint.file("resource2").chmod(0o600)
    endpoint.file("enable").write_text("1\n")
    done = bar(*QUICK, ENDPOINT, user=65534, cwd="/")
    assert (done.returncode, done.stderr.count("\n")) == (6, 1)
    assert "resource2): Permission denied" in done.stderr
    endpoint.file("enable").write_text("0\n")
    done = bar(*QUICK, ENDPOINT, user=65534, cwd="/")
    assert (done.returncode, done.stderr) == (6, f"pcie-bar: {ENDPOINT} cannot be enabled: Permission denied\n")
    assert tmp_path.exists()


def test_a_bar_that_goes_away_while_it_is_used(bar: Bar, endpoint: Function) -> None:
    child = bar.started("--seconds=30", ENDPOINT)
    _wait(lambda: endpoint.file("enable").read_text() == "1\n")
    time.sleep(0.1)
    os.truncate(endpoint.file("resource2"), 4096)
    began = time.monotonic()
    _, errors = child.communicate(timeout=20)
    assert (child.returncode, errors) == (8, "pcie-bar: the device is gone: an access to its BAR raised SIGBUS\n")
    assert time.monotonic() - began < 3


def test_a_function_whose_configuration_reads_as_ones_is_gone(bar: Bar, endpoint: Function) -> None:
    child = bar.started("--seconds=0.3", ENDPOINT)
    _wait(lambda: endpoint.file("enable").read_text() == "1\n")
    endpoint.vanish()
    _, errors = child.communicate(timeout=20)
    assert child.returncode == 8
    assert f"{ENDPOINT} is gone: its configuration space does not answer any more" in errors
    assert bar(*QUICK, ENDPOINT).returncode == 8


@pytest.mark.parametrize(
    "operation", ["store32", "store128", "memset_io", "load32", "load64", "load128", "memcpy_fromio"]
)
def test_wrong_data_is_counted_and_ends_with_1(bar: Bar, endpoint: Function, operation: str) -> None:
    stop = threading.Event()

    def spoil() -> None:
        with endpoint.file("resource2").open("r+b") as file, mmap.mmap(file.fileno(), SIZE) as memory:
            turn = 0
            while not stop.is_set():
                turn += 1
                memory[777] = turn & 0xFF

    thread = threading.Thread(target=spoil)
    thread.start()
    try:
        # The byte is right by chance once in 256 times, and on a busy machine the thread may not run for a while.
        done = (bar("--seconds=0.05", "--length=64K", f"--operations={operation}", ENDPOINT) for _ in range(50))
        # One that is right when it is read again has another message.
        wrong = next(one for one in done if one.returncode and "first" in one.stdout)
    finally:
        stop.set()
        thread.join()
    run = json.loads(wrong.stdout)["run"]["0"]
    assert wrong.returncode == 1
    assert run["wrong"] >= 1
    assert f"pcie-bar: {operation}: {run['wrong']} bytes are wrong" in wrong.stderr


@pytest.mark.parametrize("operation", ["load64", "memcpy_fromio"])
@pytest.mark.parametrize("length", ["64K", "4K"])
def test_a_link_that_was_wrong_for_a_while_is_seen(bar: Bar, endpoint: Function, operation: str, length: str) -> None:
    """The last pass of many is right again; of a small part, several passes lie between two looks at the clock."""
    child = bar.started("--seconds=2", f"--length={length}", f"--operations={operation}", ENDPOINT)
    with endpoint.file("resource2").open("r+b") as file, mmap.mmap(file.fileno(), SIZE) as memory:
        _wait(lambda: any(memory[4032:4096]))  # the pattern is written
        time.sleep(0.05)
        right = memory[777]
        memory[777] = right ^ 0xFF
        time.sleep(0.2)
        memory[777] = right
    output, errors = child.communicate(timeout=20)
    run = json.loads(output)["run"]["0"]
    assert child.returncode == 1
    assert run["wrong"] >= 1
    if operation == "load64":
        assert "first" not in run
        assert errors == (
            "pcie-bar: load64: the sum of the loads is wrong, and every byte was right when it was read again\n"
        )
    else:
        assert (run["first"], run["found"]) == (777, run["expected"] ^ 0xFF)
        assert run["wrong"] < run["bytes"] // int(length[:-1]) // 1024  # a byte of each pass, and not of all passes
    assert run["ns"] >= 2e9


def test_stores_have_the_width_and_the_value_that_they_should(bar: Bar, endpoint: Function) -> None:
    for operation, period in (("store32", 4), ("store64", 8), ("store128", 16), ("memset_io", 1), ("plain128", 16)):
        assert bar(*QUICK, f"--operations={operation}", ENDPOINT).returncode == 0
        data = endpoint.file("resource2").read_bytes()
        assert data[:65536] == data[:period] * (65536 // period)
        assert data[65536:] == bytes(SIZE - 65536)  # nothing beyond the region
        if period == 16:
            assert bytes(byte ^ 0xFF for byte in data[:8]) == data[8:16]
        if period > 1:
            assert len(set(data[:period])) > 1


@pytest.mark.parametrize(
    "arch", ["arm64", pytest.param("x86_64", marks=pytest.mark.long("the same with another compiler"))]
)
def test_two_builds_give_the_same_bytes(tmp_path: Path, arch: str) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(MAN, copy)
    for recipe in find("full"):
        for name, sources in recipe.programs[arch].items():
            if Path(name).name.startswith("pcie-"):
                elsewhere = [copy / source.name for source in sources]
                assert own_programs.build(elsewhere, arch) == own_programs.build(sources, arch), name


@pytest.mark.parametrize("program", ["pcie-bar", "pcie-edu"])
def test_help_and_manual_page_agree(programs: Path, program: str) -> None:
    text = subprocess.run([programs / program, "--help"], capture_output=True, text=True, check=True).stdout
    assert max(map(len, text.splitlines())) <= 120
    page = (MAN / f"{program}.1").read_text()
    options = set(re.findall(r"(--[a-z-]+)", text))
    assert options
    written = page.replace("\\-", "-")
    assert not [option for option in sorted(options) if option not in written]
    codes = set(re.findall(r"\b(\d{1,2}) [a-z]", text.partition("Exit codes:")[2].partition("Example")[0]))
    assert {int(code) for code in codes} >= {0, 1, 2, 3}
    assert not [code for code in sorted(codes) if f".TP\n.B {code}\n" not in page]


@pytest.mark.parametrize("program", ["pcie-bar", "pcie-edu"])
def test_the_version_is_that_of_the_sources(programs: Path, program: str) -> None:
    said = subprocess.run([programs / program, "--version"], capture_output=True, text=True, check=True).stdout
    [sources] = [
        sources for recipe in find("full") for name, sources in recipe.programs[ARCH].items() if program in name
    ]
    assert said == f"{program} {own_programs.version(sources)}\n"


# --- pcie-edu, as far as it comes without VFIO


@pytest.fixture
def edu(programs: Path, sysfs: Sysfs) -> Any:
    sysfs.add(EDU, "1234:11e8", {0: (SIZE, MEMORY)}, kind=0x00FF00)

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        argv = [str(programs / "pcie-edu"), f"--sysfs={sysfs.path}", *options]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ((), 2, 'expected "dma" or "msi"'),
        (("dance",), 2, '"dance" is neither "dma" nor "msi"'),
        (("dma", "--sizes=4089"), 2, "--sizes 4089: expected a number from 1 to 4088"),
        (("dma", "--sizes=64,0"), 2, "--sizes 0: expected a number from 1 to 4088"),
        (("msi", "--interrupts=0"), 2, "--interrupts 0: expected a number from 1"),
        (("msi", "--priority=100"), 2, "--priority 100: expected a number from 1 to 99"),
        (("msi", "--priority=40"), 2, "--raise-priority must be below --priority"),
        (("msi", "--until-ended"), 2, "--until-ended is for dma"),
        (("msi", "--cpu=1023"), 2, "CPU 1023 is none that it may run on"),
        (("dma", "0000:00:1f.0"), 3, "there is no PCI device 0000:00:1f.0"),
        (("dma",), 9, "the kernel has no vfio-pci (CONFIG_VFIO_PCI)"),
    ],
)
def test_edu_ends_on_bad_input_with_one_sentence(edu: Any, options: tuple[str, ...], code: int, message: str) -> None:
    done = edu(*options)
    assert (done.returncode, done.stderr.count("\n")) == (code, 1)
    assert message in done.stderr


@pytest.mark.usefixtures("endpoint")
def test_edu_takes_no_other_device(edu: Any) -> None:
    done = edu("dma", ENDPOINT)
    assert (done.returncode, done.stderr) == (3, f"pcie-edu: {ENDPOINT} is 1af4:1110, no edu (1234:11e8)\n")


def test_a_shared_iommu_group_is_refused_and_the_other_device_named(edu: Any, sysfs: Sysfs, endpoint: Function) -> None:
    device = Function(sysfs.path / "bus" / "pci" / "devices" / EDU)
    bridge = sysfs.add("0000:00:01.0", "1b36:000e", kind=0x060400)
    endpoint.drive("nvme")
    sysfs.group(7, device, bridge, endpoint)
    done = edu("msi")
    assert (done.returncode, done.stderr.count("\n")) == (7, 1)
    assert f"IOMMU group 7 holds {ENDPOINT} (1af4:1110, driver nvme) beside {EDU}" in done.stderr
    assert device.file("driver_override").read_text() == "(null)\n"  # nothing was touched


def test_a_bridge_in_the_group_is_no_obstacle_but_a_missing_driver_is(edu: Any, sysfs: Sysfs) -> None:
    device = Function(sysfs.path / "bus" / "pci" / "devices" / EDU)
    sysfs.group(7, device, sysfs.add("0000:00:01.0", "1b36:000e", kind=0x060400))
    done = edu("dma")
    assert (done.returncode, done.stderr) == (9, "pcie-edu: the kernel has no vfio-pci (CONFIG_VFIO_PCI)\n")


def test_without_an_iommu_the_driver_does_not_take_it(edu: Any, sysfs: Sysfs) -> None:
    (sysfs.path / "bus" / "pci" / "drivers" / "vfio-pci").mkdir(parents=True)
    done = edu("msi")
    assert (done.returncode, done.stderr.count("\n")) == (9, 1)
    assert f"{EDU} is behind no IOMMU: its DMA could reach all memory" in done.stderr
    # It was tried, and taken back.
    assert (sysfs.path / "bus" / "pci" / "drivers_probe").read_text() == EDU
    assert (sysfs.path / "bus" / "pci" / "devices" / EDU / "driver_override").read_text()[0] == "\n"


def test_a_group_that_only_shows_when_a_driver_takes_it_is_refused_then(
    edu: Any, sysfs: Sysfs, endpoint: Function
) -> None:
    device = Function(sysfs.path / "bus" / "pci" / "devices" / EDU)
    device.drive("vfio-pci")
    device.file("driver_override").write_text("vfio-pci\n")
    sysfs.group(7, device, endpoint)
    done = edu("dma")
    assert device.file("driver_override").read_text() == "vfio-pci\n"  # as its owner had it
    assert (done.returncode, done.stderr.count("\n")) == (7, 1)
    assert f"IOMMU group 7 holds {ENDPOINT} (1af4:1110, driver none) beside {EDU}" in done.stderr
