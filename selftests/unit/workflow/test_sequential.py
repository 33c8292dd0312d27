# SPDX-License-Identifier: MIT
"""Which boots a gate and a submission measure next, with the suites and the lab replaced."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from selftests.campaigns.comparisons import with_evidence
from selftests.unit.history.conftest import CASE
from selftests.unit.history.conftest import record as of_a_board
from selftests.unit.report.conftest import read_figure

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.history.database import History
from rtgate.judge.compare.looks import CONFIRM, RELEASE
from rtgate.judge.compare.procedures import INTERLEAVED, SCREENED, Measure, Procedure
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.lava.job.definition import Transport
from rtgate.lava.job.request import MeasurementRequest, in_turns
from rtgate.measure import run
from rtgate.measure.case import Case
from rtgate.measure.run import records_by_case
from rtgate.records import planned
from rtgate.records import record as records_file
from rtgate.records.record import KernelIdentity, Place, Record
from rtgate.records.schedule import Schedule, parse_steps
from rtgate.tools.cyclictest import Cyclictest
from rtgate.workflow import sequential, suite_process
from rtgate.workflow.budget import Budget, minutes
from rtgate.workflow.job_planner import JobPlanner
from rtgate.workflow.job_results import JobAttempts
from rtgate.workflow.job_watch import JobWatch
from rtgate.workflow.judging import Criteria, Judging, JudgingRequest, judge_run
from rtgate.workflow.procedure import Choice
from rtgate.workflow.sequential import ComparisonOptions, PairQueue, StoredComparison, run_comparison
from rtgate.workflow.suite_process import Batch, SuiteOptions, Suites

BOARD = "bench"


@pytest.fixture(autouse=True)
def _site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site" / "boards").mkdir(parents=True)
    shipped = Path(__file__).parents[3] / "boards" / "rk3568-evb1.yaml"
    (tmp_path / "site" / "boards" / f"{BOARD}.yaml").write_text(shipped.read_text())
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path / "site"))
    monkeypatch.delenv("RTGATE_HISTORY", raising=False)
    # The boots of `Bench` are drawn: no tool printed anything that could be read again.
    monkeypatch.setattr(run, "records_by_case", _drawn)


def _drawn(directory: Path, board: str | None = None) -> dict[str, list[Record]]:
    found = records_by_case(directory, board)
    return {case: [with_evidence(one) for one in records] for case, records in found.items()}


class Bench:
    """Stands in for the suites: leaves the records that a batch was to bring. Every boot takes a minute."""

    def __init__(self, records: Path, *, slower: float, wander: float = 0.0) -> None:
        self.batches: list[dict[str, str]] = []
        self._records, self._slower, self._wander = records, slower, wander

    def __call__(self, select: str, options: list[str], log: Path) -> int:
        words = dict(pairwise(options))
        self.batches.append(words)
        low, high = map(int, words["--boots"].split("-"))
        arms = [word.partition("=")[0] for name, word in pairwise(options) if name == "--arm"]
        for arm in arms:
            place = Place(records=self._records, board=BOARD, arm=arm, case=CASE)
            numbers = range(low, high + 1)
            planned.plan(
                place, numbers, virtual=False, steps=parse_steps(words["--looks"]), screen="--screen" in options
            )
            for number in numbers:
                self._boot(arm, number, screen="--screen" in options)
        return 0

    def _boot(self, arm: str, number: int, *, screen: bool) -> None:
        chance = random.Random(f"{arm} {number}")
        scale = (self._slower if arm == "candidate" else 1.0) * (1 + chance.gauss(0, self._wander))
        made = of_a_board(number, scale=scale, arm=arm, image=arm * 4)
        mark: Mapping[str, str] = {"stage": "screen"} if screen else {"pair": str(number)}
        made = replace(made, machine={**made.machine, **mark}, seconds={"total": 60.0})
        records_file.write(made, {}, b"", self._records)


def suites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bench: Bench, **options: Any) -> Suites:
    monkeypatch.setattr(suite_process, "pytest", bench)
    return Suites(
        options=SuiteOptions(**{"board": BOARD, "profile": "mr", "console": "host", **options}),
        criteria=Criteria(),
        kernels={"baseline": tmp_path / "old", "candidate": tmp_path / "new"},
        output=tmp_path / "report",
    )


def within(budget: float, **options: Any) -> ComparisonOptions:
    return ComparisonOptions(budget=Budget(budget), **options)


def boots(bench: Bench) -> list[str]:
    return [words["--boots"] for words in bench.batches]


@pytest.fixture
def records(tmp_path: Path) -> Path:
    (tmp_path / "report" / "records").mkdir(parents=True)
    return tmp_path / "report" / "records"


def test_a_clear_regression_ends_at_the_first_look(
    tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(records, slower=2.0, wander=0.001)
    assert run_comparison(suites(tmp_path, monkeypatch, bench), within(1000)).whole
    assert boots(bench) == ["1-3"]
    assert bench.batches[0]["--looks"] == "3:0.2,6:0.3,12:0.5"


def test_what_is_open_is_measured_on_to_the_last_look_and_every_look_is_written_down(
    tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(records, slower=1.05, wander=0.3)
    assert run_comparison(suites(tmp_path, monkeypatch, bench), within(1000)).whole
    assert boots(bench) == ["1-3", "4-6", "7-12"]
    for arm in ("baseline", "candidate"):
        found = planned.read(Place(records=records, board=BOARD, arm=arm, case=CASE))
        assert found.schedule == Schedule(steps=RELEASE.steps, taken=(3, 6, 12))


def test_the_budget_ends_it_and_says_what_going_on_costs(
    tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench(records, slower=1.05, wander=0.3)
    run_comparison(suites(tmp_path, monkeypatch, bench), within(5))
    assert boots(bench) == ["1-3"]
    assert f"3 more pairs of {CASE} would take 6.0 board-minutes more; 0.0 of 5 are spent: --budget 7min allows it" in (
        capsys.readouterr().err
    )


def test_a_comparison_that_is_not_extended_ends_at_the_first_look(
    tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(records, slower=1.05, wander=0.3)
    run_comparison(suites(tmp_path, monkeypatch, bench), within(1000, extend=False))
    assert boots(bench) == ["1-3"]


def test_the_screen_needs_no_baseline_and_pairs_are_fresh(
    tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sequential, "choose", lambda *_: Choice(SCREENED, "screened against 42 boots"))
    bench = Bench(records, slower=1.05, wander=0.3)
    run_comparison(suites(tmp_path, monkeypatch, bench), within(1000))
    assert boots(bench) == ["1-3", "1-6", "7-12"]
    assert [words["--looks"] for words in bench.batches] == ["6:0.3,12:0.7"] * 3
    assert {one.arm for one in records_file.read_all(records)} == {"baseline", "candidate"}
    assert sum(one.screening for one in records_file.read_all(records)) == 3
    schedule = planned.read(Place(records=records, board=BOARD, arm="baseline", case=CASE)).schedule
    assert schedule.steps == CONFIRM.steps
    assert "screened against 42 boots" in capsys.readouterr().err


def test_the_history_decides_the_procedure_before_anything_is_measured(
    tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/history.db"
    listed: list[object] = []

    def cases(*named: object) -> tuple[Case, ...]:
        listed.append(named)
        return (Case(suite="latency", tool=Cyclictest(), load="idle"),)

    monkeypatch.setattr(sequential, "list_cases", cases)
    bench = Bench(records, slower=2.0, wander=0.001)
    measured = replace(suites(tmp_path, monkeypatch, bench, select="idle"), criteria=Criteria(history=url))
    run_comparison(measured, within(1000))
    said = capsys.readouterr().err
    assert f"interleaved: the history {url} has 0 of the 10 sessions that a screen of {CASE} on {BOARD} needs" in said
    assert listed == [((), "mr", "default", "idle", BOARD)]
    assert boots(bench) == ["1-3"]


def test_a_number_of_boots_is_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Batch] = []

    def measure(_self: Suites, batch: Batch) -> bool:
        seen.append(batch)
        return True

    monkeypatch.setattr(Suites, "measure", measure)
    monkeypatch.setattr(Suites, "judge", lambda _self: judged([]))
    monkeypatch.setattr(sequential, "_open_seeds", lambda *_: ())
    bench = Bench(tmp_path, slower=1)
    assert run_comparison(suites(tmp_path, monkeypatch, bench, boots="6"), within(1)).whole
    assert seen == [Batch()]


def _said(case: str, status: Status, kind: Kind, limit: str = "") -> Verdict:
    return Verdict(
        status=status,
        kind=kind,
        sentence="",
        board=BOARD,
        arm="candidate",
        flavour="",
        case=case,
        limit=read_figure(limit),
    )


def judged(verdicts: list[Verdict]) -> Judging:
    found = Judging(Criteria())
    found.verdicts += verdicts
    return found


OPEN = _said(CASE, Status.DONE, Kind.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("verdicts", "seeds"),
    [
        ([OPEN], ["1-12", "13-24"]),
        ([_said(CASE, Status.DONE, Kind.INCONCLUSIVE, limit="50 us")], ["1-12"]),
        ([OPEN, _said(CASE, Status.FAIL, Kind.LIMIT)], ["1-12"]),
        ([OPEN, _said("latency/other:idle", Status.FAIL, Kind.LIMIT)], ["1-12", "13-24"]),
        ([OPEN, _said("latency/other:idle", Status.FAIL, Kind.REGRESSION)], ["1-12"]),
    ],
    ids=["open", "open limit", "failed", "another limit", "another regression"],
)
def test_on_virtual_time_what_is_open_gets_as_many_seeds_again_unless_there_is_a_regression(
    tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch, verdicts: list[Verdict], seeds: list[str]
) -> None:
    measured: list[str] = []

    def measure(_self: Suites, batch: Batch) -> bool:
        measured.append(batch.seeds or "1-12")
        place = Place(records=records, board=BOARD, arm="baseline", case=CASE)
        planned.plan(place, range(1, 13), virtual=True)
        return True

    monkeypatch.setattr(Suites, "measure", measure)
    monkeypatch.setattr(Suites, "judge", lambda _self: judged(verdicts))
    assert run_comparison(suites(tmp_path, monkeypatch, Bench(records, slower=1), console="virtual"), within(1)).whole
    assert measured == seeds


@pytest.mark.parametrize(("first", "again"), [(99_989, ["99995-100000"]), (99_990, [])])
def test_no_seeds_are_asked_for_that_there_are_not(
    tmp_path: Path,
    records: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    first: int,
    again: list[str],
) -> None:
    measured: list[str] = []

    def measure(_self: Suites, batch: Batch) -> bool:
        measured.append(batch.seeds)
        place = Place(records=records, board=BOARD, arm="baseline", case=CASE)
        planned.plan(place, range(first, first + 6), virtual=True)
        return True

    monkeypatch.setattr(Suites, "measure", measure)
    monkeypatch.setattr(Suites, "judge", lambda _self: judged([OPEN]))
    assert run_comparison(suites(tmp_path, monkeypatch, Bench(records, slower=1), console="virtual"), within(1)).whole
    assert measured == ["", *again]
    assert ("not measured again, as seeds end at 100000" in capsys.readouterr().err) == (not again)


@pytest.mark.parametrize("error", [ConfigError("the suites did not run"), InfrastructureError("they were ended")])
def test_a_second_look_that_cannot_be_taken_leaves_the_first_one_judged(
    tmp_path: Path,
    records: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
) -> None:
    def measure(_self: Suites, batch: Batch) -> bool:
        if batch.seeds:
            raise error
        planned.plan(Place(records=records, board=BOARD, arm="baseline", case=CASE), range(1, 13), virtual=True)
        return True

    monkeypatch.setattr(Suites, "measure", measure)
    monkeypatch.setattr(Suites, "judge", lambda _self: judged([OPEN]))
    outcome = run_comparison(suites(tmp_path, monkeypatch, Bench(records, slower=1), console="virtual"), within(1))
    assert (outcome.whole, outcome.judging.verdicts) == (False, [OPEN])
    assert str(error) in capsys.readouterr().err


def test_suites_that_a_signal_ended_are_no_mistake_of_who_called_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_suites(_argv: object, log: Path) -> int:
        log.write_text("measuring\n")
        return -9

    monkeypatch.setattr(suite_process, "_run", run_suites)
    with pytest.raises(InfrastructureError, match=r"the suites were ended by signal 9 \(Killed\): measuring; see "):
        suite_process.pytest("", [], tmp_path / "measure.log")


def test_of_two_boards_the_one_with_the_open_case_gets_more_seeds(
    tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal, done = "signal/signaltest:idle", []

    def measure(_self: Suites, batch: Batch) -> bool:
        done.append((batch.board, batch.cases, batch.seeds))
        for board in (BOARD, "another"):
            planned.plan(Place(records=records, board=board, arm="baseline", case=signal), range(1, 13), virtual=True)
        return True

    monkeypatch.setattr(Suites, "measure", measure)
    # What failed on one board is not an answer for the other.
    said = [
        replace(_said(signal, Status.DONE, Kind.INCONCLUSIVE), board="another"),
        _said(signal, Status.FAIL, Kind.LIMIT),
        replace(OPEN, board="neither"),
    ]
    monkeypatch.setattr(Suites, "judge", lambda _self: judged(said))
    two = suites(tmp_path, monkeypatch, Bench(records, slower=1), console="virtual")
    assert run_comparison(replace(two, further_boards=("another",)), within(1)).whole
    assert done == [("", (), ""), ("another", (signal,), "13-24")]


def test_the_first_suites_of_a_gate_tell_the_placebos_of_all_boards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    two = replace(
        suites(tmp_path, monkeypatch, Bench(tmp_path, slower=1)), further_boards=("second", "third"), remedy="--tree x"
    )

    def pytest_run(_select: str, options: list[str], _log: Path) -> int:
        asked.append(options)
        return 0

    monkeypatch.setattr(suite_process, "pytest", pytest_run)
    two.measure(Batch())
    assert [words[words.index("--board") + 1] for words in asked] == [BOARD, "second", "third"]
    first, *others = asked
    assert first[-6:] == ["--tell-placebos", "--tree x", "--also-tell", "second", "--also-tell", "third"]
    assert not [word for words in others for word in words if "tell" in word]
    asked.clear()
    two.measure(Batch(cases=(CASE,)))
    assert not [word for words in asked for word in words if "tell" in word]


def test_a_former_batch_s_refusal_is_not_the_reason_of_a_later_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report").mkdir()
    made = suites(tmp_path, monkeypatch, Bench(tmp_path, slower=1))
    ends = iter(["! _pytest.outcomes.Exit: no disk left !\n", "1 failed, 2 passed\n"])

    def fail(_select: str, _options: list[str], log: Path) -> int:
        with log.open("a") as stream:
            stream.write(next(ends))
        return 1

    monkeypatch.setattr(suite_process, "pytest", fail)
    log = tmp_path / "report" / "measure.log"
    for reason in ("no disk left", "1 failed, 2 passed"):
        assert not made.measure(Batch())
        assert f"not everything was measured: {reason}; see {log}\n" in capsys.readouterr().err


def test_open_cases_of_different_length_get_their_own_seeds_and_one_further_judgement(
    tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, lengths, done = "latency/cyclictest:hackbench", {CASE: 12}, []
    lengths[loaded] = 8

    def measure(_self: Suites, batch: Batch) -> bool:
        done.append(f"{', '.join(batch.cases)} {batch.seeds}".strip())
        for case, seeds in lengths.items():
            place = Place(records=records, board=BOARD, arm="baseline", case=case)
            planned.plan(place, range(1, seeds + 1), virtual=True)
        return True

    monkeypatch.setattr(Suites, "measure", measure)

    def judge(_self: Suites) -> Judging:
        done.append("judged")
        return judged(said)

    said = [OPEN, _said(loaded, Status.DONE, Kind.INCONCLUSIVE)]
    monkeypatch.setattr(Suites, "judge", judge)
    assert run_comparison(suites(tmp_path, monkeypatch, Bench(records, slower=1), console="virtual"), within(1)).whole
    assert done[:2] == ["", "judged"]
    assert set(done[2:4]) == {f"{CASE} 13-24", f"{loaded} 9-16"}
    assert done[4:] == ["judged"]


def test_a_case_whose_pairs_come_to_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # `broken` never has a usable pair; `sound` has two looks, the second one behind those of `broken`.
    done: dict[str, int] = {}

    def missing(_self: StoredComparison, empty_cases: Collection[str]) -> Measure | None:
        if "broken" not in empty_cases:
            return Measure(("broken",), 6, 6)
        return Measure(("sound",), 6, 12) if done.get("sound", 6) < 12 else None

    monkeypatch.setattr(StoredComparison, "missing_pairs", missing)
    queue, order = PairQueue(StoredComparison(records=Path("records"), board=BOARD)), []
    while (measure := queue.next()) is not None:
        order.append(measure.cases)
        for case in measure.cases:
            done[case] = done.get(case, 6) + measure.pairs
    assert order == [("broken",), ("sound",)]


@pytest.mark.parametrize(("text", "found"), [("45min", 45), ("45 min", 45), ("2h", 120), ("1.5 h", 90)])
def test_a_budget_is_in_minutes(text: str, found: float) -> None:
    assert minutes(text) == found


@pytest.mark.parametrize("text", ["", "0", "soon", "-3", "45m", "1e9"])
def test_a_budget_of_nothing_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--budget: .* is not a duration"):
        minutes(text)


# --- jobs in a lab


KERNEL = KernelIdentity(name="k", flavour="preempt_rt", release="", image_sha256="a", source="", provenance="")


def order(**changes: Any) -> MeasurementRequest:
    whole = MeasurementRequest(
        board=BOARD,
        kernels={"baseline": KERNEL, "candidate": KERNEL},
        boots=in_turns(("baseline", "candidate"), 3),
        cases=(Case(suite="latency", tool=Cyclictest(), load="idle"),),
        suites=("latency",),
        profile="quick",
        tuning="default",
        transport=Transport.DOCKER,
        looks=RELEASE.steps,
    )
    return replace(whole, **changes)


def further(
    records: Path, whole: MeasurementRequest, budget: float = 1000, procedure: Procedure = INTERLEAVED
) -> JobPlanner:
    stored = StoredComparison(records=records, board=BOARD)
    watch = JobWatch(verbose=False)
    return JobPlanner(whole=whole, queue=PairQueue(stored), budget=Budget(budget), watch=watch, procedure=procedure)


def test_a_history_that_goes_away_between_two_looks_takes_nothing_that_was_measured(
    tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(*_: object, **__: object) -> None:
        raise InfrastructureError("the history does not answer")

    filled(records, tmp_path, monkeypatch)
    monkeypatch.setattr(History, "open", away)
    criteria = Criteria(history="postgresql://nowhere/history")
    stored = StoredComparison(records=records, board=BOARD, criteria=criteria)
    watch = JobWatch(verbose=False)
    jobs = JobPlanner(whole=order(), queue=PairQueue(stored), budget=Budget(1000), watch=watch, procedure=INTERLEAVED)
    assert jobs.order() is None
    assert "not measured on: the history does not answer" in capsys.readouterr().err
    verdicts = judge_run(JudgingRequest(records=records, board=BOARD, criteria=criteria)).verdicts
    assert (Status.MISS, Kind.LAB) in {(one.status, one.kind) for one in verdicts}


def filled(records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(records, slower=1.05, wander=0.3)
    suites(tmp_path, monkeypatch, bench).measure(Batch(boots="1-3", looks=RELEASE.steps))


def test_a_further_job_has_the_pairs_of_the_next_look(
    tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(records, tmp_path, monkeypatch)
    jobs = further(records, order())
    assert jobs.first() == order()
    following = jobs.order()
    assert following is not None
    assert following.boots == ("baseline", "candidate", "candidate", "baseline", "baseline", "candidate")
    assert [following.mark(boot)["pair"] for boot in range(1, 7)] == ["4", "4", "5", "5", "6", "6"]
    assert jobs.order() is None  # nothing came of it: asking again would go on for ever


def test_a_job_that_the_budget_does_not_reach_is_said(
    tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(records, tmp_path, monkeypatch)
    jobs = further(records, order(), budget=10)
    job: Any = SimpleNamespace(job=SimpleNamespace(started="2026-11-22T03:00:00Z", ended="2026-11-22T03:06:00Z"))
    jobs.spend([JobAttempts(order(), [job])])
    assert jobs.budget.spent == 6
    assert jobs.order() is None
    assert "6.0 of 10 are spent" in capsys.readouterr().err


def test_a_screen_boots_the_candidate_alone(records: Path) -> None:
    first = further(records, order(looks=CONFIRM.steps), procedure=SCREENED).first()
    assert (first.boots, first.screen, set(first.kernels)) == (("candidate",) * 3, True, {"candidate"})
    assert first.mark(2) == {"stage": "screen"}


def test_parts_of_an_order_count_their_pairs_on() -> None:
    parts = order(boots=in_turns(("baseline", "candidate"), 6), before=3).parts(longest_s=300)
    assert len(parts) > 1
    numbers = [part.mark(boot)["pair"] for part in parts for boot in range(1, len(part.boots) + 1)]
    assert numbers == [str(pair) for pair in range(4, 10) for _ in range(2)]
