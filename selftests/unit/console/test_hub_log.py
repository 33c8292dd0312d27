# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
from pathlib import Path

import pytest

from rtgate.console.hub_log import TimedLog
from rtgate.errors import ConfigError

_STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", re.MULTILINE)


def lines(path: Path) -> list[str]:
    text = path.read_text()
    assert len(_STAMP.findall(text)) == len(text.splitlines())
    return _STAMP.sub("", text).split("\n")


def test_each_line_begins_with_its_time(tmp_path: Path) -> None:
    log = TimedLog(tmp_path / "log", 1 << 20)
    for piece in (b"one\r\ntw", b"o\r", b"\nthree\n\n", b"# "):
        log.console(piece)
    log.event("a client has come")
    log.console(b"end")
    log.close()
    assert lines(tmp_path / "log") == ["| one", "| two", "| three", "| ", "| # ", "-- a client has come", "| end"]


def test_control_characters_do_not_reach_who_reads_it(tmp_path: Path) -> None:
    log = TimedLog(tmp_path / "log", 1 << 20)
    log.console(b"\x1b]0;title\x07 a\tb\rc \xff\xc2\x9b31m \xe2\x80\xaeabc\n")
    log.event("\x1b[2J")
    log.close()
    assert lines(tmp_path / "log") == ["| \\x1b]0;title\\x07 a\tb\\rc \\xff\\x9b31m \\u202eabc", "-- \\x1b[2J", ""]


def test_it_is_moved_aside_when_it_is_large(tmp_path: Path) -> None:
    log = TimedLog(tmp_path / "log", 1000)
    for number in range(100):
        log.console(f"line {number}\n".encode())
    log.close()
    both = lines(tmp_path / "log.1")[:-1] + lines(tmp_path / "log")[:-1]
    assert both[-1] == "| line 99"
    assert [int(line.split()[-1]) for line in both] == list(range(100 - len(both), 100))
    assert (tmp_path / "log").stat().st_size <= 1000 + 100


def test_a_full_disk_stops_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = TimedLog(Path("/dev/full"), 1 << 20)
    log.console(b"a\n")
    log.console(b"b\n")
    log.close()
    assert capsys.readouterr().err.count("/dev/full cannot be written") == 1


def test_a_log_that_cannot_be_opened_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        TimedLog(tmp_path / "nowhere" / "log", 1 << 20)
