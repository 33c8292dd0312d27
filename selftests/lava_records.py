# SPDX-License-Identifier: MIT
"""What `rtgate in-job` prints in one boot of a job: records of a faked target, in frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from selftests.fake_target import FakeTarget, arm, measured_outcome

from rtgate.lava.results import records
from rtgate.measure.case import Case
from rtgate.measure.run import Run
from rtgate.target.outcome import Outcome

BOARD = "rk3568-evb1"


def print_records(
    directory: Path,
    cases: Sequence[Case],
    *,
    boot: int = 1,
    name: str = "candidate",
    board: str = BOARD,
    outcome: Outcome | None = None,
) -> list[str]:
    """Measure cases on boot `boot` of an arm in an empty directory, and return what is printed."""
    outcome = replace(outcome or measured_outcome(), machine={"console": "lava", "boot": str(boot), "job": "7"})
    made = arm(FakeTarget({None: outcome}), name, time="real", board=board)
    run = Run(arms=(made,), seeds=(boot,), records=directory)
    for case in cases:
        run.prepare(case)
    sender = records.Sender(directory)
    lines = list(sender.announcement())
    for case in cases:
        for record in run.measure(case, lambda _: None):
            assert record.directory is not None
            lines += [f"rtgate: {case.name}: {record.state}", *sender.record(record.directory, boot)]
    return [*lines, *sender.closing_lines()]
