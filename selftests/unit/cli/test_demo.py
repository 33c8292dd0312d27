# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest
from selftests.unit.report.conftest import over_limit, within_limit
from selftests.unit.report.conftest import verdict as verdict_on

from rtgate.cli import gate
from rtgate.cli.main import main
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.workflow.verdicts import write_verdicts


@pytest.mark.parametrize(
    ("verdict", "code", "ends"),
    [
        (over_limit(), 1, (0, "was found out by 1 limits")),
        (within_limit(), 0, (1, "got through: that is a defect of rtgate")),
        (
            verdict_on(Status.MISS, Kind.LAB, "QEMU was killed"),
            3,
            (3, "the gate ended with exit code 3 for another reason"),
        ),
    ],
)
def test_the_demo_blames_its_limits_only_if_they_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verdict: Verdict, code: int, ends: tuple[int, str]
) -> None:
    (tmp_path / "records").mkdir()
    write_verdicts([verdict], tmp_path / "verdict.json", records=tmp_path / "records")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gate, "run", lambda _: code)
        assert main(["demo", "-o", str(tmp_path)]) == ends[0]
    assert ends[1] in capsys.readouterr().out
