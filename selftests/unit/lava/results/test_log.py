# SPDX-License-Identifier: MIT
from __future__ import annotations

import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rtgate.lava.results import log
from rtgate.lava.results.log import LogLine


def written(data: dict[str, Any]) -> str:
    """Return a line as `lava_common/log.py` of LAVA 2023.01 writes it."""
    text = yaml.safe_dump(data, default_flow_style=True, default_style='"', width=10**6)
    return f"- {text}"


def one(text: str) -> LogLine:
    (line,) = log.parse(text)
    return line


def test_a_line_of_the_dispatcher() -> None:
    line = one('- {"dt": "2026-11-21T17:42:20.1", "lvl": "feedback", "msg": "U-Boot 2023.01", "ns": "common"}\n')
    assert line == LogLine(0, "2026-11-21T17:42:20.1", "feedback", "U-Boot 2023.01", "common")
    assert (line.text, line.result) == ("U-Boot 2023.01", {})


def test_a_result() -> None:
    line = one(written({"dt": "t", "lvl": "results", "msg": {"case": "job", "definition": "lava", "n": 5, "x": None}}))
    assert line.result == {"case": "job", "definition": "lava", "n": 5, "x": None}
    assert line.text == ""


def test_a_target_cannot_print_a_result() -> None:
    assert one(written({"dt": "t", "lvl": "target", "msg": {"case": "job"}})).result == {}


@given(st.text(), st.sampled_from(["target", "feedback"]))
def test_whatever_a_board_prints_is_read_as_it_was(text: str, level: str) -> None:
    try:
        line = written({"dt": "t", "lvl": level, "msg": text.replace('"', '\\"')})
    except UnicodeEncodeError:  # a lone surrogate: nobody can write that
        return
    assert one(line).message == text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_what_lava_itself_says_is_left_as_it_is(text: str) -> None:
    assert one(written({"dt": "t", "lvl": "error", "msg": text})).message == text


def test_newer_servers_leave_quotes_alone() -> None:
    text = 'printk: "quoted" and \\"escaped\\"'
    assert one(written({"dt": "t", "lvl": "target", "msg": text})).message == text


@pytest.mark.parametrize(
    "text", ["\x1b[31mred\x1b[0m", "a\0b", "\x85\u2028\u2029\u00a0", "\\x41 \\e", "'single'", "\U0001f600", "- {}"]
)
def test_escapes_of_yaml(text: str) -> None:
    assert one(written({"dt": "t", "lvl": "target", "msg": text})).message == text


@given(st.text())
def test_nothing_that_stands_in_a_log_is_an_error(text: str) -> None:
    lines = log.parse(f"{text}\n", first=7)
    assert [line.number for line in lines] == list(range(7, 7 + len(lines)))


def test_what_nobody_understands_is_kept() -> None:
    line = one("502 Bad Gateway {\n")
    assert (line.level, line.message) == ("unreadable", "502 Bad Gateway {")


def test_a_line_that_is_still_being_written_is_left_for_later() -> None:
    text = written({"dt": "t", "lvl": "info", "msg": "whole"})
    assert [line.text for line in log.parse(text + text[:20])] == ["whole"]
    assert log.parse(text[:20]) == ()
    assert log.parse("") == ()


def test_lines_that_were_sent_twice_count_once() -> None:
    lines = log.parse("".join(written({"dt": f"t{n}", "lvl": "target", "msg": "same"}) for n in (1, 2, 1, 2, 3)))
    assert [line.time for line in log.once(lines)] == ["t1", "t2", "t3"]


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"])), max_size=5))
def test_what_is_kept_is_read_again(texts: list[str]) -> None:
    lines = tuple(LogLine(number, "t", "info", text, "ns") for number, text in enumerate(texts))
    assert log.parse(log.dump(lines)) == lines


def test_a_log_of_many_frames_takes_no_square_of_the_time() -> None:
    """`make bench` measures how long it takes."""
    text = written({"dt": "t", "lvl": "target", "msg": "@rtgate1 " + "A" * 3000}) * 2000
    began = time.process_time()
    assert len(log.parse(text)) == 2000
    assert time.process_time() - began < 60
