# SPDX-License-Identifier: MIT
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rtgate.explain.sum_by import sum_by

PAIRS = st.lists(st.tuples(st.sampled_from("abc"), st.text("xyz", max_size=3)))


def add(first: tuple[str, str], second: tuple[str, str]) -> tuple[str, str]:
    return first[0], first[1] + second[1]


@given(PAIRS)
def test_each_key_is_there_once_with_its_parts_in_their_order(pairs: list[tuple[str, str]]) -> None:
    expected = {key: "".join(text for other, text in pairs if other == key) for key, _ in pairs}
    assert sum_by(pairs, lambda pair: pair[0], add) == tuple(sorted(expected.items()))


@given(PAIRS, PAIRS)
def test_sums_can_be_added_up(first: list[tuple[str, str]], second: list[tuple[str, str]]) -> None:
    def total(pairs: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        return sum_by(pairs, lambda pair: pair[0], add)

    assert total([*total(first), *total(second)]) == total([*first, *second])
