# SPDX-License-Identifier: MIT
"""Which limits of a case hold for boots: those of the same options of tool and load, and of the same kernels.

A count of a whole run, such as a least number of inversions, also of the same length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rtgate.judge.thresholds import LimitKind, Threshold
from rtgate.records.record import Record
from rtgate.tools.case_name import CaseName
from rtgate.tools.registry import without_own
from rtgate.units import Quantity


@dataclass(frozen=True, slots=True)
class Applicable:
    """The limits of a case, as they hold for some boots.

    Attributes:
        limits: those that hold. Policies on kernel faults hold for all options and kernels.
        left_out: a sentence for each reason why limits that one would expect do not hold.
    """

    limits: tuple[Threshold, ...]
    left_out: tuple[str, ...] = ()


def applicable(limits: Sequence[Threshold], records: Sequence[Record]) -> Applicable:
    """Return which limits of a case hold for its records.

    The options are those of the boots that measured, if there are any: a record that somebody else made, of a boot
    that died, says less of them. Limits for other kernels are left out without a word where what they are of has a
    limit for these, and so are those for the tool's own options. Limits for another profile are left out where any is
    for these options: nobody who measures with one profile expects another's.
    """
    measured = [record for record in records if record.has_results] or records
    same = [limit for limit in limits if limit.kind is LimitKind.FAULT or _has_options(limit, measured)]
    whole = [limit for limit in same if _has_length(limit, measured)]
    matches = tuple(limit for limit in whole if limit.kernels.covers(record.release for record in records))
    subjects = {_subject(limit) for limit in matches}
    old = [limit for limit in whole if limit not in matches and _subject(limit) not in subjects]
    left_out = (
        *_of_other_options(_missed(limits, same), measured),
        *_of_other_lengths([limit for limit in same if limit not in whole], measured),
        *_of_other_kernels(old, records),
    )
    return Applicable(matches, left_out)


def options_of(record: Record) -> Mapping[str, bool | int | str]:
    """Return the options of a record's tool and load that are not their own ones, by name.

    Records of before 0.2 also have those of a profile that says what the tool does without them.
    """
    return without_own(CaseName.parse(record.case).tool, record.evidence.expectation.options)


def _subject(limit: Threshold) -> tuple[str, LimitKind, str, Quantity | None]:
    """Return what a limit is of: a share over one level says nothing of that over another."""
    return limit.name, limit.kind, limit.cpu_class, limit.over


def _has_options(limit: Threshold, records: Sequence[Record]) -> bool:
    return all(limit.options == options_of(record) for record in records)


def _missed(limits: Sequence[Threshold], same: Sequence[Threshold]) -> list[Threshold]:
    """Return the limits for other options that one would expect to hold, beside those for these options, `same`."""
    subjects = {_subject(limit) for limit in same if limit.kind is not LimitKind.FAULT}
    others = [limit for limit in limits if limit not in same]
    return [limit for limit in others if not limit.options and _subject(limit) not in subjects] if subjects else others


def _has_length(limit: Threshold, records: Sequence[Record]) -> bool:
    """Return whether boots measured for as long as a limit needs."""
    return all(limit.fits_length(record.evidence.expectation.duration_s) for record in records)


_OWN = "the tool's own options"


def _of_other_options(limits: Sequence[Threshold], records: Sequence[Record]) -> Iterator[str]:
    if not limits:
        return
    profiles = dict.fromkeys(f"those of the profile {limit.profile}" if limit.profile else _OWN for limit in limits)
    options = dict.fromkeys(_format_options(options_of(record)) for record in records)
    number = "1 limit is" if len(limits) == 1 else f"{len(limits)} limits are"
    yield f"{number} for {', and for '.join(profiles)} ({limits[0].origin}); measured with {'; '.join(options)}"


def _format_options(options: Mapping[str, bool | int | str]) -> str:
    """Return options as people read them."""
    return ", ".join(f"{name} {value}" for name, value in options.items()) or _OWN


def _of_other_kernels(limits: Sequence[Threshold], records: Sequence[Record]) -> Iterator[str]:
    kernels = ", ".join(dict.fromkeys(text for record in records if (text := record.release))) or "unknown"
    for limit in limits:
        name = f"{limit.name} over {limit.over}" if limit.over else limit.name
        scope = f"the limit of {name} is for kernels {limit.kernels}"
        yield f"{scope}, not {kernels} ({limit.origin})"


def _of_other_lengths(limits: Sequence[Threshold], records: Sequence[Record]) -> Iterator[str]:
    lengths = ", ".join(dict.fromkeys(f"{record.evidence.expectation.duration_s:g} s" for record in records))
    for limit in limits:
        yield f"the limit of {limit.name} is for runs of {limit.duration_s:g} s, not {lengths} ({limit.origin})"
