# SPDX-License-Identifier: MIT
"""`rtgate board-health` on a shell of this machine; a file stands for the medium."""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from rtgate.board import boards
from rtgate.cli.main import main
from rtgate.lava.lab import boot_media, health

GOOD = os.urandom(64 * 1024)
SHA = hashlib.sha256(GOOD).hexdigest()


@dataclass
class Here:
    """This machine as a board whose eMMC is a file."""

    root: Path
    argv: list[str]

    @property
    def medium(self) -> Path:
        return self.root / "mmcblk0"

    def regions(self, **changes: object) -> str:
        region = {"device": "/dev/mmcblk0", "offset": 512, "length": 1024, "sha256": "0" * 64, **changes}
        return yaml.safe_dump({"media": {"loader": region}})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    for path in ("sys/class/block/mmcblk0/device", "proc/sys/vm", "boards", "bin"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "mmcblk0").write_bytes(GOOD)
    (tmp_path / "sys/class/block/mmcblk0/size").write_text(f"{len(GOOD) // 512}\n")
    (tmp_path / "sys/class/block/mmcblk0/device/name").write_text("BJTD4R\n")
    (tmp_path / "bin/sync").symlink_to("/bin/true")
    # The script says /dev/mmcblk0, and this machine's own are left alone.
    text = boot_media._SCRIPT.read_text()
    own = tmp_path / "boot_media.sh"
    own.write_text(text.replace("device=$3", f"device={tmp_path}/${{3#/dev/}}"))
    assert own.read_text() != text
    monkeypatch.setattr(boot_media, "_SCRIPT", own)
    monkeypatch.setattr(boot_media, "_LOOK_S", 0.1)
    monkeypatch.setattr(health, "_CLOCK_S", 0.5)
    monkeypatch.setattr(health, "_CLOCK_PPM", 1e6)
    monkeypatch.setattr(health, "_BOOT_S", 1e9)
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path))
    board = boards.board("lab-virt-arm64").path.read_text()
    (tmp_path / "boards/here.yaml").write_text(f"{board}work_directory: {tmp_path}/run\n")
    facts = f"RTGATE_MEDIUM=file RTGATE_SYS={tmp_path}/sys RTGATE_PROC={tmp_path}/proc PATH={tmp_path}/bin:$PATH"
    console = f"command:sh -c '{facts} exec sh'"
    return Here(tmp_path, ["board-health", "--board", "here", "--console", console])


def test_good_media_are_good_and_changed_ones_fail_for_lava(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    file = here.root / "media.yaml"
    file.write_text(here.regions(sha256=hashlib.sha256(GOOD[512:1536]).hexdigest(), model="BJTD4R"))
    assert main([*here.argv, "--media", str(file)]) == 0
    said = capsys.readouterr().out
    assert "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=board.media.loader RESULT=pass UNITS=bytes MEASUREMENT=1024>" in said
    assert "TESTRAISE" not in said
    here.medium.write_bytes(GOOD[:600] + b"\0" + GOOD[601:])
    assert main([*here.argv, "--media", str(file)]) == 1
    said = capsys.readouterr().out
    assert "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=board.media.loader RESULT=fail UNITS=bytes MEASUREMENT=1024>" in said
    assert "media.loader: " in said
    assert said.splitlines()[-1] == "<LAVA_SIGNAL_TESTRAISE infra: this board is not fit for measuring>"


def test_regions_come_on_standard_input_too(
    here: Here, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(here.regions()))
    assert main([*here.argv, "--media", "-"]) == 1
    assert "board.media.loader RESULT=fail" in capsys.readouterr().out
    # In a job this must not look like a board that is well.
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main([*here.argv, "--media", "-"]) == 2
    said = capsys.readouterr().out
    assert "standard input:1:1: the file is empty" in said
    assert "TESTRAISE" in said


def test_what_a_board_s_file_lists_is_looked_at_by_itself(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    board = here.root / "boards/here.yaml"
    whole = yaml.safe_load(board.read_text())
    whole["lava"] |= yaml.safe_load(here.regions())
    board.write_text(yaml.safe_dump(whole))
    assert main(here.argv) == 1
    assert "board.media.loader RESULT=fail" in capsys.readouterr().out
    assert main([*here.argv, "--hash-media"]) == 0
    assert hashlib.sha256(GOOD[512:1536]).hexdigest() in capsys.readouterr().out


def test_in_a_job_only_the_regions_of_the_job_count(
    here: Here, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list of the board's file came with the container, which may be older than what the board boots from."""
    board = here.root / "boards/here.yaml"
    whole = yaml.safe_load(board.read_text())
    whole["lava"] |= yaml.safe_load(here.regions())
    board.write_text(yaml.safe_dump(whole))
    *words, _, console = here.argv
    monkeypatch.setenv("LAVA_CONNECTION_COMMAND", console.removeprefix("command:"))
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "board.line RESULT=pass" in said
    assert "board.media" not in said
    (here.root / "media.yaml").write_text(here.regions())
    assert main([*words, "--media", str(here.root / "media.yaml")]) == 1
    assert "board.media.loader RESULT=fail" in capsys.readouterr().out


def test_media_as_they_are_are_printed_as_what_health_checks_take(
    here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*here.argv, "--hash-media", "all=/dev/mmcblk0", "env=/dev/mmcblk0@1024+512"]) == 0
    printed = capsys.readouterr().out
    common = {"device": "/dev/mmcblk0", "size": len(GOOD), "model": "BJTD4R"}
    assert yaml.safe_load(printed)["media"] == {
        "all": {**common, "offset": 0, "length": len(GOOD), "sha256": SHA},
        "env": {**common, "offset": 1024, "length": 512, "sha256": hashlib.sha256(GOOD[1024:1536]).hexdigest()},
    }
    (here.root / "env.yaml").write_text(yaml.safe_dump({"media": {"env": yaml.safe_load(printed)["media"]["env"]}}))
    assert main([*here.argv, "--media", str(here.root / "env.yaml")]) == 0
    assert not list((here.root / "run").iterdir())


def test_a_board_without_a_list_has_nothing_to_hash(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*here.argv, "--hash-media"]) == 2
    seen = capsys.readouterr()
    assert "lists no `media`" in seen.err
    assert seen.out == ""


def test_a_health_check_has_the_regions_of_the_board_s_file_or_of_another(
    here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    file = here.root / "media.yaml"
    file.write_text(here.regions(image="http://10.0.2.2/loader.img"))
    argv = ["lab-check", "--health-check", "here", "--kernel", "http://h/Image", "--ramdisk", "http://h/r.cpio.gz"]
    assert main(argv) == 0
    assert "--media" not in capsys.readouterr().out
    assert main([*argv, "--media", str(file)]) == 0
    printed = capsys.readouterr().out
    assert printed.count('"image": "http://10.0.2.2/loader.img"') == 2
    file.write_text(here.regions(length=5))
    assert main([*argv, "--media", str(file)]) == 2
    assert f"{file}:" in capsys.readouterr().err
