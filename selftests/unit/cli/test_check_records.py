# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples
from selftests.unit.report.conftest import Boot, make

from rtgate.cli.main import main
from rtgate.records import record as records_file
from rtgate.records.seal import check
from rtgate.workflow.verdicts import write_ending, write_verdicts

FILES = {"tool.rc": b"0\n", "cyclictest.json": b"{}\n"}


def _sealed(directory: Path) -> list[Path]:
    records = directory / "records"
    for seed in (1, 2):
        records_file.write(make(Boot(seed=seed, samples=5)), FILES, b"console\n", records)
    write_verdicts([], directory / "verdict.json", records=records)
    return sorted(path for path in records.rglob("*") if path.is_file())


def test_a_run_that_nobody_touched_is_unchanged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _sealed(tmp_path)
    assert main(["check-records", str(tmp_path)]) == 0
    assert "nothing changed" in capsys.readouterr().out


def test_what_changed_is_named_with_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, *_ = _sealed(tmp_path)
    first.write_bytes(first.read_bytes() + b" ")
    second.unlink()
    (first.parent / "more").write_text("")
    assert main(["check-records", str(tmp_path)]) == 4
    said = capsys.readouterr().out
    assert f"changed: {first.relative_to(tmp_path)}" in said
    assert f"missing: {second.relative_to(tmp_path)}" in said
    assert f"added: {first.parent.relative_to(tmp_path) / 'more'}" in said


def test_a_list_that_was_written_anew_is_told(tmp_path: Path) -> None:
    _sealed(tmp_path)
    (tmp_path / "records.sha256").write_text("")
    assert check(tmp_path).changed == ("records.sha256",)


def _edit_verdict(directory: Path) -> None:
    path = directory / "verdict.json"
    path.write_text(path.read_text().replace('"outcome": "MISS"', '"outcome": "PASS"'))


def test_a_verdict_that_was_edited_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _sealed(tmp_path)
    _edit_verdict(tmp_path)
    assert main(["check-records", str(tmp_path)]) == 4
    assert "changed: verdict.json" in capsys.readouterr().out


def test_a_verdict_without_its_digest_is_told(tmp_path: Path) -> None:
    _sealed(tmp_path)
    (tmp_path / "verdict.sha256").unlink()
    assert check(tmp_path).missing == ("verdict.sha256",)


def test_sha256sum_checks_the_seal_without_rtgate(tmp_path: Path) -> None:
    _sealed(tmp_path)
    command = ["sha256sum", "--quiet", "-c", "verdict.sha256", "records.sha256"]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0
    _edit_verdict(tmp_path)
    assert subprocess.run(command, cwd=tmp_path, check=False, capture_output=True).returncode == 1


def test_the_end_of_a_gate_seals_the_verdict_anew(tmp_path: Path) -> None:
    _sealed(tmp_path)
    write_ending(tmp_path / "verdict.json", [], code=3, whole=False)
    assert not check(tmp_path).lines


@pytest.mark.parametrize("content", [None, "{}", "[]", "not JSON"])
def test_what_is_no_sealed_run_is_a_wrong_argument(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "verdict.json").write_text(content)
    assert main(["check-records", str(tmp_path)]) == 2


def test_any_changed_byte_of_any_file_is_told(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("sealed")
    files = [*_sealed(directory), directory / "records.sha256", directory / "verdict.json"]

    @examples(60)
    @given(st.sampled_from(files), st.integers(0, 1 << 20), st.integers(1, 255))
    def told(path: Path, place: int, flip: int) -> None:
        before = path.read_bytes()
        changed = bytearray(before)
        changed[place % len(before)] ^= flip
        path.write_bytes(changed)
        try:
            assert str(path.relative_to(directory)) in check(directory).changed
        finally:
            path.write_bytes(before)

    told()
    assert not check(directory).lines


def test_the_seal_is_in_verdict_json(tmp_path: Path) -> None:
    _sealed(tmp_path)
    assert json.loads((tmp_path / "verdict.json").read_text())["seal"]["records"] == "records"
