# SPDX-License-Identifier: MIT
"""What a whole run came to, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from rtgate.judge.verdict import Figure, Kind, Status, Verdict, exit_code, is_open, is_unproven
from rtgate.report.answers import lead
from rtgate.report.cases import CaseReport
from rtgate.report.text import plain_text

_OUTCOMES = {
    2: (Status.ERROR, "wrong usage or configuration"),
    3: (Status.MISS, "the lab failed, or something was not measured"),
    4: (Status.ERROR, "a measurement was invalid, or output could not be read"),
    130: (Status.MISS, "interrupted"),
}
_OPEN = {
    Kind.INCONCLUSIVE: "inconclusive: not enough samples to decide",
    Kind.NOT_APPLIED: "a limit was not applied: it is for other options, kernels, or another clock",
    Kind.NOT_EXERCISED: "what differs between the kernels did not run here: other loads or boards must say",
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
    Kind.NOT_EXERCISED: "measure what the sentences name: a load that reaches it, or a board",
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


def outcome(reports: Sequence[CaseReport], code: int) -> Outcome:
    """Return what the cases of a run came to."""
    status, meaning = _meaning(reports, code)
    counts = [
        f"{count} {member.value}" for member in Status if (count := sum(case.status is member for case in reports))
    ]
    return Outcome(
        status=status,
        meaning=meaning,
        numbers=_numbers(reports, status),
        cause=next((plain_text(verdict.cause) for case in reports for verdict in case.causes if verdict.cause), ""),
        counts=f"{', '.join(counts) or 'no case'}; exit code {code}",
        action=_action([verdict for case in reports for verdict in case.verdicts], code),
    )


def _action(verdicts: Sequence[Verdict], code: int) -> str:
    if code == 3:
        miss_kinds = {verdict.kind for verdict in verdicts if verdict.status is Status.MISS}
        return _BASELINE_ACTS if miss_kinds and miss_kinds <= _DEATHS.keys() else _LAB_ACTS
    if code == 5:
        kinds = {verdict.kind for verdict in verdicts}
        actions = [action for kind, action in _OPEN_ACTIONS.items() if kind in kinds]
        actions += [_UNPROVEN_ACTION] if any(map(is_unproven, verdicts)) else []
        return "; ".join(actions) or _UNJUDGED_ACTION
    return _ACTIONS.get(code, "")


def _numbers(reports: Sequence[CaseReport], status: Status) -> str:
    """Return what decided, of one case: of that which was traced, or of the first one; no more than two statements."""
    if status is Status.PASS:
        return ""
    case_verdicts = [
        (
            case,
            [
                verdict
                for verdict in case.causes
                if verdict.status is status and (status is not Status.DONE or is_open(verdict))
            ],
        )
        for case in reports
    ]
    # What was traced says most; what does not decide, more than what could not be proven.
    case_verdicts.sort(
        key=lambda pair: (
            not any(verdict.cause for verdict in pair[1]),
            not any(verdict.kind in _OPEN for verdict in pair[1]),
        )
    )
    case, verdicts = next(((case, verdicts) for case, verdicts in case_verdicts if verdicts), (None, []))
    if case is None:
        return ""
    regressions = [verdict for verdict in verdicts if verdict.kind is Kind.REGRESSION]
    rest = sorted(
        (verdict for verdict in verdicts if verdict not in regressions), key=lambda verdict: verdict.kind not in _OPEN
    )
    text = ", and ".join(_short(verdict) for verdict in (*rest[:1], *regressions[:1]))
    where = " on ".join(part for part in (case.case, case.board) if part)
    return f"{text} ({where})" if where else text


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
    meanings = [meaning for kind, meaning in _DEATHS.items() if kind in kinds]
    return f"the kernel {' and '.join(meanings) or 'failed'}"


def _open(kinds: AbstractSet[Kind], doubt: str) -> str:
    meanings = [meaning for kind, meaning in _OPEN.items() if kind in kinds]
    return next(
        iter(meanings), doubt or f"{'only guarantees were' if Kind.GUARANTEE in kinds else 'nothing was'} judged"
    )


def _unproven(verdicts: Sequence[Verdict]) -> str:
    """Return what could not be proven of a comparison, beside limits if any was judged; empty if all could."""
    if not any(map(is_unproven, verdicts)):
        return ""
    limits_hold = any(verdict.status is Status.PASS and verdict.kind in _LIMITS for verdict in verdicts)
    return f"{'the limits are kept; ' if limits_hold else ''}whether the kernel became worse is not proven"


def _success(kinds: AbstractSet[Kind]) -> str:
    if Kind.WAIVED in kinds:
        return "nothing fails that is not waived"
    if Kind.SLOWER in kinds:
        return "every limit was kept; the kernel is slower for certain, by less than what blocks"
    return f"every limit was kept{', and the kernel is no worse than the baseline' if Kind.NO_WORSE in kinds else ''}"


def _meaning(reports: Sequence[CaseReport], code: int) -> tuple[Status, str]:
    verdicts = [verdict for case in reports for verdict in case.verdicts]
    kinds = {verdict.kind for verdict in verdicts}
    doubt = _unproven(verdicts)
    if code == 0 and exit_code(verdicts) == 5:  # only an allowance makes it 0
        return Status.DONE, f"{_open(kinds, doubt)}, as asked"
    if code == 0:
        return Status.PASS, _success(kinds)
    if code == 1:
        return Status.FAIL, _failure({verdict.kind for verdict in verdicts if verdict.status is Status.FAIL})
    if code == 5:
        return Status.DONE, _open(kinds, doubt)
    return _OUTCOMES.get(code, (Status.ERROR, "rtgate itself failed"))
