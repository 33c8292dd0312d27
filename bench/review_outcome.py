# SPDX-License-Identifier: MIT
"""How a review ended, and whether that is right."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.review_cases import Case

AWAY_S = 120.0
MEASURING = "measuring"
_LIMIT_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a review ended.

    Attributes:
        votes: who voted what.
        problems: what is not as it should be.
    """

    code: int
    note: str
    votes: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def problems_of(case: Case, code: int, note: str) -> list[str]:
    """Return what is wrong with an exit code and an answer, whose lines are folded."""
    text = " ".join(note.split())
    wrong = [f"exit code {code}, not {case.code}"] if code != case.code else []
    return [*wrong, *(f"{word!r} is not in the answer" for word in case.words if word not in text)]


def until(holds: Callable[[], object], what: str) -> None:
    """Wait for something. Raises AssertionError: it does not happen within an hour."""
    limit = time.monotonic() + _LIMIT_S
    while not holds():
        assert time.monotonic() < limit, what
        time.sleep(0.2)


def text_of(path: Path) -> str:
    """Return what a log has so far."""
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
