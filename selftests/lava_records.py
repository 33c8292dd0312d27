# SPDX-License-Identifier: MIT
"""What a boot of a job prints: records in frames, by `rtgate in-job` or by the board itself."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from selftests import frames
from selftests.fake_target import FakeTarget, arm, measured_outcome

from rtgate.board import boards
from rtgate.lava.in_job import on_board
from rtgate.lava.results import records
from rtgate.lava.results.expected import Expected
from rtgate.measure.case import Case
from rtgate.measure.case_plan import plan
from rtgate.measure.profiles import profile
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


def print_on_board(
    cases: Sequence[Case], board: str, *, outcome: Outcome | None = None, last_words: Sequence[str] | None = None
) -> list[str]:
    """Return what a board prints that measures cases by itself; with `last_words` it ends so in the last case."""
    made = arm(FakeTarget(), time="real", board=board)
    expected = Expected(
        board=boards.board(board),
        profile=profile("smoke"),
        tuning="default",
        cases=tuple(cases),
        boots=("candidate",),
        kernels={"candidate": made.kernel},
    )
    plans = [plan(case, expected.arm(1), 1) for case in cases]
    lines = list(on_board._context(expected, 1, plans)) * on_board.COPIES
    for number, case_plan in enumerate(plans, 1):
        lines += [f"rtgate: case {number} {case_plan.nonce}", "rtgate: plan started"]
        if last_words is not None and number == len(plans):
            return [*lines, *last_words]
        archive = _archive((outcome or measured_outcome()).files)
        lines += ["rtgate: measured", *frames.encode(archive, case_plan.nonce) * on_board.COPIES]
    return [*lines, "rtgate: every case was carried out"]


def _archive(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"r/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def is_complete(decoded: records.DecodedRecords) -> bool:
    """Return whether every set was announced and closed, and all its records are here."""
    return not decoded.damaged and not decoded.missing
