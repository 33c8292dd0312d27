# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.judge.distributions import share_bounds
from rtgate.judge.learn.calibrated_share import Samples, propose_share
from rtgate.judge.learn.calibration import Session, factor, groups, gumbel, propose, replay
from rtgate.tools.measurement import Histogram
from rtgate.units import Quantity, Unit


# Simulated apart from this code, with other draws: +-3 % at 1 %, +-7 % at 0.1 %.
@pytest.mark.parametrize(
    ("past", "future", "alpha", "published"),
    [(10, 1, 0.01, 5.79), (20, 1, 0.05, 3.23), (20, 1, 0.01, 5.16), (20, 3, 0.01, 6.56), (50, 1, 0.01, 4.83)],
)
def test_factors_are_those_of_the_table(past: int, future: int, alpha: float, published: float) -> None:
    assert factor(past, future, alpha) == pytest.approx(published, rel=0.03)


@pytest.mark.long("5 s of integration; the published table is checked in make test")
def test_with_much_past_the_factor_is_that_of_known_parameters() -> None:
    assert factor(2000, 1, 0.05) == pytest.approx(-math.log(-math.log(0.95)), rel=0.05)


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=40), st.floats(0.1, 10), st.floats(-1e3, 1e3))
def test_gumbels_parameters_move_with_the_values(values: list[float], scale: float, shift: float) -> None:
    location, spread = gumbel(values)
    moved = gumbel([shift + scale * value for value in values])
    assert moved[0] == pytest.approx(shift + scale * location, rel=1e-6, abs=1e-3)
    assert moved[1] == pytest.approx(scale * spread, rel=1e-6, abs=1e-3)


def test_gumbels_parameters_of_a_sample() -> None:
    chance = random.Random(1)
    values = [60 - 5 * math.log(-math.log(chance.random())) for _ in range(20_000)]
    assert gumbel(values) == pytest.approx((60, 5), rel=0.02)


def sessions(count: int, boots: int = 2, drift: float = 0.0) -> list[Session]:
    chance = random.Random(count)
    found = []
    for number in range(count):
        centre = 60 + drift * chance.gauss(0, 1)
        values = tuple(centre - 4 * math.log(-math.log(chance.random())) for _ in range(boots))
        found.append(Session(f"night-{number}", values))
    return found


@given(st.integers(3, 12), st.integers(1, 4), st.sampled_from([0.01, 0.05]))
def test_a_limit_is_never_below_what_was_seen(count: int, boots: int, target: float) -> None:
    proposal = propose(sessions(count, boots), target, boots)
    assert proposal.limit >= proposal.largest
    assert proposal.proof.trials == count
    assert proposal.proof.rate <= target or "no limit was found" in proposal.problem or count < 10


def test_enough_good_sessions_prove_a_limit() -> None:
    proposal = propose(sessions(100), 0.01, 1)
    assert (proposal.problem, proposal.method[:20]) == ("", "largest of 200 boots")
    assert proposal.proof.upper == share_bounds(proposal.proof.alarms, 200, 0.95)[1] <= 0.02


def test_too_few_runs_prove_nothing_and_say_how_many_it_takes() -> None:
    proposal = propose(sessions(20), 0.01, 1)
    assert "Gumbel prediction limit of 40 boots" in proposal.method
    assert "40 held-out runs cannot show a share of 0.01" in proposal.problem
    assert "it takes about 149 runs" in proposal.problem
    assert "one session does not show" in propose(sessions(1, 9), 0.01, 1).problem


def test_boots_that_share_their_sessions_drift_prove_less() -> None:
    calm, drifting = (replay(sessions(20, 8, drift), 0.05, 1) for drift in (0.0, 30.0))
    assert calm.correlation < 0.2
    assert drifting.correlation > 0.8
    assert drifting.upper > calm.upper


def test_a_session_never_judges_itself() -> None:
    past = [*sessions(12), Session("hot", (500.0, 500.0))]
    proof = replay(past, 0.01, 1)
    assert (proof.alarms, proof.trials) == (2, 26)


def test_a_limit_is_widened_until_its_replay_meets_the_target() -> None:
    past = [*sessions(30), Session("hot", (100.0, 101.0))]
    proposal = propose(past, 0.02, 1)
    assert "widened by" in proposal.method
    assert proposal.limit > 101
    assert proposal.proof.rate <= 0.02


def test_sessions_smaller_than_a_run_leave_the_limit_as_it_is_and_say_so() -> None:
    past = [Session(session.name, session.values[:3]) for session in sessions(12, 3)]
    proposal = propose(past, 0.02, 4)
    assert "widened" not in proposal.method
    assert proposal.problem == (
        "no session has 4 valid boots, so no limit was replayed: measure more of them (or a smaller --boots)"
    )


def test_too_few_boots_are_refused() -> None:
    with pytest.raises(ValueError, match="2 boots are too few"):
        propose([Session("one", (1.0, 2.0))], 0.01, 1)


def test_what_is_left_over_is_no_run() -> None:
    assert groups([1.0, 2.0, 3.0, 4.0, 5.0], 2) == [[1.0, 2.0], [3.0, 4.0]]


def histogram(top: int, samples: int = 10_000) -> Histogram:
    return Histogram(unit=Unit.US, counts={20: samples - 1, top: 1}, overflow=0, limit=1000)


def test_a_share_is_proven_with_a_few_events() -> None:
    past = [Samples(f"night-{number}", (histogram(40), histogram(41))) for number in range(40)]
    found = propose_share(past, 0.05, 1)
    assert found is not None
    assert (found.over, found.seen, found.samples, found.problem) == (Quantity(45.0, Unit.US), 0, 800_000, "")
    assert share_bounds(3, 10_000, 0.99)[1] <= found.share == 0.002
    assert share_bounds(10, 10_000, 0.99)[1] > found.share


def test_one_sample_far_out_does_not_move_the_level() -> None:
    past = [Samples(f"night-{number}", (histogram(400 if number == 3 else 40),)) for number in range(20)]
    found = propose_share(past, 0.05, 1)
    assert found is not None
    assert (found.over, found.seen) == (Quantity(40.0, Unit.US), 1)


def test_histograms_that_end_too_early_give_no_share() -> None:
    cut = Histogram(unit=Unit.US, counts={20: 100}, overflow=9, limit=22)
    assert propose_share([Samples("a", (cut,)), Samples("b", (cut, cut))], 0.05, 1) is None
