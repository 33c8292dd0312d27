# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
from functools import partial

import pytest
from rich.console import Console

from rtgate.report import listing
from rtgate.report.listing import show_listing

CASE = "latency/cyclictest:a-load-with-a-long-name"
ROWS = [(CASE, "body", "run 1\nrun 2", 12), ("latency/cyclictest:idle", "\x1b[31mtail", "run 3", 1)]
NAMES = ("case", "metric", "runs", "boots")


def test_a_pipe_gets_one_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    show_listing(NAMES, ROWS)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == [*NAMES]
    assert re.split("  +", first) == [CASE, "body", "run 1; run 2", "12"]
    assert second.split() == ["latency/cyclictest:idle", "tail", "run", "3", "1"]


def test_a_terminal_gets_whole_names_within_its_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "Console", partial(Console, width=40, force_terminal=True, color_system=None))
    show_listing(NAMES, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert "\u2026" not in "".join(lines)
    column = lines[1].index("body")
    names = "".join(line[:column].strip() for line in lines[1:])
    assert names == f"{CASE}latency/cyclictest:idle"
