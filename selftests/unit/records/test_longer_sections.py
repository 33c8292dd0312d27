# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rtgate.errors import ConfigError
from rtgate.records import longer_sections
from rtgate.records.longer_sections import LongerSection, SectionComparison

FOUND = SectionComparison(
    baseline_image="a",
    candidate_image="b",
    seeds=(1, 2),
    boots_digest="",
    instruction_ns=8,
    cpus=1,
    sites=407,
    longer=(
        LongerSection(
            off="interrupts off",
            place="run_timer_softirq",
            context="softirq",
            baseline=0,
            candidate=7565,
            count=3,
            boots=2,
            seed=2,
            begin="run_timer_softirq",
        ),
    ),
)


def test_what_was_found_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert longer_sections.read(tmp_path) is None
    longer_sections.write(tmp_path, FOUND)
    assert longer_sections.read(tmp_path) == FOUND
    assert [path.name for path in tmp_path.iterdir()] == ["sections.json"]


@pytest.mark.parametrize(
    ("changes", "gained"),
    [
        ({}, 7565),
        ({"baseline": 7000}, 565),
        ({"begin": ""}, 0),
        ({"begin": "", "call": 900, "call_before": 100}, 800),
        ({"call": 9000, "call_before": 100}, 8900),
        ({"baseline": 8000, "call": 100, "call_before": 900}, 0),
    ],
)
def test_what_the_change_made_longer_begins_in_it_or_was_called_in_the_section(
    changes: dict[str, Any], gained: int
) -> None:
    assert replace(FOUND.longer[0], **changes).gained == gained


@pytest.mark.parametrize("change", [{"format": 1}, {"sites": "407"}, {"longer": [{"off": "interrupts off"}]}, {"x": 1}])
def test_a_damaged_file_is_an_error(tmp_path: Path, change: dict[str, object]) -> None:
    longer_sections.write(tmp_path, FOUND)
    path = tmp_path / "sections.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ConfigError, match=r"sections\.json: (damaged: |format 1, ).*: run the gate again"):
        longer_sections.read(tmp_path)
