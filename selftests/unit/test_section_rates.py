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
INLINED = {"do_poll": "do_sys_poll", "rcu_do_batch": "rcu_core"}


def compared(name: str) -> SectionComparison:
    data = {key: value for key, value in MEASURED[name]["sections"].items() if key != "format"}
    # The first kernels were measured before boots with a new section were counted, and none is decided by that.
    longer = [{"boots": 0, **one} for one in data["longer"]]
    return decode({**data, "longer": longer}, SectionComparison)


def longer(name: str) -> list[LongerSection]:
    return [one for one in compared(name).longer if is_longer(one)]


def names(group: str) -> list[str]:
    return sorted(name for name in MEASURED if name.startswith(f"{group}/"))


@pytest.mark.parametrize("name", names("harmless"))
def test_no_harmless_change_alarms(name: str) -> None:
    assert longer(name) == []


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_no_wake_up_is_longer_than_its_bound(name: str) -> None:
    bounds = [one for one in (compared(name).baseline_bound, compared(name).candidate_bound) if one]
    assert all(one.holds for one in bounds)
    assert len(bounds) in {0, 2}  # the first kernels were measured before there was one


@pytest.mark.parametrize("name", names("planted"))
def test_a_planted_section_fails_with_its_function_and_its_length(name: str) -> None:
    (patch,) = (DATA / name).glob("*.patch")
    text = patch.read_text()
    function = re.findall(r"^@@ .* @@ .*?(\w+)\(", text, re.MULTILINE)[-1]
    (us,) = re.findall(r"udelay\((\d+)\)", text)
    first = max(longer(name), key=lambda one: max(one.gained, one.growth))
    assert first.function == INLINED.get(function, function)
    grown, planted = max(first.gained, first.growth), int(us) * _INSTRUCTIONS_PER_US
    # It takes the place of a section that was the longest there.
    assert 0.9 * planted < grown + (first.baseline if first.begins else 0)
    assert grown < 1.5 * planted
