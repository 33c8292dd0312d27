# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate import durations
from rtgate.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("90 s", 90), ("10min", 600), ("12 h", 43200), ("1.5 d", 129600)]
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert durations.parse(text) == seconds


@pytest.mark.parametrize("text", ["", "12", "45m", "-1h", "12 hours", "1e3s", "5 virtual s"])
def test_what_is_not_a_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="examples: 90 s, 10 min"):
        durations.parse(text)


@pytest.mark.parametrize("text", ["0s", "0.5 s", "31d"])
def test_a_duration_has_bounds(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: 1 s to 30 d"):
        durations.parse(text)


def test_an_option_names_itself() -> None:
    with pytest.raises(ConfigError, match=r"^--budget: '45m' is not a duration"):
        durations.option("--budget", "45m")


@given(st.integers(min_value=1, max_value=30 * 86400))
def test_what_is_written_is_read_again(seconds: int) -> None:
    assert durations.parse(durations.format_s(seconds)) == seconds
