# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.records import explained
from rtgate.records.explained import CaseExplanation

IMAGES = {"baseline_image": "a", "candidate_image": "b"}
SEEN = CaseExplanation(
    baseline_image="a",
    candidate_image="b",
    seed=3,
    sentence="+20 instructions in f",
    warning_function="f",
    executed={"f": 200},
    resting=("g",),
    others=("CONFIG_X",),
    other_loads={"network": "paths"},
    reached_by={"g": ("network",)},
    failed_loads={"disk": "paths"},
    untried_loads=("syscalls",),
)


def test_what_was_seen_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert explained.read(tmp_path) is None
    explained.write(tmp_path, SEEN)
    assert explained.read(tmp_path) == SEEN
    assert [path.name for path in tmp_path.iterdir()] == ["explained.json"]


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, '{"format": 2}', '{"format": 1}'])
def test_a_damaged_file_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "explained.json").write_text(text)
    with pytest.raises(
        ConfigError, match=r"explained\.json: (damaged|format 1, this rtgate reads 2): .*run the gate again"
    ):
        explained.read(tmp_path)


@pytest.mark.parametrize(
    ("executed", "resting", "told"),
    [
        ({"f": 1, "e": 9}, ("g",), "of 3 differing functions 2 ran: e, f"),
        ({}, ("g",), "of 1 differing function 0 ran"),
        ({}, (), "no function differs, but HZ"),
    ],
)
def test_a_change_is_awake_only_if_a_function_ran(
    executed: dict[str, int], resting: tuple[str, ...], told: str
) -> None:
    seen = CaseExplanation(
        baseline_image="a", candidate_image="b", seed=1, executed=executed, resting=resting, others=("HZ",)
    )
    assert seen.is_exercised is bool(executed)
    assert seen.summary == told


@pytest.mark.parametrize(
    ("others", "exercised"),
    [
        ((), True),
        (("CONFIG_LOCALVERSION",), True),
        (("CONFIG_LOCALVERSION", "CONFIG_NVME_CORE"), False),
        (("nvme_core_quirks",), False),
    ],
)
def test_where_no_function_differs_a_name_is_nothing_and_anything_else_may_matter(
    others: tuple[str, ...], exercised: bool
) -> None:
    seen = CaseExplanation(baseline_image="a", candidate_image="b", seed=1, executed={}, resting=(), others=others)
    assert seen.is_exercised is exercised


def test_why_nothing_can_be_said() -> None:
    def why_not_exercised(resting: tuple[str, ...], *others: str) -> str:
        seen = CaseExplanation(
            baseline_image="a", candidate_image="b", seed=1, executed={}, resting=resting, others=others
        )
        return seen.why_not_exercised

    assert why_not_exercised(("f", "g", "h", "i")) == "of 4 differing functions (f, g, h and others) none ran"
    assert why_not_exercised((), "limit") == "no function differs, and whether limit took effect is not known"
    assert why_not_exercised(("f",), "limit", "CONFIG_LOCALVERSION") == (
        "of 1 differing function (f) none ran, and whether limit took effect is not known"
    )
