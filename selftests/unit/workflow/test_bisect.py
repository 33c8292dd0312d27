# SPDX-License-Identifier: MIT
from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from rtgate.workflow.bisect import MOST_COMMITS, FirstBad, first_bad


@given(st.integers(1, MOST_COMMITS).flatmap(lambda count: st.tuples(st.just(count), st.integers(0, count - 1))))
def test_the_first_bad_commit_is_found_with_few_gates(series: tuple[int, int]) -> None:
    count, guilty = series
    tried: list[int] = []

    def is_bad(index: int) -> bool:
        tried.append(index)
        return index >= guilty

    assert first_bad(count, is_bad) == (guilty, len(tried))
    assert len(tried) <= math.ceil(math.log2(count + 1))
    assert len(tried) == len(set(tried))
    assert count - 1 not in tried  # that the whole fails is known


def test_what_was_found_is_one_line() -> None:
    found = FirstBad(commit="c" * 40, subject="timers: be late", number=2, count=3, gates=1)
    assert found.sentence == "cccccccccccc timers: be late (commit 2 of 3, found by 1 further gate)"
