# SPDX-License-Identifier: MIT
"""From a judged run to a good kernel: the verdict that makes one, and who said so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from rtgate.board.boot import ArmName
from rtgate.errors import ChangedError, ConfigError
from rtgate.history import baselines, queries
from rtgate.history.baselines import Promotion, Revocation, RevocationEffect
from rtgate.history.database import History
from rtgate.history.encoding import key, utc
from rtgate.history.queries import Boot, BootFilter
from rtgate.judge.verdict import Kind, Status, Verdict, exit_code, worst
from rtgate.measure.raw_output import read_verified
from rtgate.records.record import Record
from rtgate.records.seal import check
from rtgate.report.text import plain_text
from rtgate.workflow import pipeline
from rtgate.workflow.verdict_file import read_verdicts


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionResult:
    """What became of a promotion.

    Attributes:
        kernels: those that are good now, each on a board.
        new: those of them that were not before.
        left_out: why it is not good on other boards of the run, a sentence each.
        refusal: why none is; empty if they are.
        exit_code: that of the run's verdict where it is the reason.
    """

    kernels: tuple[Promotion, ...] = ()
    new: tuple[Promotion, ...] = ()
    left_out: tuple[str, ...] = ()
    refusal: str = ""
    exit_code: int = 0


def promote(history: History, name: str, reason: str = "") -> PromotionResult:
    """Make the kernel of a run good on its boards: the candidate, or the only one.

    Without a reason these are the boards whose own verdicts are good: those of another board say nothing of them.

    Args:
        history: which has the run's boots.
        name: the directory of a report, or a run of the history, which has no verdict.
        reason: why the kernel is good although nothing says so; a verdict that fails it counts all the same.

    Raises:
        ConfigError: there is no such run, or no verdict.
        ChangedError: files changed since they were judged.
        TargetError: the kernel was revoked.
        InfrastructureError: the database does not answer.
    """
    reason = _one_line(reason)
    directory = Path(name)
    if not directory.is_dir():
        return _promote_run(history, name, reason)
    if directory.name == "records" and (directory.parent / "verdict.json").exists():
        directory = directory.parent  # a verdict does not go away because its records are named
    verdicts: list[Verdict] | None = None
    if not reason or (directory / "verdict.json").exists():
        verdicts = _verdicts(directory)
        refusal = _refusal(verdicts, reason)
        if refusal:
            return PromotionResult(refusal=f"{directory}: {refusal}", exit_code=_code(verdicts))
    records = read_verified(_records(directory))
    run_boots = _stored(history, directory, records)
    flaw = _revocation_reason(history, records)
    if flaw and not reason:
        return PromotionResult(refusal=f"{directory}: compared with a kernel that is not good: {flaw}", exit_code=1)
    statuses = {boot.board: _standing_on(boot.board, verdicts, flaw) for boot in run_boots}
    if reason or verdicts is None:
        return _promote(history, run_boots, statuses, reason)
    left_out = tuple(_refusal_on(board, verdicts) for board in statuses if statuses[board] is not Status.PASS)
    good_boots = [boot for boot in run_boots if statuses[boot.board] is Status.PASS]
    if not good_boots:
        return PromotionResult(refusal=f"{directory}: {'; '.join(left_out)}", exit_code=5)
    return replace(_promote(history, good_boots, statuses, reason), left_out=left_out)


def _stored(history: History, directory: Path, records: Sequence[Record]) -> tuple[Boot, ...]:
    """Return the boots that a run's records are stored as. Raises ConfigError: some are missing.

    What was stored of an interrupted run may be its baseline alone, which would look like a run of that kernel.
    """
    run_boots = queries.of_records(history, records)
    count = len({key(record) for record in records})
    if len(run_boots) < count:
        what = f"lacks {count - len(run_boots)} of {count} boots" if run_boots else "has no boots"
        raise ConfigError(f"the history {history.name} {what} of {directory}: rtgate history add {_records(directory)}")
    return run_boots


def _standing_on(board: str, verdicts: Sequence[Verdict] | None, flaw: str) -> Status | None:
    """Return the status that stands for a board of a run; None where nothing was judged.

    Args:
        board: the board.
        verdicts: of the run; None if it was not judged.
        flaw: why the baseline is not good; empty if it is.
    """
    own = [verdict for verdict in verdicts or () if verdict.board == board]
    if not own:
        return None
    status = _standing(verdicts or ())
    status = _standing(own) if status is Status.PASS else status
    # To be no worse than a kernel that is not good was what it passed by.
    return Status.DONE if flaw and status is Status.PASS else status


def _refusal_on(board: str, verdicts: Sequence[Verdict]) -> str:
    """Return why the verdicts of a board make no kernel good there."""
    own = [verdict for verdict in verdicts if verdict.board == board]
    return f"{board}: {_refusal(own, '') if own else 'nothing was judged there'}"


def _records(directory: Path) -> Path:
    """Return where a run's records lie: a soak's are in the directory of its verdict."""
    below = directory / "records"
    return below if below.is_dir() else directory


def _verdicts(directory: Path) -> list[Verdict]:
    changes = check(directory).lines
    if changes:
        raise ChangedError(
            f"{directory} is not as it was judged ({plain_text(changes[0])}; {len(changes)} in all): "
            f"rtgate check-records {directory}"
        )
    return read_verdicts(directory / "verdict.json", _records(directory))[0]


def _refusal(verdicts: Sequence[Verdict], reason: str) -> str:
    """Return why these verdicts make no kernel good; empty if they do.

    The exit code in the file may be that of --allow-unjudged, so it does not count. What somebody waives is a failure.
    """
    code, status = _code(verdicts), _standing(verdicts)
    if code == 0 or (reason and status is not Status.FAIL):
        return ""
    waived_verdict = next((verdict for verdict in verdicts if verdict.kind is Kind.WAIVED), None)
    first = waived_verdict or next((verdict for verdict in verdicts if verdict.status is status), None)
    why = ": a failure is waived" * bool(waived_verdict)
    why += f": {plain_text(first.sentence.partition(chr(10))[0])}" if first else ""
    hint = "; if it is good for another reason, say so with --unjudged REASON" if status is not Status.FAIL else ""
    return f"the verdict is {status.value} (exit code {code}){why}{hint}"


def _standing(verdicts: Sequence[Verdict]) -> Status:
    """Return the status that stands for a run: PASS only of one that makes its kernel good without a reason."""
    status = worst(verdicts)
    return Status.DONE if status is Status.PASS and _code(verdicts) else status


def _code(verdicts: Sequence[Verdict]) -> int:
    waived = any(verdict.kind is Kind.WAIVED for verdict in verdicts)
    return exit_code(verdicts) or (5 if waived else 0)


def _revocation_reason(history: History, records: Iterable[Record]) -> str:
    """Return why what a run was compared with is bad: to be no worse than that says little. Empty if it is not."""
    baseline_kernels = {record.kernel_id for record in records if record.arm == ArmName.BASELINE}
    return next((revocation.sentence for revocation in baselines.revocations_of(history, baseline_kernels)), "")


def _promote_run(history: History, name: str, reason: str) -> PromotionResult:
    run_boots = queries.find(history, BootFilter(runs=[name]))
    if not run_boots:
        raise ConfigError(f"{name} is neither a directory nor a run of the history {history.name}: rtgate history list")
    if not reason:
        raise ConfigError(
            f"the verdict of run {name} is in its report, not in the history: name that directory, or say with "
            "--unjudged REASON why its kernel is good"
        )
    return _promote(history, run_boots, {}, reason)


def _promote(
    history: History, run_boots: Iterable[Boot], statuses: Mapping[str, Status | None], reason: str
) -> PromotionResult:
    boots_by_kernel = _good_boots(run_boots)
    if not boots_by_kernel:
        raise ConfigError(
            "no boot of this kernel is valid and without a kernel fault: nothing could be measured with it"
        )
    now, who = utc(datetime.now(UTC)), _one_line(pipeline.user())
    promotions = [
        Promotion(
            board=board,
            kernel=name,
            run=boots[-1].run,
            promoted_at=now,
            promoted_by=who,
            verdict=status.value if status else "",
            unjudged="" if status is Status.PASS else reason,
        )
        for (board, name), boots in boots_by_kernel.items()
        for status in [statuses.get(board)]
    ]
    return PromotionResult(kernels=tuple(promotions), new=baselines.promote(history, promotions))


def _good_boots(run_boots: Iterable[Boot]) -> Mapping[tuple[str, str], list[Boot]]:
    """Return the good boots of the candidate, or of the only arm, by board and kernel.

    Raises ConfigError: nobody knows which kernel it was.
    """
    by_board: dict[str, list[Boot]] = {}
    for boot in run_boots:
        by_board.setdefault(boot.board, []).append(boot)
    boots_by_kernel: dict[tuple[str, str], list[Boot]] = {}
    for board, boots in by_board.items():
        arms = {boot.arm for boot in boots}
        arm = ArmName.CANDIDATE if ArmName.CANDIDATE in arms else min(arms)
        for boot in boots:
            if boot.arm == arm and boot.usable:
                boots_by_kernel.setdefault((board, boot.kernel), []).append(boot)
    if any(not name for _, name in boots_by_kernel):
        raise ConfigError("nobody knows which kernel was booted: give its build directory when you measure (--kernel)")
    return boots_by_kernel


def revoke(history: History, name: str, reason: str) -> RevocationEffect:
    """Revoke the kernels of a name with the reason, now. Raises as `baselines.revoke`; ConfigError: no reason."""
    reason = _one_line(reason)
    if not reason:
        raise ConfigError("--reason: say why, for those who find the kernel missing")
    now = utc(datetime.now(UTC))
    return baselines.revoke(
        history, name, Revocation(kernel="", revoked_at=now, revoked_by=_one_line(pipeline.user()), reason=reason)
    )


def _one_line(text: str) -> str:
    return " ".join(plain_text(text).split())
