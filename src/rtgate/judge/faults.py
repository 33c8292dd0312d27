# SPDX-License-Identifier: MIT
"""Kernel faults in boots that measured, and deaths: whose they are, and whether the baseline has them too.

Several measurements of one boot read the same kernel log. A fault in it belongs to the first of them that saw it: it
happened during that one, or before, and is nobody else's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rtgate.board.boot import State, TimeBase
from rtgate.console import traces
from rtgate.console.faults import OF_TIME, Fault, FaultKind
from rtgate.judge.verdict import Finding, Kind, Status
from rtgate.records.record import Record
from rtgate.validity import readings

# Records of boots that died are judged by their death, and not by each fault.
_DIED = frozenset({State.NO_BOOT, State.FAULT})
# Such a boot may have died in the same way, had it come to the tool.
_NOT_RUN = frozenset({State.SKIPPED, State.LOST, State.LAB})
_NUMBERS = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|[0-9]+")


_MOST_TIMES = 10
"""A fault that counts errors is pre-existing up to so many times what the baseline's worst boot has.

Boots of one kernel on a marginal link differ, and nobody has measured by how much.
"""


@dataclass(frozen=True, slots=True)
class Signature:
    """What faults of two boots have in common: the line without addresses, numbers and times, and the place."""

    kind: FaultKind
    line: str
    place: tuple[str, ...]

    @classmethod
    def of(cls, fault: Fault) -> Signature:
        """Return the signature of a fault."""
        place = traces.place(fault)
        # Which types of counted errors come together in a boot is chance.
        line = place[0] if fault.kind is FaultKind.AER else fault.line
        return cls(fault.kind, _NUMBERS.sub("#", line), place)


def findings(
    records: Sequence[Record], baseline: Sequence[Record], beside: Sequence[Record], policy: Mapping[str, bool]
) -> Iterator[Finding]:
    """Yield a finding for each fault in boots that measured all the same, alike ones once.

    Args:
        records: the boots of one case on one arm.
        baseline: those of the other arm.
        beside: records of other cases that are judged with this one, perhaps of the same boots.
        policy: whether a kind of fault fails, where thresholds.yaml says so.
    """
    signatures: set[Signature] = set()
    here, there = _Arm.of(records), _Arm.of(baseline)
    for record in records:
        if record.state in _DIED:
            continue
        for fault in record.faults:
            signature = Signature.of(fault)
            if signature in signatures or _seen_before(fault, record, beside):
                continue
            signatures.add(signature)
            why = _excuse(fault, record, policy, preexisting=_is_preexisting(signature, here, there))
            remarks = [*_moment(fault, record), *([why] if why else _unlike(signature, here, there))]
            sentence = f"{record.boot}: {fault.kind}: {fault.line}" + (f" ({'; '.join(remarks)})" if remarks else "")
            yield Finding(
                status=Status.DONE if why else Status.FAIL, kind=Kind.FAULT, sentence=sentence, boot=record.boot
            )


def died_before(record: Record, records: Sequence[Record], baseline: Sequence[Record]) -> bool:
    """Return whether the baseline dies like this boot, and no less often. A death without a place is like no other."""
    if not any(Signature.of(fault).place for fault in record.faults):
        return False
    mine = [_death(boot) == _death(record) for boot in records if _ran(boot)]
    theirs = [_death(boot) == _death(record) for boot in baseline if _ran(boot)]
    return sum(theirs) * len(mine) >= sum(mine) * len(theirs) > 0


def _ran(record: Record) -> bool:
    """Return whether a boot shows if its kernel dies: it ran the tool, and it died, hung, or its log was read."""
    return record.state not in _NOT_RUN and (record.state in {*_DIED, State.HANG} or _log_was_read(record))


def _log_was_read(record: Record) -> bool:
    """Return whether faults of a boot would have been seen."""
    return bool(record.evidence.log or record.faults)


def _death(record: Record) -> tuple[str, frozenset[Signature]]:
    """Return how a boot ended: its state and its faults, so that two boots that died alike are alike."""
    return (record.state, frozenset(Signature.of(fault) for fault in record.faults))


@dataclass(frozen=True, slots=True)
class _Arm:
    """In which of an arm's boots faults were seen, and how many boots there were whose faults would have been seen.

    Attributes:
        errors: the most that one of these boots counts, by type.
    """

    seen: Mapping[Signature, Collection[object]]
    errors: Mapping[Signature, Mapping[str, int]]
    boots: int

    @classmethod
    def of(cls, records: Sequence[Record]) -> _Arm:
        boots: set[object] = set()
        boots_by_signature: dict[Signature, set[object]] = {}
        errors: dict[Signature, dict[str, int]] = {}
        for number, record in enumerate(records):
            # A boot that nobody can name is one of its own.
            boot = (record.seed, record.boot_id or number)
            if _log_was_read(record):
                boots.add(boot)
            for fault in record.faults:
                signature = Signature.of(fault)
                boots_by_signature.setdefault(signature, set()).add(boot)
                most = errors.setdefault(signature, {})
                most.update({kind: max(number, most.get(kind, 0)) for kind, number in traces.counts(fault).items()})
        return cls(boots_by_signature, errors, len(boots))

    def count(self, signature: Signature) -> int:
        return len(self.seen.get(signature, ()))


def _is_preexisting(signature: Signature, mine: _Arm, theirs: _Arm) -> bool:
    """Return whether the baseline shows a fault in no smaller a share of its boots; one without a place it does not."""
    share = theirs.count(signature) * mine.boots
    is_as_frequent = share >= mine.count(signature) * theirs.boots > 0
    return bool(signature.place) and is_as_frequent and not _more_errors(signature, mine, theirs)


def _more_errors(signature: Signature, mine: _Arm, theirs: _Arm) -> list[str]:
    """Return of which types an arm counts more errors than the other one's excuse: numbers of both, for people."""
    other = theirs.errors.get(signature, {})
    return [
        f"{other.get(kind, 0)} {kind} at most, and these {number}"
        for kind, number in mine.errors.get(signature, {}).items()
        if number > _MOST_TIMES * other.get(kind, 0)
    ]


def _unlike(signature: Signature, mine: _Arm, theirs: _Arm) -> list[str]:
    """Return what the baseline's fault lacks to be this one's excuse."""
    if not theirs.count(signature):
        return []
    if not signature.place:
        return ["the baseline shows one with this line, but neither log says where it happened"]
    if more := _more_errors(signature, mine, theirs):
        return [f"the baseline's boots count {', '.join(more)}"]
    less = f"{theirs.count(signature)} of {theirs.boots}, not {mine.count(signature)} of {mine.boots}"
    return [f"the baseline shows it in a smaller share of its boots: {less}"]


def _seen_before(fault: Fault, record: Record, beside: Sequence[Record]) -> bool:
    """Return whether a measurement that began earlier in the same boot has this fault.

    The same words at the same time of one boot are the same fault. Without a time, or without knowing which measurement
    was earlier, each record keeps its fault: one that is told twice is better than one that nobody tells.
    """
    at, start = traces.said_at(fault), readings.began_s(record.evidence.readings)
    if at is None or start is None or not record.boot_id:
        return False
    return any(
        traces.said_at(earlier_fault) == at and earlier_fault.line == fault.line
        for neighbour in beside
        if _earlier(neighbour, record, start)
        for earlier_fault in neighbour.faults
    )


def _earlier(neighbour: Record, record: Record, start: float) -> bool:
    """Return whether another record is of a measurement that began earlier in the same boot, and tells its faults."""
    theirs = readings.began_s(neighbour.evidence.readings)
    same = (neighbour.board, neighbour.arm, neighbour.boot_id) == (record.board, record.arm, record.boot_id)
    return same and neighbour.state not in _DIED and theirs is not None and theirs < start


def _moment(fault: Fault, record: Record) -> list[str]:
    """Return that a fault was said before the measurement began, if it was."""
    at, start = traces.said_at(fault), readings.began_s(record.evidence.readings)
    if at is None or start is None or at >= start:
        return []
    return [f"said {start - at:.1f} s before the measurement began"]


def _excuse(fault: Fault, record: Record, policy: Mapping[str, bool], *, preexisting: bool) -> str:
    if preexisting:
        return "pre-existing: the baseline shows it too"
    if not policy.get(fault.kind, True):
        return "reported only, by thresholds.yaml"
    # The machine below can stop the clock: faults that only measure time prove nothing.
    if record.environment.time == TimeBase.HOST and fault.kind in OF_TIME:
        return "not judged: on a host-time board the host can cause it"
    return ""
