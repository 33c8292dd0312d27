# SPDX-License-Identifier: MIT
"""Verdicts: status, kind and one sentence about a measurement or a case; and what they come to together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from rtgate.records.codec import decode, encode, require_keys
from rtgate.units import Quantity, Unit


class Status(Enum):
    """KCIDB's statuses, worst first, with the person who must act."""

    FAIL = "FAIL"  # the kernel failed
    ERROR = "ERROR"  # our test failed, or the measurement was invalid
    MISS = "MISS"  # the lab failed, or nothing reported
    PASS = "PASS"  # judged good  # noqa: S105
    DONE = "DONE"  # measured, not judged
    SKIP = "SKIP"  # not applicable

    @property
    def rank(self) -> int:
        """Return the priority, 0 for the worst."""
        return list(Status).index(self)


class Kind(Enum):
    """What a verdict is about."""

    LIMIT = "limit"
    GUARANTEE = "guarantee"  # what every kernel must keep, without a limit in a file
    SHARE = "tail limit"
    REGRESSION = "regression"
    NO_WORSE = "no worse"  # in a comparison with the baseline
    SLOWER = "slower, below what blocks"  # for certain, and by more than harmless changes showed
    NOT_SUSPICIOUS = "not suspicious"  # against the history; weaker than no worse
    NOT_EXERCISED = "not exercised"  # nothing of what differs ran while measuring
    NOT_COMPARED = "not proven"  # both kernels were measured, and nothing may be said of the difference
    INCONCLUSIVE = "inconclusive"
    FAULT = "kernel fault"
    FLAVOUR = "flavour"
    MERGE = "merge"  # into the target branch
    BUILD = "build"
    BOOT = "boot"
    HANG = "hang"
    VALIDITY = "validity"
    OUTPUT = "tool output"
    LAB = "lab"
    MISSING = "missing"
    NOT_APPLIED = "limit not applied"  # it is there, and for other options, other kernels, or another clock
    UNJUDGED = "not judged"
    WAIVED = "waived"  # it failed, and somebody answers for it


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a verdict, as it stands in verdict.json.

    Attributes:
        number: as it was judged; None for an infinite ratio, which JSON does not have, and without a unit.
        unit: None where none is known, as of a bound of a board's file that nothing was measured for.
        text: what people read.
    """

    number: float | None
    unit: Unit | None
    text: str

    def __post_init__(self) -> None:
        if self.number is not None and self.unit is None:
            raise ValueError(f"{self.number:g} has no unit")

    @classmethod
    def of(cls, quantity: Quantity | None, text: str) -> Figure:
        """Return a quantity as a figure."""
        if quantity is None:
            return cls(None, None, text)
        return cls(quantity.value if math.isfinite(quantity.value) else None, quantity.unit, text)

    @property
    def quantity(self) -> Quantity | None:
        """The number with its unit; None without one of both."""
        return None if self.number is None or self.unit is None else Quantity(self.number, self.unit)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one look at a case found.

    Attributes:
        sentence: what, how much, the limit, where the limit comes from: fit for a report's headline.
        cause: where the instructions of a regression went, by function; empty where nobody traced it.
        value: the figure that decided; None without one.
        limit: the limit; None without one.
        baseline: what `value` was with the baseline; None where nothing was compared.
        change: from `baseline` to `value`, as the comparison estimates it: not the quotient of both medians.
        boot: the boot that decided, as people name it; empty when all did.
        ruled_out: which changes the boots rule out at 95 %: figure, change, value, unit.
        detectable: which changes these boots would have found: change, from (a share; None for none tried), chance.
        not_looked_at: what no case of the run looks at.
    """

    status: Status
    kind: Kind
    sentence: str
    cause: str = ""
    measurement: str = ""
    value: Figure | None = None
    limit: Figure | None = None
    baseline: Figure | None = None
    change: Figure | None = None
    source: str = ""
    boot: str = ""
    ruled_out: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    detectable: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    not_looked_at: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(Finding):
    """A finding, and of which case it is."""

    board: str
    arm: str
    flavour: str
    case: str

    @classmethod
    def of(cls, finding: Finding, *, board: str, arm: str, flavour: str, case: str) -> Verdict:
        """Return the verdict that a finding is of a case."""
        values = {field.name: getattr(finding, field.name) for field in fields(Finding)}
        return cls(**values, board=board, arm=arm, flavour=flavour, case=case)

    @property
    def full_sentence(self) -> str:
        """The sentence with the cause, for lists that say everything in one place."""
        return f"{self.sentence}; {self.cause}" if self.cause else self.sentence

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as it stands in verdict.json."""
        return dict(encode(self))

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Verdict:
        """Return the verdict of an entry of verdict.json. Raises KeyError, TypeError or ValueError."""
        require_keys(data, cls)
        return decode(data, cls)


def worst(verdicts: Iterable[Verdict]) -> Status:
    """Return the status that stands for all of them; MISS for none, because silence is never green."""
    return min((verdict.status for verdict in verdicts), key=lambda status: status.rank, default=Status.MISS)


_OPEN = frozenset({Kind.INCONCLUSIVE, Kind.NOT_EXERCISED, Kind.NOT_APPLIED})
_COMPARISONS = frozenset({Kind.NO_WORSE, Kind.SLOWER, Kind.NOT_COMPARED})


def is_unproven(verdict: Verdict) -> bool:
    """Return whether a comparison found nothing to block, and could not prove that there is nothing."""
    return verdict.kind in _COMPARISONS and verdict.status is Status.DONE


def is_open(verdict: Verdict) -> bool:
    """Return whether a verdict leaves a question open, with which a run does not end with exit code 0 by itself."""
    return verdict.kind in _OPEN or is_unproven(verdict)


def _is_unjudged(verdict: Verdict) -> bool:
    return verdict.kind is Kind.NOT_APPLIED or is_unproven(verdict)


def exit_code(verdicts: Iterable[Verdict], *, allow_unjudged: bool = False) -> int:
    """Return rtgate's exit code: 1 FAIL, 4 ERROR, 3 MISS, 5 inconclusive or nothing judged, 0 otherwise.

    A guarantee that was kept does not make up for a case that was skipped or that nothing was judged in, nor a limit
    that was kept for one that was not applied, or for a comparison that came to nothing.
    """
    all_verdicts = list(verdicts)
    statuses = {verdict.status for verdict in all_verdicts}
    for status, code in ((Status.FAIL, 1), (Status.ERROR, 4), (Status.MISS, 3)):
        if status in statuses:
            return code
    if not all_verdicts:
        return 3
    if any(is_open(verdict) and not (allow_unjudged and _is_unjudged(verdict)) for verdict in all_verdicts):
        return 5
    kinds = {verdict.kind for verdict in all_verdicts if verdict.status is Status.PASS or verdict.kind is Kind.WAIVED}
    if (not kinds or (kinds == {Kind.GUARANTEE} and statuses & {Status.DONE, Status.SKIP})) and not allow_unjudged:
        return 5
    return 0
