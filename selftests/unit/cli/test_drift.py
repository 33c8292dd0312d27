# SPDX-License-Identifier: MIT
from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.unit.history.conftest import make_good
from selftests.unit.judge.compare.test_drift import CASE, boots, branch
from selftests.written_records import write

from rtgate.board.boot import State
from rtgate.cli.drift import share
from rtgate.cli.main import main
from rtgate.history.database import History
from rtgate.judge.compare.drift import Gate
from rtgate.records.record import Record


def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gates: list[Gate], merged: str = "") -> None:
    """Store gates, and promote the candidate of the last one, or of the one that was merged last; "none" for none."""
    monkeypatch.setenv("RTGATE_HISTORY", f"sqlite:///{tmp_path}/history.db")
    for number, gate in enumerate(gates):
        place = tmp_path / str(number)
        for one in (*gate.baseline, *gate.candidate):
            write(one, place)
        assert main(["history", "add", str(place), "--run", gate.run]) == 0
    newest = [gate for gate in gates if gate.baseline and gate.run == (merged or gate.run)][-1:]
    with History.open(f"sqlite:///{tmp_path}/history.db") as history:
        for gate in newest:
            make_good(history, gate.candidate[:1])


ASKED = ["trend", "--board", "virt-arm64", "--case", CASE, "--drift-budget", "3%"]


def test_a_branch_that_drifts_fails_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path, monkeypatch, branch([1.015**merge for merge in range(5)]))
    capsys.readouterr()
    assert main(ASKED) == 1
    told = capsys.readouterr().out
    assert "latency p50 drifted by +6." in told
    assert "over 4 gates (between +" in told
    assert "3.0% is the budget" in told
    assert all(f"merge-{index}:" in told for index in range(1, 5))
    assert main([*ASKED, "--last", "1"]) == 0


def test_a_gate_of_what_was_not_merged_is_not_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gates = branch([1.0, 1.015, 1.03, 1.045, 1.06])
    stored(tmp_path, monkeypatch, [gates[0], gates[2]])  # the second gate's baseline was nobody's candidate
    capsys.readouterr()
    assert main([*ASKED, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {tuple(step["run"] for step in one["steps"]) for one in found} == {("merge-3",)}


def test_a_boot_that_was_not_good_takes_no_gate_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gates = branch([1.0, 1.0, 1.05, 1.05])
    hung = replace(gates[1].candidate[3], state=State.HANG, message="it hung", measurements=())
    gates[1] = replace(gates[1], candidate=[*gates[1].candidate[:3], hung, *gates[1].candidate[4:]])
    stored(tmp_path, monkeypatch, gates)
    capsys.readouterr()
    assert main(ASKED) == 1
    assert "over 3 gates" in capsys.readouterr().out


def test_nothing_is_added_up_over_a_gate_that_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gates = branch([1.0, 1.0, 1.05, 1.05])
    other = [replace(one, evidence=replace(one.evidence, load="another")) for one in gates[1].candidate]
    gates[1] = replace(gates[1], candidate=other)
    stored(tmp_path, monkeypatch, gates)
    capsys.readouterr()
    assert main([*ASKED, "--json"]) == 5
    said = capsys.readouterr()
    assert {tuple(step["run"] for step in one["steps"]) for one in json.loads(said.out)} == {("merge-3",)}
    assert "merge-2 is not added up: load: " in said.err
    assert f"{CASE}: what lies before that gate is not added up either" in said.err


def test_a_case_with_too_few_boots_does_not_vanish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gates = branch([1.0, 1.0, 1.0])
    other = "latency/cyclictest:hackbench"
    few = [
        replace(
            gate,
            baseline=[replace(one, case=other) for one in gate.baseline[:2]],
            candidate=[replace(one, case=other) for one in gate.candidate[:2]],
        )
        for gate in gates
    ]
    stored(tmp_path, monkeypatch, [*gates, *few])
    capsys.readouterr()
    assert main(["trend", "--board", "virt-arm64", "--drift-budget", "3%"]) == 5
    told = capsys.readouterr()
    assert CASE in told.out
    assert f"{other}: not added up: no figure has bounds in each of its 2 gates" in told.err


def test_a_request_that_is_open_is_not_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gates = branch([1.0, 1.0, 1.0, 1.0, 1.06])
    stored(tmp_path, monkeypatch, gates, merged="merge-3")
    capsys.readouterr()
    assert main([*ASKED, "--json"]) == 0
    drifts = json.loads(capsys.readouterr().out)
    assert {tuple(step["run"] for step in drift["steps"]) for drift in drifts} == {("merge-1", "merge-2", "merge-3")}


def test_a_request_that_is_open_does_not_count_where_nothing_was_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (gate,) = branch([1.0, 1.06])
    (other,) = branch([1.0, 1.0], name="other ")
    stored(tmp_path, monkeypatch, [replace(other, run="other"), gate], merged="none")
    capsys.readouterr()
    assert main([*ASKED, "--json"]) == 5
    said = capsys.readouterr()
    assert json.loads(said.out) == []
    assert f"{CASE}: not added up: no gate of something merged: promote the kernel of the branch" in said.err


def test_a_merged_run_of_two_reviews_is_named_where_it_is_the_only_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (gate,) = branch([1.0, 1.0])
    again = replace(gate, candidate=boots("again", 1.0, "candidate"))
    stored(tmp_path, monkeypatch, [again, gate])
    capsys.readouterr()
    assert main(ASKED) == 5
    said = capsys.readouterr().err
    assert f"{CASE}: {gate.run} is not added up: it has several baselines or candidates" in said
    assert "no gate of something merged" not in said


def test_an_open_request_that_is_measured_for_longer_takes_no_merge_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gates = branch([1.0, 1.015, 1.03, 1.045, 1.045])
    baseline, candidate = ([longer(boot) for boot in arm] for arm in (gates[-1].baseline, gates[-1].candidate))
    gates[-1] = replace(gates[-1], run="mr-7", baseline=baseline, candidate=candidate)
    stored(tmp_path, monkeypatch, gates, merged="none")
    capsys.readouterr()
    assert main(ASKED) == 1
    assert "over 3 gates" in capsys.readouterr().out


@pytest.mark.parametrize(("again", "steps"), [(2, {("merge-3", "merge-4")}), (4, {("merge-1", "merge-2", "merge-3")})])
def test_a_run_of_two_reviews_does_not_end_the_chain_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], again: int, steps: object
) -> None:
    gates = branch([1.0] * 5)
    first = Gate(run="", kernel="", baseline=gates[again - 1].baseline, candidate=boots("again", 1.0, "candidate"))
    gates.insert(again - 1, replace(first, run=f"merge-{again}"))
    stored(tmp_path, monkeypatch, gates)
    capsys.readouterr()
    assert main([*ASKED, "--json"]) == 5
    said = capsys.readouterr()
    assert {tuple(step["run"] for step in drift["steps"]) for drift in json.loads(said.out)} == steps
    remedy = "from now on store each review as a run of its own (rtgate history add without --run)"
    sentence = f"{CASE}: merge-{again} is not added up: it has several baselines or candidates: {remedy}"
    newer = 2 if again == 2 else 0
    assert (f"{sentence}; --last 2 takes the gates after it alone" in said.err) is bool(newer)
    assert sentence in said.err
    assert main([*ASKED, "--last", "2"]) == (0 if newer else 5)


def longer(record: Record) -> Record:
    """Return a record as a night has it, which measures for longer than a review."""
    return replace(record, argv=(*record.argv, "--duration=10"))


def test_a_night_after_the_reviews_takes_none_of_them_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gates = branch([1.015**merge for merge in range(5)])
    night = Gate(run="night", kernel="", baseline=(), candidate=[longer(boot) for boot in gates[-1].candidate])
    stored(tmp_path, monkeypatch, [*gates, night])
    capsys.readouterr()
    assert main(ASKED) == 1
    assert "over 4 gates" in capsys.readouterr().out


def test_a_case_whose_kernels_have_no_environment_in_common_does_not_vanish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gates = branch([1.0, 1.0, 1.0])
    other = "latency/cyclictest:hackbench"
    apart = Gate(
        run="apart",
        kernel="",
        baseline=[replace(boot, case=other) for boot in gates[0].baseline],
        candidate=[replace(longer(boot), case=other) for boot in gates[0].candidate],
    )
    stored(tmp_path, monkeypatch, [*gates, apart])
    capsys.readouterr()
    assert main(["trend", "--board", "virt-arm64", "--drift-budget", "3%"]) == 5
    assert f"{other}: not added up: no run has one baseline and one other candidate" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--drift-budget", "3%", "--arm", "baseline"], ["--drift-budget", "3%", "-o", "x"], ["--last", "3"]]
)
def test_options_that_would_say_nothing_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trend", "--board", "virt-arm64", *words]) == 2
    assert "leave out" in capsys.readouterr().err


def test_a_history_without_gates_is_no_good_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (gate,) = branch([1.0, 1.0])
    stored(tmp_path, monkeypatch, [Gate(run=gate.run, kernel="", baseline=gate.baseline, candidate=())])
    assert main(ASKED) == 5


def test_a_budget_is_a_share() -> None:
    assert share("3%") == pytest.approx(0.03)
    for text in ("3", "x%", "0%", "nan%", "120%"):
        with pytest.raises(argparse.ArgumentTypeError):
            share(text)
