# SPDX-License-Identifier: MIT
"""Real plans in real shells over hostile lines: whatever happens, no verdict may be wrong, and nothing may be lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from selftests.faults.carried import Judgement, Result, Trial, all_carried_out, carried_out, trials
from selftests.faults.table import FAULTS
from selftests.faults.targets import Stage, lacking

pytestmark = [
    pytest.mark.xdist_group("faults"),  # one worker has them all: it runs them beside each other
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
    # Python 3.12 warns of what pexpect does in a program with threads; what it starts is another program at once.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


MOST_AGAIN = 3
"""Results in a run that a busy machine may spoil; more are lost by us."""


@pytest.fixture(scope="module")
def again() -> list[str]:
    """Return the names of the trials that were carried out again."""
    return []


@pytest.fixture(scope="module")
def result_of(request: pytest.FixtureRequest) -> Iterator[Callable[[Trial], Result]]:
    """Return what waits for a trial; all that were selected run beside each other."""
    calls = [getattr(item, "callspec", None) for item in request.session.items]
    wanted = [call.params["trial"] for call in calls if call is not None and "trial" in call.params]
    with all_carried_out(wanted) as results:
        yield lambda trial: results[trial].result(timeout=120)


_LONG = pytest.mark.long("other damage, or another truth; each fault is in make test with one of each")


def _is_short(trial: Trial) -> bool:
    """Return whether a trial is the one of its fault that make test has: good and slow kernels take turns."""
    truths = trial.fault.truths
    return trial.seed == 1 and trial.truth is truths[FAULTS.index(trial.fault) % len(truths)]


@pytest.mark.parametrize(
    "trial", [pytest.param(one, id=one.name, marks=() if _is_short(one) else (_LONG,)) for one in trials()]
)
def test_the_verdict_is_right(trial: Trial, result_of: Callable[[Trial], Result], again: list[str]) -> None:
    result = result_of(trial)
    if result.judgement is Judgement.LOST:
        # A measurement of a second beside hundreds of others: a busy machine can spoil it too, and it is rightly
        # refused. What the line did is repeated exactly.
        again.append(f"{trial.name}: {result}")
        assert len(again) <= MOST_AGAIN, "\n".join(again)
        with Stage.make() as stage:
            result = carried_out(trial, stage)
    assert result.judgement is Judgement.RIGHT, str(result)
