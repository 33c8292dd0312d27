# SPDX-License-Identifier: MIT
from __future__ import annotations

import math

import pytest
from scipy import stats

from rtgate.judge import distributions


@pytest.mark.parametrize("degrees", [1, 2.5, 9, 41])
@pytest.mark.parametrize("t", [-3.0, 0.0, 1.7, 12.0])
def test_student(t: float, degrees: float) -> None:
    p = distributions.t_above(t, degrees)
    assert p == pytest.approx(stats.t.sf(t, degrees), rel=1e-9)
    assert distributions.t_point(p, degrees) == pytest.approx(t, abs=1e-6)


def test_student_without_spread() -> None:
    assert distributions.t_above(math.inf, 3) == 0
    assert distributions.t_above(-math.inf, 3) == 1


@pytest.mark.parametrize(("count", "size", "success"), [(1, 0.5, 0.9), (3, 2.5, 0.5), (40, 12.5, 0.2)])
def test_negative_binomial(count: int, size: float, success: float) -> None:
    found = distributions.negative_binomial_at_least(count, size, success)
    assert found == pytest.approx(stats.nbinom.sf(count - 1, size, success), rel=1e-9)


def test_no_events_are_sure() -> None:
    assert distributions.negative_binomial_at_least(0, 0.5, 0.5) == 1


@pytest.mark.parametrize("count", [0, 1, 7, 100])
def test_garwood(count: int) -> None:
    assert distributions.poisson_upper(count, 0.9) == pytest.approx(stats.chi2.ppf(0.9, 2 * count + 2) / 2)
    low = stats.chi2.ppf(0.1, 2 * count) / 2 if count else 0
    assert distributions.poisson_lower(count, 0.9) == pytest.approx(low)


@pytest.mark.parametrize(("minutes", "per_minute"), [(3, 1.0), (9, 0.33), (60, 0.05), (720, 0.0042)])
def test_no_spike_bounds_the_rate_as_published(minutes: float, per_minute: float) -> None:
    assert distributions.poisson_upper(0, 0.95) / minutes == pytest.approx(per_minute, rel=0.02)
