# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest

from rtgate.errors import ConfigError
from rtgate.tools.case_name import CaseName


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("latency/cyclictest:idle", ("latency", "cyclictest", "idle", "default")),
        ("latency/cyclictest:stress-ng+isolated", ("latency", "cyclictest", "stress-ng", "isolated")),
        ("pcie/edu-msi:idle", ("pcie", "edu-msi", "idle", "default")),
    ],
)
def test_a_name_is_its_parts(text: str, parts: tuple[str, str, str, str]) -> None:
    name = CaseName.parse(text)
    assert (name.suite, name.tool, name.load, name.tuning) == parts
    assert str(name) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cyclictest",
        "latency/cyclictest",
        "cyclictest:idle",
        "latency/:idle",
        "latency/cyclictest:",
        "/cyclictest:idle",
        "a/b/c:idle",
        "latency/cyclictest:idle:idle",
        "latency/cyclictest:idle+",
        "latency/cyclictest:idle+a+b",
        "latency/cyclic test:idle",
        "latency/cyclictest:idle+default",
        "a/b:c\n",
    ],
)
def test_what_is_not_a_case_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a case") as caught:
        CaseName.parse(text)
    assert "SUITE/TOOL:LOAD" in str(caught.value)


def test_without_its_tuning_it_is_the_case_of_an_untuned_board() -> None:
    assert str(CaseName.parse("latency/cyclictest:idle+isolated").without_tuning) == "latency/cyclictest:idle"
