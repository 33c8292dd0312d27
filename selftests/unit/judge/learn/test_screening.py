# SPDX-License-Identifier: MIT
from __future__ import annotations

import random

from rtgate.judge.compare.summaries import Spikes
from rtgate.judge.learn.screening import LEVELS, SessionPair, propose_screen, replay


def nights(count: int, drift: float = 0.02, seed: int = 1) -> list[SessionPair]:
    chance = random.Random(seed)
    found = []
    for number in range(count):
        centre = {name: chance.gauss(3, drift) for name in ("winsorised mean", "1 h return level", "exceedance rate")}
        first, second = ({name: chance.gauss(value, 0.05) for name, value in centre.items()} for _ in range(2))
        found.append(SessionPair(f"night-{number}", (first, second), (Spikes(0, 3.0), Spikes(0, 3.0))))
    return found


def test_the_level_flags_no_more_of_the_past_than_wanted() -> None:
    found = propose_screen(nights(40))
    assert found.level in LEVELS[:3]
    assert found.flagged <= 4
    assert found.flagged / 40 < found.upper < 0.25
    assert found.problem == ""


def test_p_values_of_good_sessions_are_spread_evenly() -> None:
    smallest = [p for seed in range(6) for p in replay(nights(30, seed=seed))]
    # Of four tests one is below p with about 1 - (1 - p)^4; spikes, of which there are none, never are.
    assert 0.08 < sum(p < 0.05 for p in smallest) / len(smallest) < 0.22


def test_a_session_is_compared_with_the_others_only() -> None:
    bad = SessionPair("bad", ({"winsorised mean": 9.0}, {"winsorised mean": 9.0}), (None, None))
    good = [
        SessionPair(
            one.name,
            (
                {"winsorised mean": one.boots[0]["winsorised mean"]},
                {"winsorised mean": one.boots[1]["winsorised mean"]},
            ),
            (None, None),
        )
        for one in nights(12)
    ]
    assert replay([*good, bad])[-1] < 1e-6


def test_few_sessions_are_not_relied_on() -> None:
    assert "too few" in propose_screen(nights(8)).problem
    three = propose_screen(nights(3))
    assert three.level is None  # with three, everything is suspicious
    assert three.problem == "3 sessions are too few: it takes 10"  # and not that good kernels are flagged
    assert propose_screen([]).level is None
