# SPDX-License-Identifier: MIT
"""`waivers.yaml`: failures that somebody answers for, until a date and up to a value.

A waived failure blocks nothing and stays visible. One whose waiver has expired, or that is worse than the waiver
allows, fails as any other.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtgate import site
from rtgate.errors import Location
from rtgate.judge.thresholds import known_case
from rtgate.judge.verdict import Kind, Status, Verdict, is_open
from rtgate.kernel.version import VersionRange
from rtgate.records.longer_sections import LENGTHS, RAWLOCK, SECTION_MEASUREMENTS
from rtgate.records.record import Record
from rtgate.strict_yaml import Mapping, Value, load
from rtgate.tools.registry import reports
from rtgate.units import Quantity

FILE = "waivers.yaml"
_WAIVABLE = frozenset({Kind.LIMIT, Kind.SHARE, Kind.REGRESSION})
"""What has a value to hold against the largest one allowed; a kernel that dies is nobody's to waive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """One entry.

    Attributes:
        measurement: as thresholds.yaml names it; empty for every figure of the case.
        kernels: versions that it is for.
        largest: what the figure may reach.
        owner: who answers for it.
        expires: the last day on which it holds.
    """

    board: str
    case: str
    largest: Quantity
    owner: str
    reason: str
    link: str
    expires: datetime.date
    location: Location
    measurement: str = ""
    kernels: VersionRange = field(default_factory=VersionRange)

    def is_about(self, verdict: Verdict, records: Iterable[Record]) -> bool:
        """Return whether a verdict is what the waiver speaks of; the records say of which kernel it is."""
        family = verdict.measurement.replace(" ", ".").partition(".")[0]
        # Who answers for a sampled latency does not answer for the one that could be, nor for one function or lock who
        # does for another.
        own = verdict.measurement.partition(" ")[0] in SECTION_MEASUREMENTS
        figures = {"", verdict.measurement, *([] if own else [family])}
        if (verdict.board, verdict.case) != (self.board, self.case) or self.measurement not in figures:
            return False
        place = (verdict.board, verdict.case, verdict.arm)
        return self.kernels.covers(
            record.release for record in records if (record.board, record.case, record.arm) == place
        )

    def allows(self, verdict: Verdict) -> bool:
        """Return whether the figure of a verdict is within the waiver; one without a figure never is.

        Nor is one that failed because it is too small, such as a rate: `largest` does not bound it.
        """
        value = verdict.value.quantity if verdict.value else None
        if value is None or _is_too_small(verdict) or value.unit.dimension != self.largest.unit.dimension:
            return False
        return value.to(self.largest.unit).value <= self.largest.value

    @property
    def origin(self) -> str:
        """Who answers for it, until when, and where it stands."""
        return f"{self.owner}, until {self.expires}, {self.link}; {self.location.path.name}:{self.location.line}"


def load_waivers() -> tuple[Waiver, ...]:
    """Return the waivers of the site or of the kernel repository; none where neither has a file. Raises ConfigError."""
    paths = site.files(FILE)
    return read(paths[0]) if paths else ()


def read(path: Path) -> tuple[Waiver, ...]:
    """Read one waivers.yaml. Raises ConfigError."""
    return tuple(_waiver(item) for item in load(path).items())


_REQUIRED = ("board", "case", "largest", "owner", "reason", "link", "expires")


def _waiver(item: Value) -> Waiver:
    data = item.mapping(_REQUIRED, optional=("measurement", "function", "lock", "kernels"))
    case = data["case"].text()
    known_case(case, data["case"])
    return Waiver(
        board=data["board"].text(site.names("boards")),
        case=case,
        largest=data["largest"].parse(Quantity.parse),
        owner=data["owner"].text(),
        reason=data["reason"].text(),
        link=data["link"].text(),
        expires=_date(data["expires"]),
        location=item.location,
        measurement=_measurement(case, data),
        kernels=data["kernels"].parse(VersionRange.parse) if "kernels" in data else VersionRange(),
    )


def _measurement(case: str, data: Mapping) -> str:
    """Return what a waiver speaks of, as verdicts name it."""
    name = data.text("measurement", "", (*reports(case), *SECTION_MEASUREMENTS))
    function = data.text("function", "")
    if function and name not in LENGTHS:
        data["function"].fail(f"only {', '.join(LENGTHS)} are of a function: leave it away")
    lock = data.text("lock", "")
    if lock and name != RAWLOCK:
        data["lock"].fail(f"only {RAWLOCK} is of a lock: leave it away")
    return f"{name} {function}{lock}".strip()


def _date(value: Value) -> datetime.date:
    try:
        return datetime.date.fromisoformat(value.scalar_text())
    except ValueError:
        value.fail(f"{value.scalar_text()!r} is not a date (allowed: YEAR-MONTH-DAY, as 2027-03-31)")


def waive(
    verdicts: Sequence[Verdict], waivers: Sequence[Waiver], today: datetime.date, records: Sequence[Record]
) -> list[Verdict]:
    """Return the verdicts of some cases with what is waived, and why a waiver did not help.

    Args:
        verdicts: all of these cases.
        waivers: of any case.
        today: the day on which they are judged.
        records: what was judged.
    """
    return [_waive(verdict, [w for w in waivers if w.is_about(verdict, records)], today) for verdict in verdicts]


def _waive(verdict: Verdict, waivers: Sequence[Waiver], today: datetime.date) -> Verdict:
    if verdict.status is not Status.FAIL or verdict.kind not in _WAIVABLE or not waivers:
        return verdict
    first, newline, rest = verdict.sentence.partition("\n")
    for waiver in waivers:
        if today <= waiver.expires and waiver.allows(verdict):
            sentence = f"{waiver.reason} ({waiver.origin}): {first}{newline}{rest}"
            return replace(verdict, status=Status.DONE, kind=Kind.WAIVED, sentence=sentence)
    why = "; ".join(_refusal(waiver, verdict, today) for waiver in waivers)
    return replace(verdict, sentence=f"{first}; {why}{newline}{rest}")


def _is_too_small(verdict: Verdict) -> bool:
    """Return whether a figure failed by being below its limit, or below what the baseline had."""
    bound = verdict.baseline if verdict.kind is Kind.REGRESSION else verdict.limit
    if bound is None or bound.quantity is None or verdict.value is None or verdict.value.quantity is None:
        return False
    value, least = verdict.value.quantity, bound.quantity
    return value.unit.dimension == least.unit.dimension and value.to(least.unit).value < least.value


def _refusal(waiver: Waiver, verdict: Verdict, today: datetime.date) -> str:
    if today > waiver.expires:
        return f"its waiver has expired ({waiver.origin})"
    if _is_too_small(verdict):
        return f"its waiver is for figures that are too large, and this one is too small ({waiver.origin})"
    return f"its waiver allows no more than {waiver.largest} ({waiver.origin})"


def waiver_notes(verdicts: Sequence[Verdict], waivers: Iterable[Waiver], records: Sequence[Record]) -> Iterator[str]:
    """Yield what is to be said of waivers of figures that were judged good: somebody can remove them."""
    for waiver in waivers:
        own = [verdict for verdict in verdicts if (verdict.board, verdict.case) == (waiver.board, waiver.case)]
        about = [verdict for verdict in own if waiver.is_about(verdict, records)]
        failed = any(verdict.status is Status.FAIL or verdict.kind is Kind.WAIVED for verdict in own)
        if any(map(_is_good, about)) and not failed and not any(map(_leaves_open, about)):
            yield f"a waiver is no longer needed: {waiver.board} {waiver.case} is good without it ({waiver.origin})"


def _is_good(verdict: Verdict) -> bool:
    """Return whether a verdict is good on what could have been waived, which a guarantee is not."""
    return verdict.status is Status.PASS and verdict.kind is not Kind.GUARANTEE


def _leaves_open(verdict: Verdict) -> bool:
    return verdict.status in {Status.MISS, Status.ERROR} or is_open(verdict)
