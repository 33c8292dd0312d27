# SPDX-License-Identifier: MIT
"""What a whole run came to, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from rtgate.judge.verdict import Figure, Kind, Status, Verdict, is_open, is_unproven
from rtgate.report.answers import lead
from rtgate.report.cases import CaseReport
from rtgate.report.text import plain_text

_OUTCOMES = {
    1: (Status.FAIL, "the kernel failed"),
    2: (Status.ERROR, "wrong usage or configuration"),
    3: (Status.MISS, "the lab failed, or something was not measured"),
    4: (Status.ERROR, "a measurement was invalid, or output could not be read"),
    130: (Status.MISS, "interrupted"),
}
_OPEN = {
    Kind.INCONCLUSIVE: "inconclusive: not enough samples to decide",
    Kind.NOT_APPLIED: "a limit was not applied: it is for other options, kernels, or another clock",
    Kind.NOT_EXERCISED: "what differs between the kernels did not run here: boards must say",
}

_KERNEL_ACTS = "whoever changed the kernel must act"
_LAB_ACTS = "whoever runs the lab must act: mend what failed, then measure again"
_BASELINE_ACTS = "whoever looks after the baseline must act: it fails by itself"
_ACTIONS = {
    1: _KERNEL_ACTS,
    2: "whoever started it must act",
    4: "whoever looks after boards and tests must act: mend what makes it invalid, then measure again",
    130: "start it again",
}
_OPEN_ACTIONS = {
    Kind.INCONCLUSIVE: "measure more boots, or for longer (the sentences say how much it takes)",
    Kind.NOT_EXERCISED: "measure on a board",
}
_UNPROVEN_ACTION = "whoever looks after boards and placebos.yaml must act (the sentences say what a comparison lacks)"
_UNJUDGED_ACTION = "whoever sets limits must act (`rtgate calibrate` proposes some), or allow it with --allow-unjudged"

_LIMITS = frozenset({Kind.LIMIT, Kind.SHARE, Kind.GUARANTEE})
_DEATHS = {
    Kind.MERGE: "does not merge into its target branch",
    Kind.BUILD: "cannot be built",
    Kind.BOOT: "does not boot",
    Kind.FAULT: "reports a fault of its own",
    Kind.HANG: "hangs",
    Kind.FLAVOUR: "lost its flavour",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run came to.

    Attributes:
        meaning: in words.
        numbers: what decided, with its figures and its case; empty where everything is well.
        cause: where the instructions of a regression went; empty where nobody traced one.
        counts: how many cases have which status, with the exit code.
        action: who must act now, and how; empty where nobody must.
    """

    status: Status
    meaning: str
    numbers: str
    cause: str
    counts: str
    action: str


def outcome(found: Sequence[CaseReport], exit_code: int) -> Outcome:
    """Return what the cases of a run came to."""
    status, meaning = _meaning(found, exit_code)
    counts = [f"{count} {one.value}" for one in Status if (count := sum(case.status is one for case in found))]
    return Outcome(
        status=status,
        meaning=meaning,
        numbers=_numbers(found, status),
        cause=next((plain_text(one.cause) for case in found for one in case.causes if one.cause), ""),
        counts=f"{', '.join(counts) or 'no case'}; exit code {exit_code}",
        action=_action([verdict for case in found for verdict in case.verdicts], exit_code),
    )


def _action(verdicts: Sequence[Verdict], exit_code: int) -> str:
    if exit_code == 3:
        missed = {verdict.kind for verdict in verdicts if verdict.status is Status.MISS}
        return _BASELINE_ACTS if missed and missed <= _DEATHS.keys() else _LAB_ACTS
    if exit_code == 5:
        kinds = {verdict.kind for verdict in verdicts}
        named = [action for kind, action in _OPEN_ACTIONS.items() if kind in kinds]
        named += [_UNPROVEN_ACTION] if any(map(is_unproven, verdicts)) else []
        return "; ".join(named) or _UNJUDGED_ACTION
    return _ACTIONS.get(exit_code, "")


def _numbers(found: Sequence[CaseReport], status: Status) -> str:
    """Return what decided, of one case: of that which was traced, or of the first one; no more than two statements."""
    if status is Status.PASS:
        return ""
    deciding = [
        (case, [one for one in case.causes if one.status is status and (status is not Status.DONE or is_open(one))])
        for case in found
    ]
    # What was traced says most; what does not decide, more than what could not be proven.
    deciding.sort(
        key=lambda pair: (not any(one.cause for one in pair[1]), not any(one.kind in _OPEN for one in pair[1]))
    )
    case, verdicts = next(((case, verdicts) for case, verdicts in deciding if verdicts), (None, []))
    if case is None:
        return ""
    compared = [one for one in verdicts if one.kind is Kind.REGRESSION]
    others = sorted((one for one in verdicts if one not in compared), key=lambda one: one.kind not in _OPEN)
    told = ", and ".join(_short(one) for one in (*others[:1], *compared[:1]))
    where = " on ".join(part for part in (case.case, case.board) if part)
    return f"{told} ({where})" if where else told


def _short(verdict: Verdict) -> str:
    """Return a verdict with its figures alone, or the first statement of its sentence."""
    value, limit, baseline = (_brief(figure) for figure in (verdict.value, verdict.limit, verdict.baseline))
    if verdict.kind is Kind.REGRESSION and value and baseline:
        return f"{verdict.measurement} {verdict.change or ''}".rstrip() + f" from {baseline} to {value}"
    if verdict.kind is Kind.LIMIT and value and limit:
        return f"{verdict.measurement} {value}, limit {limit}"
    return lead(plain_text(verdict.sentence).partition("\n")[0])[0]


def _brief(figure: Figure | None) -> str:
    """Return a figure without its instructions."""
    return str(figure or "").partition(" (")[0]


def _failure(kinds: AbstractSet[Kind]) -> str:
    """Return what a kernel failed by: what kills it says more than figures, and a limit more than a comparison."""
    if kinds == {Kind.REGRESSION}:
        return "the kernel became worse than the baseline; it keeps every limit"
    if kinds and kinds <= {*_LIMITS, Kind.REGRESSION}:
        return f"the kernel breaks a limit{', and became worse than the baseline' if Kind.REGRESSION in kinds else ''}"
    named = [meaning for kind, meaning in _DEATHS.items() if kind in kinds]
    return f"the kernel {' and '.join(named) or 'failed'}"


def _open(kinds: AbstractSet[Kind], unproven: str) -> str:
    found = [meaning for kind, meaning in _OPEN.items() if kind in kinds]
    return next(
        iter(found), unproven or f"{'only guarantees were' if Kind.GUARANTEE in kinds else 'nothing was'} judged"
    )


def _unproven(verdicts: Sequence[Verdict]) -> str:
    """Return what could not be proven of a comparison, beside limits if any was judged; empty if all could."""
    if not any(map(is_unproven, verdicts)):
        return ""
    kept = any(verdict.status is Status.PASS and verdict.kind in _LIMITS for verdict in verdicts)
    return f"{'the limits are kept; ' if kept else ''}whether the kernel became worse is not proven"


def _success(kinds: AbstractSet[Kind]) -> str:
    if Kind.WAIVED in kinds:
        return "nothing fails that is not waived"
    if Kind.SLOWER in kinds:
        return "every limit was kept; the kernel is slower for certain, by less than what blocks"
    return f"every limit was kept{', and the kernel is no worse than the baseline' if Kind.NO_WORSE in kinds else ''}"


def _meaning(found: Sequence[CaseReport], exit_code: int) -> tuple[Status, str]:
    verdicts = [verdict for case in found for verdict in case.verdicts]
    kinds = {verdict.kind for verdict in verdicts}
    unproven = _unproven(verdicts)
    if exit_code == 0 and unproven:
        return Status.DONE, f"{unproven}, as asked"
    if exit_code == 0 and not any(case.status is Status.PASS for case in found) and Kind.WAIVED not in kinds:
        return Status.DONE, "measured, nothing was judged, as asked"
    if exit_code == 0:
        return Status.PASS, _success(kinds)
    if exit_code == 1:
        return Status.FAIL, _failure({verdict.kind for verdict in verdicts if verdict.status is Status.FAIL})
    if exit_code == 5:
        return Status.DONE, _open(kinds, unproven)
    return _OUTCOMES.get(exit_code, (Status.ERROR, "rtgate itself failed"))
