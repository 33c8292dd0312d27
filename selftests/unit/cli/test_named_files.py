# SPDX-License-Identifier: MIT
"""Files that command lines name: one without an end, or that waits for a writer, is refused at once."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from selftests.fake_target import FakeTarget, arm, measured_outcome
from selftests.unit.measure.test_case import CASE

from rtgate.cli import lava_tool, main
from rtgate.measure.case_record import measure
from rtgate.records import record as records_file
from rtgate.workflow import suites
from rtgate.workflow.verdicts import write_verdicts

_JOB = "submit --board rk3568-evb1 --family mainline --kernel https://lab.example.org/Image"
_PAIR = f"{_JOB} --endpoint rk3588-evb1 --endpoint-kernel k"
# A command line for each option that names a file to read; what several commands share is tried with one of them.
READ = {
    "--thresholds": "judge records --thresholds FILE",
    "report --verdict": "report records --verdict FILE",
    "--trend": "report records --verdict verdict.json --trend FILE",
    "--series": "review --base HEAD --series FILE",
    "--cases": f"{_JOB} --cases FILE",
    "--overlay": f"{_JOB} --dtb FILE --overlay FILE",
    "--dtb": f"{_JOB} --dtb FILE",
    "--ramdisk": f"{_JOB} --dtb https://lab.example.org/a.dtb --ramdisk FILE",
    "--modules": f"{_JOB} --dtb https://lab.example.org/a.dtb --modules FILE",
    "--nfsroot": f"{_JOB} --dtb https://lab.example.org/a.dtb --nfsroot FILE",
    "--endpoint-overlay": f"{_PAIR} --endpoint-set-up s --endpoint-overlay FILE",
    "--endpoint-set-up": f"{_PAIR} --endpoint-set-up FILE",
    "lava-tool submit-job": "lava-tool submit-job http://127.0.0.1:9 FILE",
    "--token-file": "lava-tool auth-add http://127.0.0.1:9 --token-file FILE",
}
# `ssh` itself reads its settings.
WRITTEN = {"-o", "--log", "judge --verdict", "--ssh-config"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(suites, "cases", lambda *_arguments, **_: (CASE,))  # pytest would be started to list them
    record, outcome = measure(CASE, arm(FakeTarget({None: measured_outcome()})), 3)
    records_file.write(record, outcome.files, outcome.console, tmp_path / "records")
    write_verdicts([], tmp_path / "verdict.json", records=tmp_path / "records")
    return tmp_path


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["a pipe", "an endless device"])
@pytest.mark.parametrize("option", READ)
def test_a_file_that_has_no_end_is_refused(
    option: str, kind: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = place / "FILE"
    if kind == "a pipe":
        os.mkfifo(file, 0o600)
    else:
        file.symlink_to("/dev/zero")
    program, *words = READ[option].split()
    code = lava_tool.main(words) if program == "lava-tool" else main.main([program, *words])
    said = capsys.readouterr().err
    assert code == 2, said
    assert "FILE" in said


def test_every_option_that_names_a_file_is_tried() -> None:
    found = {*_files(main.parser(), ""), *_files(lava_tool._parser(), "lava-tool")}
    known = {*READ, *WRITTEN}
    assert {place for place in found if not {place[1], " ".join(place).strip()} & known} == set()
    assert {option for option in READ if not any(" ".join(place).strip().endswith(option) for place in found)} == set()


def _files(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, str]]:
    """Yield command and option of every argument that is a file; a positional one has no name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command, its in action.choices.items():
                yield from _files(its, f"{name} {command}".strip())
        elif "FILE" in str(action.metavar):
            yield name, (action.option_strings or [""])[0]
