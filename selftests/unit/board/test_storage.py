# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.board.storage import FileSystem, Overwrite, Storage, read
from rtgate.errors import ConfigError
from rtgate.strict_yaml import parse

DISK = "serial: S64DNX0T, overwrite: {disk: true}, filesystem: ext4"


def _read(text: str) -> Storage:
    return read(parse(f"nvme: {{{text}}}\n", Path("board.yaml")).entries()["nvme"].value)


def test_a_disk_is_named_by_its_serial_number() -> None:
    found = _read(f"{DISK}, model: Samsung SSD 980 1TB, engine: psync, size: 2 GiB, scheduler: mq-deadline")
    assert found == Storage(
        serial="S64DNX0T",
        model="Samsung SSD 980 1TB",
        overwrite=Overwrite.DISK,
        name="",
        file_system=FileSystem.EXT4,
        engine="psync",
        size_mib=2048,
        scheduler="mq-deadline",
    )
    assert (found.path("/run/rtgate"), found.size(10 << 30)) == ("/run/rtgate/nvme/test", 2 << 30)


def test_a_partition_and_a_file_have_names() -> None:
    partition = _read("serial: S6, overwrite: {partition: rtgate}, filesystem: none")
    assert (partition.overwrite, partition.name, partition.file_system) == (
        *(Overwrite.PARTITION, "rtgate", FileSystem.NONE),
    )
    file = _read("serial: S6, overwrite: {file: /data/scratch/fio.test}")
    assert (file.path("/run/rtgate"), file.file_system) == ("/data/scratch/fio.test", FileSystem.NONE)


def test_without_a_size_it_is_the_tool_s() -> None:
    assert _read(DISK).size(4 << 30) == 4 << 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("overwrite: {disk: true}, filesystem: ext4", "missing key 'serial'"),
        ("serial: S6, filesystem: ext4", "missing key 'overwrite'"),
        ("serial: S6, overwrite: {}, filesystem: ext4", "say what is free to overwrite"),
        ("serial: S6, overwrite: {disk: true, partition: a}, filesystem: ext4", "say what is free to overwrite"),
        ("serial: S6, overwrite: {disk: false}, filesystem: ext4", "not named here"),
        ("serial: S6, overwrite: {disk: true}", "missing key 'filesystem'"),
        ("serial: S6, overwrite: {partition: a b}, filesystem: ext4", "'a b' is not a name of a partition"),
        ("serial: S6, overwrite: {file: /data/x}, filesystem: ext4", "leave out filesystem"),
        *(
            (f"serial: S6, overwrite: {{file: '{path}'}}", "is not a name of a file")
            for path in ("x", "/x", "/data/../etc/passwd", "/data/a:b", "/data/$(id)", "/data/", "/dev/nvme0n1:x")
        ),
        (f"{DISK}, filesystem: xfs", "filesystem"),
        (f"{DISK}, engine: io_uring", "io_uring"),
        (f"{DISK}, scheduler: deadline", "unknown value 'deadline' (allowed: bfq, kyber, mq-deadline, none)"),
        (f"{DISK}, size: 10G", "'10G' is not a size (allowed: a number and MiB or GiB, for example 512 MiB)"),
        (f"{DISK}, size: 8 MiB", "is not a size of a test file"),
        ("serial: ' S6', overwrite: {disk: true}, filesystem: ext4", "nothing that a disk says"),
        (f"serial: {'9' * 41}a, overwrite: {{disk: true}}, filesystem: ext4", "nothing that a disk says"),
        (f"{DISK}, partition: a", "unknown key 'partition'"),
    ],
)
def test_what_cannot_be_meant_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r"^board\.yaml:1:\d+: ") as raised:
        _read(text)
    assert message in str(raised.value)
