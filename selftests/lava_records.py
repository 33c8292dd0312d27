# SPDX-License-Identifier: MIT
"""What `rtgate in-job` prints in a boot of a job: records in frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from selftests.fake_target import FakeTarget, arm, measured_outcome

from rtgate.lava.results import records
from rtgate.measure.case import Case
from rtgate.measure.run import Run
from rtgate.target.outcome import Outcome

BOARD = "rk3568-evb1"


def encode(directory: Path) -> Iterator[str]:
    """Return a directory of records as lines for a job's log. Raises InfrastructureError when it cannot be read."""
    sender = records.Sender(directory)
    yield from sender.announcement()
    for path in sorted(directory.glob("*/*/*/*/record.json")):
        if not path.parent.name.startswith("."):
            yield from sender.record(path.parent)
    yield from sender.closing_lines()


def print_records(
    directory: Path,
    cases: Sequence[Case],
    *,
    boot: int = 1,
    name: str = "candidate",
    board: str = BOARD,
    outcome: Outcome | None = None,
    image: str = "a" * 64,
) -> list[str]:
    """Measure cases on boot `boot` of an arm in an empty directory, and return what is printed."""
    machine = {"console": "lava", "boot": str(boot), "job": "7", "image_sha256": image}
    outcome = replace(outcome or measured_outcome(), machine=machine)
    made = arm(FakeTarget({None: outcome}), name, time="real", board=board)
    made = replace(made, kernel=replace(made.kernel, image_sha256=image))
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


def is_complete(decoded: records.DecodedRecords) -> bool:
    """Return whether every set was announced and closed, and all its records are here."""
    return not decoded.damaged and not decoded.missing
