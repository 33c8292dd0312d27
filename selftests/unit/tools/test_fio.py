# SPDX-License-Identifier: MIT
from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.board.storage import FileSystem, Overwrite, Storage
from rtgate.errors import ParseError
from rtgate.tools import Output, Setting
from rtgate.tools.fio import Fio, FioRandread, FioRandwrite, FioRead, FioWrite
from rtgate.tools.measurement import Measurement
from rtgate.units import Unit

DATA = Path(__file__).parents[2] / "data" / "fio" / "3.39"
STORAGE = Storage(
    serial="S6", model="", overwrite=Overwrite.DISK, name="", file_system=FileSystem.EXT4, size_mib=16
)  # fmt: skip
SETTING = Setting(cpus=1, duration_s=1, virtual_time=False, storage=STORAGE)
BESIDE = replace(SETTING, beside=True)
HEALTH = b'{"critical_warning": 0, "temperature": 310, "percent_used": 3, "media_errors": 7}'
GUIDE = {
    FioRead: (
        "fio -filename=/mnt/test -direct=1 -iodepth 32 -thread -rw=read -ioengine=libaio -bs=1024K -size=10G "
        "-numjobs=1 -runtime=180 -group_reporting -name=read_seq_1024k_q32_t1"
    ),
    FioWrite: (
        "fio -filename=/mnt/test -direct=1 -iodepth 32 -thread -rw=write -ioengine=libaio -bs=1024K -size=10G "
        "-numjobs=1 -runtime=180 -group_reporting -name=write_seq_1024k_q32_t1"
    ),
    FioRandread: (
        "fio -filename=/mnt/test -direct=1 -iodepth 32 -thread -rw=randread -ioengine=libaio -bs=4K -size=4G "
        "-numjobs=1 -runtime=180 -group_reporting -name=read_rand_4k_q32_t1"
    ),
    FioRandwrite: (
        "fio -filename=/mnt/test -direct=1 -iodepth 32 -thread -rw=randwrite -ioengine=libaio -bs=4K -size=4G "
        "-numjobs=1 -runtime=180 -group_reporting -name=write_rand_4k_q32_t1"
    ),
}


def _data(name: str) -> bytes:
    return (DATA / name).read_bytes()


def _output(name: str = "fio-read", setting: Setting = SETTING, **files: bytes) -> Output:
    """Return the output of a captured run; `fio_json=...` stands for the file `fio.json`."""
    found = {"fio.json": _data(f"{name}.json"), "fill.json": _data("fio-randwrite-fill.json")}
    found |= {"health.start": HEALTH, "health.end": HEALTH}
    return Output(
        files=found | {key.replace("_", "."): value for key, value in files.items()}, exit_code=0, setting=setting
    )


def _ended(tool: str) -> Output:
    files = {"load.json": _data(f"{tool}-ended.json"), "fill.json": _data(f"{tool}-fill.json")}
    return Output(files=files, exit_code=128, setting=BESIDE)


def _changed(change: Callable[[dict[str, Any]], object], name: str = "fio-read") -> Output:
    found = json.loads(_data(f"{name}.json"))
    change(found)
    return _output(fio_json=json.dumps(found).encode())


def _numbers(found: tuple[Measurement, ...]) -> dict[str, str]:
    return {one.name: str(one.quantity) for one in found if not one.labels}


@pytest.mark.parametrize("kind", GUIDE)
def test_the_command_line_is_the_guide_s(kind: type[Fio]) -> None:
    """Every word of the guide stands in ours, in its order, but for the file's name; the rest is for reading it."""
    guide = GUIDE[kind].replace("/mnt/test", "/run/rtgate/nvme/test").split()
    usual = replace(SETTING, duration_s=360, storage=replace(STORAGE, size_mib=0))
    argv = kind().argv(usual)
    ours = [word for word in argv if word in guide]
    assert ours == guide
    more = [word for word in argv if word not in guide]
    assert more[:5] == [
        *("-output-format=json", "-output=fio.json", "-percentile_list=50:99:99.9:99.99", "-time_based", "-stonewall"),
    ]
    assert more[5] == "-allow_file_create=0"
    assert more[6:] == [word for number in range(1, 11) for word in (f"-name=round{number:02d}", "-runtime=18000ms")]


def test_a_raw_device_keeps_its_mark_and_a_missing_one_is_not_made_up() -> None:
    raw = replace(SETTING, storage=replace(STORAGE, file_system=FileSystem.NONE))
    for words in (FioRead().argv(raw), FioRead().fill(raw)):
        assert "-offset=1024K" in words
        assert "-allow_file_create=0" in words
    assert not [word for word in FioRead().argv(SETTING) if word.startswith("-offset")]
    assert "-allow_file_create=0" not in FioRead().fill(SETTING)


def test_without_storage_nothing_could_be_written() -> None:
    assert FioWrite().argv(replace(SETTING, storage=None)) == ("false",)


def test_beside_another_tool_it_runs_until_it_is_ended() -> None:
    argv = FioRandread().argv(BESIDE)
    assert [word for word in argv if "name=round" in word] == []
    assert "-runtime=604800" in argv
    assert "-output=load.json" in argv


def test_a_captured_run_is_read() -> None:
    found = FioRead().parse(_output())
    assert _numbers(found) == {
        "bandwidth": "1402.88 MB/s",
        "iops": "1337.891 /s",
        "completion.mean": "18960076 ns",
        "completion.p50": "15007744 ns",
        "completion.p99": "156237824 ns",
        "completion.p99.9": "198180864 ns",
        "completion.p99.99": "198180864 ns",
        "completion.max": "198119201 ns",
        "time": "0.512 s",
        "io.errors": "0 count",
        "disk.critical_warning": "0 count",
        "disk.media_errors": "0 count",
        "disk.used": "0.03 ratio",
        "disk.temperature": "37 celsius",
    }
    rounds = [one for one in found if one.name == "round.bandwidth"]
    assert [one.labels["round"] for one in rounds] == [f"{number:02d}" for number in range(1, 11)]
    assert str(rounds[0].quantity) == "1853.733 MB/s"


def test_on_virtual_time_every_unit_is_virtual() -> None:
    found = FioRead().parse(_output(setting=replace(SETTING, virtual_time=True)))
    units = {one.name: one.unit for one in found}
    assert units["bandwidth"] is units["round.bandwidth"] is Unit.VIRTUAL_MB_S
    assert (units["iops"], units["completion.max"]) == (Unit.VIRTUAL_PER_S, Unit.VIRTUAL_NS)
    assert units["time"] is Unit.VIRTUAL_S


def test_psync_is_called_so() -> None:
    setting = replace(SETTING, storage=replace(STORAGE, engine="psync"))
    assert "-ioengine=psync" in FioRandwrite().argv(setting)
    found = _numbers(FioRandwrite().parse(_output("psync", setting)))
    assert {name for name in found if name.startswith("psync.")} == {
        *("psync.bandwidth", "psync.iops", "psync.completion.mean", "psync.completion.p50", "psync.completion.p99"),
        *("psync.completion.p99.9", "psync.completion.p99.99", "psync.completion.max"),
    }
    assert "bandwidth" not in found
    steady = FioRandwrite().expected(setting).steady
    assert steady == "psync.bandwidth"
    rounds = [one for one in FioRandwrite().parse(_output("psync", setting)) if one.name == f"round.{steady}"]
    assert len(rounds) > 1


@pytest.mark.parametrize("kind", [FioRead, FioRandwrite])
def test_everything_that_is_measured_is_reported(kind: type[Fio]) -> None:
    assert {one.name for one in kind().parse(_output(kind.name))} <= set(kind.reports)


def test_a_run_that_was_ended_beside_another_tool_is_whole() -> None:
    found = FioRandwrite().parse(_ended("fio-randwrite"))
    assert _numbers(found)["iops"] == "70366.057 /s"
    assert not [one for one in found if one.name.startswith("round.")]


def test_beside_another_tool_an_early_end_is_an_error() -> None:
    with pytest.raises(ParseError, match="fio did not run until it was ended: no message"):
        FioRandwrite().parse(replace(_ended("fio-randwrite"), exit_code=0))


def test_alone_a_run_that_was_ended_is_an_error() -> None:
    with pytest.raises(ParseError, match="exit code 128"):
        FioRead().parse(replace(_output(), exit_code=128))


def test_a_run_that_never_ended_says_so() -> None:
    with pytest.raises(ParseError, match="fio was stopped after 22 s: it did not end by itself"):
        FioRead().parse(replace(_output(tool_deadline=b"after 22 s\n"), exit_code=128))


def test_a_test_file_that_is_gone_is_not_made_anew() -> None:
    files = {"tool.err": _data("fio-read-no-file.err"), "fill.json": _data("fio-read-fill.json")}
    with pytest.raises(ParseError, match=r"fio: file creation disallowed by allow_file_create=0 \(exit code 11\)"):
        FioRead().parse(Output(files=files, exit_code=11, setting=SETTING))


def test_a_full_file_system_is_said() -> None:
    with pytest.raises(ParseError, match="fio's w: the file system is full"):
        FioWrite().parse(replace(_output(fio_json=_data("no-space.json")), exit_code=1))


def test_a_kernel_without_asynchronous_io_is_a_mistake_of_its_configuration() -> None:
    """`io_setup` says ENOSYS then, which fio's libaio engine has as the error of the job (engines/libaio.c)."""

    def refuse(found: dict[str, Any]) -> None:
        found["jobs"][0]["error"] = 38

    with pytest.raises(ParseError, match=r"fio's round01: the kernel has no asynchronous I/O \(CONFIG_AIO\): build it"):
        FioRead().parse(replace(_changed(refuse), exit_code=11))
    synchronous = replace(SETTING, storage=replace(STORAGE, engine="psync"))
    found = FioRead().parse(replace(_changed(refuse), exit_code=11, setting=synchronous))
    assert [dict(one.labels)["error"] for one in found if one.name == "io.errors"] == [f"ENOSYS ({os.strerror(38)})"]


@pytest.mark.parametrize("number", [2**31, -(2**31), 2**62])
def test_an_error_that_is_not_an_errno_is_damage(number: int) -> None:
    with pytest.raises(ParseError, match=f"says error {number}"):
        FioRead().parse(_changed(lambda found: found["jobs"][0].update(error=number)))


def test_an_io_error_is_a_failure_of_its_own_and_the_figures_are_gone() -> None:
    def lose(found: dict[str, Any]) -> None:
        found["jobs"][4]["error"], found["jobs"][10]["error"] = 5, 999

    found = FioRead().parse(replace(_changed(lose), exit_code=2))
    assert [dict(one.labels) for one in found if one.name == "io.errors"] == [
        {"job": "round05", "error": "EIO (Input/output error)"},
        {"job": "read_seq_1024k_q32_t1", "error": "999 (Unknown error 999)"},
    ]
    assert {one.name for one in found} == {
        *("io.errors", "disk.critical_warning", "disk.media_errors", "disk.used", "disk.temperature"),
    }


def test_a_disk_that_went_is_an_error_of_every_job_since() -> None:
    found = FioWrite().parse(replace(_output(fio_json=_data("fio-write-disk-gone.json")), exit_code=9))
    errors = [one.labels for one in found if one.name == "io.errors"]
    assert [one["job"] for one in errors] == [
        *(f"round{number:02d}" for number in range(3, 11)),
        "write_seq_1024k_q32_t1",
    ]
    assert {one["error"] for one in errors} == {"EIO (Input/output error)"}


def test_an_error_while_the_file_was_written_counts() -> None:
    fill = json.loads(_data("fio-read-fill.json"))
    fill["jobs"][0]["error"] = 5
    found = FioRead().parse(_output(fill_json=json.dumps(fill).encode()))
    assert [one.labels["job"] for one in found if one.name == "io.errors"] == ["fill"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found: found.update({"fio version": "fio-2.21"}), "this is the JSON of 'fio-2.21'"),
        (lambda found: found.pop("fio version"), "this is the JSON of None"),
        (lambda found: found.pop("jobs"), "no list of jobs"),
        (lambda found: found["jobs"].pop(3), "fio ran the jobs round01, round02, round03, round05"),
        (lambda found: found["jobs"].reverse(), "fio ran the jobs read_seq"),
        (lambda found: found["jobs"][10].pop("read"), "no 'read'"),
        (lambda found: found["jobs"][10]["read"].update(bw_bytes=1), "says 1 B/s and counted"),
        (lambda found: found["jobs"][10]["read"].update(short_ios=1), "not 1048576 in each"),
        (lambda found: found["jobs"][10]["read"].update(io_bytes=1), "not 1048576 in each"),
        (lambda found: found["jobs"][0]["read"].update(total_ios=0, io_bytes=0), "fio's round01 did nothing"),
        (lambda found: found["jobs"][10]["write"].update(total_ios=3), "did a write, and read was asked for"),
        (lambda found: found["jobs"][10]["read"]["clat_ns"].update(max=5), "contradict each other"),
        (
            lambda found: found["jobs"][10]["read"]["clat_ns"]["percentile"].update({"50.000000": 199000000}),
            "contradict",
        ),
        (lambda found: found["jobs"][10]["read"]["clat_ns"].pop("percentile"), "no 'percentile'"),
        (lambda found: found["jobs"][10]["read"]["clat_ns"]["percentile"].pop("99.990000"), "99.990000"),
        (lambda found: found["jobs"][10].update(error="no"), "not a whole number"),
    ],
)
def test_what_is_damaged_or_another_run_is_told(change: Callable[[dict[str, Any]], object], message: str) -> None:
    with pytest.raises(ParseError, match="fio") as raised:
        FioRead().parse(_changed(change))
    assert message in str(raised.value)


def test_a_file_that_was_not_written_whole_makes_no_figures() -> None:
    fill = json.loads(_data("fio-read-fill.json"))
    fill["jobs"][0]["write"]["io_bytes"] -= 1
    with pytest.raises(ParseError, match="only 16777215 of 16777216 bytes of the test file were written"):
        FioRead().parse(_output(fill_json=json.dumps(fill).encode()))
    with pytest.raises(ParseError, match="only 0 of 16777216 bytes"):
        FioRead().parse(_output(fill_json=b""))


def test_no_output_is_an_error() -> None:
    with pytest.raises(ParseError, match="fio wrote no JSON"):
        FioRead().parse(_output(fio_json=b""))


@given(st.data())
def test_hostile_output_is_read_or_refused(data: st.DataObject) -> None:
    whole = _data("fio-read.json")
    cut = data.draw(st.integers(0, len(whole)))
    noise = data.draw(st.binary(max_size=20))
    for text in (whole[:cut], whole[:cut] + noise + whole[cut:], noise):
        with contextlib.suppress(ParseError):
            FioRead().parse(_output(fio_json=text))


def test_what_must_be_seen_is_the_whole_time_and_a_healthy_disk() -> None:
    alone, beside = FioRead().expected(SETTING), FioRead().expected(BESIDE)
    assert (alone.duration_s, alone.steady, alone.health) == (1, "bandwidth", "disk")
    assert [(one.measurement, one.least) for one in alone.counts] == [("time", 0.5)]
    assert [(one.measurement, one.least) for one in beside.counts] == [("time", 0.9)]
    assert beside.steady == ""


def test_the_size_is_the_guide_s_or_the_board_s() -> None:
    usual = replace(SETTING, storage=replace(STORAGE, size_mib=0))
    assert (FioRead().file_bytes(usual), FioRandread().file_bytes(usual)) == (10 << 30, 4 << 30)
    assert FioRead().file_bytes(SETTING) == 16 << 20
