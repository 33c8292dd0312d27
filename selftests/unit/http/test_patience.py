# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.http.patience import NotNow, Patience


class Forge:
    """Answers after some attempts; time passes only while somebody waits for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *troubles: Exception) -> None:
        self.troubles = list(troubles)
        self.now = 0.0
        self.waits: list[float] = []
        self.said: list[str] = []
        monkeypatch.setattr("rtgate.durations.time.monotonic", lambda: self.now)
        monkeypatch.setattr("rtgate.http.patience.time.sleep", self.wait)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.waits.append(seconds)

    def attempt(self) -> str:
        if self.troubles:
            raise self.troubles.pop(0)
        return "answer"

    def repeat(self, **patience: float) -> str:
        return Patience(**patience).repeat(self.attempt, "the forge", self.said.append)


def test_an_answer_at_once_is_not_talked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    forge = Forge(monkeypatch)
    assert forge.repeat() == "answer"
    assert (forge.waits, forge.said) == ([], [])


def test_waits_grow_to_a_limit_and_the_outage_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    forge = Forge(monkeypatch, *[NotNow("the forge sleeps")] * 5)
    assert forge.repeat(first=1.0, longest=4.0) == "answer"
    for wait, middle in zip(forge.waits, (1, 2, 4, 4, 4), strict=True):
        assert 0.8 * middle <= wait <= 1.2 * middle
    assert forge.said == ["the forge sleeps; trying again, for 600 s at most", "the forge answers again"]


def test_a_forge_says_how_long_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    forge = Forge(monkeypatch, NotNow("too many", after=77.0), NotNow("too many", after=0.1))
    assert forge.repeat() == "answer"
    assert forge.waits[0] == 77.0
    assert forge.waits[1] > 0.4  # never sooner than we would


def test_more_than_the_patience_is_not_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    forge = Forge(monkeypatch, NotNow("too many", after=3600.0))
    with pytest.raises(InfrastructureError, match=r"^too many; it asks to wait for 3600 s; rtgate tries for 600 s$"):
        forge.repeat()
    assert not forge.waits


def test_patience_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    forge = Forge(monkeypatch, *[NotNow("the forge sleeps")] * 1000)
    with pytest.raises(InfrastructureError, match=r"^the forge sleeps; rtgate tries for 100 s$") as error:
        forge.repeat(total=100.0)
    assert not isinstance(error.value, NotNow)
    assert 60 < forge.now <= 100


def test_a_refusal_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    forge = Forge(monkeypatch, ConfigError("no"))
    with pytest.raises(ConfigError):
        forge.repeat()
    assert not forge.waits
