# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

import pytest

from rtgate.board.storage import FileSystem, Overwrite, Storage
from rtgate.errors import ConfigError
from rtgate.measure import storage_use
from rtgate.tools import Setting, Tool
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.fio import FioRead, FioWrite

STORAGE = Storage(serial="S6", model="", overwrite=Overwrite.DISK, name="", file_system=FileSystem.F2FS)
SETTING = Setting(cpus=1, duration_s=10, virtual_time=False, storage=STORAGE, directory="/data/rtgate")
NOTHING = replace(SETTING, storage=None)


def test_a_tool_that_overwrites_gets_its_whole_file() -> None:
    for tools in ((FioRead(),), (Cyclictest(), FioRead())):
        found = storage_use.use(tools, SETTING)
        assert found is not None
        assert (found.storage, found.size, found.directory) == (STORAGE, 10 << 30, "/data/rtgate")
        assert "-filename=/data/rtgate/nvme/test" in found.fill


@pytest.mark.parametrize(("tools", "setting"), [((Cyclictest(),), SETTING), ((FioRead(),), NOTHING)])
def test_otherwise_nothing_is_done(tools: tuple[Tool, ...], setting: Setting) -> None:
    assert storage_use.use(tools, setting) is None


def test_two_cannot_have_it() -> None:
    with pytest.raises(ConfigError, match="both fio-read and fio-write overwrite the board's storage: choose one"):
        storage_use.use((FioRead(), FioWrite()), SETTING)


def test_what_the_target_must_have() -> None:
    assert storage_use.needs((Cyclictest(),), NOTHING, "nuc") == ()
    (need,) = storage_use.needs((FioRead(),), NOTHING, "nuc")
    assert (need.test, need.reason) == ("false", "nuc.yaml names no NVMe storage that is free to overwrite (nvme:)")
    reasons = [need.reason for need in storage_use.needs((FioRead(),), SETTING, "nuc")]
    assert reasons[1:] == ["the target has no mkfs.f2fs", "the kernel has no f2fs file system"]


def test_what_was_used_is_named_by_the_disk_itself() -> None:
    files = {"storage": b"Samsung SSD 980 1TB, firmware 1B4QFXO7, 1953525168 sectors\n[none] mq-deadline\n"}
    told = "Samsung SSD 980 1TB, firmware 1B4QFXO7, 1953525168 sectors, disk, f2fs, libaio"
    assert storage_use.describe(files, STORAGE) == told
    assert storage_use.describe({}, STORAGE) == storage_use.describe(files, None) == ""
