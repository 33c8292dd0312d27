# SPDX-License-Identifier: MIT
"""Verdicts about a job as such, beside those about its cases: whose fault its end was, and kernels that died in it.

A kernel that died in any attempt fails the gate, also if a later attempt booted: LAVA tries a boot again and calls the
job Complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rtgate.board.boot import ArmName, State
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.lava.client.submission import Attempt
from rtgate.lava.job.request import MeasurementRequest
from rtgate.lava.results.classify import Blame, Panic

CASE = "lab/lava:job"

_MEANINGS = {
    Blame.PRODUCT: (Status.FAIL, Kind.BOOT),
    Blame.LAB: (Status.MISS, Kind.LAB),
    Blame.SILENT: (Status.MISS, Kind.LAB),
    Blame.OURS: (Status.ERROR, Kind.OUTPUT),
    Blame.CANCELLED: (Status.MISS, Kind.LAB),
    Blame.QUEUE: (Status.MISS, Kind.LAB),
}
_KINDS: dict[State | None, Kind] = {State.FAULT: Kind.FAULT, State.HANG: Kind.HANG}


def verdicts(order: MeasurementRequest, attempts: Sequence[Attempt]) -> tuple[Verdict, ...]:
    """Return what the jobs say by themselves; nothing for jobs that came to their end."""
    return tuple(_verdicts(order, attempts))


def _verdicts(order: MeasurementRequest, attempts: Sequence[Attempt]) -> Iterator[Verdict]:
    arms = dict(enumerate(order.boots, 1))
    last = attempts[-1]
    origin = last.ending.line, last.job.number
    for attempt in attempts:
        for panic in attempt.ending.panics:
            if attempt.ending.blame is not Blame.PRODUCT or panic.boot != attempt.ending.boot:
                yield _death(order, attempt, panic, arms.get(panic.boot, ""))
    if last.ending.blame in _MEANINGS:
        status, kind = _MEANINGS[last.ending.blame]
        arm = arms.get(last.ending.boot, "")
        if last.ending.blame is Blame.PRODUCT:
            kind = _KINDS.get(last.ending.state, kind)
            status = status if _is_judged(order, arm) else Status.MISS
        count = f" ({len(attempts)} attempts)" if len(attempts) > 1 else ""
        where = f"job {origin[1]}" + (f", log line {origin[0]}" if origin[0] >= 0 else "")
        yield _verdict(order, status, kind, f"{last.ending.full_sentence}{count}; {where}")


def _death(order: MeasurementRequest, attempt: Attempt, panic: Panic, arm: str) -> Verdict:
    sentence = f"boot {panic.boot} of job {attempt.job.number} died in an attempt: {panic.kind}: {panic.line}"
    if _is_judged(order, arm):
        return _verdict(order, Status.FAIL, Kind.FAULT, sentence)
    return _verdict(order, Status.MISS, Kind.FAULT, f"the baseline: {sentence}")


def _is_judged(order: MeasurementRequest, arm: str) -> bool:
    """Return whether an arm is the one that is judged; the only one always is."""
    return arm != ArmName.BASELINE or len(order.kernels) == 1


def _verdict(order: MeasurementRequest, status: Status, kind: Kind, sentence: str) -> Verdict:
    arm = "candidate" if "candidate" in order.kernels else min(order.kernels)
    flavour = order.kernels[arm].flavour
    return Verdict(status=status, kind=kind, sentence=sentence, board=order.board, arm=arm, flavour=flavour, case=CASE)
