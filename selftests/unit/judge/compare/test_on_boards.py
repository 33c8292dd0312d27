# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from selftests.unit.judge.compare.test_comparing import on_a_board
from selftests.unit.judge.conftest import CASE, FLAVOUR

from rtgate.board.boot import ArmName
from rtgate.judge.compare.comparing import compare
from rtgate.judge.compare.inputs import ComparisonInputs, NoHistory
from rtgate.judge.compare.looks import CONFIRM, RELEASE
from rtgate.judge.compare.on_boards import next_measurement
from rtgate.judge.compare.pairing import CaseHistory
from rtgate.judge.compare.procedures import Measure
from rtgate.judge.compare.summaries import levels, spikes, summaries
from rtgate.judge.judging import Subject
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.records.record import Record
from rtgate.records.schedule import Schedule

PLANNED = Schedule(steps=RELEASE.steps)
SCREENED = Schedule(steps=CONFIRM.steps, screened=3)


class Qualified(NoHistory):
    """A board that may judge, with boots of a good kernel before."""

    def __init__(self, boots: Sequence[Record] = ()) -> None:
        fixed = levels(boots)
        each = [summaries(one, fixed) for one in boots]
        nights = list(zip(each[::2], each[1::2], strict=True))
        metrics = {metric for one in each for metric in one}
        self._known = CaseHistory(
            levels=fixed,
            sessions={metric: [(a[metric], b[metric]) for a, b in nights] for metric in metrics},
            spikes=tuple(one for boot in boots if (one := spikes(boot, fixed))),
        )

    def case_history(self, like: Record, records: Sequence[Record]) -> CaseHistory:
        return self._known

    def disqualification(self, like: Record) -> str:
        return ""


def numbered(records: Sequence[Record]) -> list[Record]:
    return [replace(one, machine={**one.machine, "pair": str(n)}) for n, one in enumerate(records, 1)]


def subject(
    candidate: Sequence[Record], baseline: Sequence[Record], schedule: Schedule = PLANNED, case: str = CASE
) -> Subject:
    return Subject(
        case=case,
        board="rk3568-evb1",
        arm="candidate",
        flavour=FLAVOUR,
        records=candidate,
        baseline=baseline,
        not_applicable=dict.fromkeys(("counts", "cycles", "duration"), "synthetic"),
        schedule=schedule,
    )


def told(one: Subject, past: NoHistory | None = None) -> Verdict:
    (verdict,) = compare([one], ComparisonInputs(history=past or Qualified()))
    return verdict


def base(count: int = 12) -> list[Record]:
    return numbered(on_a_board("baseline", boots=count))


def same(count: int = 12) -> list[Record]:
    return numbered(on_a_board("candidate", boots=count))


def slow(count: int = 12) -> list[Record]:
    return numbered(on_a_board("candidate", slower=1.3, boots=count))


def test_a_clear_verdict_ends_at_its_look_and_an_open_one_wants_the_next() -> None:
    assert next_measurement([subject(slow(3), base(3))], Qualified()) is None
    little = numbered(on_a_board("candidate", slower=1.05))
    assert next_measurement([subject(little[:3], base(3))], Qualified()) == Measure((CASE,), 3, 6)
    assert next_measurement([subject(little[:3], base(3), Schedule())], Qualified()) is None  # the only look
    assert "not enough data in 3 pairs" in told(subject(little[:3], base(3))).sentence


def test_what_ends_the_measuring_of_one_of_two_boards_stands_when_both_are_judged() -> None:
    """They share the false alarms: a regression that is clear for one board alone may be open beside another."""
    first = subject(slow(3), base(3))
    second = replace(subject(same(3), base(3)), board="rk3588-evb1")
    said = compare([first, second], ComparisonInputs(history=Qualified()))
    assert [verdict.kind for verdict in said if verdict.board == first.board] == [Kind.INCONCLUSIVE]
    assert next_measurement([first], Qualified(), boards=2) == Measure((CASE,), 3, 6)
    assert next_measurement([subject(slow(6), base(6))], Qualified(), boards=2) is None


def test_judging_later_spends_what_the_looks_were_allowed() -> None:
    looked, once = told(subject(slow(6), base(6))), told(subject(slow(6), base(6), Schedule()))
    assert {looked.kind, once.kind} == {Kind.REGRESSION}

    def p(verdict: Verdict) -> float:
        return float(verdict.sentence.rpartition("p ")[2])

    assert p(looked) > 3 * p(once)


def test_boots_of_unplanned_batches_share_the_false_alarms() -> None:
    batches = Schedule(taken=(3, 6))
    assert told(subject(slow(6), base(6), batches)).sentence != told(subject(slow(6), base(6), Schedule())).sentence


def test_a_lost_boot_takes_its_own_pair_alone() -> None:
    """Were they paired by their order, every pair after the lost one would be of boots hours apart."""
    drift = [on_a_board("baseline", slower=1 + n / 10, boots=1)[0] for n in range(12)]
    base = numbered(drift)
    mine = numbered([replace(one, arm=ArmName.CANDIDATE) for one in drift])
    verdict = told(subject([*mine[:4], *mine[5:]], base))
    assert verdict.sentence.startswith(
        "no worse than the baseline in 3 pairs, which would have shown 1 h return level x1.04"
    )
    assert "1 pair could not be used" in verdict.sentence
    assert verdict.status is Status.DONE


def test_a_lost_pair_is_measured_again_before_the_look() -> None:
    assert next_measurement([subject(same(3), base(3)[1:])], Qualified()) == Measure((CASE,), 1, 3)


def screen(records: Sequence[Record]) -> list[Record]:
    return [replace(one, machine={"stage": "screen"}) for one in records]


@cache
def history() -> tuple[Record, ...]:
    nights = ((night, on_a_board(f"night {night}", boots=2)) for night in range(8))
    return tuple(replace(one, boot_id=f"{night} {one.boot_id}") for night, boots in nights for one in boots)


def test_a_candidate_like_the_history_needs_no_pair() -> None:
    calm = subject(screen(same(3)), [], SCREENED)
    past = Qualified(history())
    assert next_measurement([calm], past) is None
    verdict = told(calm, past)
    assert (verdict.status, verdict.kind) == (Status.PASS, Kind.NOT_SUSPICIOUS)
    assert "weaker than no worse" in verdict.sentence


def test_what_is_suspicious_is_confirmed_on_fresh_pairs() -> None:
    past = Qualified(history())
    flagged = subject(screen(slow(3)), [], SCREENED)
    assert next_measurement([flagged], past) == Measure((CASE,), 6, 6)
    verdict = told(flagged, past)
    assert (verdict.status, verdict.kind) == (Status.DONE, Kind.INCONCLUSIVE)
    assert "not confirmed" in verdict.sentence
    confirmed = told(subject([*screen(slow(3)), *slow(6)], base(6), SCREENED), past)
    assert confirmed.kind is Kind.REGRESSION
    assert "worse than the baseline in 6 pairs" in confirmed.sentence
    assert "in 3 boots against the history suspicious: " in confirmed.sentence


def test_without_a_history_everything_is_suspicious() -> None:
    assert next_measurement([subject(screen(same(3)), [], SCREENED)], Qualified()) == Measure((CASE,), 6, 6)


def test_an_unqualified_board_passes_no_screen_either() -> None:
    verdict = told(subject(screen(same(3)), [], SCREENED), NoHistory())
    assert (verdict.status, verdict.kind) == (Status.DONE, Kind.NOT_COMPARED)
