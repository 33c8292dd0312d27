# SPDX-License-Identifier: MIT
"""Which procedure a history allows, before anything is measured."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from selftests.unit.history.conftest import CASE, history, make_good, origin, record, url

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.history.database import History
from rtgate.history.store import add
from rtgate.judge.compare.procedures import INTERLEAVED, SCREENED
from rtgate.workflow.procedure import SESSIONS, Comparison, choose

__all__ = ["history", "url"]

PAIRS = Comparison(board="bench", devices=["bench-01"], flavour="preempt_rt", cases=[CASE], profile="mr")


def _sessions(history: History, count: int, first: int = 0, **changes: str) -> None:
    for number in range(first, first + count):
        made = [record(10 * number + boot, scale=1.0, **changes) for boot in (1, 2)]
        add(history, made, origin(f"night-{number}"))
        make_good(history, made)


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the URL of a history of enough sessions, which no test changes."""
    url = f"sqlite:///{tmp_path_factory.mktemp('nights')}/history.db"
    with History.open(url, create=True) as opened:
        _sessions(opened, SESSIONS)
    return url


def test_no_history_is_interleaved() -> None:
    assert choose(None, PAIRS).procedure is INTERLEAVED
    assert choose(None, PAIRS).sentence == "interleaved: there is no history (--history)"


def test_enough_sessions_of_every_case_are_screened(nights: str) -> None:
    choice = choose(nights, PAIRS)
    assert choice.procedure is SCREENED
    assert choice.sentence == f"screened against 20 boots of bench in {nights}"


def test_one_session_less_is_interleaved(history: History, url: str) -> None:
    _sessions(history, SESSIONS - 1)
    choice = choose(url, PAIRS)
    assert choice.procedure is INTERLEAVED
    assert choice.sentence == (
        f"interleaved: the history {url} has 9 of the 10 sessions that a screen of {CASE} on bench bench-01 needs "
        "(good preempt_rt kernels, profile mr)"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"cases": [CASE, "latency/cyclictest:hackbench"]},
        {"devices": ["bench-01", "bench-02"]},
        {"devices": [""]},
        {"flavour": "xenomai"},
        {"profile": "nightly"},
        {"board": "other"},
        {"cases": []},
        {"devices": []},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_any_case_or_device_lacks_is_interleaved(nights: str, changes: dict[str, object]) -> None:
    assert choose(nights, PAIRS).procedure is SCREENED
    assert choose(nights, Comparison(**{**_fields(PAIRS), **changes})).procedure is INTERLEAVED  # type: ignore[arg-type]


def _fields(comparison: Comparison) -> dict[str, object]:
    return {name: getattr(comparison, name) for name in Comparison.__slots__}


def test_any_device_may_get_the_job_where_each_has_a_history(nights: str, tmp_path: Path) -> None:
    url = f"sqlite:///{shutil.copy(nights.removeprefix('sqlite:///'), tmp_path)}"
    with History.open(url) as opened:
        _sessions(opened, SESSIONS, first=SESSIONS, device="bench-02")
    both = Comparison(**{**_fields(PAIRS), "devices": ["bench-02", "bench-01"]})  # type: ignore[arg-type]
    choice = choose(url, both)
    assert choice.procedure is SCREENED
    assert choice.sentence == f"screened against 20 boots of bench in {url}"


def test_a_new_environment_begins_anew(nights: str, tmp_path: Path) -> None:
    url = f"sqlite:///{shutil.copy(nights.removeprefix('sqlite:///'), tmp_path)}"
    with History.open(url) as opened:
        _sessions(opened, 1, first=SESSIONS, firmware="newer")
    assert "has 1 of the 10 sessions" in choose(url, PAIRS).sentence


def test_boots_of_kernels_that_nobody_promoted_do_not_count(history: History, url: str) -> None:
    add(history, [record(number) for number in (1, 2)], origin("night"))
    assert "has 0 of the 10 sessions" in choose(url, PAIRS).sentence


def test_a_history_that_does_not_answer_is_interleaved(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise InfrastructureError("the history at db.example.org does not answer")

    monkeypatch.setattr(History, "open", refuses)
    choice = choose("postgresql+psycopg://db.example.org/history", PAIRS)
    assert choice.procedure is INTERLEAVED
    assert choice.sentence == "interleaved: the history at db.example.org does not answer"


def test_a_url_of_nothing_is_a_mistake() -> None:
    with pytest.raises(ConfigError):
        choose("history.db", PAIRS)
