# SPDX-License-Identifier: MIT
"""Which procedure compares two kernels on a board: screened where the history can screen, else interleaved.

It is decided before anything is measured, from the history alone, so it has no part in the false alarms. In a lab every
device that may get the job must have a history: each is screened by its own sessions, at its own level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rtgate.errors import InfrastructureError
from rtgate.history.database import History
from rtgate.history.screens import Screenable, boots_to_screen
from rtgate.judge.compare.procedures import INTERLEAVED, SCREENED, Procedure
from rtgate.tools.registry import is_compared

SESSIONS = 10  # of each case: with so many the error rates of a screened comparison were simulated (bench/worlds.py)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two kernels that are about to be compared.

    Attributes:
        devices: those that may measure it, as records name them; empty where nobody names devices.
        flavour: the candidate's.
        cases: their names.
        profile: its name.
    """

    board: str
    flavour: str
    cases: Sequence[str]
    profile: str
    devices: Sequence[str] = ("",)


@dataclass(frozen=True, slots=True)
class Choice:
    """A procedure, and why it is that one, in a sentence."""

    procedure: Procedure
    sentence: str


def choose(url: str | None, comparison: Comparison) -> Choice:
    """Return the procedure of a comparison; `url` is that of the history, None for none.

    A history that does not answer is none here: what was measured is judged later, and says so then.

    Raises:
        ConfigError: the URL names no history.
    """
    if url is None:
        return Choice(INTERLEAVED, "interleaved: there is no history (--history)")
    try:
        with History.open(url, create=True) as history:
            return _choose(history, comparison)
    except InfrastructureError as error:
        return Choice(INTERLEAVED, f"interleaved: {error}")


def _choose(history: History, comparison: Comparison) -> Choice:
    fewest: int | None = None
    for device in comparison.devices:
        place = f"{comparison.board} {device}".strip()
        for case in filter(is_compared, comparison.cases):
            screenable = Screenable(
                board=comparison.board,
                device=device,
                flavour=comparison.flavour,
                case=case,
                profile=comparison.profile,
            )
            there = boots_to_screen(history, screenable)
            if there.sessions < SESSIONS:
                shortage = f"has {there.sessions} of the {SESSIONS} sessions that a screen of {case} on {place} needs"
                of = f"good {comparison.flavour} kernels, profile {comparison.profile}"
                return Choice(INTERLEAVED, f"interleaved: the history {history.name} {shortage} ({of})")
            fewest = there.boots if fewest is None else min(fewest, there.boots)
    if fewest is None:
        return Choice(INTERLEAVED, "interleaved: there is nothing to screen")
    return Choice(SCREENED, f"screened against {fewest} boots of {comparison.board} in {history.name}")
