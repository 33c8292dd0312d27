# SPDX-License-Identifier: MIT
from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests import lava_log
from selftests.lava_log import KERNEL, boot_lines, deploy, end_lines, line, result
from selftests.unit.lava.results.test_classify import job

from rtgate.lava.results import log
from rtgate.lava.results.log import LogLine
from rtgate.workflow.job_watch import JobWatch

FRAME = "@rtgate1 0123456789ab 1 1/1 AAAA 00000000"
WHOLE = "".join(
    [
        *(deploy(1), boot_lines(2), lava_log.shell(3, ["rtgate: measured", FRAME, "something else"])),
        *(line("error", "power went away"), result("x", "pass", measurement=42, units="us"), end_lines()),
    ]
)


def watched(text: str, *, verbose: bool = False) -> str:
    stream = io.StringIO()
    watch = JobWatch(verbose=verbose, stream=stream)
    for one in log.parse(text):
        watch.show_line(one)
    watch.close()
    return stream.getvalue()


def test_sections_and_what_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITLAB_CI", raising=False)
    told = [text.partition(" ")[2].strip() for text in watched(WHOLE).splitlines()]
    assert told[:3] == [
        "== 1 tftp-deploy (at most 00:05:00)",
        "== 2 uboot-action (at most 00:05:00)",
        "== 3 lava-docker-test-shell-retry (at most 00:05:00)",
    ]
    text = watched(WHOLE)
    assert "rtgate: measured" in text
    assert "power went away" in text
    assert "something else" not in text
    assert KERNEL[1] not in text


def test_everything_but_frames() -> None:
    text = watched(WHOLE, verbose=True)
    assert KERNEL[1] in text
    assert "something else" in text
    assert "lava.x: pass 42 us" in text
    assert "@rtgate1" not in text


def test_sections_fold_in_gitlab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITLAB_CI", "true")
    text = watched(WHOLE)
    assert text.count("section_start:") == text.count("section_end:") == 4
    assert ":2_uboot_action\r" in text


@given(st.text(), st.sampled_from(["target", "error", "info", "feedback", "unreadable"]))
def test_no_board_steers_a_terminal(text: str, level: str) -> None:
    stream = io.StringIO()
    watch = JobWatch(verbose=True, stream=stream)
    watch.show_line(LogLine(0, "2026-11-21T12:00:00", level, text, ""))
    assert all(letter.isprintable() or letter in "\n\t" for letter in stream.getvalue() if ord(letter) < 0xA0)


def test_the_same_state_again_means_waiting() -> None:
    stream = io.StringIO()
    watch = JobWatch(stream=stream)
    waiting = replace(job("Unknown"), state="Submitted")
    watch.state(waiting)
    watch.state(waiting)
    first, second = stream.getvalue().splitlines()
    assert first.endswith("job 7: Submitted")
    assert second.endswith("job 7: Submitted for 0 min, no board is free yet")


def test_states() -> None:
    stream = io.StringIO()
    watch = JobWatch(stream=stream)
    watch.state(job("Complete"))
    watch.say("a sentence\x07")
    assert "job 7: Finished Complete" in stream.getvalue()
    assert "rtgate: a sentence\ufffd" in stream.getvalue()
