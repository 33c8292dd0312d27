# SPDX-License-Identifier: MIT
"""Single figures of a case: which of them keep their limits, for tables that show every figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rtgate.judge.limits import apply
from rtgate.judge.thresholds import Threshold, guarantees
from rtgate.judge.verdict import Status, Verdict
from rtgate.records.record import Record
from rtgate.tools.measurement import Measurement

_DECIDED = (Status.PASS, Status.FAIL)


def figure_status(
    figure: Measurement, record: Record, limits: Sequence[Threshold], verdicts: Sequence[Verdict]
) -> Status:
    """Return PASS or FAIL for one figure of a record; DONE where it is shown and not judged.

    A figure is judged only where its case is: `verdicts` are those of the record. Of a measurement with a figure for
    each CPU one may break the limit, and the others keep it.
    """
    decisions = {
        verdict.status for verdict in verdicts if verdict.measurement == figure.name and verdict.status in _DECIDED
    }
    if not decisions:
        return Status.DONE
    figure_limits = [limit for limit in (*limits, *guarantees(record.case, limits)) if limit.measurement == figure.name]
    if not figure_limits:  # what the board's file demands
        return Status.FAIL if Status.FAIL in decisions else Status.DONE
    alone = replace(record, measurements=(figure,))
    own = [limit for limit in figure_limits if limit.cpu_class in {"", figure.labels.get("class")}]
    statuses = {apply(limit, [alone]).status for limit in own}
    if Status.FAIL in statuses:
        return Status.FAIL
    return Status.PASS if statuses == {Status.PASS} and _believable(verdicts) else Status.DONE


def _believable(verdicts: Sequence[Verdict]) -> bool:
    """Return whether nothing but a limit was broken: an invalid measurement, or a kernel fault, keeps no limit."""
    failures = [verdict for verdict in verdicts if verdict.status.rank < Status.PASS.rank]
    return all(verdict.status is Status.FAIL and verdict.measurement for verdict in failures)
