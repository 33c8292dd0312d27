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
    judged = {one.status for one in verdicts if one.measurement == figure.name and one.status in _DECIDED}
    if not judged:
        return Status.DONE
    named = [limit for limit in (*limits, *guarantees(record.case, limits)) if limit.measurement == figure.name]
    if not named:  # what the board's file demands
        return Status.FAIL if Status.FAIL in judged else Status.DONE
    alone = replace(record, measurements=(figure,))
    own = [limit for limit in named if limit.cpu_class in {"", figure.labels.get("class")}]
    found = {apply(limit, [alone]).status for limit in own}
    if Status.FAIL in found:
        return Status.FAIL
    return Status.PASS if found == {Status.PASS} and _believable(verdicts) else Status.DONE


def _believable(verdicts: Sequence[Verdict]) -> bool:
    """Return whether nothing but a limit was broken: an invalid measurement, or a kernel fault, keeps no limit."""
    broken = [one for one in verdicts if one.status.rank < Status.PASS.rank]
    return all(one.status is Status.FAIL and one.measurement for one in broken)
