# SPDX-License-Identifier: MIT
"""Two stages: what a gate on virtual time says decides what boards in a lab measure, and in which order.

Board time is what a lab has least of. A board measures what that gate flagged, what it could not exercise, and what
is always measured; cases that it found no worse wait for the night.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.tools.case_name import CaseName
from rtgate.tools.registry import is_compared

_DEAD = frozenset({Kind.BOOT, Kind.FAULT, Kind.HANG, Kind.FLAVOUR, Kind.GUARANTEE})


class Reason(Enum):
    """Why a board measures a case, the most urgent first."""

    FLAGGED = "flagged"
    OPEN = "open"
    MINIMUM = "always measured"
    UNSEEN = "not exercised on virtual time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A case for a board.

    Attributes:
        because: what the gate said, in a sentence; empty where it said nothing.
        minutes: of the board, for all boots of both kernels.
        within: whether the budget reaches that far.
    """

    case: str
    reason: Reason
    because: str
    minutes: float
    within: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectableCase:
    """A case that the board could measure, and the board-minutes that it takes."""

    case: str
    minutes: float


def choose(
    verdicts: Sequence[Verdict], cases: Sequence[SelectableCase], minimum: Sequence[str], budget: float
) -> tuple[Choice, ...]:
    """Return what a board measures, in order of urgency.

    Args:
        verdicts: of the gate.
        cases: what the board can measure.
        minimum: cases that it always measures.
        budget: board-minutes; a case that does not fit is left out, and shorter ones after it may still fit.
    """
    order = list(Reason)
    reasons = sorted(_reasons(verdicts, cases, minimum), key=lambda entry: order.index(entry[1]))
    choices = []
    rest = budget
    for case, why, because in reasons:
        within = case.minutes <= rest
        rest -= case.minutes if within else 0.0
        choices.append(Choice(case=case.case, reason=why, because=because, minutes=case.minutes, within=within))
    return tuple(choices)


def fatal_verdicts(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """Return the failures that no board has to confirm: a kernel that dies or breaks a promise does so anywhere."""
    return tuple(verdict for verdict in verdicts if verdict.status is Status.FAIL and verdict.kind in _DEAD)


def _reasons(
    verdicts: Sequence[Verdict], cases: Sequence[SelectableCase], minimum: Sequence[str]
) -> Iterator[tuple[SelectableCase, Reason, str]]:
    by_case: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_case.setdefault(without_tuning(verdict.case), []).append(verdict)
    for case in cases:
        entries = sorted(by_case.get(without_tuning(case.case), []), key=lambda verdict: verdict.status.rank)
        why = _reason(entries)
        if why is not None and why is not Reason.UNSEEN:
            yield case, why, next(verdict.sentence for verdict in entries if _tells(verdict, why))
        elif case.case in minimum:
            yield case, Reason.MINIMUM, ""
        elif why is Reason.UNSEEN:
            yield case, why, next((verdict.sentence for verdict in entries if verdict.kind is Kind.NOT_EXERCISED), "")


def without_tuning(case: str) -> str:
    """Return the name of a case without its tuning, which the gate's board and the lab's need not share."""
    return str(CaseName.parse(case).without_tuning) if case else ""


def _reason(verdicts: Sequence[Verdict]) -> Reason | None:
    """Return why the gate's verdicts ask for a board; None if they do not: good by limits, and no worse."""
    for why in (Reason.FLAGGED, Reason.OPEN):
        if any(_tells(verdict, why) for verdict in verdicts):
            return why
    return None if any(map(_is_good, verdicts)) else Reason.UNSEEN


def _is_good(verdict: Verdict) -> bool:
    of_guarantees = verdict.kind is Kind.GUARANTEE and not is_compared(verdict.case)
    return verdict.status is Status.PASS and (verdict.kind is Kind.NO_WORSE or of_guarantees)


def _tells(verdict: Verdict, why: Reason) -> bool:
    if why is Reason.FLAGGED:
        return verdict.status is Status.FAIL
    return verdict.kind in {Kind.INCONCLUSIVE, Kind.SLOWER} or verdict.status in {Status.ERROR, Status.MISS}
