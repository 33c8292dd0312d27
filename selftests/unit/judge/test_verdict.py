# SPDX-License-Identifier: MIT
from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.judge.limits import figure
from rtgate.judge.verdict import Figure, Kind, Status, Verdict, exit_code, worst
from rtgate.records.codec import decode, encode
from rtgate.units import Quantity, Unit


def _verdict(status: Status, kind: Kind = Kind.LIMIT) -> Verdict:
    return Verdict(status=status, kind=kind, sentence="said", board="b", arm="candidate", flavour="f", case="c")


def test_the_order_is_kcidb_s() -> None:
    assert [status.value for status in sorted(Status, key=lambda status: status.rank)] == [
        *("FAIL", "ERROR", "MISS", "PASS", "DONE", "SKIP")
    ]


@pytest.mark.parametrize(("better", "worse"), [(b, w) for w, b in itertools.combinations(Status, 2)])
def test_the_worst_stands_for_all(better: Status, worse: Status) -> None:
    assert worst([_verdict(better), _verdict(worse)]) is worse
    assert worst([_verdict(worse), _verdict(better)]) is worse


def test_silence_is_not_green() -> None:
    assert worst([]) is Status.MISS
    assert exit_code([]) == 3
    assert exit_code([], allow_unjudged=True) == 3


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ((Status.PASS,), 0),
        ((Status.PASS, Status.DONE, Status.SKIP), 0),
        ((Status.DONE,), 5),
        ((Status.SKIP,), 5),
        ((Status.DONE, Status.SKIP), 5),
        ((Status.MISS, Status.PASS), 3),
        ((Status.ERROR, Status.MISS, Status.PASS), 4),
        ((Status.FAIL, Status.ERROR, Status.MISS, Status.PASS), 1),
    ],
)
def test_exit_codes(statuses: tuple[Status, ...], code: int) -> None:
    assert exit_code([_verdict(status) for status in statuses]) == code


@pytest.mark.parametrize("beside", [Status.DONE, Status.SKIP])
def test_a_kept_guarantee_alone_is_not_green_beside_what_nobody_judged(beside: Status) -> None:
    assert exit_code([_verdict(Status.PASS, Kind.GUARANTEE), _verdict(beside, Kind.UNJUDGED)]) == 5
    assert exit_code([_verdict(Status.PASS, Kind.GUARANTEE), _verdict(Status.PASS, Kind.LIMIT), _verdict(beside)]) == 0
    assert exit_code([_verdict(Status.PASS, Kind.GUARANTEE)]) == 0


def test_inconclusive_is_five_beside_a_pass_and_although_unjudged_is_allowed() -> None:
    open_ended = _verdict(Status.DONE, Kind.INCONCLUSIVE)
    assert exit_code([_verdict(Status.PASS), open_ended]) == 5
    assert exit_code([_verdict(Status.PASS), open_ended], allow_unjudged=True) == 5
    assert exit_code([_verdict(Status.FAIL), open_ended]) == 1


def test_only_what_was_not_judged_can_be_allowed() -> None:
    assert exit_code([_verdict(Status.DONE, Kind.UNJUDGED)], allow_unjudged=True) == 0
    for status, code in ((Status.FAIL, 1), (Status.ERROR, 4), (Status.MISS, 3)):
        assert exit_code([_verdict(status), _verdict(Status.DONE)], allow_unjudged=True) == code


@pytest.mark.parametrize("kind", [Kind.NO_WORSE, Kind.SLOWER, Kind.NOT_COMPARED])
def test_a_comparison_that_could_not_be_proven_is_not_green_beside_limits_that_were_kept(kind: Kind) -> None:
    verdicts = [_verdict(Status.PASS, Kind.LIMIT), _verdict(Status.DONE, kind)]
    assert exit_code(verdicts) == 5
    assert exit_code(verdicts, allow_unjudged=True) == 0
    assert exit_code([_verdict(Status.PASS, Kind.LIMIT), _verdict(Status.PASS, kind)]) == 0


@given(st.lists(st.tuples(st.sampled_from(Status), st.sampled_from(Kind)), max_size=6), st.booleans())
def test_zero_means_that_nothing_is_bad(found: list[tuple[Status, Kind]], allow: bool) -> None:
    verdicts = [_verdict(status, kind) for status, kind in found]
    code = exit_code(verdicts, allow_unjudged=allow)
    assert code in {0, 1, 3, 4, 5}
    assert (code == 1) == (worst(verdicts) is Status.FAIL)
    assert (code == 4) == (worst(verdicts) is Status.ERROR)
    assert (code == 3) == (worst(verdicts) is Status.MISS)
    assert code == exit_code(list(reversed(verdicts)), allow_unjudged=allow)


def test_a_verdict_survives_its_file() -> None:
    verdict = Verdict(
        status=Status.FAIL,
        kind=Kind.SHARE,
        sentence="über",
        board="b",
        arm="a",
        flavour="f",
        case="c",
        measurement="latency",
        value=Figure.of(Quantity(1 / 3, Unit.RATIO), "1 of 3 over 50 us"),
        limit=Figure.of(None, "2"),
        source="s",
        boot="seed 1",
    )
    assert Verdict.from_json(json.loads(json.dumps(verdict.as_json()))) == verdict


def test_the_whole_sentence_has_the_cause_where_there_is_one() -> None:
    one = _verdict(Status.FAIL)
    assert (one.full_sentence, replace(one, cause="in f").full_sentence) == ("said", "said; in f")


def test_verdicts_can_be_members_of_a_set_whatever_they_rule_out() -> None:
    one = replace(_verdict(Status.PASS), ruled_out=({"figure": "mean"},), detectable=({"change": 0.1},))
    assert {one, replace(one, ruled_out=())} == {one, replace(one, ruled_out=())}


def test_a_figure_in_the_file_is_the_number_that_was_judged_and_not_one_read_from_its_text() -> None:
    shown = figure(Quantity(69.504, Unit.VIRTUAL_US), "8")
    assert shown.text == "69.5 virtual us (8688 instructions)"
    assert encode(shown) == {"number": 69.504, "unit": "virtual us", "text": shown.text}
    share = Figure.of(Quantity(0.00625, Unit.RATIO), "25 of 4000 over 50 virtual us")
    assert encode(share) == {"number": 0.00625, "unit": "ratio", "text": share.text}


def test_a_ratio_to_nothing_is_valid_json() -> None:
    made = Figure.of(Quantity(math.inf, Unit.RATIO), "xinf")
    assert json.loads(json.dumps(encode(made), allow_nan=False)) == {"number": None, "unit": "ratio", "text": "xinf"}


@pytest.mark.parametrize(
    "change",
    [{"number": "1"}, {"number": True}, {"unit": "miles"}, {"unit": None}, {"text": None}, {"colour": "green"}],
)
def test_a_damaged_figure_is_not_read(change: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        decode({"number": 1.0, "unit": "us", "text": "1 us", **change}, Figure)


@pytest.mark.parametrize(
    "change", [{"status": "GREEN"}, {"kind": "guess"}, {"colour": "green"}], ids=["status", "kind", "key"]
)
def test_a_damaged_verdict_is_not_read(change: dict[str, str]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Verdict.from_json({**_verdict(Status.PASS).as_json(), **change})
