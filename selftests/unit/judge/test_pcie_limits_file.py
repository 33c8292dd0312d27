# SPDX-License-Identifier: MIT
"""The limits of Rockchip boards are the guide's figures, and the judge applies them to what the tools report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rtgate.board import boards
from rtgate.judge.thresholds import LimitKind, Threshold
from rtgate.workflow.verdicts import limits

DATA = Path(__file__).resolve().parents[2] / "data" / "pcie" / "figures.yaml"
FIGURES = yaml.safe_load(DATA.read_text(encoding="utf-8"))
ENTRIES = [entry for entry in limits(None).entries if entry.source.startswith(("s003-", "v240-"))]
_SOURCE = re.compile(r"(?P<id>[a-z0-9-]+)(?:, [A-Z][A-Za-z0-9 ]+)?: (?P<figure>[0-9.]+) (?P<unit>MB/s|/s|us)(?: .*)?")


def _figures(block: object) -> set[float]:
    """Return every number in a block of figures."""
    if isinstance(block, dict):
        return {number for value in block.values() for number in _figures(value)}
    return {float(block)} if isinstance(block, int | float) else set()


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.board} {entry.case} {entry.measurement}")
def test_a_limit_is_a_figure_of_its_source(entry: Threshold) -> None:
    source = _SOURCE.fullmatch(entry.source)
    assert source is not None
    figure = float(source["figure"])
    assert entry.limit is not None
    printed = figure / 1000 if source["unit"] == "/s" else figure
    assert printed in _figures(FIGURES[source["id"]])
    if source["unit"] == "us":
        assert (entry.kind, entry.limit.value) == (LimitKind.MAX, figure + 1)
    elif "rounds to it" not in entry.margin:
        assert entry.kind is LimitKind.MIN
        assert 0.95 * figure - 1 < entry.limit.value <= 0.95 * figure


def test_no_figure_is_left_out() -> None:
    used = {entry.source.partition(":")[0].partition(",")[0] for entry in ENTRIES}
    known = {name for name, block in FIGURES.items() if block.get("kind") in WRITTEN}
    assert known - used == set()
    assert used <= set(FIGURES)


WRITTEN = ("dma", "bar", "width", "elbi", "msi", "nvme")


def test_superseded_figures_are_not_limits() -> None:
    assert not [entry for entry in ENTRIES if entry.source.startswith("s003-nvme-rk3588-gen3x4")]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.board} {entry.case} {entry.measurement}")
def test_a_limit_is_for_a_board_that_is_tuned_as_the_guide_did(entry: Threshold) -> None:
    tuning = entry.case.partition("+")[2]
    board = boards.board(entry.board)
    assert tuning in board.tunings
    assert board.tunings[tuning].description.startswith("the PCIe guide's")
