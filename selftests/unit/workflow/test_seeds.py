# SPDX-License-Identifier: MIT
"""`rtgate seeds` lists limits of documents, and what was measured last with the same options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.unit.report.conftest import Boot, make
from selftests.written_records import write

from rtgate.cli.main import main
from rtgate.judge.thresholds import LimitKind, Threshold, Thresholds
from rtgate.measure import profiles
from rtgate.records.record import Record
from rtgate.units import Quantity
from rtgate.workflow import seeds
from rtgate.workflow.seeds import seed_limits

CASE, BOARD = "latency/cyclictest:idle", "nuc-j3455"


def _source(source: str) -> Threshold:
    limit = Quantity.parse("9 us")
    return Threshold(board=BOARD, flavour="generic", case=CASE, kind=LimitKind.MAX, source=source, limit=limit)


def test_a_seed_s_limit_is_known_by_its_source() -> None:
    found = seed_limits(
        Thresholds((*map(_source, ("s004-x/generic/max: 4 us, a word", "60 seeds: 4 us", "s999-x: 4 us", "s004-x")),))
    )
    assert [(seed.figure, seed.printed) for seed in found] == [("s004-x/generic/max", "4 us")]
    assert found[0].document.endswith("Intel NUC with Celeron J3455, undated")


def _stored(
    url: str, directory: Path, high_us: float, options: Mapping[str, bool | int | str], profile: str = "nuc"
) -> None:
    made = make(Boot(case=CASE, board=BOARD, seed=None, high_us=high_us, changes={"flavour": "preempt_rt"}))
    evidence = replace(made.evidence, expectation=replace(made.evidence.expectation, options=options))
    kernel = replace(made.kernel, flavour="preempt_rt")
    one: Record = replace(made, evidence=evidence, kernel=kernel, profile=profile)
    write(one, directory)
    assert main(["history", "add", str(directory), "--history", url]) == 0


def test_what_was_measured_last_is_of_a_boot_with_the_same_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/history.db"
    nuc = profiles.profile("nuc").options_of("cyclictest", "latency")
    _stored(url, tmp_path / "older", 90, nuc)
    _stored(url, tmp_path / "newer", 95, nuc)
    _stored(url, tmp_path / "quick", 70, {})
    capsys.readouterr()
    assert main(["seeds", "--board", BOARD, "--document", "s004", "--history", url]) == 0
    lines = capsys.readouterr().out.splitlines()
    (unbound,) = [line for line in lines if "s004-nuc-preempt_rt-idle-unbound/t0/max" in line]
    assert "278 us" in unbound
    assert "latency.max at most 556 us" in unbound
    assert "95 us (20" in unbound
    (bound,) = [line for line in lines if "s004-nuc-preempt_rt-idle-bound/t0/max" in line]
    assert "never" in bound


def test_boots_of_other_profiles_do_not_hide_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(seeds, "_NEWEST", 2)
    url = f"sqlite:///{tmp_path}/history.db"
    _stored(url, tmp_path / "own", 95, profiles.profile("nuc").options_of("cyclictest", "latency"))
    for number in range(3):
        _stored(url, tmp_path / f"quick-{number}", 70 + number, {}, "quick")
    capsys.readouterr()
    assert main(["seeds", "--board", BOARD, "--document", "s004", "--history", url]) == 0
    assert "95 us (20" in capsys.readouterr().out


def test_boards_and_documents_choose(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("RTGATE_HISTORY", raising=False)
    assert main(["seeds", "--board", "rk3568-evb1", "--document", "s002"]) == 0
    out = capsys.readouterr().out
    assert "15 limits" in out
    assert "last measured" not in out
    assert "latency over 69 us in at most 9e-06" in out
    assert main(["seeds", "--board", "nobody"]) == 2
