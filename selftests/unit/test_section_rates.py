# SPDX-License-Identifier: MIT
"""What the judging of critical sections says of kernels that were measured once (`bench/sections.py`)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rtgate.judge.compare.section_findings import is_longer
from rtgate.records.codec import decode
from rtgate.records.longer_sections import LongerSection, SectionComparison

DATA = Path(__file__).resolve().parents[1] / "data" / "sections"
MEASURED: dict[str, dict[str, Any]] = json.loads((DATA / "measured.json").read_text())
_INSTRUCTIONS_PER_US = 125
# What did not run in what is followed of the boots, by its events (docs/explanation/critical-sections.md).
MISSED = frozenset({"planted/path-lookup", "planted/poll", "planted/timer-queue"})


def longer(name: str) -> list[LongerSection]:
    data = {key: value for key, value in MEASURED[name]["sections"].items() if key != "format"}
    return [one for one in decode(data, SectionComparison).longer if is_longer(one)]


def names(group: str) -> list[str]:
    return sorted(name for name in MEASURED if name.startswith(f"{group}/"))


@pytest.mark.parametrize("name", names("harmless"))
def test_no_harmless_change_alarms(name: str) -> None:
    assert longer(name) == []


@pytest.mark.parametrize("name", names("planted"))
def test_a_planted_section_fails_with_its_function_and_its_length(name: str) -> None:
    (patch,) = (DATA / name).glob("*.patch")
    text = patch.read_text()
    function = re.findall(r"^@@ .* @@ .*?(\w+)\(", text, re.MULTILINE)[-1]
    (us,) = re.findall(r"udelay\((\d+)\)", text)
    if name in MISSED:
        assert longer(name) == []
        return
    first = longer(name)[0]
    assert first.function == function
    assert 0.9 < max(first.gained, first.growth) / (int(us) * _INSTRUCTIONS_PER_US) < 1.5
