# SPDX-License-Identifier: MIT
from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from selftests.unit.judge.conftest import BOARD, CASE, FLAVOUR, evidence, record

from rtgate.judge.comparing import compare
from rtgate.judge.judging import Subject
from rtgate.judge.phases import Placebo
from rtgate.judge.placebos import Learnt, Placebos
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.record import LoadSeen, Record

FIGURES = (*(f"latency {name}" for name in ("mean", "p50", "p90", "p99", "maximum")), "wakeups", "wakeups.lost")
COMMAND = " ".join(record().argv)
PLACEBOS = Placebos(
    {
        (BOARD, FLAVOUR, CASE): Learnt(
            command=COMMAND,
            source="30 kernels",
            figures=dict.fromkeys(FIGURES, Placebo(move=0.01, spike=1.5, kernels=30, boots=12)),
        )
    }
)


def arm(name: str, *, slower: float = 1.0, boots: int = 12, rare: int = 0) -> list[Record]:
    """Return boots of 2000 wake-ups, each with its own phase; `rare` of them have one very late."""
    made = []
    for seed in range(1, boots + 1):
        chance = random.Random(f"{name} {seed}")
        values = [int(slower * (28_800 + 16 * chance.randrange(8))) for _ in range(1990)]
        values += [int(slower * chance.uniform(35_000, 45_000)) for _ in range(10)]
        if seed <= rare:
            values[-1] = 120_000
        counts = {value: values.count(value) for value in sorted(set(values))}
        made.append(record(counts, seed=seed, arm=name))
    return made


def told(
    candidate: Sequence[Record], baseline: Sequence[Record] | None = None, placebos: Placebos = PLACEBOS
) -> list[Verdict]:
    subject = Subject(
        case=CASE,
        board=BOARD,
        arm="candidate",
        flavour=FLAVOUR,
        records=candidate,
        baseline=arm("baseline") if baseline is None else baseline,
    )
    return list(compare([subject], placebos))


def test_a_harmless_kernel_is_no_worse_and_says_what_is_ruled_out() -> None:
    (verdict,) = told(arm("candidate"))
    assert (verdict.status, verdict.kind) == (Status.PASS, Kind.NO_WORSE)
    assert "7 figures of 12 boots" in verdict.sentence
    assert "ruled out at 95 %" in verdict.sentence


def test_a_slower_kernel_regresses_figure_by_figure() -> None:
    found = told(arm("candidate", slower=1.05))
    body = next(one for one in found if one.measurement == "latency p50")
    assert (body.status, body.kind) == (Status.FAIL, Kind.REGRESSION)
    assert "(+5.0%, median of 12 boots of each kernel)" in body.sentence
    assert "virtual us" in body.value
    assert "instructions" in body.value


def test_a_rare_slow_wake_up_is_a_regression_that_names_the_boots() -> None:
    found = [one for one in told(arm("candidate", rare=4)) if one.status is Status.FAIL]
    assert [one.measurement for one in found] == ["latency maximum"]
    assert "4 of 12 boots" in found[0].sentence


def test_without_placebos_figures_are_shown_and_nothing_is_judged() -> None:
    (verdict,) = told(arm("candidate", slower=2), placebos=Placebos())
    assert (verdict.status, verdict.kind) == (Status.DONE, Kind.UNJUDGED)
    assert "latency p50 +100.0%" in verdict.sentence


def test_few_boots_do_not_decide() -> None:
    (verdict,) = told(arm("candidate", boots=3), arm("baseline", boots=3))
    assert (verdict.status, verdict.kind) == (Status.DONE, Kind.INCONCLUSIVE)


def test_boots_that_cannot_be_used_take_good_news_away() -> None:
    candidate = arm("candidate")
    lost = [replace(candidate[0], state="hang", measurements=()), *candidate[1:]]
    (verdict,) = told(lost)
    assert (verdict.status, verdict.kind) == (Status.DONE, Kind.INCONCLUSIVE)
    assert "1 boots could not be used" in verdict.sentence


@pytest.mark.parametrize("arms", ["none", "one", "other seeds"])
def test_what_must_not_be_compared_is_not(arms: str) -> None:
    candidate = arm("candidate") if arms != "none" else []
    baseline = arm("baseline", boots=11) if arms == "other seeds" else []
    assert told(candidate, baseline) == []


def test_a_slow_kernel_under_a_load_that_died_is_slow_all_the_same() -> None:
    died = (LoadSeen(moment="start", processes=1, ticks=0), LoadSeen(moment="middle", processes=0, ticks=5))
    slow = [evidence(one, load="hackbench", load_seen=died) for one in arm("candidate", slower=1.3)]
    base = [evidence(one, load="hackbench") for one in arm("baseline")]
    assert any(one.status is Status.FAIL for one in told(slow, base))
