# SPDX-License-Identifier: MIT
"""The part of a plan that writes to a disk, carried out by this machine's shells on a tree that looks like a target."""

from __future__ import annotations

import shutil
import stat
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from rtgate.board.storage import MARK, FileSystem, Overwrite, Storage
from rtgate.target.storage import Use, needs, prepare

MIB = 1 << 20
SHELLS = {"sh": ["sh"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}
# The last word but one is the device; its number is that of the tree.
MOUNT = """\
root=${0%/*}/..
while [ $# -gt 2 ]; do shift; done
number=$(cat "$root/sys/class/block/${1##*/}/dev")
echo "30 22 $number / $2 rw mounted - ext4 $1 rw" >>"$root/proc/self/mountinfo"
"""
DISK = Storage(
    serial="S64D NX0", model="", overwrite=Overwrite.DISK, name="", file_system=FileSystem.EXT4, size_mib=16
)  # fmt: skip
PARTITION = replace(DISK, overwrite=Overwrite.PARTITION, name="rtgate")
RAW = replace(DISK, file_system=FileSystem.NONE)


@dataclass
class Target:
    """A tree with /sys, /proc and /dev of a target with one disk, which has one partition called `rtgate`."""

    root: Path
    shell: list[str]

    def write(self, name: str, text: str | bytes = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def program(self, name: str, text: str) -> None:
        path = self.write(f"bin/{name}", f'#!/bin/sh\necho "{name} $*" >>{self.root}/calls\n{text}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def disk(self, name: str = "nvme0n1", serial: str = "S64D NX0") -> None:
        """Add a disk; the kernel pads what a disk says with blanks."""
        sectors = 64 * MIB // 512
        device = f"sys/block/{name}/device"
        self.write(f"{device}/serial", f"{serial:20}\n")
        self.write(f"{device}/model", f"{'Samsung SSD 980 1TB':40}\n")
        self.write(f"{device}/firmware_rev", "1B4QFXO7\n")
        self.write(f"sys/block/{name}/queue/scheduler", "[none] mq-deadline\n")
        self.write(f"sys/block/{name}/size", f"{sectors}\n")
        self.write(f"sys/block/{name}/dev", "259:0\n")
        self.volume(name, "259:0", sectors)

    def volume(self, name: str, number: str, sectors: int) -> None:
        for file, text in (("dev", number), ("ro", "0"), ("size", str(sectors))):
            self.write(f"sys/class/block/{name}/{file}", f"{text}\n")
        (self.root / f"sys/class/block/{name}/holders").mkdir(exist_ok=True)
        self.write(f"dev/{name}", bytes(2 * MIB))

    def partition(self, number: int = 1, name: str = "rtgate") -> None:
        device = f"nvme0n1p{number}"
        self.write(f"sys/block/nvme0n1/{device}/uevent", f"DEVTYPE=partition\nPARTN={number}\nPARTNAME={name}\n")
        self.write(f"sys/block/nvme0n1/{device}/dev", f"259:{number}\n")
        self.volume(device, f"259:{number}", 64 * MIB // 512)

    @property
    def calls(self) -> list[str]:
        path = self.root / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def said(self, name: str) -> str:
        path = self.root / "r" / name
        return path.read_text().strip() if path.exists() else ""

    def run(self, storage: Storage, *, interrupted: bool = False) -> None:
        """Make the storage ready, and release it; or leave it, as a plan does that is interrupted."""
        use = Use(storage=storage, size=16 * MIB, fill=("fio", "--fill"), directory=f"{self.root}/run")
        text = prepare(use)
        for place in ("/sys/", "/dev/", "/proc/"):
            text = text.replace(place, f"{self.root}{place}")
        work = self.root / "r"
        work.mkdir(exist_ok=True)
        script = f"cd {work}\nPATH={self.root}/bin:$PATH\n{text}\nprepare_storage\n: >>../calls\n"
        script += '[ -s refused ] || [ -s lost ] || echo "measure" >>../calls\n'
        script += "leave_storage\n" if interrupted else "release_storage\n"
        path = self.write("script", script)
        done = subprocess.run([*self.shell, str(path)], capture_output=True, text=True, timeout=20, check=False)
        assert done.stderr == ""
        assert done.stdout == ""


@pytest.fixture(params=[pytest.param(argv, id=name) for name, argv in SHELLS.items() if shutil.which(argv[0])])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    made = Target(tmp_path, request.param)
    made.write("proc/self/mountinfo", "22 1 0:2 / / rw - rootfs rootfs rw\n")
    made.write("proc/swaps", "Filename Type Size Used Priority\n")
    (tmp_path / "dev").mkdir()
    for name in ("null", "zero"):
        (tmp_path / "dev" / name).symlink_to(f"/dev/{name}")
    made.program(
        "mkfs.ext4", 'for last; do :; done; printf ext4 | dd of="$last" bs=1 seek=1080 conv=notrunc 2>/dev/null'
    )
    made.program("mkfs.f2fs", "")
    for name in ("sync", "fio", "sleep"):
        made.program(name, "")
    made.program("mount", MOUNT)
    made.program("umount", "sed -i '/ mounted /d' \"${0%/*}/../proc/self/mountinfo\"")
    made.program("nvme-health", 'echo "{}"')
    made.disk()
    return made


def _wrote(target: Target) -> list[str]:
    """Return what was called of all that writes."""
    return [call for call in target.calls if call.split()[0] in {"mkfs.ext4", "mkfs.f2fs", "fio", "mount", "measure"}]


def test_a_blank_disk_is_marked_formatted_mounted_and_filled(target: Target) -> None:
    target.run(DISK)
    device, place = target.root / "dev/nvme0n1", target.root / "run/nvme"
    assert _wrote(target) == [
        f"mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0,nodiscard {device}",
        f"mount -t ext4 {device} {place}",
        *("fio --fill", "measure"),
    ]
    assert device.read_bytes().startswith(f"{MARK}\n".encode())
    assert target.calls[-2:] == [f"nvme-health {device}", f"umount {place}"]
    assert target.said("storage").splitlines() == [
        *("Samsung SSD 980 1TB, firmware 1B4QFXO7, 131072 sectors", "[none] mq-deadline"),
    ]
    assert target.said("health.start") == target.said("health.end") == "{}"


def test_what_an_earlier_plan_left_may_be_overwritten(target: Target) -> None:
    target.run(DISK)
    (target.root / "calls").unlink()
    target.run(DISK)
    assert "measure" in target.calls


def test_f2fs_is_mounted_as_in_the_guide(target: Target) -> None:
    target.run(replace(DISK, file_system=FileSystem.F2FS))
    device = f"{target.root}/dev/nvme0n1"
    assert f"mkfs.f2fs -q -f -t 0 {device}" in target.calls
    assert f"mount -t f2fs -o fsync_mode=nobarrier {device} {target.root}/run/nvme" in target.calls


def test_a_raw_device_is_a_link(target: Target) -> None:
    target.run(RAW)
    assert (target.root / "run/nvme/test").readlink() == target.root / "dev/nvme0n1"
    assert _wrote(target) == ["fio --fill", "measure"]


def test_a_partition_is_found_by_its_name(target: Target) -> None:
    target.partition(1, "boot")
    target.partition(2)
    target.run(PARTITION)
    assert f"mount -t ext4 {target.root}/dev/nvme0n1p2 {target.root}/run/nvme" in target.calls
    assert (target.root / "dev/nvme0n1").read_bytes() == (target.root / "dev/nvme0n1p1").read_bytes() == bytes(2 * MIB)


def _spoil(target: Target, what: str) -> None:
    text: dict[str, tuple[str, str | bytes]] = {
        "mounted": ("proc/self/mountinfo", "30 22 259:1 / /data rw - ext4 /dev/root rw\n"),
        "btrfs": ("proc/self/mountinfo", f"30 22 0:31 / /data rw - btrfs {target.root}/dev/nvme0n1p1 rw\n"),
        "swap": ("proc/swaps", f"Filename Type\n{target.root}/dev/nvme0n1p1\tpartition\n"),
        "held": ("sys/class/block/nvme0n1p1/holders/dm-0", ""),
        "read-only": ("sys/class/block/nvme0n1p1/ro", "1\n"),
        "small": ("sys/class/block/nvme0n1p1/size", f"{17 * MIB // 512 - 1}\n"),
        "data": ("dev/nvme0n1p1", bytes(1080) + b"\x53\xef" + bytes(2 * MIB)),
        "late data": ("dev/nvme0n1p1", bytes(65600) + b"_BHRfS_M" + bytes(2 * MIB)),
        "almost marked": ("dev/nvme0n1p1", b"rtgate scratcH\n" + bytes(2 * MIB)),
    }
    target.write(*text[what])


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("mounted", "nvme0n1p1 is mounted or otherwise in use"),
        ("btrfs", "nvme0n1p1 is mounted or otherwise in use"),
        ("swap", "nvme0n1p1 is mounted or otherwise in use"),
        ("held", "nvme0n1p1 is mounted or otherwise in use"),
        ("read-only", "nvme0n1p1 cannot be written to"),
        ("small", "nvme0n1p1 is too small for a test file of 16777216 bytes"),
        ("data", "nvme0n1p1 holds something that is not rtgate's"),
        ("late data", "nvme0n1p1 holds something that is not rtgate's"),
        ("almost marked", "nvme0n1p1 holds something that is not rtgate's"),
    ],
)
def test_a_partition_that_is_not_free_is_refused(target: Target, what: str, reason: str) -> None:
    target.partition()
    _spoil(target, what)
    before = (target.root / "dev/nvme0n1p1").read_bytes()
    target.run(PARTITION)
    assert reason in target.said("refused")
    assert target.said("refused").endswith(": nothing was written")
    assert (target.root / "dev/nvme0n1p1").read_bytes() == before
    assert _wrote(target) == []


def test_the_scheduler_is_set_before_anything_is_written_and_put_back(target: Target) -> None:
    scheduler = target.root / "sys/block/nvme0n1/queue/scheduler"
    target.program("fio", f"cp {scheduler} {target.root}/meanwhile")
    target.run(replace(DISK, scheduler="mq-deadline"))
    assert (target.root / "meanwhile").read_text() == "mq-deadline\n"
    assert scheduler.read_text() == "none\n"


def test_a_disk_that_is_refused_keeps_its_scheduler(target: Target) -> None:
    """What is written to a file of the test is not in brackets afterwards, as the kernel has it."""
    scheduler = target.root / "sys/block/nvme0n1/queue/scheduler"
    _refused(target, replace(PARTITION, scheduler="mq-deadline"))
    assert scheduler.read_text() == "[none] mq-deadline\n"


def _refused(target: Target, storage: Storage) -> str:
    target.run(storage)
    assert _wrote(target) == []
    return target.said("refused")


def test_a_partition_must_be_there_once(target: Target) -> None:
    target.partition(1, "rtgate-not")
    assert "nvme0n1 has no partition called rtgate" in _refused(target, PARTITION)


def test_two_partitions_of_one_name_are_refused(target: Target) -> None:
    target.partition(1)
    target.partition(2)
    assert "nvme0n1 has two partitions called rtgate" in _refused(target, PARTITION)


def test_a_disk_with_partitions_is_not_overwritten_whole(target: Target) -> None:
    target.partition()
    assert "nvme0n1 has partitions, and is to be overwritten whole" in _refused(target, DISK)


def test_a_disk_of_another_model_is_refused(target: Target) -> None:
    reason = _refused(target, replace(DISK, model="KINGSTON O'NE"))
    assert "the disk S64D NX0 is a Samsung SSD 980 1TB and not a KINGSTON O'NE" in reason


def test_the_right_model_is_taken(target: Target) -> None:
    target.run(replace(DISK, model="Samsung SSD 980 1TB"))
    assert "measure" in target.calls


def test_a_disk_with_two_namespaces_is_refused(target: Target) -> None:
    target.disk("nvme0n2")
    assert "the disk S64D NX0 has several namespaces" in _refused(target, DISK)


def test_one_path_of_several_to_a_disk_is_not_another_disk(target: Target) -> None:
    target.disk("nvme0c0n1")
    target.write("sys/block/nvme0c0n1/hidden", "1\n")
    target.run(DISK)
    assert "measure" in target.calls


def test_a_disk_that_appears_late_is_waited_for(target: Target) -> None:
    """The kernel finds disks while the plan already runs."""
    hidden, place = target.root / "hidden", target.root / "sys/block/nvme0n1"
    place.rename(hidden)
    target.program("sleep", f"[ $(grep -c sleep {target.root}/calls) -lt 30 ] || mv {hidden} {place}")
    target.run(DISK)
    assert target.calls.count("sleep 0.1") == 30
    assert "measure" in target.calls


@pytest.mark.parametrize(("there", "told"), [(True, "OTHER"), (False, "none")])
def test_a_disk_that_is_not_there_is_lost(target: Target, there: bool, told: str) -> None:
    shutil.rmtree(target.root / "sys/block/nvme0n1")
    if there:
        target.disk("nvme1n1", "OTHER")
    assert _refused(target, DISK) == ""
    assert target.calls.count("sleep 0.1") == 100
    assert target.said("lost") == f"the kernel shows no NVMe disk with the serial number S64D NX0 (there are: {told})"


def test_a_file_system_that_cannot_be_made_or_mounted_is_refused(target: Target) -> None:
    target.program("mkfs.ext4", "echo first; echo 'Device size reported to be zero' >&2; exit 1")
    target.run(DISK)
    assert "mkfs.ext4 failed on" in target.said("refused")
    assert "Device size reported to be zero" in target.said("refused")
    assert "measure" not in target.calls


def test_a_mount_that_mounted_nothing_is_refused(target: Target) -> None:
    """What is written next would lie in RAM."""
    target.program("mount", "")
    target.run(DISK)
    assert target.said("refused").endswith("/dev/nvme0n1 was mounted and is not")
    assert "fio --fill" not in target.calls


def test_a_device_that_takes_no_mark_is_refused(target: Target) -> None:
    target.program("dd", 'case $* in *conv=notrunc*) exit 1 ;; esac; exec /bin/dd "$@"')
    target.run(RAW)
    assert target.said("refused").endswith("/dev/nvme0n1 cannot be written to")
    assert "measure" not in target.calls


@pytest.mark.parametrize("what", ["dd", "mountinfo", "number"])
def test_what_nobody_can_tell_is_refused(target: Target, what: str) -> None:
    if what == "dd":
        target.program("dd", "exit 127")
    elif what == "mountinfo":
        (target.root / "proc/self/mountinfo").unlink()
    else:
        target.write("sys/class/block/nvme0n1/dev", "")
    assert "nothing was written" in _refused(target, DISK)


def test_a_file_system_that_is_full_is_refused(target: Target) -> None:
    target.program("fio", "echo 'fio: io_u error on file x: No space left on device: write offset=1' >&2; exit 1")
    target.run(DISK)
    assert target.said("refused").startswith("the test file of 16777216 bytes does not fit: fio: io_u error")
    assert "measure" not in target.calls
    assert target.calls[-1].startswith("umount")


def test_an_error_while_filling_is_for_the_tool_to_tell(target: Target) -> None:
    target.program("fio", "echo 'fio: io_u error on file x: Input/output error: write offset=1' >&2; exit 1")
    target.run(DISK)
    assert target.said("refused") == ""
    assert "measure" in target.calls


@pytest.fixture
def file(target: Target) -> Storage:
    """Return a file on the target's disk, which has the number of the disk that this test runs on."""
    number = (target.root / "run").parent.stat().st_dev
    major, minor = number >> 8 & 0xFFF, number & 0xFF | number >> 12 & 0xFFF00
    target.write("sys/block/nvme0n1/nvme0n1p3/dev", f"{major}:{minor}\n")
    return replace(DISK, overwrite=Overwrite.FILE, name=f"{target.root}/data.test", file_system=FileSystem.NONE)


def test_a_file_is_written_and_removed(target: Target, file: Storage) -> None:
    target.program("fio", f"echo written >{file.name}")
    target.run(file)
    assert _wrote(target) == ["fio --fill", "measure"]
    assert not Path(file.name).exists()
    assert (target.root / "dev/nvme0n1").read_bytes() == bytes(2 * MIB)


def test_an_interrupted_plan_removes_its_file(target: Target, file: Storage) -> None:
    target.program("fio", f"echo written >{file.name}")
    target.run(file, interrupted=True)
    assert _wrote(target) == ["fio --fill", "measure"]
    assert not Path(file.name).exists()


def test_an_interrupted_plan_leaves_a_file_that_it_did_not_write(target: Target, file: Storage) -> None:
    target.write("sys/block/nvme0n1/nvme0n1p3/dev", "259:3\n")
    other = target.write("data.test", "of somebody")
    target.run(file, interrupted=True)
    assert target.said("refused")
    assert other.exists()


def test_a_file_on_another_disk_is_refused(target: Target, file: Storage) -> None:
    target.write("sys/block/nvme0n1/nvme0n1p3/dev", "259:3\n")
    kept = target.write("data.test", "of somebody")
    assert f"does not lie on the disk {DISK.serial}" in _refused(target, file)
    assert kept.read_text() == "of somebody"


def test_a_file_that_is_something_else_is_refused(target: Target, file: Storage) -> None:
    other = target.write("other", "of somebody")
    Path(file.name).symlink_to(other)
    assert f"{file.name} is no ordinary file" in _refused(target, file)
    Path(file.name).unlink()
    Path(file.name).mkdir()
    assert f"{file.name} is no ordinary file" in _refused(target, file)
    assert other.read_text() == "of somebody"


def test_a_file_needs_a_directory_with_room(target: Target, file: Storage) -> None:
    assert "there is no directory /nowhere" in _refused(target, replace(file, name="/nowhere/data.test"))
    (target.root / "r/refused").unlink()
    target.program("df", "echo Filesystem; echo '/dev/x 100 90 10 90% /'")
    assert "has only 10 KiB left for a test file of 16384 KiB" in _refused(target, file)


def test_what_an_interrupted_plan_left_mounted_is_unmounted_first(target: Target) -> None:
    target.run(DISK)
    assert target.calls[0] == f"umount {target.root}/run/nvme"


def test_the_time_to_prepare_grows_with_the_file() -> None:
    small, large = (Use(storage=DISK, size=size, fill=(), directory="/run") for size in (16 * MIB, 10 << 30))
    assert 60 < small.preparation_s < 62
    assert 500 < large.preparation_s < 700


def test_a_target_needs_what_makes_the_file_system() -> None:
    programs = "the target lacks one of dd df mount stat sync umount"
    assert [need.reason for need in needs(RAW)] == [programs]
    assert [need.reason for need in needs(DISK)] == [
        *(programs, "the target has no mkfs.ext4", "the kernel has no ext4 file system"),
    ]
    test = needs(RAW)[0].test
    assert subprocess.run(["sh", "-c", test], check=False).returncode == 0
    assert subprocess.run(["sh", "-c", test.replace("stat", "no-such-program")], check=False).returncode == 1
