# SPDX-License-Identifier: MIT
"""What the history has for the screen of a comparison: sessions of good kernels, and a level that was calibrated."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rtgate.history import encoding
from rtgate.history.baselines import revocations_of
from rtgate.history.database import History
from rtgate.history.pairing import newest, pairs
from rtgate.history.queries import NEWEST, Boot, BootFilter, find, newest_row
from rtgate.history.schema import screens
from rtgate.judge.learn.calibration import FEWEST_SESSIONS
from rtgate.judge.learn.screening import ScreenProposal
from rtgate.records.record import Record

_NO_LEVEL = 0.0  # what is stored where each level flags too many sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Screenable:
    """What is to be screened, as far as it is known before it is measured; `profile` is its name."""

    board: str
    device: str
    flavour: str
    case: str
    profile: str


@dataclass(frozen=True, slots=True)
class ScreenBoots:
    """How many boots there are to screen against, and of how many sessions."""

    boots: int = 0
    sessions: int = 0


def boots_to_screen(history: History, screenable: Screenable) -> ScreenBoots:
    """Return what a screen would find: boots of good kernels, in the environment of the newest one.

    They are those that `pairing.borrow` takes. Whether the environment is still that one shows only when a boot was
    measured; a screen that finds no sessions then finds everything suspicious. Raises InfrastructureError.
    """
    like = BootFilter(
        board=screenable.board,
        device=screenable.device,
        flavour=screenable.flavour,
        case=screenable.case,
        profile=screenable.profile,
        usable=True,
        good_kernels=True,
        newest=1,
    )
    last = find(history, like)
    if not last:
        return ScreenBoots()
    same = BootFilter(
        comparable=last[0].comparable, flavour=screenable.flavour, usable=True, good_kernels=True, newest=NEWEST
    )
    aa_pairs = newest(pairs(find(history, same)))
    return ScreenBoots(boots=2 * len(aa_pairs), sessions=len({first.run for first, _ in aa_pairs}))


def keep(history: History, boots: Sequence[Boot], like: Record, proposal: ScreenProposal, now: datetime) -> None:
    """Store the level that boots proposed for the device, case and environment of one of their records, also none.

    Too few sessions say nothing, and nothing is stored. Raises InfrastructureError.
    """
    if proposal.sessions < FEWEST_SESSIONS:
        return
    row = {
        **encoding.place(like),
        "stored_at": encoding.utc(now),
        "level": proposal.level or _NO_LEVEL,
        "flagged": proposal.flagged,
        "sessions": proposal.sessions,
        "kernels": json.dumps(sorted({boot.kernel for boot in boots})),
    }
    with history.writing() as connection:
        connection.execute(screens.insert(), row)


def level(history: History, like: Record) -> float | None:
    """Return the level that was stored last for a record's device, case and environment; None if that was none.

    One that rests on boots of a kernel that was revoked since is none. Raises InfrastructureError.
    """
    row = newest_row(history, screens, encoding.place(like))
    return None if row is None or revocations_of(history, json.loads(row.kernels)) else row.level or None
